//! A device as CUDA shows it, in plain data: what `--device` and `--list` go by.

use std::fmt::Write;

use cudarc::driver::sys::CUuuid;

use super::card::{Attribute, Card};
use super::error::DeviceError;
use crate::visible::{ComputeMode, VisibleDevice};

impl Card {
    /// Everything that names this device or tells it from others.
    ///
    /// # Errors
    /// The driver refuses to tell.
    pub fn shown(&self) -> Result<VisibleDevice, DeviceError> {
        let uuid = self.uuid()?;
        let card_uuid = self.card_uuid().filter(|card| *card != uuid);
        let prefix = if card_uuid.is_some() { "MIG" } else { "GPU" };
        let (major, minor) = self.capability()?;
        let place = self.pci_address()?;
        Ok(VisibleDevice {
            index: self.index(),
            name: self.name()?,
            uuid: spelt(prefix, &uuid),
            card_uuid: card_uuid.map(|card| spelt("GPU", &card)),
            instance: None,
            pci: place.parse().map_err(|_| DeviceError::BadAddress { place })?,
            memory: self.memory()?,
            compute_capability: (major.unsigned_abs(), minor.unsigned_abs()),
            compute_mode: ComputeMode::from_number(self.attribute(Attribute::ComputeMode)?),
        })
    }

    /// The UUID of the whole card: the first version of `cuDeviceGetUuid` knows nothing of MIG, the second gives the UUID of
    /// the instance (CUDA driver API documentation). They differ for a MIG instance, and only there.
    fn card_uuid(&self) -> Option<[u8; 16]> {
        let mut uuid = CUuuid { bytes: [0; 16] };
        // SAFETY: the pointer is to a local that lives through the call.
        unsafe { self.library().functions.device_card_uuid(&raw mut uuid, self.handle) }?.ok()?;
        Some(uuid.bytes.map(|byte| byte.to_ne_bytes()[0]))
    }
}

/// `GPU-8932f937-d72c-4106-c12f-20bd9faed9f6`.
fn spelt(prefix: &str, uuid: &[u8; 16]) -> String {
    let mut text = prefix.to_owned();
    for (place, byte) in uuid.iter().enumerate() {
        if matches!(place, 0 | 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_spelt_as_nvidia_smi_does() {
        let bytes = std::array::from_fn(|place| place as u8 * 17);
        assert_eq!(spelt("GPU", &bytes), "GPU-00112233-4455-6677-8899-aabbccddeeff");
    }
}

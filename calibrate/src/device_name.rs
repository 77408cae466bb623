//! What `--device` names: one of the devices that CUDA shows to this process.

use std::fmt;
use std::str::FromStr;

use crate::pci::PciName;
use crate::visible::{VisibilityVariables, VisibleDevice};

/// A device as named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceName {
    /// CUDA's index among the devices it shows. See [`VisibleDevice::index`].
    Index(u32),
    /// `GPU-` and as much of the UUID as only one device has, in lower case. Names a card, or the one MIG instance of it.
    Gpu(String),
    /// `MIG-` and as much of the UUID as only one MIG instance has, in lower case.
    Mig(String),
    /// `MIG-GPU-<UUID>/<GPU instance>/<compute instance>`: how drivers before R470 name a MIG instance.
    MigInstance {
        /// UUID of the card, in lower case, with `GPU-`.
        card: String,
        /// GPU instance.
        gpu_instance: u32,
        /// Compute instance of it.
        compute_instance: u32,
    },
    /// A PCI address.
    Pci(PciName),
}

/// The text names no device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadDeviceName {
    /// A number, but no index.
    #[error("expected an index below 65536; `calibrate --list` shows what is there")]
    Index,
    /// `GPU-` or `MIG-`, then something else than the beginning of a UUID.
    #[error("expected a UUID after {prefix}, or its beginning: 8-4-4-4-12 hexadecimal digits")]
    Uuid {
        /// What stands before it.
        prefix: &'static str,
    },
    /// `MIG-GPU-`, then something else than a card and two instances.
    #[error("expected MIG-GPU-<UUID>/<GPU instance>/<compute instance>, or MIG-<UUID>")]
    MigInstance,
    /// A UUID without what stands before it.
    #[error("a UUID needs its prefix: GPU-{uuid} for a GPU, MIG-{uuid} for a MIG instance")]
    BareUuid {
        /// The UUID.
        uuid: String,
    },
    /// None of the forms.
    #[error(
        "expected an index (0), a UUID (GPU-… or MIG-…, its beginning is enough) or a PCI address (0000:3b:00.0 or 3b:00.0); \
         `calibrate --list` shows what is there"
    )]
    Form,
}

const INDEX_MAX: u32 = 65_535;

impl FromStr for DeviceName {
    type Err = BadDeviceName;

    fn from_str(text: &str) -> Result<Self, BadDeviceName> {
        let text = text.trim();
        if !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit()) {
            let index = text.parse().ok().filter(|index| *index <= INDEX_MAX);
            return index.map(Self::Index).ok_or(BadDeviceName::Index);
        }
        let name = text.to_ascii_lowercase();
        if let Some(instance) = name.strip_prefix("mig-gpu-") {
            return mig_instance(instance).ok_or(BadDeviceName::MigInstance);
        }
        if let Some(uuid) = name.strip_prefix("mig-") {
            return if begins_uuid(uuid) { Ok(Self::Mig(name)) } else { Err(BadDeviceName::Uuid { prefix: "MIG-" }) };
        }
        if let Some(uuid) = name.strip_prefix("gpu-") {
            return if begins_uuid(uuid) { Ok(Self::Gpu(name)) } else { Err(BadDeviceName::Uuid { prefix: "GPU-" }) };
        }
        if name.len() == UUID_BYTES && begins_uuid(&name) {
            return Err(BadDeviceName::BareUuid { uuid: name });
        }
        name.parse().map(Self::Pci).map_err(|_| BadDeviceName::Form)
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(index) => index.fmt(f),
            Self::Gpu(uuid) => write!(f, "GPU-{}", &uuid[4..]),
            Self::Mig(uuid) => write!(f, "MIG-{}", &uuid[4..]),
            Self::MigInstance { card, gpu_instance, compute_instance } => {
                write!(f, "MIG-GPU-{}/{gpu_instance}/{compute_instance}", &card[4..])
            }
            Self::Pci(name) => name.fmt(f),
        }
    }
}

const UUID_BYTES: usize = 36;

/// Whether the text, in lower case, is a UUID or the beginning of one.
fn begins_uuid(text: &str) -> bool {
    let fits = |(place, byte): (usize, u8)| match place {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    (1..=UUID_BYTES).contains(&text.len()) && text.bytes().enumerate().all(fits)
}

fn mig_instance(text: &str) -> Option<DeviceName> {
    let [uuid, gpu_instance, compute_instance] = *text.split('/').collect::<Vec<_>>() else { return None };
    let is_uuid = uuid.len() == UUID_BYTES && begins_uuid(uuid);
    let number = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    is_uuid.then_some(DeviceName::MigInstance {
        card: format!("gpu-{uuid}"),
        gpu_instance: number(gpu_instance)?,
        compute_instance: number(compute_instance)?,
    })
}

/// Why a name picks none of the visible devices.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, miette::Diagnostic)]
pub enum DeviceNotFound {
    /// No visible device has the name.
    #[error("device {name} is not there: CUDA shows this process {}", devices(*.count))]
    #[diagnostic(help("{advice}"))]
    Absent {
        /// The name asked for.
        name: DeviceName,
        /// How many devices are visible.
        count: usize,
        /// What is there, and why others may be hidden.
        advice: String,
    },
    /// Several visible devices have it.
    #[error("device {name} fits {count} of the devices that CUDA shows to this process")]
    #[diagnostic(help("{advice}"))]
    Ambiguous {
        /// The name asked for.
        name: DeviceName,
        /// How many devices fit.
        count: usize,
        /// Which they are.
        advice: String,
    },
}

fn devices(count: usize) -> String {
    match count {
        0 => "no device".to_owned(),
        1 => "1 device".to_owned(),
        _ => format!("{count} devices"),
    }
}

impl DeviceName {
    /// What is meant where no device is named.
    pub const FIRST: Self = Self::Index(0);

    /// The one visible device of this name.
    ///
    /// # Errors
    /// None has it, or several have; the error lists what is there.
    pub fn resolve<'visible>(
        &self,
        visible: &'visible [VisibleDevice],
        variables: &VisibilityVariables,
    ) -> Result<&'visible VisibleDevice, DeviceNotFound> {
        let fitting: Vec<_> = visible.iter().filter(|device| self.fits(device)).collect();
        match *fitting {
            [device] => Ok(device),
            [] => Err(DeviceNotFound::Absent {
                name: self.clone(),
                count: visible.len(),
                advice: self.what_is_there(visible, variables),
            }),
            _ => Err(DeviceNotFound::Ambiguous {
                name: self.clone(),
                count: fitting.len(),
                advice: format!("name one of them in full:\n{}", lines(&fitting)),
            }),
        }
    }

    fn fits(&self, device: &VisibleDevice) -> bool {
        let begins = |uuid: &str, beginning: &str| uuid.to_ascii_lowercase().starts_with(beginning);
        match self {
            Self::Index(index) => device.index == *index,
            Self::Gpu(beginning) => begins(device.card_uuid.as_ref().unwrap_or(&device.uuid), beginning),
            Self::Mig(beginning) => begins(&device.uuid, beginning),
            Self::MigInstance { card, gpu_instance, compute_instance } => {
                device.card_uuid.as_ref().is_some_and(|uuid| uuid.eq_ignore_ascii_case(card))
                    && device.instance == Some((*gpu_instance, *compute_instance))
            }
            Self::Pci(name) => name.names(device.pci),
        }
    }

    fn what_is_there(&self, visible: &[VisibleDevice], variables: &VisibilityVariables) -> String {
        let mut advice = match visible {
            [] => String::new(),
            _ => format!("use one of these:\n{}\n", lines(&visible.iter().collect::<Vec<_>>())),
        };
        if matches!(self, Self::Mig(_) | Self::MigInstance { .. }) {
            advice += "CUDA may show a process only one MIG instance: start with CUDA_VISIBLE_DEVICES=MIG-<UUID>.\n";
        }
        advice + &variables.consequences().join("\n")
    }
}

fn lines(devices: &[&VisibleDevice]) -> String {
    devices.iter().map(|device| format!("  {device}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use kernels::units::Bytes;

    use super::*;
    use crate::pci::PciAddress;
    use crate::stderr;
    use crate::visible::ComputeMode;

    fn name(text: &str) -> DeviceName {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn device(index: u32, uuid: &str, pci: &str) -> VisibleDevice {
        VisibleDevice {
            index,
            name: "NVIDIA H200".to_owned(),
            uuid: uuid.to_owned(),
            card_uuid: None,
            instance: None,
            pci: pci.parse::<PciAddress>().unwrap(),
            memory: Bytes(150_000_000_000),
            compute_capability: (9, 0),
            compute_mode: ComputeMode::Shared,
        }
    }

    fn machine() -> Vec<VisibleDevice> {
        vec![
            device(0, "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "0000:3b:00.0"),
            device(1, "GPU-8932a001-0000-4106-c12f-20bd9faed9f6", "0000:d8:00.0"),
            device(2, "GPU-11112222-d72c-4106-c12f-20bd9faed9f6", "0001:3b:00.0"),
        ]
    }

    fn index_of(text: &str) -> Result<u32, DeviceNotFound> {
        name(text).resolve(&machine(), &VisibilityVariables::default()).map(|device| device.index)
    }

    fn refusal(text: &str, devices: &[VisibleDevice], variables: &VisibilityVariables) -> String {
        stderr::render(&name(text).resolve(devices, variables).unwrap_err(), false)
    }

    #[test]
    fn names_of_every_form_pick_their_device() {
        for (text, index) in [
            ("0", 0),
            ("002", 2),
            ("GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", 0),
            ("gpu-8932F", 0),
            ("GPU-1", 2),
            ("0000:3B:00.0", 0),
            ("00000001:3b:00.0", 2),
            ("d8:0.0", 1),
        ] {
            assert_eq!(index_of(text), Ok(index), "{text}");
        }
    }

    #[test]
    fn mig_instances_have_new_names_and_old_ones() {
        let mut instance = device(0, "MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f", "0000:3b:00.0");
        instance.card_uuid = Some("GPU-8932f937-d72c-4106-c12f-20bd9faed9f6".to_owned());
        instance.instance = Some((7, 0));
        let visible = [instance];
        let finds = |text: &str| name(text).resolve(&visible, &VisibilityVariables::default()).is_ok();
        assert!(finds("MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f") && finds("mig-c6d4"));
        assert!(finds("MIG-GPU-8932f937-d72c-4106-c12f-20bd9faed9f6/7/0"));
        assert!(!finds("MIG-GPU-8932f937-d72c-4106-c12f-20bd9faed9f6/7/1"));
        // The card stands for its only visible instance.
        assert!(finds("GPU-8932f937") && finds("0"));
    }

    #[test]
    fn what_names_no_device_says_what_does() {
        let refusals = ["", "-1", "99999999999", "65536", "GPU-", "GPU-8932f937d", "MIG-xyz", "MIG-GPU-1234/1", "zero"]
            .map(|text| format!("{text:?}: {}", text.parse::<DeviceName>().unwrap_err()));
        insta::assert_snapshot!(refusals.join("\n"), @r#"
        "": expected an index (0), a UUID (GPU-… or MIG-…, its beginning is enough) or a PCI address (0000:3b:00.0 or 3b:00.0); `calibrate --list` shows what is there
        "-1": expected an index (0), a UUID (GPU-… or MIG-…, its beginning is enough) or a PCI address (0000:3b:00.0 or 3b:00.0); `calibrate --list` shows what is there
        "99999999999": expected an index below 65536; `calibrate --list` shows what is there
        "65536": expected an index below 65536; `calibrate --list` shows what is there
        "GPU-": expected a UUID after GPU-, or its beginning: 8-4-4-4-12 hexadecimal digits
        "GPU-8932f937d": expected a UUID after GPU-, or its beginning: 8-4-4-4-12 hexadecimal digits
        "MIG-xyz": expected a UUID after MIG-, or its beginning: 8-4-4-4-12 hexadecimal digits
        "MIG-GPU-1234/1": expected MIG-GPU-<UUID>/<GPU instance>/<compute instance>, or MIG-<UUID>
        "zero": expected an index (0), a UUID (GPU-… or MIG-…, its beginning is enough) or a PCI address (0000:3b:00.0 or 3b:00.0); `calibrate --list` shows what is there
        "#);
        insta::assert_snapshot!("8932F937-d72c-4106-c12f-20bd9faed9f6".parse::<DeviceName>().unwrap_err(), @"a UUID needs its prefix: GPU-8932f937-d72c-4106-c12f-20bd9faed9f6 for a GPU, MIG-8932f937-d72c-4106-c12f-20bd9faed9f6 for a MIG instance");
    }

    #[test]
    fn a_device_that_is_not_there() {
        let variables = VisibilityVariables { visible_devices: Some("0,1,2".to_owned()), ..Default::default() };
        insta::assert_snapshot!(refusal("3", &machine(), &variables), @r"
        × device 3 is not there: CUDA shows this process 3 devices
        help: use one of these:
                0: NVIDIA H200, GPU-8932f937-d72c-4106-c12f-20bd9faed9f6, 0000:3b:00.0
                1: NVIDIA H200, GPU-8932a001-0000-4106-c12f-20bd9faed9f6, 0000:d8:00.0
                2: NVIDIA H200, GPU-11112222-d72c-4106-c12f-20bd9faed9f6, 0001:3b:00.0
              CUDA_VISIBLE_DEVICES=0,1,2: CUDA shows only these, numbered from 0 in this order; the list
              ends at the first entry that names no device.
              CUDA_DEVICE_ORDER is unset: CUDA puts the fastest device first, nvidia-smi goes by PCI
              address; CUDA_DEVICE_ORDER=PCI_BUS_ID makes both the same.
        ");
        insta::assert_snapshot!(refusal("MIG-c6d4", &machine()[..1], &VisibilityVariables::default()), @r"
        × device MIG-c6d4 is not there: CUDA shows this process 1 device
        help: use one of these:
                0: NVIDIA H200, GPU-8932f937-d72c-4106-c12f-20bd9faed9f6, 0000:3b:00.0
              CUDA may show a process only one MIG instance: start with CUDA_VISIBLE_DEVICES=MIG-<UUID>.
              CUDA_VISIBLE_DEVICES is unset: CUDA shows every device.
              CUDA_DEVICE_ORDER is unset: CUDA puts the fastest device first, nvidia-smi goes by PCI
              address; CUDA_DEVICE_ORDER=PCI_BUS_ID makes both the same.
        ");
        let hidden = VisibilityVariables { visible_devices: Some(String::new()), ..Default::default() };
        insta::assert_snapshot!(refusal("GPU-8932f937", &[], &hidden), @r"
        × device GPU-8932f937 is not there: CUDA shows this process no device
        help: CUDA_VISIBLE_DEVICES is empty: CUDA shows no device.
              CUDA_DEVICE_ORDER is unset: CUDA puts the fastest device first, nvidia-smi goes by PCI
              address; CUDA_DEVICE_ORDER=PCI_BUS_ID makes both the same.
        ");
    }

    #[test]
    fn a_name_that_fits_several_devices() {
        insta::assert_snapshot!(refusal("GPU-8932", &machine(), &VisibilityVariables::default()), @r"
        × device GPU-8932 fits 2 of the devices that CUDA shows to this process
        help: name one of them in full:
                0: NVIDIA H200, GPU-8932f937-d72c-4106-c12f-20bd9faed9f6, 0000:3b:00.0
                1: NVIDIA H200, GPU-8932a001-0000-4106-c12f-20bd9faed9f6, 0000:d8:00.0
        ");
        insta::assert_snapshot!(refusal("3b:00.0", &machine(), &VisibilityVariables::default()), @r"
        × device 3b:00.0 fits 2 of the devices that CUDA shows to this process
        help: name one of them in full:
                0: NVIDIA H200, GPU-8932f937-d72c-4106-c12f-20bd9faed9f6, 0000:3b:00.0
                2: NVIDIA H200, GPU-11112222-d72c-4106-c12f-20bd9faed9f6, 0001:3b:00.0
        ");
    }

    #[test]
    fn names_print_as_they_are_read() {
        let mig = "MIG-GPU-8932f937-d72c-4106-c12f-20bd9faed9f6/7/0";
        for text in ["3", "GPU-8932f937-d72c", "MIG-c6d4", mig, "3b:00.0", "0000:3b:00.0"] {
            assert_eq!(name(text).to_string(), text);
        }
    }
}

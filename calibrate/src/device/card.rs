//! The devices that the driver shows to this process, before a context is opened on one.

use std::ffi::{CStr, c_char};

use cudarc::driver::sys::{CUdevice, CUdevice_attribute, CUuuid};
use kernels::units::Bytes;

use super::error::DeviceError;
use super::library::Library;
use super::status::{Status, code};

/// One device as CUDA shows it: a GPU, or an instance of a partitioned one.
#[derive(Clone, Copy, Debug)]
pub struct Card {
    pub(super) library: &'static Library,
    pub(super) handle: CUdevice,
    index: u32,
}

/// What [`Card::attribute`] can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Attribute {
    /// Streaming multiprocessors.
    Multiprocessors,
    /// Compute mode: 0 default, 2 prohibited, 3 exclusive to one process.
    ComputeMode,
    /// First part of the compute capability.
    CapabilityMajor,
    /// Second part of the compute capability.
    CapabilityMinor,
    /// The most dynamic shared memory of a block, in bytes, where a function asks for it.
    SharedBytesMost,
    /// L2 cache, in bytes.
    CacheBytes,
    /// Whether kernels that run for seconds are ended: 1 where a display hangs on the card.
    KernelTimeout,
}

impl Attribute {
    fn number(self) -> u32 {
        use CUdevice_attribute as A;
        let attribute = match self {
            Self::Multiprocessors => A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
            Self::ComputeMode => A::CU_DEVICE_ATTRIBUTE_COMPUTE_MODE,
            Self::CapabilityMajor => A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            Self::CapabilityMinor => A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            Self::SharedBytesMost => A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
            Self::CacheBytes => A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE,
            Self::KernelTimeout => A::CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT,
        };
        attribute as u32
    }
}

impl Card {
    /// Every device that the driver shows, in its order.
    ///
    /// # Errors
    /// The driver shows none, or refuses to tell.
    pub fn all(library: &'static Library) -> Result<Vec<Self>, DeviceError> {
        let mut count = 0;
        // SAFETY: the pointer is to a local that lives through the call.
        unsafe { library.functions.device_count(&raw mut count) }?;
        (0..u32::try_from(count).unwrap_or(0)).map(|index| Self::at(library, index)).collect()
    }

    /// The device of this index, as CUDA counts.
    ///
    /// # Errors
    /// There is none.
    pub fn at(library: &'static Library, index: u32) -> Result<Self, DeviceError> {
        let mut handle = 0;
        // SAFETY: the pointer is to a local that lives through the call.
        unsafe { library.functions.device_get(&raw mut handle, index.cast_signed()) }?;
        Ok(Self { library, handle, index })
    }

    /// The driver that shows it.
    pub fn library(&self) -> &'static Library {
        self.library
    }

    /// Its index, as CUDA counts in this process.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The driver's name for it.
    ///
    /// # Errors
    /// The driver refuses to tell.
    pub fn name(&self) -> Result<String, DeviceError> {
        // SAFETY: the buffer is as long as is said.
        text(|buffer, bytes| unsafe { self.library.functions.device_name(buffer, bytes, self.handle) })
    }

    /// Its PCI address, such as `0000:3B:00.0`.
    ///
    /// # Errors
    /// The driver refuses to tell.
    pub fn pci_address(&self) -> Result<String, DeviceError> {
        // SAFETY: the buffer is as long as is said.
        text(|buffer, bytes| unsafe { self.library.functions.device_pci(buffer, bytes, self.handle) })
    }

    /// Its UUID; of a MIG instance that of the instance.
    ///
    /// # Errors
    /// The driver refuses to tell.
    pub fn uuid(&self) -> Result<[u8; 16], DeviceError> {
        let mut uuid = CUuuid { bytes: [0; 16] };
        // SAFETY: the pointer is to a local that lives through the call.
        unsafe { self.library.functions.device_uuid(&raw mut uuid, self.handle) }?;
        Ok(uuid.bytes.map(|byte: c_char| byte.to_ne_bytes()[0]))
    }

    /// All of its memory.
    ///
    /// # Errors
    /// The driver refuses to tell.
    pub fn memory(&self) -> Result<Bytes, DeviceError> {
        let mut bytes = 0;
        // SAFETY: the pointer is to a local that lives through the call.
        unsafe { self.library.functions.device_memory(&raw mut bytes, self.handle) }?;
        Ok(Bytes(bytes as u64))
    }

    /// One of its properties.
    ///
    /// # Errors
    /// The driver refuses to tell.
    pub fn attribute(&self, attribute: Attribute) -> Result<i32, DeviceError> {
        let mut value = 0;
        // SAFETY: the pointer is to a local that lives through the call.
        unsafe { self.library.functions.device_attribute(&raw mut value, attribute.number(), self.handle) }?;
        Ok(value)
    }

    /// Its compute capability, major and minor.
    ///
    /// # Errors
    /// The driver refuses to tell.
    pub fn capability(&self) -> Result<(i32, i32), DeviceError> {
        Ok((self.attribute(Attribute::CapabilityMajor)?, self.attribute(Attribute::CapabilityMinor)?))
    }

    /// Why a context could not be opened on it, as an operator would put it.
    pub(super) fn refusal(&self, status: Status) -> DeviceError {
        let device = self.name().unwrap_or_else(|_| format!("device {}", self.index));
        let mode = self.attribute(Attribute::ComputeMode).unwrap_or_default();
        match (status.code, mode) {
            (code::DEVICE_UNAVAILABLE | code::INVALID_DEVICE, 2) => DeviceError::Prohibited { device },
            (code::DEVICE_UNAVAILABLE | code::INVALID_DEVICE, mode) => {
                DeviceError::Busy { device, is_exclusive: mode == 3, status: super::named_status::named(status) }
            }
            _ => status.into(),
        }
    }
}

fn text(ask: impl FnOnce(*mut c_char, i32) -> Result<(), Status>) -> Result<String, DeviceError> {
    let mut buffer = [0_u8; 256];
    ask(buffer.as_mut_ptr().cast(), 255)?;
    let text = CStr::from_bytes_until_nul(&buffer).unwrap_or_default();
    Ok(text.to_string_lossy().into_owned())
}

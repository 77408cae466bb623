//! The one stream that everything runs on.

use std::rc::Rc;

use cudarc::driver::sys::CUstream;
use kernels::launch::Address;

use super::context::{Context, Resource};
use super::error::DeviceError;

/// `CU_STREAM_NON_BLOCKING`: the legacy stream does not wait for it, and captures are allowed on it.
const NON_BLOCKING: u32 = 1;

/// A stream.
#[derive(Debug)]
pub(super) struct Stream {
    context: Rc<Context>,
    pub(super) raw: CUstream,
}

impl Stream {
    pub(super) fn new(context: &Rc<Context>) -> Result<Self, DeviceError> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the pointer is to a local that lives through the call.
        unsafe { context.functions().stream_create(&raw mut raw, NON_BLOCKING) }?;
        Ok(Self { context: Rc::clone(context), raw })
    }

    /// Waits for everything on it.
    pub(super) fn synchronize(&self) -> Result<(), DeviceError> {
        // SAFETY: the stream lives as long as this value.
        Ok(unsafe { self.context.functions().stream_synchronize(self.raw) }?)
    }

    /// Copies to the device and waits: the bytes may go as soon as this returns.
    pub(super) fn write(&self, to: Address, bytes: &[u8]) -> Result<(), DeviceError> {
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: the slice lives until the copy is done, for this waits; the driver checks the device's side.
        unsafe { self.context.functions().copy_to_device(to.0, bytes.as_ptr().cast(), bytes.len(), self.raw) }?;
        self.synchronize()
    }

    /// Copies from the device and waits.
    pub(super) fn read(&self, from: Address, bytes: &mut [u8]) -> Result<(), DeviceError> {
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: the slice lives until the copy is done, for this waits; the driver checks the device's side.
        unsafe { self.context.functions().copy_to_host(bytes.as_mut_ptr().cast(), from.0, bytes.len(), self.raw) }?;
        self.synchronize()
    }

    /// Fills memory with one byte.
    pub(super) fn fill(&self, to: Address, value: u8, bytes: u64) -> Result<(), DeviceError> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        // SAFETY: nothing of the host is touched; the driver checks the range.
        Ok(unsafe { self.context.functions().fill(to.0, value, bytes, self.raw) }?)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.context.release(Resource::Stream(self.raw));
    }
}

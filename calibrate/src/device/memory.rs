//! Memory of the device, and host memory that the device sees.

use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use kernels::launch::Address;
use kernels::units::Bytes;

use super::card::Card;
use super::context::{Context, Resource};
use super::error::DeviceError;
use super::status::{Status, code};
use crate::pool::SegmentSource;

/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
const RELAXED: u32 = 2;

/// `CU_MEMHOSTALLOC_DEVICEMAP`.
const MAPPED: u32 = 2;

/// Opens the device, allocates so much there, and gives everything back: whether it can be used now, said before others try.
///
/// # Errors
/// The device cannot be taken, or has no such room.
pub fn try_out(card: Card, room: Bytes) -> Result<(), DeviceError> {
    let context = Context::open(card)?;
    Arena::new(&context).allocate(room.0).map(drop)
}

/// Allocations that are given back together, when the last holder of the arena goes. A graph holds the arenas whose
/// addresses are baked into it, so that no replay can meet memory that is gone.
#[derive(Debug)]
pub struct Arena {
    context: Rc<Context>,
    addresses: RefCell<Vec<u64>>,
}

impl Arena {
    pub(super) fn new(context: &Rc<Context>) -> Rc<Self> {
        Rc::new(Self { context: Rc::clone(context), addresses: RefCell::default() })
    }

    /// Memory of at least `bytes`, aligned to 256 bytes, its content undefined. Legal during a capture: growth happens under
    /// the relaxed mode, as in PyTorch's allocator (GPU specification section 1).
    ///
    /// # Errors
    /// There is not that much.
    pub fn allocate(&self, bytes: u64) -> Result<Address, DeviceError> {
        let asked = usize::try_from(bytes.max(1)).unwrap_or(usize::MAX);
        let mut address = 0;
        // SAFETY: the pointer is to a local that lives through the call.
        let allocate = |address: &mut u64| unsafe { self.context.functions().memory_allocate(address, asked) };
        let done =
            if self.context.is_capturing() { self.relaxed(|| allocate(&mut address))? } else { allocate(&mut address) };
        match done {
            Ok(()) => self.addresses.borrow_mut().push(address),
            Err(Status { code: code::OUT_OF_MEMORY, .. }) => {
                let (free, total) = self.context.memory()?;
                return Err(DeviceError::OutOfMemory { asked: Bytes(asked as u64), free, total });
            }
            Err(status) => return Err(status.into()),
        }
        Ok(Address(address))
    }

    /// Does something that a capture on this thread forbids, under the mode that allows it; restores the mode whatever
    /// happens.
    fn relaxed<T>(&self, act: impl FnOnce() -> T) -> Result<T, DeviceError> {
        let mut mode = RELAXED;
        // SAFETY: the pointer is to a local that lives through the call; the driver puts the mode before into it.
        unsafe { self.context.functions().exchange_capture_mode(&raw mut mode) }?;
        let done = act();
        // SAFETY: as above.
        unsafe { self.context.functions().exchange_capture_mode(&raw mut mode) }?;
        Ok(done)
    }
}

impl SegmentSource for Arena {
    type Error = DeviceError;

    fn segment(&mut self, bytes: u64) -> Result<Address, DeviceError> {
        self.allocate(bytes)
    }
}

impl SegmentSource for Rc<Arena> {
    type Error = DeviceError;

    fn segment(&mut self, bytes: u64) -> Result<Address, DeviceError> {
        self.allocate(bytes)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for address in self.addresses.take() {
            self.context.release(Resource::Memory(address));
        }
    }
}

/// A word of host memory that the device sees: what the gate kernel waits for.
#[derive(Debug)]
pub struct MappedWord {
    context: Rc<Context>,
    pointer: NonNull<AtomicU32>,
    address: Address,
}

impl MappedWord {
    /// A word that holds 0.
    pub(super) fn new(context: &Rc<Context>) -> Result<Self, DeviceError> {
        let functions = context.functions();
        let mut pointer: *mut c_void = std::ptr::null_mut();
        // SAFETY: the pointer is to a local that lives through the call.
        unsafe { functions.host_allocate(&raw mut pointer, size_of::<AtomicU32>(), MAPPED) }?;
        let Some(word) = NonNull::new(pointer.cast::<AtomicU32>()) else {
            return Err(Status { call: "cuMemHostAlloc", code: code::OUT_OF_MEMORY }.into());
        };
        let mut mapped = Self { context: Rc::clone(context), pointer: word, address: Address::NONE };
        mapped.set(0);
        // SAFETY: the pointer came from the driver's allocator just now; the other one is to a field of a local.
        unsafe { functions.host_device_address(&raw mut mapped.address.0, pointer, 0) }?;
        Ok(mapped)
    }

    /// Where the device sees it.
    pub fn address(&self) -> Address {
        self.address
    }

    /// What it holds.
    pub fn get(&self) -> u32 {
        // SAFETY: the word is allocated and initialised as long as this value lives; the device changes it atomically.
        unsafe { self.pointer.as_ref() }.load(Ordering::Acquire)
    }

    /// Changes it, at once for the device too.
    pub fn set(&self, value: u32) {
        // SAFETY: as for `get`.
        unsafe { self.pointer.as_ref() }.store(value, Ordering::Release);
    }
}

impl Drop for MappedWord {
    fn drop(&mut self) {
        self.context.release(Resource::HostMemory(self.pointer.as_ptr().cast()));
    }
}

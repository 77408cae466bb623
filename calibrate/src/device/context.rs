//! The primary context of one device, on one thread, and the release of everything made in it.

use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::rc::Rc;

use cudarc::driver::sys::{CUcontext, CUdeviceptr, CUevent, CUgraph, CUgraphExec, CUmodule, CUstream};
use kernels::units::Bytes;

use super::card::Card;
use super::error::DeviceError;
use super::status::{Status, code};
use super::symbols::Functions;

/// `CU_CTX_SCHED_SPIN`: waiting for the device spins, so that the time of a wait is not that of waking a thread.
const SPIN: u32 = 1;

/// The context. Everything made in it holds it, so that it is the last to go; it never leaves its thread.
#[derive(Debug)]
pub(super) struct Context {
    card: Card,
    is_capturing: Cell<bool>,
    put_off: RefCell<Vec<Resource>>,
    failed_release: Cell<Option<Status>>,
}

/// What the driver made and must take back.
#[derive(Clone, Copy, Debug)]
pub(super) enum Resource {
    Memory(CUdeviceptr),
    HostMemory(*mut c_void),
    Stream(CUstream),
    Event(CUevent),
    Module(CUmodule),
    Graph(CUgraph),
    Executable(CUgraphExec),
}

impl Context {
    /// Opens the device's primary context and makes it current on this thread.
    ///
    /// # Errors
    /// The device is of an older generation than the kernels need, or cannot be taken.
    pub(super) fn open(card: Card) -> Result<Rc<Self>, DeviceError> {
        let capability = card.capability()?;
        if capability < (8, 0) {
            return Err(DeviceError::TooWeak { device: card.name()?, capability });
        }
        let functions = &card.library.functions;
        // SAFETY: the device's handle is the driver's own.
        match unsafe { functions.context_flags(card.handle, SPIN) } {
            // The context is active already, with whatever flags its first user gave it.
            Err(Status { code: code::PRIMARY_CONTEXT_ACTIVE, .. }) | Ok(()) => {}
            Err(status) => return Err(card.refusal(status)),
        }
        let mut raw: CUcontext = std::ptr::null_mut();
        // SAFETY: the pointer is to a local that lives through the call.
        unsafe { functions.context_retain(&raw mut raw, card.handle) }.map_err(|status| card.refusal(status))?;
        let context = Rc::new(Self {
            card,
            is_capturing: Cell::new(false),
            put_off: RefCell::default(),
            failed_release: Cell::new(None),
        });
        // SAFETY: the context was retained above, and is released when this value goes.
        unsafe { functions.context_set_current(raw) }?;
        Ok(context)
    }

    pub(super) fn card(&self) -> &Card {
        &self.card
    }

    pub(super) fn functions(&self) -> &'static Functions {
        &self.card.library.functions
    }

    /// Waits for everything launched in this context.
    pub(super) fn synchronize(&self) -> Result<(), DeviceError> {
        // SAFETY: a context is current on this thread.
        Ok(unsafe { self.functions().context_synchronize() }?)
    }

    /// Free and total memory of the device, as the driver sees it: other processes move the first.
    pub(super) fn memory(&self) -> Result<(Bytes, Bytes), DeviceError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: both pointers are to locals that live through the call.
        unsafe { self.functions().memory_info(&raw mut free, &raw mut total) }?;
        Ok((Bytes(free as u64), Bytes(total as u64)))
    }

    pub(super) fn is_capturing(&self) -> bool {
        self.is_capturing.get()
    }

    /// From now on nothing is released: most releases are illegal while a stream captures, and would spoil the capture
    /// (GPU specification section 1, "capture pitfalls").
    pub(super) fn capture_begins(&self) {
        self.is_capturing.set(true);
    }

    /// Releases what was put off.
    pub(super) fn capture_ended(&self) {
        self.is_capturing.set(false);
        for resource in self.put_off.take() {
            self.release(resource);
        }
    }

    /// Gives a resource back to the driver: now, or when the capture that goes on has ended.
    pub(super) fn release(&self, resource: Resource) {
        if self.is_capturing() {
            self.put_off.borrow_mut().push(resource);
            return;
        }
        let functions = self.functions();
        // SAFETY: each resource was made in this context, and is released once: by the drop of the value that owned it.
        let released = unsafe {
            match resource {
                Resource::Memory(address) => functions.memory_free(address),
                // Nothing says that the driver waits for kernels that still read it, such as a gate.
                Resource::HostMemory(pointer) => {
                    let done = functions.context_synchronize();
                    functions.host_free(pointer).and(done)
                }
                Resource::Stream(stream) => functions.stream_destroy(stream),
                Resource::Event(event) => functions.event_destroy(event),
                Resource::Module(module) => functions.module_unload(module),
                Resource::Graph(graph) => functions.graph_destroy(graph),
                Resource::Executable(executable) => functions.executable_destroy(executable),
            }
        };
        if let Err(status) = released {
            // A drop cannot fail; whoever closes the session hears of it.
            self.failed_release.set(self.failed_release.get().or(Some(status)));
        }
    }

    /// The first release that the driver refused.
    pub(super) fn failed_release(&self) -> Option<Status> {
        self.failed_release.get()
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it was retained when this value was made, and whatever was made in it is gone, for that held this value.
        let _ = unsafe { self.functions().context_release(self.card.handle) };
    }
}

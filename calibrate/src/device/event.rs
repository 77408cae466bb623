//! Instants on the device's own clock.

use std::rc::Rc;

use cudarc::driver::sys::CUevent;

use super::context::{Context, Resource};
use super::error::DeviceError;
use super::stream::Stream;

/// An instant of the stream, once it was recorded and reached.
#[derive(Debug)]
pub struct Event {
    context: Rc<Context>,
    raw: CUevent,
}

impl Event {
    pub(super) fn new(context: &Rc<Context>) -> Result<Self, DeviceError> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: the pointer is to a local that lives through the call; 0 is an event that keeps time.
        unsafe { context.functions().event_create(&raw mut raw, 0) }?;
        Ok(Self { context: Rc::clone(context), raw })
    }

    pub(super) fn record(&self, stream: &Stream) -> Result<(), DeviceError> {
        // SAFETY: event and stream live through the call.
        Ok(unsafe { self.context.functions().event_record(self.raw, stream.raw) }?)
    }

    pub(super) fn wait(&self) -> Result<(), DeviceError> {
        // SAFETY: the event lives through the call.
        Ok(unsafe { self.context.functions().event_synchronize(self.raw) }?)
    }

    pub(super) fn us_since(&self, start: &Self) -> Result<f64, DeviceError> {
        let mut milliseconds = 0.0;
        // SAFETY: both events live through the call, and the pointer is to a local.
        unsafe { self.context.functions().event_elapsed(&raw mut milliseconds, start.raw, self.raw) }?;
        Ok(f64::from(milliseconds) * 1e3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.context.release(Resource::Event(self.raw));
    }
}

//! Recording launches into a graph, with a guard that always ends the capture.

use std::rc::Rc;

use kernels::launch::Launch;

use super::context::Resource;
use super::error::DeviceError;
use super::graph::{Baked, Graph};
use super::launch::launch;
use super::memory::Arena;
use super::session::Session;

/// `CU_STREAM_CAPTURE_MODE_GLOBAL`, the strictest mode, and PyTorch's.
const GLOBAL: u32 = 0;

/// A capture that goes on. It holds the session, so that nothing but launches can be called meanwhile; memory may grow
/// ([`Arena::allocate`]), and whatever is dropped is released after the end.
#[derive(Debug)]
pub struct Capture<'session> {
    session: &'session mut Session,
    memory: Rc<[Rc<Arena>]>,
    has_ended: bool,
}

impl<'session> Capture<'session> {
    pub(super) fn begin(session: &'session mut Session, memory: Rc<[Rc<Arena>]>) -> Result<Self, DeviceError> {
        let context = session.context();
        // SAFETY: the stream lives as long as the session, which this guard holds.
        unsafe { context.functions().begin_capture(session.stream().raw, GLOBAL) }?;
        context.capture_begins();
        Ok(Self { session, memory, has_ended: false })
    }

    /// Records a launch.
    ///
    /// # Errors
    /// The driver refuses it; the capture can only be dropped then.
    pub fn launch(&mut self, given: &Launch) -> Result<(), DeviceError> {
        launch(self.session.modules(), self.session.stream(), given)
    }

    /// Ends the capture.
    ///
    /// # Errors
    /// The capture was spoilt, or holds more than kernels.
    pub fn end(mut self) -> Result<Graph, DeviceError> {
        let raw = self.stop()?.ok_or(DeviceError::NoGraph)?;
        let baked = Baked { modules: Rc::clone(self.session.modules()), memory: Rc::clone(&self.memory) };
        Graph::of_kernels(self.session.context(), raw, baked)
    }

    /// Ends the capture in the driver; a spoilt one gives no graph.
    fn stop(&mut self) -> Result<Option<cudarc::driver::sys::CUgraph>, DeviceError> {
        self.has_ended = true;
        let mut raw = std::ptr::null_mut();
        let context = self.session.context();
        // SAFETY: the stream captures since `begin`, and the pointer is to a local.
        let ended = unsafe { context.functions().end_capture(self.session.stream().raw, &raw mut raw) };
        context.capture_ended();
        let graph = (!raw.is_null()).then_some(raw);
        match (ended, graph) {
            (Ok(()), graph) => Ok(graph),
            (Err(status), graph) => {
                if let Some(graph) = graph {
                    context.release(Resource::Graph(graph));
                }
                Err(status.into())
            }
        }
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if !self.has_ended
            && let Ok(Some(graph)) = self.stop()
        {
            self.session.context().release(Resource::Graph(graph));
        }
    }
}

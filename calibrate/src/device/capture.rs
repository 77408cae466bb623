//! Recording launches into a graph, with a guard that always ends the capture.

use std::rc::Rc;

use cudarc::driver::sys::{CUgraph, CUstream};
use kernels::launch::Launch;

use super::context::{Context, Resource};
use super::error::DeviceError;
use super::graph::{Baked, Graph};
use super::launch::launch;
use super::memory::Arena;
use super::session::Session;
use super::stream::Stream;

/// `CU_STREAM_CAPTURE_MODE_GLOBAL`, the strictest mode, and PyTorch's.
const GLOBAL: u32 = 0;

/// A capture that goes on. It holds the session, so that nothing but launches can be called meanwhile; memory may grow
/// ([`Arena::allocate`]), and whatever is dropped is released after the end.
///
/// ```compile_fail
/// # use calibrate::device::{DeviceError, Session};
/// fn spoil(session: &mut Session) -> Result<(), DeviceError> {
///     let capture = session.capture([])?;
///     session.synchronize()?; // illegal while the stream captures, and so it does not compile
///     capture.end().1.map(drop)
/// }
/// ```
///
/// ```
/// # use calibrate::device::{DeviceError, Session};
/// fn wait(session: &mut Session) -> Result<(), DeviceError> {
///     let capture = session.capture([])?;
///     let (session, graph) = capture.end();
///     session.synchronize()?;
///     graph.map(drop)
/// }
/// ```
#[derive(Debug)]
pub struct Capture<'session> {
    guard: Guard,
    session: &'session mut Session,
    memory: Rc<[Rc<Arena>]>,
    /// A library's product is among the launches.
    multiplies: bool,
    begun_ns: u64,
}

impl Session {
    /// Begins to record launches into a graph. `memory` are the arenas whose addresses the launches hold; the graph holds
    /// them.
    ///
    /// Every kernel must have run once before: a kernel that is loaded at its first launch cannot be loaded during a capture.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn capture(&mut self, memory: impl IntoIterator<Item = Rc<Arena>>) -> Result<Capture<'_>, DeviceError> {
        Capture::begin(self, memory.into_iter().collect())
    }
}

impl<'session> Capture<'session> {
    fn begin(session: &'session mut Session, memory: Rc<[Rc<Arena>]>) -> Result<Self, DeviceError> {
        let begun_ns = session.host_clock().now_ns();
        let guard = Guard::begin(session.context(), session.stream().raw)?;
        Ok(Self { guard, session, memory, multiplies: false, begun_ns })
    }

    /// Records a launch.
    ///
    /// # Errors
    /// The driver refuses it; the capture can only be dropped then.
    pub fn launch(&mut self, given: &Launch) -> Result<(), DeviceError> {
        launch(self.session.modules(), self.session.stream(), given)
    }

    /// The stream, for a library's product.
    pub(super) fn multiplies_on(&mut self) -> &Stream {
        self.multiplies = true;
        self.session.stream()
    }

    /// Ends the capture, and gives the session back with the graph.
    ///
    /// # Errors
    /// The capture was spoilt, or holds more than kernels.
    pub fn end(self) -> (&'session mut Session, Result<Graph, DeviceError>) {
        let Self { mut guard, session, memory, multiplies, begun_ns } = self;
        let ended = guard.end();
        // Before the graph is looked at, which no engine does.
        let capture_ns = session.host_clock().now_ns().saturating_sub(begun_ns);
        let graph = ended.and_then(|raw| {
            let baked = Baked { modules: Rc::clone(session.modules()), memory };
            let raw = raw.ok_or(DeviceError::NoGraph)?;
            Graph::of_kernels(session.context(), raw, baked, multiplies, capture_ns)
        });
        (session, graph)
    }
}

/// Ends the capture in the driver, whatever happens: a stream that still captures fails every later call, far from the cause
/// (GPU specification section 1).
#[derive(Debug)]
struct Guard {
    context: Rc<Context>,
    stream: CUstream,
    has_ended: bool,
}

impl Guard {
    fn begin(context: &Rc<Context>, stream: CUstream) -> Result<Self, DeviceError> {
        // SAFETY: the stream lives as long as the session, which outlives this guard.
        unsafe { context.functions().begin_capture(stream, GLOBAL) }?;
        context.capture_begins();
        Ok(Self { context: Rc::clone(context), stream, has_ended: false })
    }

    /// A capture that was spoilt gives no graph.
    fn end(&mut self) -> Result<Option<CUgraph>, DeviceError> {
        self.has_ended = true;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the stream captures since `begin`, and the pointer is to a local.
        let ended = unsafe { self.context.functions().end_capture(self.stream, &raw mut raw) };
        self.context.capture_ended();
        let graph = (!raw.is_null()).then_some(raw);
        match ended {
            Ok(()) => Ok(graph),
            Err(status) => {
                if let Some(graph) = graph {
                    self.context.release(Resource::Graph(graph));
                }
                Err(status.into())
            }
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.has_ended
            && let Ok(Some(graph)) = self.end()
        {
            self.context.release(Resource::Graph(graph));
        }
    }
}

//! A step recorded into graphs.

use std::rc::Rc;

use kernels::launch::Address;
use kernels::step::{Activations, StepPart, StepRunner};

use super::call::Call;
use super::captured::Part;
use super::products::Products;
use super::{Pools, StepError};
use crate::device::{Arena, Capture, DeviceError, Graph, Session};
use crate::graph_mode::Mode;

/// Captures what its mode captures, and runs the rest, so that the pools live through the step as in an engine.
pub(super) struct Recorder<'a> {
    /// `None` only behind an error.
    phase: Option<Phase<'a>>,
    mode: Mode,
    pools: &'a mut Pools,
    products: &'a Products,
    /// What the graphs hold: the model's memory, and the private pool's.
    memory: [Rc<Arena>; 2],
    parts: Vec<Part<Graph>>,
    /// Calls since the last graph.
    eager: Vec<Call>,
    /// What was allocated inside captures, in order.
    activations: Vec<Address>,
}

/// What a recorder leaves.
pub(super) struct Recording<'a> {
    pub(super) session: &'a mut Session,
    pub(super) parts: Vec<Part<Graph>>,
    /// Activations of the graphs, in the order in which the step allocates them.
    pub(super) activations: Vec<Address>,
}

/// Whether the stream captures.
enum Phase<'a> {
    Eager(&'a mut Session),
    Capturing(Capture<'a>),
}

impl<'a> Recorder<'a> {
    pub(super) fn new(
        session: &'a mut Session,
        mode: Mode,
        pools: &'a mut Pools,
        products: &'a Products,
        memory: &Rc<Arena>,
    ) -> Self {
        let memory = [Rc::clone(memory), Rc::clone(pools.graphs.source())];
        let phase = Some(Phase::Eager(session));
        Self { phase, mode, pools, products, memory, parts: Vec::new(), eager: Vec::new(), activations: Vec::new() }
    }

    /// The parts, in order.
    pub(super) fn finish(mut self) -> Result<Recording<'a>, StepError> {
        let session = self.stop_capturing()?;
        self.keep_eager_calls();
        Ok(Recording { session, parts: self.parts, activations: self.activations })
    }

    fn keep_eager_calls(&mut self) {
        if !self.eager.is_empty() {
            self.parts.push(Part::Eager(std::mem::take(&mut self.eager)));
        }
    }

    /// Ends a capture that goes on, and keeps its graph.
    fn stop_capturing(&mut self) -> Result<&'a mut Session, StepError> {
        match self.phase.take().ok_or(DeviceError::NoGraph)? {
            Phase::Eager(session) => Ok(session),
            Phase::Capturing(capture) => {
                let (session, graph) = capture.end();
                self.parts.push(Part::Graph(graph?));
                Ok(session)
            }
        }
    }

    fn enter(&mut self, is_captured: bool) -> Result<(), StepError> {
        let phase = match (self.phase.take().ok_or(DeviceError::NoGraph)?, is_captured) {
            (Phase::Eager(session), true) => {
                self.keep_eager_calls();
                Phase::Capturing(session.capture(self.memory.clone())?)
            }
            (capturing @ Phase::Capturing(_), false) => {
                self.phase = Some(capturing);
                Phase::Eager(self.stop_capturing()?)
            }
            (unchanged, _) => unchanged,
        };
        self.phase = Some(phase);
        Ok(())
    }

    fn call(&mut self, call: Call) -> Result<(), StepError> {
        match self.phase.as_mut().ok_or(DeviceError::NoGraph)? {
            Phase::Capturing(capture) => self.products.record(capture, &call)?,
            Phase::Eager(session) => {
                self.products.run(session, &call)?;
                self.eager.push(call);
            }
        }
        Ok(())
    }
}

impl Activations for Recorder<'_> {
    type Error = StepError;

    fn allocate(&mut self, bytes: u64) -> Result<Address, StepError> {
        if !matches!(self.phase, Some(Phase::Capturing(_))) {
            return Ok(self.pools.eager.allocate(bytes)?);
        }
        let activation = self.pools.graphs.allocate(bytes)?;
        self.activations.push(activation);
        Ok(activation)
    }

    fn free(&mut self, activation: Address) -> Result<(), StepError> {
        // What a graph allocated may be freed outside it: attention's operands under PIECEWISE.
        match self.pools.graphs.free(activation) {
            Ok(()) => Ok(()),
            Err(_) => Ok(self.pools.eager.free(activation)?),
        }
    }
}

impl StepRunner for Recorder<'_> {
    fn perform(&mut self, part: StepPart) -> Result<(), StepError> {
        match part {
            StepPart::Enter(place) => self.enter(self.mode.captures(place)),
            StepPart::Launch(launch) => self.call(Call::Launch(launch)),
            StepPart::Product(product) => self.call(self.products.call(product)?),
        }
    }
}

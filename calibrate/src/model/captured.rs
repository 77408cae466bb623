//! A step that was captured, and its replay.

use std::ops::Range;
use std::rc::Rc;

use kernels::launch::Address;
use kernels::step::{Place, StepOutputs};

use super::StepError;
use super::call::Call;
use super::products::Products;
use crate::device::{Arena, Executable, Graph, Session};
use crate::graph_mode::Mode;

impl Mode {
    /// Whether what lies there belongs into a graph.
    pub(super) fn captures(self, place: Place) -> bool {
        match place {
            Place::Piece(_) => true,
            Place::Attention(_) => self == Self::Full,
            Place::Head => false,
        }
    }
}

/// One part of a captured step.
#[derive(Debug)]
pub enum Part<G> {
    /// A graph: recorded, or executable.
    Graph(G),
    /// What stays eager.
    Eager(Vec<Call>),
}

/// A step whose graphs were recorded, and are not executable yet.
#[derive(Debug)]
pub struct Recorded {
    /// What of it is captured.
    pub mode: Mode,
    /// In the order of execution.
    pub parts: Vec<Part<Graph>>,
    pub(super) products: Rc<Products>,
    pub(super) memory: [Rc<Arena>; 3],
    pub(super) activations: Vec<Address>,
    /// Where its outputs lie, until something else of the pools is run.
    pub outputs: StepOutputs,
}

impl Recorded {
    /// Its graphs, in order.
    pub fn graphs(&self) -> impl Iterator<Item = &Graph> {
        self.parts.iter().filter_map(|part| match part {
            Part::Graph(graph) => Some(graph),
            Part::Eager(_) => None,
        })
    }

    /// Host time of its captures, from the beginning of each to its end, in nanoseconds.
    pub fn capture_ns(&self) -> u64 {
        self.graphs().map(Graph::capture_ns).sum()
    }

    /// Makes every graph executable. None is uploaded: the first replay does it, or [`Captured::upload`].
    ///
    /// # Errors
    /// The driver refuses, or its memory is full.
    pub fn instantiate(&self, session: &mut Session) -> Result<Captured, StepError> {
        let mut executable = |part: &Part<Graph>| match part {
            Part::Graph(graph) => Ok(Part::Graph((session.instantiate(graph)?, graph.nodes()))),
            Part::Eager(calls) => Ok(Part::Eager(calls.clone())),
        };
        let parts: Result<_, StepError> = self.parts.iter().map(&mut executable).collect();
        let (products, memory) = (Rc::clone(&self.products), self.memory.clone());
        let (activations, outputs) = (self.activations.clone(), self.outputs);
        Ok(Captured { mode: self.mode, parts: parts?, products, memory, activations, outputs })
    }
}

/// A captured step. It holds the memory that it runs on.
#[derive(Debug)]
pub struct Captured {
    /// What of it is captured.
    pub mode: Mode,
    /// In the order of execution.
    pub parts: Vec<Part<(Executable, usize)>>,
    pub(super) products: Rc<Products>,
    /// What eager parts read and write; graphs hold theirs themselves.
    #[expect(dead_code, reason = "held, so that it lives; nobody looks at it")]
    pub(super) memory: [Rc<Arena>; 3],
    /// Activations of its graphs, in the order in which the step allocates them.
    pub(super) activations: Vec<Address>,
    /// Where its outputs lie, until something else of the pools is run.
    pub outputs: StepOutputs,
}

impl Captured {
    /// Uploads its executables, so that the first replay does not.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn upload(&self, session: &mut Session) -> Result<(), StepError> {
        for part in &self.parts {
            if let Part::Graph((executable, _)) = part {
                session.upload(executable)?;
            }
        }
        Ok(())
    }

    /// Runs the step on the inputs that are set.
    ///
    /// # Errors
    /// The device fails.
    pub fn replay(&self, session: &mut Session) -> Result<(), StepError> {
        self.make(session, 0..self.calls())
    }

    /// Calls of the driver that a replay makes: one for a graph, one for an eager launch.
    pub fn calls(&self) -> usize {
        self.parts.iter().map(Part::calls).sum()
    }

    /// Makes some of the calls of a replay, counted from 0.
    ///
    /// # Errors
    /// The device fails.
    pub fn make(&self, session: &mut Session, calls: Range<usize>) -> Result<(), StepError> {
        let mut at = 0;
        for part in &self.parts {
            let first = at;
            at += part.calls();
            if at <= calls.start || first >= calls.end {
                continue;
            }
            match part {
                Part::Graph((executable, _)) => session.replay(executable)?,
                Part::Eager(eager) => {
                    let own = calls.start.max(first) - first..calls.end.min(at) - first;
                    for call in &eager[own] {
                        self.products.run(session, call)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Graphs, and nodes in all of them.
    pub fn graphs_and_nodes(&self) -> (usize, usize) {
        let nodes = self.parts.iter().filter_map(|part| match part {
            Part::Graph((_, nodes)) => Some(*nodes),
            Part::Eager(_) => None,
        });
        (nodes.clone().count(), nodes.sum())
    }
}

impl<G> Part<G> {
    fn calls(&self) -> usize {
        match self {
            Self::Graph(_) => 1,
            Self::Eager(calls) => calls.len(),
        }
    }
}

//! A step that was captured, and its replay.

use std::rc::Rc;

use kernels::launch::{Launch, Product};
use kernels::step::{Place, StepOutputs};

use super::StepError;
use super::products::Products;
use crate::device::{Arena, Executable, Session};

/// What of a step is captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Everything before the head in one graph.
    Full,
    /// A graph for each of the N + 1 pieces between N attentions, which run eagerly.
    Piecewise,
}

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
pub enum Part {
    /// A graph, and the nodes in it.
    Graph(Executable, usize),
    /// What stays eager.
    Eager(Vec<Call>),
}

/// One call of an eager part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// A launch, the own products among them.
    Launch(Launch),
    /// A product of cuBLASLt's.
    Product(Product),
}

/// A captured step. It holds the memory that it runs on.
#[derive(Debug)]
pub struct Captured {
    /// What of it is captured.
    pub mode: Mode,
    /// In the order of execution.
    pub parts: Vec<Part>,
    pub(super) products: Rc<Products>,
    /// What eager parts read and write; graphs hold theirs themselves.
    #[expect(dead_code, reason = "held, so that it lives; nobody looks at it")]
    pub(super) memory: [Rc<Arena>; 3],
    /// Where its outputs lie, until something else of the pools is run.
    pub outputs: StepOutputs,
}

impl Captured {
    /// Runs the step on the inputs that are set.
    ///
    /// # Errors
    /// The device fails.
    pub fn replay(&self, session: &mut Session) -> Result<(), StepError> {
        for part in &self.parts {
            match part {
                Part::Graph(executable, _) => session.replay(executable)?,
                Part::Eager(calls) => {
                    for call in calls {
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
            Part::Graph(_, nodes) => Some(*nodes),
            Part::Eager(_) => None,
        });
        (nodes.clone().count(), nodes.sum())
    }
}

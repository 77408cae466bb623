//! A step that was captured, and its replay.

use kernels::launch::Launch;
use kernels::step::{Place, StepOutputs};

use super::StepError;
use crate::device::{Executable, Session};

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
    /// A graph, and the kernels in it.
    Graph(Executable, usize),
    /// Launches that stay eager.
    Eager(Vec<Launch>),
}

/// A captured step. It holds the memory that its graphs use.
#[derive(Debug)]
pub struct Captured {
    /// What of it is captured.
    pub mode: Mode,
    /// In the order of execution.
    pub parts: Vec<Part>,
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
                Part::Eager(launches) => {
                    for launch in launches {
                        session.launch(launch)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Graphs, and kernels in all of them.
    pub fn graphs_and_nodes(&self) -> (usize, usize) {
        let nodes = self.parts.iter().filter_map(|part| match part {
            Part::Graph(_, nodes) => Some(*nodes),
            Part::Eager(_) => None,
        });
        (nodes.clone().count(), nodes.sum())
    }
}

//! What a proposal may take.

use kernels::units::Bytes;
use reports::CandidateReport;

use crate::cost::startup::StartupPart;
use crate::optimum::Budget;
use crate::server::Setup;
use crate::time::SimDuration;

/// The most that the graphs and the start of a proposal may take; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// Device memory of all graphs.
    pub graph_memory: Option<Bytes>,
    /// The whole start-up, in seconds.
    pub startup_s: Option<f64>,
    /// Descriptors.
    pub descriptors: Option<u32>,
}

impl Limits {
    /// Whether a server keeps within all of them.
    #[must_use]
    pub fn allow(&self, server: &CandidateReport) -> bool {
        let within =
            |figure: Option<f64>, most: Option<f64>| most.is_none_or(|most| figure.is_none_or(|value| value <= most));
        within(server.graph_memory_bytes.mean(), self.graph_memory.map(|most| most.0 as f64))
            && within(server.startup_s.mean(), self.startup_s)
            && within(server.descriptors_captured.mean(), self.descriptors.map(f64::from))
    }

    /// The same for graphs alone: of the start-up what a server without captures leaves of it.
    #[must_use]
    pub fn of_graphs(&self, server: &Setup) -> Budget {
        let other_s = server.startup.total_s() - server.startup.part_s(StartupPart::Capture);
        Budget {
            descriptors: self.descriptors,
            memory: self.graph_memory,
            startup: self.startup_s.map(|most| SimDuration::from_s(most - other_s)),
        }
    }
}

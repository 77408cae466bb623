//! One run, and what it came to.

use super::logs::Logged;
use super::spool::Extent;
use crate::metrics::{History, Summary};
use crate::server::RunEnd;

/// One run: a candidate, by index, with one seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    /// Index of the candidate in the scenario.
    pub candidate: usize,
    /// Seed of the traffic.
    pub seed: u64,
    /// The candidate's first run.
    pub first_seed: bool,
    /// Its place among all runs, from 1.
    pub number: u64,
}

/// What one run came to.
#[derive(Debug)]
pub(super) struct JobResult {
    /// The run.
    pub job: Job,
    /// Its figures.
    pub summary: Summary,
    /// How it ended.
    pub end: RunEnd,
    /// What charts draw of it, if results are kept.
    pub history: Option<History>,
    /// Where its events of the trace lie; empty if not asked for.
    pub trace: Vec<Extent>,
    /// Where its requests lie; empty if not asked for.
    pub requests: Logged,
    /// Where its steps lie; empty if not asked for.
    pub steps: Logged,
}

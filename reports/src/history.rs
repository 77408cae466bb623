//! `history.json`: what the charts of a run draw, in a size that does not grow with the run.

use serde::{Deserialize, Serialize};

use crate::Name;

/// The history of every candidate of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HistoryReport {
    /// One entry a candidate, in the scenario's order.
    pub candidates: Vec<CandidateHistory>,
}

/// The history of one candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CandidateHistory {
    /// The candidate's name.
    pub candidate: String,
    /// Seeds that `batches` is summed over.
    pub seeds: u64,
    /// Steps by size and by what they ran on, after the warm-up cut, over all seeds; ascending.
    pub batches: Vec<BatchCount>,
    /// The run of the first seed over time, the part before the warm-up cut included.
    pub timeline: Timeline,
}

/// Steps of one size that ran on one rung, or without a graph for one cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BatchCount {
    /// Real rows (scheduled tokens) of each step, rows.
    pub rows: u32,
    /// `FULL`, `PIECEWISE` or `NONE`.
    pub mode: Name,
    /// `decode` or `prefill` where an engine keeps graphs for each; null otherwise.
    pub phase: Option<Name>,
    /// The captured size that ran, tokens; null without a graph.
    pub rung: Option<u32>,
    /// Why no graph ran, as in `steps.jsonl`; null on a rung.
    pub fallback: Option<Name>,
    /// Steps.
    pub steps: u64,
    /// Padded rows of those steps, rows.
    pub padded_rows: u64,
    /// What replay won (negative: lost) against the eager kind over those steps, ns; 0 without a graph.
    pub saved_ns: i64,
}

/// A run in bins of equal width.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// The seed of the run.
    pub seed: u64,
    /// Width of a bin, s.
    pub bin_s: f64,
    /// The bins in order of time, at most 512, those without steps included.
    pub bins: Vec<TimelineBin>,
}

/// The steps that were scheduled in one bin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimelineBin {
    /// Start of the bin on the simulated clock, s.
    pub start_s: f64,
    /// Steps.
    pub steps: u64,
    /// Mean real rows of a step, rows; null without steps.
    pub mean_rows: Option<f64>,
    /// Most real rows of a step, rows.
    pub max_rows: u32,
    /// Steps without a graph.
    pub no_graph: u64,
    /// Of those, steps with more tokens than the largest captured size.
    pub above_ceiling: u64,
    /// Most requests running on a data-parallel rank.
    pub max_running: u32,
    /// Most requests waiting on a data-parallel rank.
    pub max_waiting: u32,
    /// Largest share of a rank's KV blocks in use.
    pub max_kv_share: f64,
    /// Requests preempted.
    pub preempted: u64,
}

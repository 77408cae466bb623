//! The result of `sim ladder`: what an engine would capture.

use serde::{Deserialize, Serialize};

use crate::{DescriptorRecord, EngineReport, Name, Warning};

/// Everything `sim ladder` says, as one JSON document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LadderReport {
    /// The engine whose rules made the ladders.
    pub engine: EngineReport,
    /// What to know before using the ladders.
    pub warnings: Vec<Warning>,
    /// One entry a candidate, in the scenario's order; one entry for flags.
    pub candidates: Vec<LadderCandidate>,
}

/// The ladder of one candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LadderCandidate {
    /// The candidate's name.
    pub name: String,
    /// The `cudagraph_mode` asked for; null for the engine's default.
    pub requested_mode: Option<String>,
    /// The `cudagraph_mode` after the engine's own resolution.
    pub cudagraph_mode: String,
    /// The capture sizes after the engine's own rules, those of all ladders together, ascending, tokens.
    pub capture_sizes: Vec<u32>,
    /// The sizes that each kind of step pads to.
    pub ladders: Vec<LadderSizes>,
    /// The top rung, tokens: a larger step runs without a graph. Null if nothing is captured.
    pub ceiling: Option<u32>,
    /// The padded size of every step size up to the ceiling, as spans; empty where kinds of batch pad to sizes of their
    /// own, which the descriptors show.
    pub padded: Vec<PaddedSpan>,
    /// The descriptors in the order in which the engine captures them.
    pub descriptors: Vec<DescriptorRecord>,
    /// Ranges of rows, `[first, last]`, that run one compiled version of the model each; empty without compilation.
    pub compile_ranges: Vec<[u32; 2]>,
    /// Sizes compiled for themselves, which win over the range they lie in, tokens.
    pub compile_sizes: Vec<u32>,
    /// Budgets of the encoder's graphs, ascending, tokens; they are in none of the counts and not priced.
    pub encoder_budgets: Vec<u32>,
    /// Sizes of the graphs of a YOCO model's replay layers, ascending, tokens; in none of the counts and not priced.
    pub decoder_replay_sizes: Vec<u32>,
    /// How many of what.
    pub counts: LadderCounts,
    /// Predicted time of the captures, s; null without a cost profile.
    pub capture_s: Option<f64>,
}

/// The captured sizes of one kind of step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LadderSizes {
    /// `decode` or `prefill`; `all` where every step pads to the same sizes.
    pub phase: Name,
    /// What the sizes count: `tokens` or `requests` of the step.
    pub unit: Name,
    /// The sizes, ascending.
    pub sizes: Vec<u32>,
}

/// Step sizes that are padded to the same size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaddedSpan {
    /// Smallest step size of the span, tokens.
    pub first: u32,
    /// Largest step size of the span, tokens.
    pub last: u32,
    /// The size they run at, tokens.
    pub padded: u32,
}

/// How many descriptors and graphs a ladder takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LadderCounts {
    /// Capture sizes.
    pub sizes: u64,
    /// Descriptors captured, all modes.
    pub descriptors: u64,
    /// FULL descriptors.
    pub full: u64,
    /// PIECEWISE descriptors.
    pub piecewise: u64,
    /// CUDA graphs: one a FULL descriptor, one a piece for a PIECEWISE one; null where the model's layers are unknown.
    pub cuda_graphs: Option<u64>,
}

impl PaddedSpan {
    /// The spans of a padded table, `(size, padded size)` in ascending order of size.
    #[must_use]
    pub fn of_table(table: impl IntoIterator<Item = (u32, u32)>) -> Vec<Self> {
        let mut spans: Vec<Self> = Vec::new();
        for (size, padded) in table {
            match spans.last_mut() {
                Some(span) if span.padded == padded && span.last + 1 == size => span.last = size,
                _ => spans.push(Self { first: size, last: size, padded }),
            }
        }
        spans
    }
}

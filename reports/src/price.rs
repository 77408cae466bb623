//! The result of `sim price`: exact expectations over a histogram of step shapes, without an event loop.

use serde::{Deserialize, Serialize};

use crate::{EngineReport, Name, ProfileReport, ScenarioReport, Warning};

/// Everything `sim price` says, as one JSON document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PriceReport {
    /// The scenario that was priced.
    pub scenario: ScenarioReport,
    /// The engine whose dispatcher chose the graphs.
    pub engine: EngineReport,
    /// The cost profile, with the provenance of each group used.
    pub profile: ProfileReport,
    /// What to know before trusting the figures.
    pub warnings: Vec<Warning>,
    /// One entry a candidate, in the scenario's order.
    pub candidates: Vec<PriceCandidate>,
}

/// Expectations for one candidate. E\[x\] is the mean over steps, weighted by how often each shape occurs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PriceCandidate {
    /// The candidate's name.
    pub name: String,
    /// The capture sizes after the engine's own rules, those of all ladders together, ascending, tokens.
    pub capture_sizes: Vec<u32>,
    /// The configured `cudagraph_mode` after the engine's own resolution.
    pub cudagraph_mode: String,
    /// Expected step time of each way to run the steps.
    pub step_ms: StepTimes,
    /// The eager kind that savings are counted against: `eager` or `compiled eager`.
    pub saving_against: Name,
    /// Saving of the graphs as dispatched.
    pub saving_graph: Saving,
    /// Saving of a dispatcher that runs eager wherever replay loses.
    pub saving_best_of_both: Saving,
    /// E\[batch\]: real rows per step, over all steps, rows.
    pub mean_batch_rows: f64,
    /// E\[rung\]: rows run per step, over graph steps, rows; null if no step runs a graph.
    pub mean_rung_rows: Option<f64>,
    /// E\[padded rows\]: padded rows per step, over all steps (0 when eager), rows.
    pub mean_padded_rows: f64,
    /// Padded rows / real rows, ratio of expectations over graph steps; null if no step runs a graph.
    pub padding_ratio: Option<f64>,
    /// Padded rows / rows run, ratio of expectations over graph steps; null if no step runs a graph.
    pub waste_share: Option<f64>,
    /// Mean over graph steps of (padded rows / batch): every step weighs the same; null if no step runs a graph.
    pub mean_padding_over_batch: Option<f64>,
    /// Mean over graph steps of (padded rows / rung): every step weighs the same; null if no step runs a graph.
    pub mean_padding_over_rung: Option<f64>,
    /// Share of graph steps without padding; null if no step runs a graph.
    pub exact_hit_rate: Option<f64>,
    /// Share of all steps that run without a graph.
    pub fallback_rate: f64,
    /// Padded rows at which the fixed saving of a replay is used up, rows; null where a padded row has no constant
    /// price (a staircase of costs), or none at all.
    pub break_even_padded_rows: Option<f64>,
    /// Share of all steps in which replay costs more than the eager kind.
    pub losing_share: f64,
    /// The batches of those steps as ascending, inclusive `[first, last]` ranges, rows.
    pub losing_batches: Vec<[u32; 2]>,
    /// Share of all steps whose cost comes from outside the range of some cost group.
    pub outside_range_share: f64,
    /// One entry per captured mode and size, ascending; a rung with no steps is a dead rung.
    pub rungs: Vec<PriceRung>,
    /// Images and the encoder's graphs, counted, not priced; null if no step holds an image.
    pub encoder: Option<EncoderCounts>,
    /// Replay layers of a YOCO model and their graphs, counted, not priced; null for another model.
    pub decoder_replay: Option<ReplayCounts>,
}

/// Expected duration of a step, ms, for each way of running the same steps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepTimes {
    /// All steps eager, without compilation, ms; null where the profile does not price it.
    pub eager: Option<f64>,
    /// All steps compiled but not captured, ms; null where the profile does not price it.
    pub compiled_eager: Option<f64>,
    /// Graphs as the engine dispatches them, ms.
    pub graph: f64,
    /// The cheaper of replay and the eager kind, step by step, ms.
    pub best_of_both: f64,
}

/// A saving against the eager kind.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Saving {
    /// Expected saving per step, ms; negative for a loss.
    pub ms: f64,
    /// The same as a share of the eager kind's expected step, percent.
    pub percent: f64,
}

/// Expectations for one rung.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PriceRung {
    /// `FULL` or `PIECEWISE`.
    pub mode: Name,
    /// `decode` or `prefill` where an engine keeps graphs for each; null otherwise.
    #[serde(default)]
    pub phase: Option<Name>,
    /// The captured size, tokens.
    pub size: u32,
    /// Share of all steps that run on this rung.
    pub share_of_steps: f64,
    /// Mean padded rows of those steps, rows; null if there are none.
    pub mean_padded_rows: Option<f64>,
    /// Share of those steps without padding; null if there are none.
    pub exact_share: Option<f64>,
    /// What the rung contributes to E\[padded rows\], rows per step.
    pub padded_rows: f64,
    /// What the rung contributes to E\[batch\], rows per step.
    pub real_rows: f64,
    /// Mean saving of those steps against the eager kind, ms; null if there are none.
    pub mean_saving_ms: Option<f64>,
}

/// What the images of all steps run as.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EncoderCounts {
    /// Images of all steps.
    pub images: u64,
    /// Those that run without a graph: above every budget, or no graph is captured.
    pub images_without_graph: u64,
    /// Encoder graphs run.
    pub batches: u64,
    /// Encoder tokens of the images in them, tokens.
    pub real_tokens: u64,
    /// Tokens that they run beyond those, tokens.
    pub padded_tokens: u64,
    /// Padded tokens / tokens run; null if no graph runs.
    pub waste_share: Option<f64>,
    /// One entry a captured budget, ascending; those that never run included.
    pub budgets: Vec<BudgetCounts>,
}

/// Runs of one encoder graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetCounts {
    /// The budget, tokens.
    pub budget: u32,
    /// How often it runs.
    pub batches: u64,
    /// Images in those runs.
    pub images: u64,
    /// Their encoder tokens, tokens.
    pub real_tokens: u64,
    /// Tokens run beyond those, tokens.
    pub padded_tokens: u64,
}

/// What the replay layers of all steps run as.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplayCounts {
    /// Why no size is captured: `option`, `not_breakable`, `lora`, `prompt_embeds` or `pipeline_rank`; null where sizes are.
    pub off: Option<Name>,
    /// Steps whose FULL graph holds the replay layers.
    pub full_graph_steps: u64,
    /// Replay graphs run.
    pub batches: u64,
    /// Replay batches that run without a graph of their own.
    pub batches_without_graph: u64,
    /// Steps whose row leaves open how long the trimmed batch is; they are in none of the other counts.
    pub unsettled_steps: u64,
    /// Steps whose replay batch is trimmed to the window of each prefill.
    pub trimmed_steps: u64,
    /// Tokens that trimming leaves out of the replay layers, tokens.
    pub trimmed_tokens: u64,
    /// Tokens asked for in the replay graphs run, tokens.
    pub real_tokens: u64,
    /// Tokens that they run beyond those, tokens.
    pub padded_tokens: u64,
    /// Padded tokens / tokens run; null if no replay graph runs.
    pub waste_share: Option<f64>,
    /// One entry a captured size, ascending; those that never run included.
    pub sizes: Vec<ReplaySizeCounts>,
}

/// Runs of one replay graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplaySizeCounts {
    /// The size, tokens.
    pub size: u32,
    /// How often it runs.
    pub batches: u64,
    /// Tokens asked for in those runs, tokens.
    pub real_tokens: u64,
    /// Tokens run beyond those, tokens.
    pub padded_tokens: u64,
}

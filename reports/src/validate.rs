//! The result of `sim validate`: measured runs beside predicted ones.

use serde::{Deserialize, Serialize};

use crate::{EngineReport, Name};

/// Everything `sim validate` says, as one JSON document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ValidateReport {
    /// The runs, by name.
    pub runs: Vec<RunValidation>,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunValidation {
    /// Its name in the folder.
    pub run: String,
    /// The model that was served.
    pub model: String,
    /// The device that served it.
    pub device: String,
    /// The engine that ran.
    pub ran: String,
    /// The engine that was simulated; null where nothing was.
    pub simulated: Option<EngineReport>,
    /// Requests compared.
    pub requests: u64,
    /// By what tables of another card were carried over, in words; null where none were.
    pub carried_by: Option<String>,
    /// Whether step times come from the run itself: then only the queue is judged.
    pub is_fitted: bool,
    /// Why nothing, or not everything, is compared; null where everything is.
    pub reason: Option<String>,
    /// What was simulated otherwise than it ran, and what was not recorded: a sentence each.
    pub notes: Vec<String>,
    /// Where the price of each part of a step comes from.
    pub costs: Vec<CostSource>,
    /// Figures of the whole run.
    pub figures: Vec<FigureValidation>,
    /// Milliseconds per decode step, by ticks of one kind.
    pub step_times: Vec<StepTimeValidation>,
    /// Decode time per token, request by request; null where that is not compared.
    pub decode_errors: Option<DecodeErrors>,
    /// What the simulated server did that the measured one did not record; null where nothing was simulated.
    pub predicted: Option<PredictedEvents>,
}

/// Where the price of a part of a step comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostSource {
    /// The part, in words.
    pub part: String,
    /// Where its price comes from, in words.
    pub from: String,
}

/// One figure of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FigureValidation {
    /// Its name.
    pub figure: Name,
    /// Its unit.
    pub unit: Name,
    /// As measured.
    pub measured: f64,
    /// As predicted.
    pub predicted: f64,
    /// Predicted less measured: as a share of the measured, or in the figure's unit.
    pub difference: f64,
    /// Whether difference and target are shares.
    pub is_share: bool,
    /// The largest difference, either way, that meets the target; null where the figure is not judged.
    pub target: Option<f64>,
    /// Whether the target is met; null where the figure is not judged.
    pub met: Option<bool>,
}

/// Time of decode steps in ticks of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepTimeValidation {
    /// Which ticks, in words.
    pub ticks: String,
    /// How many of them were measured.
    pub measured_ticks: u32,
    /// How many of them were predicted.
    pub predicted_ticks: u32,
    /// Milliseconds per step as measured: the median of the ticks, ms; null without ticks.
    pub measured_ms: Option<f64>,
    /// Milliseconds per step as predicted, ms; null without ticks.
    pub predicted_ms: Option<f64>,
    /// Predicted / measured - 1; null unless there are both.
    pub difference: Option<f64>,
    /// What a decode step of a measured tick's own batch, its requests and KV blocks, is priced at: the median of the measured
    /// ticks, ms; null where the series does not tell the blocks.
    pub priced_ms: Option<f64>,
    /// Priced / measured - 1: the median of the measured ticks; null as before.
    pub priced_difference: Option<f64>,
}

/// Errors of the decode time per token of single requests: predicted / measured - 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecodeErrors {
    /// Requests with two tokens or more.
    pub requests: u64,
    /// Mean of the absolute errors, a share.
    pub mean_absolute: f64,
    /// Median of the absolute errors, a share.
    pub median_absolute: f64,
    /// The largest absolute error, a share.
    pub most_absolute: f64,
    /// Mean of the errors, a share.
    pub mean: f64,
    /// The largest mean of absolute errors that meets the target.
    pub target: f64,
    /// Whether it is met.
    pub met: bool,
}

/// What the simulated server did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PredictedEvents {
    /// Steps with tokens.
    pub steps: u64,
    /// Steps that computed prompts, or computed preempted requests again.
    pub mixed_steps: u64,
    /// Steps without a graph.
    pub eager_steps: u64,
    /// Preemptions.
    pub preemptions: u64,
    /// Prompt tokens that requests found in the prefix cache when they were first admitted, tokens.
    pub prompt_hit_tokens: u64,
    /// Tokens that preempted requests found there, tokens.
    pub preempted_hit_tokens: u64,
    /// Most requests running in any step.
    pub running_most: u64,
    /// The largest FULL graph that fired, tokens; null if none did.
    pub largest_full: Option<u32>,
    /// The largest PIECEWISE graph that fired, tokens; null if none did.
    pub largest_piecewise: Option<u32>,
    /// Steps priced outside the range of some table.
    pub outside_steps: u64,
}

impl RunValidation {
    /// The targets that the prediction misses, by the names of their figures.
    #[must_use]
    pub fn missed(&self) -> Vec<&str> {
        let figures =
            self.figures.iter().filter(|figure| figure.met == Some(false)).map(|figure| figure.figure.as_ref());
        let decode = self.decode_errors.filter(|errors| !errors.met).map(|_| "decode time of single requests");
        figures.chain(decode).collect()
    }

    /// How many targets the prediction is judged by.
    #[must_use]
    pub fn targets(&self) -> usize {
        self.figures.iter().filter(|figure| figure.met.is_some()).count() + usize::from(self.decode_errors.is_some())
    }
}

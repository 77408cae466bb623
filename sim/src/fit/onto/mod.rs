//! The engine half of a profile from an engine's own log; the machine half stays as it was measured.
//!
//! What can be told and what cannot. A step's time is `max(device, host)` under asynchronous scheduling, where the preparation
//! of a step hides behind the step before, and `preparation + max(device, launches)` without it; a forward pass that is waited
//! for takes `max(device, launches)`. So a host figure shows only in steps that take longer than the device does:
//!
//! | steps | asynchronous | synchronous |
//! |---|---|---|
//! | FULL, longer than the device | preparation | preparation |
//! | FULL, as long as the device | preparation at most | preparation, good to what the device's time is |
//! | without a graph, longer than the device | launches, less the preparation or its bound | launches |
//! | without a graph, as long as the device | launches at most | launches at most |
//!
//! Everything else is not identifiable: the figure keeps its planned value, cut down to the bound where that is lower, and
//! result and provenance say that it is an upper bound. A step counts as longer than the device only beyond what the profile's
//! device figures are trusted to, and kinds of steps decide, not single ones: a choice of single steps by their time would take
//! the noise for the host.
//!
//! Whatever a step takes longer than the profile's device is taken for the host's, so a log of another device, engine or model
//! would make a host of it: `agreement` refuses what cannot be.
//!
//! The time of an iteration line begins when the step is scheduled and ends with its output: what the scheduler and the
//! handling of outputs take is not in it. A bound therefore never lies below the device's own time.

pub mod agreement;
pub mod applied;
pub mod cells;
pub mod finding;
pub mod host;
pub mod log;
pub mod start;
pub mod steps;

use calibrate::profile::{Profile, ProfileError};

use crate::cost::{CostModel, EngineSide, Execution};
use crate::fit::measured_step::MeasuredStep;
use cells::{Logged, Outlier, halves};
use host::HostFindings;
use log::EngineLog;
use start::StartFindings;
use steps::Server;

/// A file and the steps in it.
#[derive(Clone, Debug)]
pub struct StepFile {
    /// The file, as it was named.
    pub file: String,
    /// SHA-256 of its bytes, lower-case hexadecimal.
    pub sha256: String,
    /// Its steps.
    pub steps: Vec<MeasuredStep>,
}

/// What is fitted.
#[derive(Clone, Copy, Debug)]
pub struct Onto<'a> {
    /// The profile.
    pub profile: &'a Profile,
    /// The server that wrote the log, where it is known.
    pub server: Option<&'a Server>,
    /// Whether it schedules the next step while one runs.
    pub asynchronous: bool,
}

/// Errors of predicted times of some steps, shares of the measured ones.
#[derive(Clone, Debug, PartialEq)]
pub struct StepErrors {
    /// How the steps ran; `None`: all of them.
    pub execution: Option<Execution>,
    /// Of the profile given.
    pub before: Vec<f64>,
    /// Of the profile fitted.
    pub after: Vec<f64>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Fitted<'a> {
    /// The profile with its new engine half.
    pub profile: Profile,
    /// What steps say of the host.
    pub host: HostFindings,
    /// What a start says.
    pub start: StartFindings,
    /// Of steps that no figure was fitted to.
    pub errors: Vec<StepErrors>,
    /// Steps far from the others of their kind.
    pub outliers: Vec<Outlier<'a>>,
}

/// Fits the engine half of a profile to logs.
///
/// # Errors
/// If what comes out is no profile, which the checks before should exclude.
pub fn fit<'a>(onto: &Onto<'_>, files: &'a [StepFile], logs: &[EngineLog]) -> Result<Fitted<'a>, ProfileError> {
    let logged: Vec<Logged<'a>> =
        files.iter().flat_map(|file| file.steps.iter().map(|step| Logged { file: &file.file, step })).collect();
    let before = onto.model(onto.profile, &logged);
    let halves = halves(&logged, &before);
    let mut host = host::findings(&halves.cells, onto.profile, before.pieces, onto.asynchronous);
    applied::keep_closed(&mut host, onto.profile);
    let start = start::findings(logs, onto.profile);
    let mut cited: Vec<String> = Vec::new();
    let of_files = files.iter().map(|file| (&file.file, &file.sha256));
    for (file, sha256) in of_files.chain(logs.iter().map(|log| (&log.file, &log.sha256))) {
        let words = format!("{file} (SHA-256 {sha256})");
        if !cited.contains(&words) {
            cited.push(words);
        }
    }
    let profile = applied::profile(onto.profile, &host, &start, &cited.join(", "))?;
    let after = onto.model(&profile, &logged);
    let errors = onto.errors(&halves.judges, [&before, &after]);
    Ok(Fitted { profile, host, start, errors, outliers: halves.outliers })
}

impl Onto<'_> {
    /// The costs of a profile for these steps.
    fn model(&self, profile: &Profile, logged: &[Logged<'_>]) -> CostModel {
        let side = self.server.map_or_else(
            || side_of(profile, &logged.iter().map(|logged| logged.step)),
            |server| EngineSide::of(&server.options, &server.plan, profile),
        );
        CostModel::new(profile, &side)
    }

    fn errors(&self, judges: &[Logged<'_>], models: [&CostModel; 2]) -> Vec<StepErrors> {
        let error = |step: &MeasuredStep, model: &CostModel| {
            (step.predicted_us(model, self.asynchronous) / step.us - 1.0).abs()
        };
        let of = |execution: Option<Execution>| {
            let judged = || {
                judges
                    .iter()
                    .map(|logged| logged.step)
                    .filter(|step| execution.is_none_or(|kind| step.execution == kind))
            };
            let [before, after] = models.map(|model| judged().map(|step| error(step, model)).collect::<Vec<f64>>());
            StepErrors { execution, before, after }
        };
        let kinds = [Execution::Full, Execution::Piecewise, Execution::CompiledEager, Execution::Eager];
        let kinds: Vec<StepErrors> =
            kinds.map(|kind| of(Some(kind))).into_iter().filter(|kind| !kind.before.is_empty()).collect();
        if judges.is_empty() { Vec::new() } else { [of(None)].into_iter().chain(kinds).collect() }
    }
}

/// The engine side of a server of which only steps are known.
pub(in crate::fit) fn side_of<'a>(
    profile: &Profile,
    steps: &(impl IntoIterator<Item = &'a MeasuredStep> + Clone),
) -> EngineSide {
    let attention_layers = profile.identity.model.attention_layers();
    let most = |of: fn(&MeasuredStep) -> u32| steps.clone().into_iter().map(of).max().unwrap_or(1);
    // In vLLM attention between the pieces is launched by the compiled model.
    let mut executions = steps.clone().into_iter().map(|step| step.execution);
    let is_compiled = executions.any(|execution| matches!(execution, Execution::CompiledEager | Execution::Piecewise));
    EngineSide {
        eager: if is_compiled { Execution::CompiledEager } else { Execution::Eager },
        attention_layers,
        pieces: attention_layers + 1,
        rows_max: most(|step| step.rows),
        head_rows_max: most(|step| step.work.requests + step.work.drafts),
        drafting: Vec::new(),
    }
}

#[cfg(test)]
mod tests;

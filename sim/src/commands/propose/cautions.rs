//! What to know before trusting a proposal: the warnings of `sim run` and `sim price`, for the server in force and the proposal.

use reports::{LadderChoice, Warning};

use super::super::inputs::Inputs;
use crate::engine::options::EngineOptions;
use crate::propose::error::ProposeError;
use crate::propose::trials::Trials;
use crate::server::Setup;
use crate::traffic::TrafficKind;
use crate::warnings::{self, FinishedRun};

/// What the traffic gives reason to say before anything runs.
pub(super) fn about_steps(inputs: &Inputs) -> Vec<Warning> {
    let TrafficKind::Steps(histogram) = &inputs.scenario.traffic.kind else { return Vec::new() };
    let limits = inputs.scenario.candidates[0].options.limits();
    let impossible = histogram.impossible_step(&limits).map(|problem| Warning::general("impossible_step", problem));
    impossible.into_iter().chain(warnings::attention_left_out(&inputs.profile)).collect()
}

/// What one run of each server shows, and how many requests were offered.
///
/// # Errors
/// What a run can fail with.
pub(super) fn after_runs(
    trials: &Trials<'_>,
    inputs: &Inputs,
    servers: &[(&str, &EngineOptions)],
    seed: u64,
) -> Result<(Vec<Warning>, Option<u64>), ProposeError> {
    let (mut all, mut offered) = (Vec::new(), None);
    for (name, options) in servers {
        let setup = Setup::prepare(options, trials.profile)?;
        let (summary, end) = trials.observe(&setup, seed)?;
        let run = FinishedRun { name, scenario: &inputs.scenario, setup: &setup, summary: &summary, end: &end };
        all.extend(warnings::after_run(&run));
        offered = Some(u64::from(end.requests_offered));
    }
    Ok((all, offered))
}

/// Steps that are priced beyond what the profile knows.
pub(super) fn outside(choice: &LadderChoice) -> Option<Warning> {
    let (outside, steps) = (choice.figures.steps_outside_range.mean()?, choice.figures.steps.mean()?);
    (outside > 0.0).then(|| {
        let message = format!(
            "{:.1} % of the steps are priced outside the range of the profile: such prices are extrapolated",
            100.0 * outside / steps
        );
        Warning::about(&choice.figures.name, "outside_range", message)
    })
}

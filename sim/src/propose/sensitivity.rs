//! How far the load, or what a row or a launch costs, may move before the answer changes.

use calibrate::profile::Profile;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use reports::{Sensitivity, SensitivityPoint};

use super::error::ProposeError;
use super::ladders::Ladders;
use super::landscape::Landscape;
use super::limits::Limits;
use super::objective::Objective;
use super::trials::Trials;
use super::verdict::Outcome;
use crate::engine::options::EngineOptions;
use crate::server::Setup;
use crate::traffic::Traffic;

/// Factors tried on either side of what was given.
const FACTORS: [f64; 5] = [0.5, 0.75, 1.15, 1.4, 2.0];
/// An answer stands as long as the best ladders of its size would save less than this share of the steps' time.
pub const REGRET_MAX: f64 = 0.01;

/// What moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moved {
    Rate,
    Lengths,
    PaddingCost,
    LaunchCost,
}

/// The rate of requests, as reports name it.
pub const RATE: &str = "rate";
/// The host time of launches, as reports name it.
pub const LAUNCH_COST: &str = "launch_cost";

impl Moved {
    const ALL: [Self; 4] = [Self::Rate, Self::Lengths, Self::PaddingCost, Self::LaunchCost];

    const fn name(self) -> &'static str {
        match self {
            Self::Rate => RATE,
            Self::Lengths => "lengths",
            Self::PaddingCost => "padding_cost",
            Self::LaunchCost => LAUNCH_COST,
        }
    }

    /// Traffic and profile with a factor on this; `None` where it cannot be moved.
    fn by(self, factor: f64, traffic: &Traffic, profile: &Profile) -> Option<(Traffic, Profile)> {
        let mut profile = profile.clone();
        let traffic = match self {
            Self::Rate => traffic.at_rate(factor)?,
            Self::Lengths => traffic.at_lengths(factor)?,
            Self::PaddingCost => {
                let dense = &mut profile.machine.dense.figures;
                *dense = dense.with_slope(factor);
                traffic.clone()
            }
            Self::LaunchCost => {
                profile.machine.launch.figures.launch_us *= factor;
                let dispatch = &mut profile.engine.dispatch.figures;
                dispatch.eager_us *= factor;
                dispatch.compiled_us *= factor;
                traffic.clone()
            }
        };
        Some((traffic, profile))
    }
}

/// An answer: what is proposed instead of what.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// The flags in force.
    pub current: &'a EngineOptions,
    /// What the proposal is laid over.
    pub base: &'a EngineOptions,
    /// The proposal.
    pub proposal: &'a Ladders,
    /// What it was chosen by.
    pub objective: Objective,
    /// What it had to keep within.
    pub limits: &'a Limits,
}

/// Moves each thing and says where the answer stands. What cannot be moved (the lengths of a trace) is left out, and what
/// the search was ended before.
///
/// # Errors
/// What a run can fail with.
pub fn sensitivity(trials: &Trials<'_>, answer: &Answer<'_>, seeds: &[u64]) -> Result<Vec<Sensitivity>, ProposeError> {
    let here = Outcome::of_trials(trials, answer, seeds)?;
    let points: Vec<(Moved, f64)> =
        Moved::ALL.into_iter().flat_map(|moved| FACTORS.map(|factor| (moved, factor))).collect();
    let points: Vec<Option<(Moved, SensitivityPoint)>> = points
        .into_par_iter()
        .map(|(moved, factor)| {
            let Some((traffic, profile)) = moved.by(factor, trials.traffic, trials.profile) else { return Ok(None) };
            let there = Trials::new(&traffic, trials.slo, trials.warm_up, &profile, trials.stop);
            Ok(point(&there, answer, factor, seeds)?.map(|point| (moved, point)))
        })
        .collect::<Result<_, ProposeError>>()?;
    let of = |moved: Moved| {
        let points: Vec<SensitivityPoint> =
            points.iter().flatten().filter(|(of, _)| *of == moved).map(|(_, point)| point.clone()).collect();
        (!points.is_empty()).then(|| {
            let stands = |point: &&SensitivityPoint| stands(here, point);
            let below = points.iter().rev().filter(|point| point.factor < 1.0).take_while(stands).last();
            let above = points.iter().filter(|point| point.factor > 1.0).take_while(stands).last();
            let holds = [below, above].map(|point| point.map_or(1.0, |point| point.factor));
            Sensitivity { what: moved.name().into(), points, holds }
        })
    };
    Ok(Moved::ALL.into_iter().filter_map(of).collect())
}

/// Whether the answer is as right there as it is here.
fn stands(here: Option<Outcome>, point: &SensitivityPoint) -> bool {
    let as_good = match here {
        Some(Outcome::Better(..)) => point.verdict == "better",
        _ => point.verdict != "worse",
    };
    as_good && point.regret <= REGRET_MAX
}

impl Outcome {
    fn of_trials(trials: &Trials<'_>, answer: &Answer<'_>, seeds: &[u64]) -> Result<Option<Self>, ProposeError> {
        let proposal = trials.run(&answer.proposal.applied(answer.base), "proposal", seeds)?;
        let current = trials.run(answer.current, "current", seeds)?;
        Ok(current.zip(proposal).map(|(current, proposal)| Self::of(answer.objective, &current.runs, &proposal.runs)))
    }
}

fn point(
    trials: &Trials<'_>,
    answer: &Answer<'_>,
    factor: f64,
    seeds: &[u64],
) -> Result<Option<SensitivityPoint>, ProposeError> {
    let Some(outcome) = Outcome::of_trials(trials, answer, seeds)? else { return Ok(None) };
    let proposed = answer.proposal.applied(answer.base);
    let Some(histogram) = trials.shapes(&proposed, &seeds[..1])? else { return Ok(None) };
    let landscape = Landscape::survey(answer.base, trials.profile, answer.proposal, None)?;
    let loads = landscape.loads(&histogram)?;
    let setup = Setup::prepare(&proposed, trials.profile)?;
    let rungs = answer.proposal.len();
    let best = loads.best(answer.proposal, &answer.limits.of_graphs(&setup), rungs)?;
    let least_ns = best.into_iter().flatten().map(|best| best.cost_ns).min();
    let regret = match (loads.cost_ns(answer.proposal), least_ns) {
        (Some(ours_ns), Some(least_ns)) if least_ns > 0 => (ours_ns as f64 / least_ns as f64 - 1.0).max(0.0),
        _ => 0.0,
    };
    Ok(Some(SensitivityPoint { factor, verdict: outcome.name().into(), regret }))
}

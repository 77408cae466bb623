//! Candidates on the same traffic, put together: every candidate with every seed, in one report.

use std::fmt::Write as _;

use reports::{CandidateReport, HistoryReport, PairReport, RunReport, Warning};

use super::super::failure::Failure;
use super::super::inputs::Inputs;
use super::super::watch::Clock;
use super::job::JobResult;
use super::jobs::Jobs;
use super::recording::Recording;
use crate::metrics::History;
use crate::scenario::Scenario;
use crate::server::Setup;
use crate::warnings::FinishedRun;
use crate::{record, warnings};

/// Up to this many candidates every pair is compared; their number grows with the square.
const ALL_PAIRS_MAX: usize = 16;

/// Every candidate with every seed, run.
#[derive(Debug)]
pub(in crate::commands) struct Comparison<'a> {
    pub(super) inputs: &'a Inputs,
    pub(super) seeds: &'a [u64],
    /// What each run came to: candidate by candidate, seeds in order.
    pub(super) results: Vec<JobResult>,
    /// The report of each of them, by candidate and seed.
    pub(in crate::commands) by_candidate: Vec<Vec<CandidateReport>>,
    /// What the runs showed.
    pub(in crate::commands) warnings: Vec<Warning>,
}

impl<'a> Comparison<'a> {
    /// Runs every candidate with every seed, in parallel.
    ///
    /// # Errors
    /// The failure of the first run, in order, that fails.
    pub(in crate::commands) fn run(
        inputs: &'a Inputs,
        setups: &[Setup],
        seeds: &'a [u64],
        recording: Recording<'_>,
    ) -> Result<Self, Failure> {
        let results = Jobs { inputs, setups, recording }.run(seeds)?;
        Ok(Self::of(inputs, setups, seeds, results))
    }

    /// The same with the first seed in a view.
    ///
    /// # Errors
    /// As [`Comparison::run`]; if there is no terminal; if the user closes the view before the run has ended.
    pub(super) fn run_watched(
        inputs: &'a Inputs,
        setups: &[Setup],
        seeds: &'a [u64],
        recording: Recording<'_>,
        clock: Clock,
    ) -> Result<Self, Failure> {
        let results = Jobs { inputs, setups, recording }.run_watched(seeds, clock)?;
        Ok(Self::of(inputs, setups, seeds, results))
    }

    fn of(inputs: &'a Inputs, setups: &[Setup], seeds: &'a [u64], results: Vec<JobResult>) -> Self {
        let by_candidate = results
            .chunk_by(|one, next| one.job.candidate == next.job.candidate)
            .map(|runs| {
                let candidate = runs[0].job.candidate;
                let name = &inputs.scenario.candidates[candidate].name;
                runs.iter().map(|run| record::candidate(name, &setups[candidate], &run.summary)).collect()
            })
            .collect();
        let warnings = warnings_after(inputs, setups, &results);
        Self { inputs, seeds, results, by_candidate, warnings }
    }

    /// The report of every candidate and seed, in order.
    pub(super) fn by_seed(&self) -> impl Iterator<Item = (u64, &CandidateReport)> {
        self.by_candidate.iter().flat_map(|runs| self.seeds.iter().copied().zip(runs))
    }

    /// What charts draw, for every candidate; `None` where it was not collected.
    #[must_use]
    pub(super) fn history(&self) -> Option<HistoryReport> {
        let of_candidate = |runs: &[JobResult]| {
            let histories: Option<Vec<&History>> = runs.iter().map(|run| run.history.as_ref()).collect();
            let name = &self.inputs.scenario.candidates[runs[0].job.candidate].name;
            Some(record::history(name, self.seeds, &histories?))
        };
        let candidates = self.results.chunk_by(|one, next| one.job.candidate == next.job.candidate).map(of_candidate);
        Some(HistoryReport { candidates: candidates.collect::<Option<_>>()? })
    }

    /// All of it as one report. `before` are the warnings that needed no run.
    #[must_use]
    pub(in crate::commands) fn report(&self, before: Vec<Warning>) -> RunReport {
        let (scenario, profile) = (&self.inputs.scenario, &self.inputs.profile);
        let several = self.seeds.len() > 1;
        RunReport {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command: Vec::new(),
            scenario: record::scenario(scenario, Some(u64::from(self.results[0].end.requests_offered))),
            seed: self.seeds[0],
            seeds: several.then(|| self.seeds.to_vec()),
            engine: record::engine(&scenario.server),
            profile: record::profile(profile, &self.inputs.profile_name, &scenario.server),
            warnings: before.into_iter().chain(self.warnings.iter().cloned()).collect(),
            candidates: self
                .by_candidate
                .iter()
                .map(|runs| CandidateReport::over_seeds(runs).expect("runs of one candidate, at least one"))
                .collect(),
            pairs: several.then(|| pairs(&self.by_candidate)),
        }
    }
}

/// Runs that cannot differ would be counted as evidence, and every difference called significant.
///
/// # Errors
/// Several seeds over traffic that draws nothing.
pub(in crate::commands) fn check_seeds(seeds: u32, scenario: &Scenario) -> Result<(), Failure> {
    if seeds == 1 || scenario.traffic.draws() {
        return Ok(());
    }
    Err(Failure::Usage {
        message: format!("--seeds {seeds}: the traffic draws nothing at random, so every seed gives the same run"),
        help: Some("leave --seeds out".to_owned()),
    })
}

/// The seeds of `count` runs.
#[must_use]
pub(in crate::commands) fn seeds(first: u64, count: u32) -> Vec<u64> {
    (0..u64::from(count)).map(|i| first.wrapping_add(i)).collect()
}

fn warnings_after(inputs: &Inputs, setups: &[Setup], results: &[JobResult]) -> Vec<Warning> {
    let several_seeds = results.len() > setups.len();
    // Every run of a trace has the same number of requests.
    let mut all: Vec<Warning> =
        warnings::fewer_requests(&inputs.scenario.traffic, &results[0].end).into_iter().collect();
    for result in results {
        let candidate = result.job.candidate;
        let run = FinishedRun {
            name: &inputs.scenario.candidates[candidate].name,
            scenario: &inputs.scenario,
            setup: &setups[candidate],
            summary: &result.summary,
            end: &result.end,
        };
        for mut warning in warnings::after_run(&run) {
            if several_seeds {
                let _ = write!(warning.message, " (seed {})", result.job.seed);
            }
            let known = |seen: &Warning| seen.code == warning.code && seen.candidate == warning.candidate;
            if !all.iter().any(known) {
                all.push(warning);
            }
        }
    }
    all
}

/// Paired differences: every pair of a few candidates, the first against each of many.
fn pairs(by_candidate: &[Vec<CandidateReport>]) -> Vec<PairReport> {
    let baselines = if by_candidate.len() <= ALL_PAIRS_MAX { by_candidate.len() } else { 1 };
    let against_later = |baseline: usize| {
        by_candidate[baseline + 1..].iter().map(move |later| PairReport::between(&by_candidate[baseline], later))
    };
    (0..baselines).flat_map(against_later).collect()
}

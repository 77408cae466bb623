//! `sim run`: candidates on the same traffic, side by side.

mod jobs;
mod logs;
mod output;
mod spool;

use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use reports::{CandidateReport, PairReport, RunReport, Warning};

use self::jobs::{JobResult, Jobs};
use self::output::OutputFolder;
use super::failure::Failure;
use super::format::Format;
use super::inputs::Inputs;
use crate::limits::{REQUESTS_MAX, SPAN_S_MAX};
use crate::scenario::{Scenario, WarmUp};
use crate::server::Setup;
use crate::traffic::TrafficKind;
use crate::warnings::FinishedRun;
use crate::{record, warnings};

/// Up to this many candidates every pair is compared; their number grows with the square.
const ALL_PAIRS_MAX: usize = 16;

/// Compare candidate ladders on a scenario's traffic.
///
/// Pushes the same requests through the engine's scheduler and dispatcher once for each candidate, prices every step
/// with the cost profile, and prints the figures side by side. The same seed gives the same bytes on standard output,
/// whatever the number of threads; warnings go to standard error.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sim run scenarios/chunked.toml
      All candidates of the scenario, side by side.
  sim run scenarios/chunked.toml --candidate \"engine default\" --candidate textbook --seeds 5
      Two of them on five seeds: means with intervals, and whether they differ at all.
  sim run scenarios/chunked.toml --profile my-gpu.toml --requests 1000 --format json
      A short run priced with your own profile, for a program to read.
  sim run scenarios/chunked.toml --out results --steps
      Also keeps every request and every step.")]
pub(super) struct Arguments {
    /// The scenario file.
    scenario: PathBuf,
    /// Seed of the traffic [default: the scenario's].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    seed: Option<u64>,
    /// Run K seeds (the seed, the seed + 1, ...): figures become means with 95 % intervals, candidates are compared in
    /// pairs on the same traffic.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    seeds: u32,
    /// Price with this profile instead: a built-in name (`calibrate list`) or a file.
    #[arg(long, value_name = "FILE|NAME")]
    profile: Option<String>,
    /// Offer this many requests [default: the scenario's number]; a trace may end before.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=REQUESTS_MAX))]
    requests: Option<u64>,
    /// Run only this candidate; may be given several times.
    #[arg(long = "candidate", value_name = "NAME")]
    candidates: Vec<String>,
    /// Also write run.json and requests.csv into this folder, made if missing; older ones are replaced.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// With --out: also write steps.jsonl, one line a step.
    #[arg(long, requires = "out")]
    steps: bool,
    /// How the answer is written.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn execute(arguments: &Arguments, out: &mut impl Write) -> Result<(), Failure> {
    let inputs = load(arguments)?;
    let setups = inputs.prepare_all()?;
    let folder = arguments.out.as_deref().map(|path| OutputFolder::open(path, arguments.steps)).transpose()?;
    let seeds = seeds(inputs.scenario.traffic.seed, arguments.seeds);
    let before = warnings::before_run(&inputs.scenario, &inputs.profile, &setups);
    super::warn(&before);
    super::warn(folder.as_ref().and_then(OutputFolder::stale_steps).as_slice());

    let jobs = Jobs { inputs: &inputs, setups: &setups, logs: folder.as_ref().map(OutputFolder::logs) };
    let results = jobs.run(&seeds)?;
    let after = warnings_after(&inputs, &setups, &results);
    super::warn(&after);

    let report = report(&inputs, &setups, &seeds, &results, [before, after].concat());
    if let Some(folder) = folder {
        folder.write(&report, &results)?;
    }
    match arguments.format {
        Format::Text => reports::text::run(&report, out),
        Format::Json => reports::json::write(&report, out),
        Format::Csv => reports::rows::run(&report, out),
    }
    .map_err(Failure::Stdout)
}

/// The inputs with what the command line says laid over them.
fn load(arguments: &Arguments) -> Result<Inputs, Failure> {
    let mut inputs = Inputs::load(&arguments.scenario, arguments.profile.as_deref())?;
    inputs.scenario.simulable()?;
    inputs.select(&arguments.candidates)?;
    if let Some(requests) = arguments.requests {
        check_requests(requests, &inputs.scenario)?;
        inputs.scenario.traffic.requests = Some(requests);
    }
    check_seeds(arguments.seeds, &inputs.scenario)?;
    let traffic = &mut inputs.scenario.traffic;
    traffic.seed = arguments.seed.unwrap_or(traffic.seed);
    Ok(inputs)
}

/// What a scenario checks of its own number of requests, for the number of the command line.
fn check_requests(requests: u64, scenario: &Scenario) -> Result<(), Failure> {
    let refuse = |message: String, help: &str| Err(Failure::Usage { message, help: Some(help.to_owned()) });
    if let WarmUp::Requests(left_out) = scenario.warm_up
        && left_out >= requests
    {
        let message = format!("--requests {requests}: leaving out the first {left_out} leaves nothing to measure");
        return refuse(message, "raise it, or lower warm_up.requests in the scenario");
    }
    if let TrafficKind::Synthetic { arrivals, .. } = &scenario.traffic.kind
        && let Some(rate) = arrivals.mean_rate()
        && requests as f64 / rate > SPAN_S_MAX as f64
    {
        let message = format!("--requests {requests}: at {rate} a second they take more than {SPAN_S_MAX} seconds");
        return refuse(message, "lower it, or raise the rate in the scenario");
    }
    Ok(())
}

/// Runs that cannot differ would be counted as evidence, and every difference called significant.
fn check_seeds(seeds: u32, scenario: &Scenario) -> Result<(), Failure> {
    if seeds == 1 || scenario.traffic.draws() {
        return Ok(());
    }
    Err(Failure::Usage {
        message: format!("--seeds {seeds}: the traffic draws nothing at random, so every seed gives the same run"),
        help: Some("leave --seeds out".to_owned()),
    })
}

fn seeds(first: u64, count: u32) -> Vec<u64> {
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

fn report(
    inputs: &Inputs,
    setups: &[Setup],
    seeds: &[u64],
    results: &[JobResult],
    warnings: Vec<Warning>,
) -> RunReport {
    let first = &results[0];
    let by_candidate: Vec<Vec<CandidateReport>> = results
        .chunk_by(|one, next| one.job.candidate == next.job.candidate)
        .map(|runs| {
            let candidate = runs[0].job.candidate;
            let name = &inputs.scenario.candidates[candidate].name;
            runs.iter().map(|run| record::candidate(name, &setups[candidate], &run.summary)).collect()
        })
        .collect();
    RunReport {
        scenario: record::scenario(&inputs.scenario, Some(u64::from(first.end.requests_offered))),
        seed: seeds[0],
        seeds: (seeds.len() > 1).then(|| seeds.to_vec()),
        engine: record::engine(&inputs.scenario.server),
        profile: record::profile(&inputs.profile, &inputs.profile_name, &inputs.scenario.server),
        warnings,
        candidates: by_candidate
            .iter()
            .map(|runs| CandidateReport::over_seeds(runs).expect("runs of one candidate, at least one"))
            .collect(),
        pairs: (seeds.len() > 1).then(|| pairs(&by_candidate)),
    }
}

/// Paired differences: every pair of a few candidates, the first against each of many.
fn pairs(by_candidate: &[Vec<CandidateReport>]) -> Vec<PairReport> {
    let baselines = if by_candidate.len() <= ALL_PAIRS_MAX { by_candidate.len() } else { 1 };
    let against_later = |baseline: usize| {
        by_candidate[baseline + 1..].iter().map(move |later| PairReport::between(&by_candidate[baseline], later))
    };
    (0..baselines).flat_map(against_later).collect()
}

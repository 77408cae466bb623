//! `sim run`: candidates on the same traffic, side by side.

pub(super) mod comparison;
mod job;
mod jobs;
mod logs;
pub(super) mod output;
pub(super) mod recording;
mod spool;
mod trace;
mod watched;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use reports::RunReport;

use self::comparison::{Comparison, check_seeds, seeds};
use self::output::OutputFolder;
use self::recording::Recording;
use self::trace::Trace;
use super::failure::Failure;
use super::format::Format;
use super::inputs::Inputs;
use super::watch::Clock;
use crate::limits::{REQUESTS_MAX, SPAN_S_MAX};
use crate::scenario::{Scenario, WarmUp};
use crate::traffic::TrafficKind;
use crate::warnings;

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
      Also keeps every request and every step.
  sim run scenarios/chunked.toml --watch
      Shows which rungs fire meanwhile.")]
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
    /// Also write run.json, figures.csv, requests.csv, history.json and profile.toml into this folder, made if missing;
    /// older ones are replaced.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// With --out: also write steps.jsonl, one line a step.
    #[arg(long, requires = "out")]
    steps: bool,
    /// With --out: also write the tables as Parquet: requests, rungs and figures, with --steps the steps. Needs a build with
    /// the feature `frames`.
    #[arg(long, requires = "out")]
    parquet: bool,
    /// Also write start-up, captures, steps and queue as a trace, for Perfetto or Chrome's tracing page.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Show which rungs fire while the first seed runs, drawn on the terminal itself; the report follows when the view is
    /// left at the end. Leaving it earlier ends the run without a report. `?` shows the keys.
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    clock: Clock,
    /// How the answer is written.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

impl Arguments {
    /// The command that gives the same report, without what says where and how it is written.
    fn reproduced(&self, seeds: &[u64]) -> Vec<String> {
        let mut words = ["sim", "run"].map(str::to_owned).to_vec();
        let scenario = self.scenario.display().to_string();
        // A path that begins like an option would be taken for one.
        words.push(if scenario.starts_with('-') { format!("./{scenario}") } else { scenario });
        words.extend(["--seed".to_owned(), seeds[0].to_string()]);
        let mut option = |name: &str, value: Option<String>| match value {
            Some(value) if value.starts_with('-') => words.push(format!("{name}={value}")),
            Some(value) => words.extend([name.to_owned(), value]),
            None => {}
        };
        option("--seeds", (self.seeds > 1).then(|| self.seeds.to_string()));
        option("--profile", self.profile.clone());
        option("--requests", self.requests.map(|requests| requests.to_string()));
        self.candidates.iter().for_each(|name| option("--candidate", Some(name.clone())));
        words
    }
}

pub(super) fn execute(arguments: &Arguments, out: &mut impl Write) -> Result<(), Failure> {
    arguments.clock.check(arguments.watch)?;
    let parquet = super::parquet::check(arguments.parquet)?;
    let inputs = load(arguments)?;
    let setups = inputs.prepare_all()?;
    let results = arguments.out.as_deref().into_iter().flat_map(output::results);
    inputs.check_results(results.chain(arguments.trace.clone()))?;
    if !arguments.watch {
        super::unfinished::removed_on_signals();
    }
    let folder = arguments.out.as_deref().map(|path| OutputFolder::open(path, arguments.steps, parquet)).transpose()?;
    let trace = arguments.trace.as_deref().map(|path| Trace::open(path, &inputs, &setups)).transpose()?;
    let seeds = seeds(inputs.scenario.traffic.seed, arguments.seeds);
    let before = warnings::before_run(&inputs.scenario, &inputs.profile, &setups);
    super::warn(&before);
    super::warn(&folder.as_ref().map(OutputFolder::stale).unwrap_or_default());

    let recording = Recording { logs: folder.as_ref().map(OutputFolder::logs), trace: trace.as_ref() };
    let compared = if arguments.watch {
        Comparison::run_watched(&inputs, &setups, &seeds, recording, arguments.clock)?
    } else {
        Comparison::run(&inputs, &setups, &seeds, recording)?
    };
    super::warn(&compared.warnings);

    let report = RunReport { command: arguments.reproduced(&seeds), ..compared.report(before) };
    if let Some(folder) = folder {
        folder.write(&report, &compared)?;
    }
    if let Some(trace) = trace {
        trace.write(&inputs, report.command.clone(), &compared.results)?;
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

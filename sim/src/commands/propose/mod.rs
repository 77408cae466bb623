//! `sim propose`: the best bucket set under a memory budget.

mod cautions;
mod ended;
mod paste;
mod question;
mod variants;
mod verification;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use calibrate::profile::Profile;
use calibrate::stderr::printable;
use clap::Args;
use reports::{CandidateReport, ProposeReport, SearchReport, Warning};

use self::ended::on_signal;
use self::paste::flags;
use self::variants::variants;
use self::verification::Verification;
use super::failure::Failure;
use super::format::Format;
use super::inputs::Inputs;
use super::run::comparison::seeds;
use crate::cost::memory::StaticShare;
use crate::engine::options::EngineOptions;
use crate::flags::Target;
use crate::propose::answer::{Answer, Findings, answer};
use crate::propose::error::ProposeError;
use crate::propose::objective::{Objective, best_of};
use crate::propose::search::{Found, search};
use crate::propose::stop::Stop;
use crate::propose::trials::Trials;
use crate::scenario::Candidate;
use crate::traffic::TrafficKind;
use crate::{record, warnings};

/// The best of the best are chosen on so many times the seeds of the search.
const FINAL_SEEDS: u32 = 3;

/// Find the best capture sizes under a budget.
///
/// Simulates the ladder in force, takes the steps it runs, finds the best ladders for those exactly, simulates them on the
/// same traffic, and goes on until the steps stand still and no single rung more, less or elsewhere helps. What comes out is
/// checked on traffic of other seeds: the figures are from there.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sim propose scenarios/chunked.toml
      Better capture sizes than those in force (the first candidate), with reasons and flags.
  sim propose scenarios/chunked.toml --graph-memory 1GiB --startup 60s --max-descriptors 40
      The best ones within a budget.
  sim propose scenarios/chunked.toml --candidate textbook --objective p99_tpot --format json
      Instead of another candidate, for the tail of TPOT, for a program to read.

Ctrl-C ends the search and prints the best so far; a second one ends at once.")]
pub(super) struct Arguments {
    /// The scenario file.
    scenario: PathBuf,
    /// The candidate that is in force [default: the first].
    #[arg(long, value_name = "NAME")]
    candidate: Option<String>,
    /// Most device memory of all graphs [default: the scenario's budget].
    #[arg(long, value_name = "SIZE", value_parser = crate::scenario::size::parse_size)]
    graph_memory: Option<kernels::units::Bytes>,
    /// Longest start-up, from loaded weights to the first request [default: the scenario's budget].
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    startup: Option<std::time::Duration>,
    /// Most descriptors.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_descriptors: Option<u32>,
    /// What is best: goodput, p99_tpot or device_time. What they cannot tell apart is decided by the others.
    #[arg(long, value_name = "WHAT", default_value_t)]
    objective: Objective,
    /// Write the flags for this version too: vllm-0.31.0, vllm-0.33.0, vllm-main, sglang-0.5.23, tensorrt-llm, or the
    /// version alone; may be given several times [default: the scenario's].
    #[arg(long = "engine-version", value_name = "VERSION")]
    engine_versions: Vec<Target>,
    /// Write what it takes to confirm the advice on the real machine into this folder: commands, parameter files, the same
    /// requests, and a table of the predicted figures with a column to fill beside each.
    #[arg(long, value_name = "DIR")]
    kit: Option<PathBuf>,
    /// Propose only what differs from the ladder in force in one rung, added, dropped or shifted, and takes no more memory.
    #[arg(long)]
    one_change: bool,
    /// Let this setting of the server vary too, and look for ladders at each value; may be given several times. Keys and
    /// values are written as for `sim sweep --vary`.
    #[arg(long, value_name = "KEY=V1,V2,...")]
    also: Vec<String>,
    /// Take the steps of this file instead of the scenario's traffic, priced, not simulated: rows of tokens, requests,
    /// query_len and count.
    #[arg(long, value_name = "CSV")]
    from: Option<PathBuf>,
    /// Price with this profile instead: a built-in name (`calibrate list`) or a file.
    #[arg(long, value_name = "FILE|NAME")]
    profile: Option<String>,
    /// First seed of the traffic that ladders are chosen on [default: the scenario's].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    seed: Option<u64>,
    /// Search on K seeds (the seed, the seed + 1, ...), and choose among the best on three times as many.
    #[arg(long, value_name = "K", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    seeds: u32,
    /// Check on K other seeds.
    #[arg(long, value_name = "K", default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=1_000))]
    check_seeds: u32,
    /// How the answer is written.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn execute(arguments: &Arguments, out: &mut impl Write) -> Result<(), Failure> {
    let mut inputs = Inputs::load(&arguments.scenario, arguments.profile.as_deref())?;
    if let Some(path) = &arguments.from {
        inputs.scenario.traffic.kind = TrafficKind::Steps(question::histogram(path)?);
        inputs.scenario.traffic.caution = None;
        inputs.scenario.name = format!("Steps of {}", printable(&path.display().to_string()));
    } else if !matches!(inputs.scenario.traffic.kind, TrafficKind::Steps(_)) {
        inputs.scenario.simulable()?;
    }
    inputs.select(arguments.candidate.as_slice())?;
    inputs.scenario.candidates.truncate(1);
    let setups = inputs.prepare_all()?;
    let mut before = warnings::before_run(&inputs.scenario, &inputs.profile, &setups);
    // What a scenario says of its own traffic is not said of other steps.
    before.extend(cautions::about_steps(&inputs));
    super::warn(&before);
    let stop = on_signal();
    let report = propose(arguments, &inputs, before, &stop)?;
    match arguments.format {
        Format::Text => reports::text::propose(&report, out),
        Format::Json => reports::json::write(&report, out),
        Format::Csv => reports::rows::propose(&report, out),
    }
    .map_err(Failure::Stdout)?;
    if report.search.interrupted { Err(Failure::Interrupted("the answer is the best so far")) } else { Ok(()) }
}

/// Searches, checks and explains.
fn propose(
    arguments: &Arguments,
    inputs: &Inputs,
    mut warnings: Vec<Warning>,
    stop: &Stop,
) -> Result<ProposeReport, Failure> {
    let (scenario, profile) = (&inputs.scenario, &inputs.profile);
    let current: &Candidate = &scenario.candidates[0];
    let traffic = &scenario.traffic;
    let draws = traffic.draws();
    let first = arguments.seed.unwrap_or(traffic.seed);
    let (search_seeds, final_seeds, check_seeds) = if draws {
        let finals = arguments.seeds.saturating_mul(FINAL_SEEDS);
        let check = seeds(first.wrapping_add(u64::from(finals)), arguments.check_seeds);
        (seeds(first, arguments.seeds), seeds(first, finals), check)
    } else {
        (vec![first], vec![first], vec![first])
    };
    let variants = variants(arguments, inputs)?;
    // A target of another engine shows before any long work.
    flags(&current.options, &[], &arguments.engine_versions, kv_tokens_before_graphs(&current.options, profile))?;
    let asked = question::Asked::of(arguments, inputs);
    let open =
        |folder: &PathBuf| Verification::open(folder, scenario, &current.options, profile, &arguments.engine_versions);
    let verification = arguments.kit.as_ref().map(open).transpose()?;
    let trials = Trials::new(traffic, scenario.slo, scenario.warm_up, profile, stop);
    let is_terminal = std::io::stderr().is_terminal();
    let note = |what: &str| {
        let _ = if is_terminal {
            write!(std::io::stderr(), "\r{:<79}\rpropose: {what}", "")
        } else {
            writeln!(std::io::stderr(), "propose: {what}")
        };
    };
    let failed = |error: ProposeError| inputs.no_proposal(current, error);
    let mut searches: Vec<Searched> = Vec::with_capacity(variants.len());
    for variant in variants {
        if stop.is_asked() && !searches.is_empty() {
            break;
        }
        let base = question::with_graphs(&variant.options);
        let found = search(&trials, &asked.question(current, &base, &search_seeds, &final_seeds), &note);
        match found {
            Ok(found) => searches.push(Searched { settings: variant.settings, base, found }),
            // A variant that the engine refuses is no answer, but the server in force has to start.
            Err(error) if searches.is_empty() => return Err(failed(error)),
            Err(_) => {}
        }
    }
    let ladders: usize = searches.iter().map(|searched| searched.found.tried.len()).sum();
    let best = best_of_searches(asked.objective, &searches);
    let Searched { settings, base, found } = &searches[best];
    let question = asked.question(current, base, &search_seeds, &final_seeds);
    let findings = Findings { found, settings, as_it_is: &searches[0].found };
    let told: Answer = answer(&trials, &question, &findings, &check_seeds, &note).map_err(failed)?;
    if is_terminal {
        let _ = write!(std::io::stderr(), "\r{:<79}\r", "");
    }
    let kv_tokens = kv_tokens_before_graphs(&told.options, profile);
    let flags = flags(&told.options, &told.proposal.settings, &arguments.engine_versions, kv_tokens)?;
    if let Some(verification) = verification {
        let proposal = ("proposal", &told.options, &told.proposal.figures);
        let servers = [("current", &current.options, &told.current.figures), proposal];
        let servers = if told.options == current.options { &servers[..1] } else { &servers };
        verification.write(scenario, profile, servers, told.seeds[0])?;
    }
    let (mut after, offered) = if let TrafficKind::Steps(_) = traffic.kind {
        let outside = [&told.current, &told.proposal].into_iter().filter_map(cautions::outside);
        (outside.collect(), None)
    } else {
        let servers = [("current", &current.options), ("proposal", &told.options)];
        let servers = if told.options == current.options { &servers[..1] } else { &servers };
        cautions::after_runs(&trials, inputs, servers, told.seeds[0]).map_err(failed)?
    };
    super::warn(&after);
    warnings.append(&mut after);
    Ok(ProposeReport {
        scenario: record::scenario(scenario, offered),
        engine: record::engine(&scenario.server),
        profile: record::profile(profile, &inputs.profile_name, &scenario.server),
        warnings,
        asked: asked.report(&arguments.also),
        search: SearchReport {
            seeds: final_seeds,
            check_seeds: told.seeds,
            ladders: ladders as u64,
            runs: trials.runs(),
            rounds: found.rounds,
            interrupted: stop.is_asked(),
        },
        verdict: told.verdict,
        current: told.current,
        proposal: told.proposal,
        front: told.front,
        rungs: told.rungs,
        one_change: told.one_change,
        sensitivity: told.sensitivity,
        flags,
    })
}

/// The ladders found for one variant of the server.
struct Searched {
    settings: Vec<String>,
    base: EngineOptions,
    found: Found,
}

/// The place of the search whose best ladders are the best.
fn best_of_searches(objective: Objective, searches: &[Searched]) -> usize {
    let best = |searched: &Searched| searched.found.best.map(|place| searched.found.tried[place].trial.runs.clone());
    let best: Vec<(usize, Vec<CandidateReport>)> =
        searches.iter().enumerate().filter_map(|(place, searched)| Some((place, best(searched)?))).collect();
    let contest: Vec<(usize, &[CandidateReport])> =
        best.iter().map(|(place, runs)| (*place, runs.as_slice())).collect();
    best_of(objective, &contest, |run| run.graph_memory_bytes.mean().map_or(0, |bytes| bytes as u64)).unwrap_or(0)
}

/// SGLang's decode graphs are bounded by the rows of its request pool, which follow from its KV pool.
fn kv_tokens_before_graphs(options: &EngineOptions, profile: &Profile) -> Option<u64> {
    StaticShare::of(options.sglang()?, profile).ok()?.tokens_before_capture().ok()
}

//! `sim explain`: why one step ran as it did, and what else it could have cost.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use reports::ExplainReport;

use super::engine_flags::EngineFlags;
use super::failure::Failure;
use super::format::Format;
use super::inputs::{self, Inputs};
use crate::cost::StepWork;
use crate::engine::shape::StepShape;
use crate::engine::vllm::scheduler::Chunk;
use crate::observe::{Event, Observer};
use crate::record::explain::{self as record_explain, ExplainedStep};
use crate::scenario::limits;
use crate::server::{Replica, ServerError, Setup};
use crate::{record, warnings};

/// Explain one step: the rules that the dispatcher went through, the graph, the padding, the cost term by term, and what
/// one rung lower, one rung higher and running without a graph would cost.
///
/// The step is the N-th of a scenario's run (--scenario X --step N), or is described by --prefill and --decodes on a
/// scenario's server or on engine flags.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Take server, candidates and profile from this scenario.
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Explain the N-th step (from 0) of the scenario's run.
    #[arg(long, value_name = "N", requires = "scenario", conflicts_with_all = ["prefill", "decodes"])]
    step: Option<u64>,
    /// Whose ladder; the scenario's first candidate without it.
    #[arg(long, value_name = "NAME", requires = "scenario")]
    candidate: Option<String>,
    /// Seed of the scenario's traffic.
    #[arg(long, value_name = "N", requires = "step")]
    seed: Option<u64>,
    /// Price with this profile: a built-in name or a file. Without a scenario and a profile nothing is priced.
    #[arg(long, value_name = "FILE|NAME")]
    profile: Option<String>,
    /// A prefill: CHUNK tokens with CONTEXT tokens computed before; may be given several times.
    #[arg(long, value_name = "CHUNK[:CONTEXT]")]
    prefill: Vec<PrefillFlag>,
    /// Decoding requests.
    #[arg(long, value_name = "N", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(..=i64::from(limits::MAX_NUM_SEQS_MAX)))]
    decodes: u32,
    /// KV tokens that each decoding request reads.
    #[arg(long, value_name = "N", default_value_t = 1024, requires = "decodes",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::REQUEST_TOKENS_MAX)))]
    context: u32,
    /// Tokens of each decoding request; one more than the drafts without it.
    #[arg(long, value_name = "N", requires = "decodes", value_parser = clap::value_parser!(u32).range(1..=1025))]
    query_len: Option<u32>,
    /// Distinct LoRA adapters active in the step.
    #[arg(long, value_name = "N", default_value_t = 0)]
    active_loras: u32,
    /// How the answer is written.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    engine: EngineFlags,
}

/// `CHUNK[:CONTEXT]`.
#[derive(Clone, Copy, Debug)]
struct PrefillFlag(Chunk);

impl FromStr for PrefillFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (chunk, context) = text.split_once(':').unwrap_or((text, "0"));
        let number = |what: &str, text: &str, least: u32| {
            text.parse()
                .ok()
                .filter(|number| (least..=limits::REQUEST_TOKENS_MAX).contains(number))
                .ok_or_else(|| format!("{what} `{text}`: expected {least} to {} tokens", limits::REQUEST_TOKENS_MAX))
        };
        Ok(Self(Chunk { tokens: number("chunk", chunk, 1)?, context: number("context", context, 0)? }))
    }
}

pub fn execute(arguments: &Arguments, out: &mut impl Write) -> Result<(), Failure> {
    let report = match &arguments.scenario {
        Some(path) => of_scenario(arguments, path)?,
        None => of_flags(arguments)?,
    };
    super::warn(&report.warnings);
    match arguments.format {
        Format::Text => reports::text::explain(&report, out),
        Format::Json => reports::json::write(&report, out),
        Format::Csv => reports::rows::explain(&report, out),
    }
    .map_err(Failure::Stdout)
}

fn of_scenario(arguments: &Arguments, path: &Path) -> Result<ExplainReport, Failure> {
    let mut inputs = Inputs::load(path, arguments.profile.as_deref())?;
    inputs.select(arguments.candidate.as_slice())?;
    inputs.scenario.candidates.truncate(1);
    let candidate = &inputs.scenario.candidates[0];
    let setup = inputs.prepare(candidate)?;
    let step = match arguments.step {
        Some(number) => step_of_run(&inputs, &setup, arguments.seed, number)?,
        None => step_of_flags(arguments, setup.options.graphs.num_speculative_tokens)?,
    };
    let warnings = warnings::before_run(&inputs.scenario, &inputs.profile, std::slice::from_ref(&setup));
    let pricing = Some((&setup.cost, setup.options.scheduler.async_scheduling));
    let dispatch = setup.graphs.dispatch(&step.shape);
    Ok(ExplainReport {
        engine: record::engine(&setup.options),
        profile: Some(record::profile(&inputs.profile)),
        candidate: candidate.name.clone(),
        capture_sizes: setup.graphs.capture_sizes().to_vec(),
        cudagraph_mode: setup.graphs.mode().to_string(),
        step: arguments.step,
        shape: record_explain::shape(&step),
        rules: record_explain::rules(&setup.graphs, &step.shape),
        chosen: record_explain::choice(&step, &dispatch, setup.cost.eager(), pricing),
        alternatives: record_explain::alternatives(&setup.graphs, &step, &dispatch, pricing),
        flags: record_explain::flags(&setup.cost.price(&step.work, &dispatch)),
        warnings,
    })
}

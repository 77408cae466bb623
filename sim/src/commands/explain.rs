//! `sim explain`: why one step ran as it did, and what else it could have cost.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use reports::{EngineReport, ExplainReport};

use super::engine_flags::{EngineFlags, FLAGS_NAME};
use super::failure::Failure;
use super::format::Format;
use super::inputs::{self, Inputs};
use super::other_graphs::OtherGraphs;
use crate::cost::{CostModel, EngineSide, StepWork};
use crate::engine::options::EngineOptions;
use crate::engine::plan::GraphPlan;
use crate::engine::scheduler::Stepping;
use crate::engine::shape::StepShape;
use crate::engine::step::{Chunk, StepExtent};
use crate::limits;
use crate::observe::{Event, Observer};
use crate::record::explain::{self as record_explain, ExplainedStep};
use crate::server::{Replica, Setup};
use crate::{record, warnings};

/// Explain why one step ran as it did, and what it cost.
///
/// Shows the dispatcher's rules in order, the graph, the padding, the cost term by term, and what one rung lower, one rung
/// higher and running without a graph would cost.
///
/// The step is the N-th of a scenario's run (--scenario X --step N), or is described by --prefill and --decodes on a
/// scenario's server or on engine flags.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sim explain --decodes 13
      13 requests that decode, on vLLM's own ladder.
  sim explain --decodes 13 --context 4000 --profile a100-llama-3-8b
      The same with its price.
  sim explain --prefill 2000 --prefill 300:1700 --decodes 40 --profile a100-llama-3-8b
      A mixed step: one new prompt, the end of another one, and 40 requests that decode.
  sim explain --decodes 16 --num-speculative-tokens 3 --runner v1
      A verification step: 16 requests of four tokens each.
  sim explain --engine-version main --decodes 8 --images 500,1200 --encoder-budget-range 64:2048
      The same for the graphs of a multimodal encoder.
  sim explain --scenario scenarios/chunked.toml --candidate textbook --step 700
      A step of a run; its number is the one in steps.jsonl.")]
pub(super) struct Arguments {
    /// Take server, candidates and profile from this scenario; engine flags are not taken then.
    #[arg(long, value_name = "FILE", conflicts_with_all = EngineFlags::IDS, conflicts_with_all = OtherGraphs::SERVER_IDS)]
    scenario: Option<PathBuf>,
    /// Explain the N-th step (from 0) of the scenario's run.
    #[arg(long, value_name = "N", requires = "scenario", conflicts_with_all = ["prefill", "decodes"])]
    step: Option<u64>,
    /// Whose ladder; the scenario's first candidate without it.
    #[arg(long, value_name = "NAME", requires = "scenario")]
    candidate: Option<String>,
    /// Seed of the scenario's traffic.
    #[arg(long, value_name = "N", requires = "step", allow_negative_numbers = true)]
    seed: Option<u64>,
    /// Price with this profile: a built-in name (`calibrate list`) or a file. Without a scenario and a profile nothing is priced.
    #[arg(long, value_name = "FILE|NAME")]
    profile: Option<String>,
    /// A prefill: CHUNK tokens after CONTEXT tokens computed in earlier steps (0); may be given several times.
    #[arg(long, value_name = "CHUNK[:CONTEXT]")]
    prefill: Vec<PrefillFlag>,
    /// Requests that decode.
    #[arg(long, value_name = "N", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(..=i64::from(limits::SEQUENCES_MAX)))]
    decodes: u32,
    /// Tokens in the KV cache of each decoding request.
    #[arg(long, value_name = "N", default_value_t = 1024, requires = "decodes",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::REQUEST_TOKENS_MAX)))]
    context: u32,
    /// Tokens of each decoding request [default: 1 and the drafts].
    #[arg(long, value_name = "N", requires = "decodes", value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::DRAFTS_MAX) + 1))]
    query_len: Option<u32>,
    /// Distinct LoRA adapters active in the step.
    #[arg(long, visible_alias = "loras", value_name = "N", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(..=i64::from(limits::LORAS_MAX)))]
    active_loras: u32,
    /// Some request of the step brings encoder inputs (encoder-decoder models).
    #[arg(long, conflicts_with = "step")]
    encoder_inputs: bool,
    /// How the answer is written.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    engine: EngineFlags,
    #[command(flatten)]
    other_graphs: OtherGraphs,
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

pub(super) fn execute(arguments: &Arguments, out: &mut impl Write) -> Result<(), Failure> {
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
        None => step_of_flags(arguments, &setup.options)?,
    };
    let mut warnings = warnings::before_run(&inputs.scenario, &inputs.profile, std::slice::from_ref(&setup));
    warnings.extend(warnings::of_step(&candidate.name, &step.shape, &setup.options.limits()));
    let pricing = Some((&setup.cost, setup.options.asynchronous()));
    let own = setup.graphs.dispatch_extent(&step.shape, step.extent);
    let dispatch = step.ran.unwrap_or(own);
    let mut rules = record_explain::rules(&setup.graphs, &step);
    rules.extend(record_explain::agreement(&own, &dispatch));
    rules.extend(arguments.other_graphs.rules(&setup.graphs, &step, &dispatch));
    Ok(ExplainReport {
        engine: record::engine(&setup.options),
        profile: Some(record::profile(&inputs.profile, &inputs.profile_name, &inputs.scenario.server)),
        candidate: candidate.name.clone(),
        capture_sizes: setup.graphs.capture_sizes().to_vec(),
        ladders: record::ladders(&setup.graphs),
        cudagraph_mode: setup.graphs.mode_name(),
        step: arguments.step,
        shape: record_explain::shape(&step),
        rules,
        chosen: record_explain::choice(&step, &dispatch, setup.cost.eager(), pricing),
        compiled_for: record_explain::compiled_for(&setup.graphs, &dispatch),
        alternatives: record_explain::alternatives(&setup.graphs, &step, &dispatch, pricing),
        flags: record_explain::flags(&setup.cost.price(&step.work, &dispatch))
            .into_iter()
            .chain(record_explain::about_updates(&setup.graphs, &setup.cost, &dispatch))
            .collect(),
        warnings,
    })
}

fn of_flags(arguments: &Arguments) -> Result<ExplainReport, Failure> {
    let profile = arguments.profile.as_deref().map(inputs::named_profile).transpose()?;
    let mut options = arguments.engine.options(profile.as_ref());
    arguments.other_graphs.apply(&mut options)?;
    let options = EngineOptions::Vllm(options);
    let plan = GraphPlan::build(&options, None)?;
    let cost = profile.as_ref().map(|profile| CostModel::new(profile, &EngineSide::of(&options, &plan, profile)));
    let pricing = cost.as_ref().map(|cost| (cost, options.asynchronous()));
    let step = step_of_flags(arguments, &options)?;
    let mut warnings = warnings::of_plan(FLAGS_NAME, &plan);
    warnings.extend(profile.iter().flat_map(warnings::about_measurement));
    warnings.extend(warnings::of_step(FLAGS_NAME, &step.shape, &options.limits()));
    let dispatch = plan.dispatch_extent(&step.shape, step.extent);
    let mut rules = record_explain::rules(&plan, &step);
    rules.extend(arguments.other_graphs.rules(&plan, &step, &dispatch));
    Ok(ExplainReport {
        engine: EngineReport { max_model_len: None, ..record::engine(&options) },
        profile: profile
            .as_ref()
            .zip(arguments.profile.as_ref())
            .map(|(profile, name)| record::profile(profile, name, &options)),
        candidate: FLAGS_NAME.to_owned(),
        capture_sizes: plan.capture_sizes().to_vec(),
        ladders: record::ladders(&plan),
        cudagraph_mode: plan.mode_name(),
        step: None,
        shape: record_explain::shape(&step),
        rules,
        chosen: record_explain::choice(&step, &dispatch, EngineSide::eager_of(&plan), pricing),
        compiled_for: record_explain::compiled_for(&plan, &dispatch),
        alternatives: record_explain::alternatives(&plan, &step, &dispatch, pricing),
        flags: cost.map(|cost| record_explain::flags(&cost.price(&step.work, &dispatch))).unwrap_or_default(),
        warnings,
    })
}

/// The step that --prefill and --decodes describe.
fn step_of_flags(arguments: &Arguments, options: &EngineOptions) -> Result<ExplainedStep, Failure> {
    check_adapters(arguments.active_loras, options.max_loras())?;
    let decode_tokens = options.decode_tokens();
    let chunks: Vec<Chunk> = arguments.prefill.iter().map(|flag| flag.0).collect();
    if chunks.is_empty() && arguments.decodes == 0 {
        return Err(Failure::Usage {
            message: "there is no step to explain".to_owned(),
            help: Some(
                "give --step N with --scenario, or describe a step with --decodes N and --prefill CHUNK[:CONTEXT]"
                    .to_owned(),
            ),
        });
    }
    let query_len = arguments.query_len.unwrap_or(decode_tokens);
    let all_decode_tokens = u64::from(arguments.decodes) * u64::from(query_len);
    let tokens = all_decode_tokens + chunks.iter().map(|chunk| u64::from(chunk.tokens)).sum::<u64>();
    let tokens = u32::try_from(tokens).ok().filter(|&tokens| tokens <= limits::STEP_TOKENS_MAX);
    let Some(tokens) = tokens else {
        return Err(Failure::Usage {
            message: "the step has too many tokens".to_owned(),
            help: Some(format!("a step has at most {} tokens", limits::STEP_TOKENS_MAX)),
        });
    };
    let requests = arguments.decodes + chunks.len() as u32;
    let longest_chunk = chunks.iter().map(|chunk| chunk.tokens).max().unwrap_or_default();
    let max_query = longest_chunk.max(if arguments.decodes > 0 { query_len } else { 0 });
    let uniform = u64::from(max_query) * u64::from(requests) == u64::from(tokens);
    let prefilling = !chunks.is_empty();
    // vLLM takes the last token of a prompt that is computed up to there for a decode (specification section 6).
    let is_tail = |chunk: &Chunk| options.vllm().is_some() && chunk.tokens == 1 && chunk.context > 0;
    let (tails, chunks): (Vec<Chunk>, Vec<Chunk>) = chunks.into_iter().partition(is_tail);
    let mut work = StepWork {
        tokens,
        requests,
        drafts: arguments.decodes * (query_len - 1),
        sampled: arguments.decodes,
        decode_requests: arguments.decodes + tails.len() as u32,
        decode_context_tokens: u64::from(arguments.decodes) * u64::from(arguments.context)
            + tails.iter().map(|tail| u64::from(tail.context) + 1).sum::<u64>(),
        ..StepWork::default()
    };
    for chunk in &chunks {
        work.add_chunk(chunk.tokens, chunk.context);
    }
    Ok(ExplainedStep {
        shape: StepShape {
            requests,
            tokens,
            max_query,
            uniform_v1: uniform && max_query == decode_tokens,
            uniform_v2: (uniform && chunks.is_empty()).then_some(max_query),
            prefilling,
            active_loras: arguments.active_loras,
            encoder_inputs: arguments.encoder_inputs,
        },
        extent: extent_of_flags(arguments, &chunks, query_len),
        work,
        chunks,
        ran: None,
    })
}

/// How far the requests of a described step reach: the context of a decoding request counts the tokens of the step.
fn extent_of_flags(arguments: &Arguments, chunks: &[Chunk], query_len: u32) -> StepExtent {
    let context = arguments.context.max(query_len);
    let decodes = (arguments.decodes > 0).then_some(Chunk { tokens: query_len, context: context - query_len });
    let requests = || chunks.iter().chain(&decodes);
    StepExtent {
        longest_sequence: requests().map(|request| request.context + request.tokens).max(),
        longest_prefix: requests().map(|request| request.context).max(),
    }
}

/// A server without LoRA has no adapters in a step, one with N slots at most N.
fn check_adapters(active: u32, max_loras: Option<u32>) -> Result<(), Failure> {
    let slots = max_loras.unwrap_or(0);
    if active <= slots {
        return Ok(());
    }
    Err(Failure::Usage {
        message: match max_loras {
            None => format!("--active-loras {active}: the server has no LoRA slots"),
            Some(slots) => format!("--active-loras {active}: the server has {slots} LoRA slots"),
        },
        help: Some("raise max_loras (--max-loras without a scenario), or lower --active-loras".to_owned()),
    })
}

/// The step with this number in the scenario's run.
fn step_of_run(inputs: &Inputs, setup: &Setup, seed: Option<u64>, number: u64) -> Result<ExplainedStep, Failure> {
    let scenario = &inputs.scenario;
    scenario.simulable()?;
    let traffic = scenario.traffic.open(seed.unwrap_or(scenario.traffic.seed))?;
    let mut search = StepSearch { number, found: None };
    let end = Replica::new(setup.schedulers(Stepping::Plain), &setup.graphs, &setup.cost).serve(traffic, &mut search);
    match (search.found, end) {
        (Some(step), _) => Ok(step),
        (None, Ok(end)) => Err(Failure::Usage {
            message: format!("the run has no step {number}: it has {} steps, counted from 0", end.steps),
            help: Some(match end.steps {
                0 => "the traffic has no request that takes a step".to_owned(),
                steps => format!("the last one is --step {}", steps - 1),
            }),
        }),
        (None, Err(error)) => Err(error.into()),
    }
}

/// Keeps one step and then stops the run.
struct StepSearch {
    number: u64,
    found: Option<ExplainedStep>,
}

impl Observer for StepSearch {
    fn observe(&mut self, event: &Event<'_>) -> io::Result<()> {
        match event {
            Event::StepScheduled(step) if step.step == self.number => {
                self.found = Some(ExplainedStep {
                    shape: step.plan.shape,
                    work: *step.work,
                    chunks: step.plan.prefills.clone(),
                    ran: Some(*step.dispatch),
                    extent: StepExtent::of(step.plan),
                });
                Err(io::Error::other("the step is found: the run need not go on"))
            }
            _ => Ok(()),
        }
    }
}

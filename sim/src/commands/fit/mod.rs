//! `sim fit`: measured tables, or an engine's own logs, in; a cost profile out.

mod onto;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use kernels::units::Bytes;
use reports::{AtomicFile, FitReport, FitSource, Warning};

use super::failure::Failure;
use super::inputs::refuse_if_read;
use crate::fit::completed::Request;
use crate::fit::onto::finding::Finding;
use crate::fit::tables::TableKind;
use crate::fit::{self, Fitted, Read, Source};
use crate::record;
use crate::scenario::size::parse_size;
use calibrate::profile::Profile;

/// Make a cost profile of measured tables, or fit one to an engine's logs.
///
/// Reads tables that others measured, or steps of your own, and writes a profile for --profile in which every group says
/// where it comes from. What no table gives is planned or derived, and says so.
///
/// With --onto PROFILE the files are logs of your server: its host and launch costs are fitted, what was measured stays, and
/// what the device hides is given as an upper bound.
#[derive(Debug, Args)]
#[command(after_help = "\
Files, known by their columns:
  mlp.csv, linear_op.csv, attention.csv    of Vidur or Frontier, timed in either way or in both
  layer,tokens,time_us and the like        kernel tables of LLMServingSim
  JSON                                     of `vllm bench forward`
  mode,rows,requests,context,milliseconds  steps of your own; see below

A step of your own ran in mode FULL, PIECEWISE, NONE (compiled) or EAGER, on so many rows with padding,
for so many decoding requests of so many tokens of context each; the prompt tokens that it computed,
if any, stand in a column chunk.

Logs, for --onto:
  vLLM with --enable-logging-iteration-details (a line a step) or VLLM_LOG_BATCHSIZE_INTERVAL=10 in its
  environment; SGLang's `Decode batch` lines; the lines of a start of either

Examples:
  sim fit mlp.csv attention.csv --model llama-3-8b --device A100 --out mine.toml
  sim fit steps.csv --model config.json --device-memory 80GiB --out mine.toml
  sim fit --onto mine.toml --server scenarios/chunked.toml --context 900 server.log --out fitted.toml
  sim run scenarios/chunked.toml --profile fitted.toml")]
pub(super) struct Arguments {
    /// The tables, or the logs.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Fit the engine half of this profile: a built-in name (`calibrate list`) or a file.
    #[arg(long, value_name = "FILE|NAME", conflicts_with_all = TABLE_OPTIONS)]
    onto: Option<String>,
    /// The scenario with the flags of the server that wrote the logs: its dispatcher tells which steps ran a graph.
    #[arg(long, value_name = "SCENARIO", requires = "onto")]
    server: Option<PathBuf>,
    /// The candidate with its flags; the scenario's first without it.
    #[arg(long, value_name = "NAME", requires = "server")]
    candidate: Option<String>,
    /// Mean KV tokens of a decoding request, where the logs do not say.
    #[arg(long, value_name = "TOKENS", requires = "onto", value_parser = context)]
    context: Option<f64>,
    /// The server does not schedule the next step while one runs; --server knows it.
    #[arg(long, requires = "onto", conflicts_with = "server")]
    synchronous: bool,
    /// What the files are [default: what their columns say].
    #[arg(long, value_name = "KIND", value_enum)]
    from: Option<KindFlag>,
    /// The profile's name [default: that of --out, or `fitted`].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The device, or a part of its name that only one built-in profile has: its memory is then taken from there.
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// Memory of the device, as in 80GiB.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    device_memory: Option<Bytes>,
    /// The model: a preset, or its config.json [default: the only preset of the table's shape].
    #[arg(long, value_name = "PRESET|FILE")]
    model: Option<String>,
    /// Tensor-parallel ranks of the server: which rows are read of a table that holds several.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    tp: Option<u32>,
    /// The engine that the profile is for.
    #[arg(long, value_enum, default_value_t)]
    engine: EngineName,
    /// Licence of the tables, for the profile to repeat.
    #[arg(long, value_name = "TEXT", default_value = "not stated")]
    licence: String,
    /// Write the profile to this file.
    #[arg(long, value_name = "PROFILE.toml")]
    out: Option<PathBuf>,
    /// Replace the file of --out if it exists.
    #[arg(long, requires = "out")]
    force: bool,
    /// How the report is written.
    #[arg(long, value_enum, default_value_t)]
    format: FitFormat,
}

/// What only tables need.
const TABLE_OPTIONS: [&str; 6] = ["device", "device_memory", "model", "tp", "engine", "licence"];

fn context(text: &str) -> Result<f64, String> {
    let tokens = text.parse().ok().filter(|tokens| (0.0..=1e8).contains(tokens));
    tokens.ok_or_else(|| "expected tokens, zero or more".to_owned())
}

/// `--from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum KindFlag {
    /// mlp.csv, linear_op.csv and attention.csv of Vidur or Frontier.
    Vidur,
    /// Kernel tables of LLMServingSim: dense, per sequence, attention.
    Llmservingsim,
    /// The JSON of `vllm bench forward`.
    VllmBenchForward,
    /// Measured steps: mode,rows,requests,context,milliseconds.
    Steps,
}

impl From<KindFlag> for TableKind {
    fn from(flag: KindFlag) -> Self {
        match flag {
            KindFlag::Vidur => Self::Vidur,
            KindFlag::Llmservingsim => Self::LlmServingSim,
            KindFlag::VllmBenchForward => Self::BenchForward,
            KindFlag::Steps => Self::Steps,
        }
    }
}

/// `--engine`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum EngineName {
    /// vLLM.
    #[default]
    Vllm,
    /// SGLang.
    Sglang,
}

/// `--format`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum FitFormat {
    /// Tables for people.
    #[default]
    Text,
    /// One JSON document, every field documented in reports/SCHEMA.md.
    Json,
}

pub(super) fn execute(arguments: &Arguments, out: &mut impl Write) -> Result<(), Failure> {
    check_out(arguments)?;
    let (profile, report) = match &arguments.onto {
        Some(given) => onto::fitted(arguments, given)?,
        None => of_tables(arguments)?,
    };
    if let Some(path) = &arguments.out {
        AtomicFile::write(path, |file| file.write_all(profile.to_toml().as_bytes()))?;
    }
    super::warn(&report.warnings);
    match arguments.format {
        FitFormat::Text => reports::text::fit(&report, out),
        FitFormat::Json => reports::json::write(&report, out),
    }
    .map_err(Failure::Stdout)
}

fn of_tables(arguments: &Arguments) -> Result<(Profile, FitReport), Failure> {
    let kind = arguments.from.map(TableKind::from);
    let read = arguments.files.iter().map(|path| Read::table(Source::read(path)?, kind, arguments.tp));
    let read: Vec<Read> = read.collect::<Result<_, _>>()?;
    let name = name(arguments);
    let request = Request {
        name: &name,
        device: arguments.device.as_deref(),
        device_memory: arguments.device_memory,
        model: arguments.model.as_deref(),
        ranks: arguments.tp,
        engine: match arguments.engine {
            EngineName::Vllm => "vllm",
            EngineName::Sglang => "sglang",
        },
    };
    let fitted = fit::of_tables(&read, &request, &arguments.licence)?;
    let report = report(arguments, &fitted, read.iter().map(record::fit::table_source).collect());
    Ok((fitted.profile, report))
}

/// No result takes the place of what is read, nor that of another file unless it should.
fn check_out(arguments: &Arguments) -> Result<(), Failure> {
    let Some(path) = &arguments.out else { return Ok(()) };
    let read = arguments.files.iter().chain(&arguments.server).map(PathBuf::as_path);
    refuse_if_read(path, &read.chain(arguments.onto.as_deref().map(Path::new)).collect::<Vec<_>>())?;
    if !arguments.force && fs::symlink_metadata(path).is_ok() {
        return Err(Failure::Usage {
            message: format!("{} exists already", path.display()),
            help: Some("give --force to replace it, or another name".to_owned()),
        });
    }
    Ok(())
}

fn name(arguments: &Arguments) -> String {
    let stem = || arguments.out.as_deref().and_then(Path::file_stem).map(|stem| stem.to_string_lossy().into_owned());
    arguments.name.clone().or_else(stem).unwrap_or_else(|| "fitted".to_owned())
}

fn report(arguments: &Arguments, fitted: &Fitted, sources: Vec<FitSource>) -> FitReport {
    let written = arguments.out.as_ref().map(|path| path.display().to_string());
    FitReport {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        profile: record::fit::fitted_profile(&fitted.profile, written.as_ref().unwrap_or(&fitted.profile.name)),
        written,
        onto: None,
        sources,
        held_out: record::fit::dense_held_out(&fitted.profile).into_iter().collect(),
        figures: record::fit::launch_figures(fitted),
        errors: fitted.launches.iter().flat_map(|launches| record::fit::step_errors(&launches.errors)).collect(),
        outliers: Vec::new(),
        notes: notes(fitted),
        warnings: warnings(fitted),
    }
}

fn notes(fitted: &Fitted) -> Vec<String> {
    let gap = fitted.launch_gap.map(|gap| {
        format!(
            "Launched alone and timed with events an operation takes {:.1} us longer than its kernel (median of {} sizes, {:.1} \
             to {:.1}). The events' own time is inside: an upper bound of the gap between launches, which prices nothing here.",
            gap.us_per_operation, gap.sizes, gap.range_us[0], gap.range_us[1]
        )
    });
    gap.into_iter().collect()
}

fn warnings(fitted: &Fitted) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |code: &'static str, message: String| {
        warnings.push(Warning { code: code.into(), message, candidate: None });
    };
    if fitted.ranks > 1 && fitted.launches.is_none() {
        warn(
            "one_rank",
            format!(
                "these are the costs of one of {} tensor-parallel ranks, and the tables have no all-reduce: real steps take longer",
                fitted.ranks
            ),
        );
    }
    if !fitted.model.differs.is_empty() {
        warn("shapes_only", format!("only the shapes of the model count: {}", fitted.model.differs.join("; ")));
    }
    for doubt in &fitted.doubts {
        warn("implausible_times", doubt.clone());
    }
    if let Some(why) = untold_launches(fitted) {
        warn(
            "planned_launch",
            format!(
                "{why}: what a step without a graph launches is a planning figure, which decides what a graph saves; fit it to the \
                 server's own log with `sim fit --onto`"
            ),
        );
    }
    warnings
}

/// Why the launches of the kind that the engine runs without a graph are planned, if they are. vLLM runs its compiled model
/// then, SGLang one without compilation.
fn untold_launches(fitted: &Fitted) -> Option<String> {
    let Some(launches) = &fitted.launches else { return Some("no table has whole steps without a graph".to_owned()) };
    let is_sglang = fitted.profile.identity.engine == "sglang";
    let finding = if is_sglang { &launches.eager_us } else { &launches.compiled_us };
    match finding {
        Finding::Silent { why } => Some(why.clone()),
        _ => None,
    }
}

//! `sim startup`: what a start does to time and memory, in the engine's order.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use reports::{EngineReport, StartupReport};

use super::failure::Failure;
use super::format::Format;
use super::inputs::Inputs;
use crate::{record, warnings};

/// Show a start-up in the engine's order.
///
/// For every candidate of a scenario: memory profiling and KV sizing, compilation, warm-ups and every capture with its
/// seconds and its memory; the engine's own estimate of graph memory beside what the graphs hold, and the KV blocks of
/// each.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sim startup scenarios/chunked.toml
  sim startup scenarios/chunked.toml --candidate textbook --format json
      Every capture of one candidate, one by one.

In a scenario, compile_cache = \"warm\" under [server.vllm] starts from a filled compile cache, and
[candidate.what_if] captures the graphs in another way.")]
pub(super) struct Arguments {
    /// The scenario file.
    scenario: PathBuf,
    /// Price with this profile instead: a built-in name (`calibrate list`) or a file.
    #[arg(long, value_name = "FILE|NAME")]
    profile: Option<String>,
    /// Show only this candidate; may be given several times.
    #[arg(long = "candidate", value_name = "NAME")]
    candidates: Vec<String>,
    /// How the answer is written.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(super) fn execute(arguments: &Arguments, out: &mut impl Write) -> Result<(), Failure> {
    let mut inputs = Inputs::load(&arguments.scenario, arguments.profile.as_deref())?;
    inputs.select(&arguments.candidates)?;
    let setups = inputs.prepare_all()?;
    let warnings = warnings::before_run(&inputs.scenario, &inputs.profile, &setups);
    super::warn(&warnings);
    let candidates = inputs.scenario.candidates.iter().zip(&setups);
    let report = StartupReport {
        engine: EngineReport { max_model_len: None, async_scheduling: None, ..record::engine(&inputs.scenario.server) },
        profile: record::startup_profile(&inputs.profile, &inputs.profile_name, &inputs.scenario.server),
        warnings,
        candidates: candidates
            .map(|(candidate, setup)| record::startup(&candidate.name, setup, &inputs.profile))
            .collect(),
    };
    match arguments.format {
        Format::Text => reports::text::startup(&report, out),
        Format::Json => reports::json::write(&report, out),
        Format::Csv => reports::rows::startup(&report, out),
    }
    .map_err(Failure::Stdout)
}

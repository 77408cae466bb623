//! `sim ladder`: what the engine would capture.

use std::io::Write;
use std::path::PathBuf;

use calibrate::profile::Profile;
use clap::Args;
use reports::{EngineReport, LadderReport, Warning};

use super::engine_flags::{EngineFlags, FLAGS_NAME};
use super::failure::Failure;
use super::format::Format;
use super::inputs::{self, Inputs};
use crate::engine::options::EngineOptions;
use crate::engine::plan::GraphPlan;
use crate::server::Setup;
use crate::{record, warnings};

/// Show what the engine captures.
///
/// Capture sizes, what each batch is padded to, descriptors in capture order, their number, and the seconds that capturing
/// takes: for the candidates of a scenario, or for engine flags.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sim ladder
      vLLM's own ladder with its defaults.
  sim ladder --max-num-seqs 128 --cudagraph-mode FULL_DECODE_ONLY
  sim ladder --cudagraph-capture-sizes 1,2,4,8,16,32 --profile a100-llama-3-8b
      Your own ladder, with the CUDA graphs and the seconds it takes.
  sim ladder scenarios/chunked.toml --format csv
      One row for each descriptor of each candidate.")]
pub(super) struct Arguments {
    /// The scenario file; engine flags are not taken then.
    #[arg(conflicts_with_all = EngineFlags::IDS)]
    scenario: Option<PathBuf>,
    /// Take capture seconds and layers from this profile: a built-in name (`calibrate list`) or a file.
    #[arg(long, value_name = "FILE|NAME")]
    profile: Option<String>,
    /// How the answer is written.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    #[command(flatten)]
    engine: EngineFlags,
}

pub(super) fn execute(arguments: &Arguments, out: &mut impl Write) -> Result<(), Failure> {
    let report = match &arguments.scenario {
        Some(path) => of_scenario(&Inputs::load(path, arguments.profile.as_deref())?)?,
        None => of_flags(&arguments.engine, arguments.profile.as_deref())?,
    };
    super::warn(&report.warnings);
    match arguments.format {
        Format::Text => reports::text::ladder(&report, out),
        Format::Json => reports::json::write(&report, out),
        Format::Csv => reports::rows::ladder(&report, out),
    }
    .map_err(Failure::Stdout)
}

fn of_scenario(inputs: &Inputs) -> Result<LadderReport, Failure> {
    let mut report = LadderReport {
        engine: engine(&inputs.scenario.server),
        warnings: inputs.scenario.warnings.iter().map(|message| Warning::general("scenario", message)).collect(),
        candidates: Vec::new(),
    };
    for candidate in &inputs.scenario.candidates {
        let plan =
            Setup::plan(&candidate.options, &inputs.profile).map_err(|error| inputs.reject(candidate, &error))?;
        report.warnings.extend(warnings::of_plan(&candidate.name, &plan));
        report.candidates.push(record::ladder(&candidate.name, &candidate.options, &plan, Some(&inputs.profile)));
    }
    report.warnings.extend(warnings::about_measurement(&inputs.profile));
    Ok(report)
}

fn of_flags(flags: &EngineFlags, profile: Option<&str>) -> Result<LadderReport, Failure> {
    let profile: Option<Profile> = profile.map(inputs::named_profile).transpose()?;
    let options = EngineOptions::Vllm(flags.options(profile.as_ref()));
    let plan = GraphPlan::build(&options, None)?;
    let mut warnings = warnings::of_plan(FLAGS_NAME, &plan);
    warnings.extend(profile.iter().flat_map(warnings::about_measurement));
    Ok(LadderReport {
        engine: engine(&options),
        warnings,
        candidates: vec![record::ladder(FLAGS_NAME, &options, &plan, profile.as_ref())],
    })
}

/// The engine; a ladder serves no request and schedules no step.
fn engine(options: &EngineOptions) -> EngineReport {
    EngineReport { max_model_len: None, async_scheduling: None, ..record::engine(options) }
}

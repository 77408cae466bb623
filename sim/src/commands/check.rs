//! `sim check`: is the scenario one that the engine would start with?

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::failure::Failure;
use super::inputs::Inputs;
use crate::traffic::TrafficKind;
use crate::warnings;

/// Check a scenario without running it.
///
/// Reads the scenario, its profile and the head of its trace, and starts every candidate as the engine would: ladder,
/// mode, keys, KV pool. Prints one line, and what is accepted but likely to surprise as warnings. The rows of a trace are
/// read by `sim run` only.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sim check scenarios/chunked.toml
  sim check scenarios/chunked.toml --profile my-gpu.toml
  for file in scenarios/*.toml; do sim check \"$file\" || break; done

Exits with 0 if the scenario can be used, with 3 if not.")]
pub(super) struct Arguments {
    /// The scenario file.
    scenario: PathBuf,
    /// Check with this profile instead: a built-in name (`calibrate list`) or a file.
    #[arg(long, value_name = "FILE|NAME")]
    profile: Option<String>,
}

pub(super) fn execute(arguments: &Arguments, out: &mut impl Write) -> Result<(), Failure> {
    let inputs = Inputs::load(&arguments.scenario, arguments.profile.as_deref())?;
    let setups = inputs.prepare_all()?;
    if !matches!(inputs.scenario.traffic.kind, TrafficKind::Steps(_)) {
        inputs.check_traffic()?;
    }
    super::warn(&warnings::before_run(&inputs.scenario, &inputs.profile, &setups));
    writeln!(out, "{}: ok: {} candidates on profile {}", inputs.scenario.file, setups.len(), inputs.profile_name)
        .map_err(Failure::Stdout)
}

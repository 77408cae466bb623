//! The command line of `calibrate`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Reads, checks and shows cost profiles: what a step, a launch, a replay and a capture cost on one machine.
#[derive(Debug, Parser)]
#[command(
    name = "calibrate",
    version,
    args_conflicts_with_subcommands = true,
    max_term_width = 100,
    after_help = "\
Examples:
  calibrate list
  calibrate show a100-llama-3-8b
  calibrate show --toml a100-llama-3-8b > mine.toml     a start for your own
  calibrate check mine.toml

Exit codes:
  0  everything asked for was done
  1  an unexpected failure, for instance of writing output
  2  wrong use of the command line
  3  a bad profile
  4  no usable GPU, or a build that cannot measure"
)]
pub(crate) struct CommandLine {
    /// Measure this GPU (not built yet: refused with exit code 4).
    #[arg(long, value_name = "N")]
    pub(crate) device: Option<u32>,
    #[command(subcommand)]
    pub(crate) action: Option<Action>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Show a profile: each group of figures, where it comes from and where it holds.
    Show {
        /// A profile file, or the name of a built-in profile (see `calibrate list`).
        profile: OsString,
        /// Print the profile as a file instead, as a start for one's own.
        #[arg(long)]
        toml: bool,
    },
    /// Check a profile file, and say nothing but ok if it is one.
    Check {
        /// The profile file.
        file: PathBuf,
    },
    /// List the built-in profiles.
    List,
}

//! `sim completions` and `sim manual`: what a shell and `man` know of the command line.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use calibrate::completions::{self, Shell};
use calibrate::manual;
use clap::{Args, CommandFactory};
use reports::{AtomicFile, OutputError};

use super::Cli;
use super::failure::Failure;

/// Print a script that completes commands and options in a shell.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sim completions bash > ~/.local/share/bash-completion/completions/sim
  sim completions zsh > ~/.zfunc/_sim
      In a folder of $fpath.
  sim completions fish > ~/.config/fish/completions/sim.fish

Takes effect in the next shell.")]
pub(super) struct CompletionsArguments {
    /// The shell.
    shell: Shell,
}

/// Write manual pages, one for `sim` and one for each of its commands.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sim manual --out ~/.local/share/man/man1
      `man sim` and `man sim-run` find them there.")]
pub(super) struct ManualArguments {
    /// The folder; it is made where it is missing, and pages of the same name are replaced.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

pub(super) fn completions(arguments: &CompletionsArguments, out: &mut impl Write) -> Result<(), Failure> {
    out.write_all(&completions::script("sim", &Cli::command(), arguments.shell)).map_err(Failure::Stdout)
}

pub(super) fn manual(arguments: &ManualArguments, out: &mut impl Write) -> Result<(), Failure> {
    let folder = &arguments.out;
    fs::create_dir_all(folder).map_err(|error| OutputError::Create { path: folder.clone(), error })?;
    let pages = manual::pages(Cli::command());
    for page in &pages {
        AtomicFile::write(folder.join(&page.file), |file| file.write_all(page.text.as_bytes()))?;
    }
    writeln!(out, "{} pages in {}", pages.len(), folder.display()).map_err(Failure::Stdout)
}

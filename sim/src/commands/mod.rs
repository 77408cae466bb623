//! The command line: one module a command, each `arguments → inputs → work → report`.

mod check;
mod engine_flags;
mod explain;
mod failure;
mod fit;
mod format;
mod import;
mod inputs;
mod installing;
mod ladder;
mod merge;
mod other_graphs;
mod parquet;
mod price;
mod propose;
#[cfg(feature = "pages")]
mod report;
mod run;
mod startup;
mod sweep;
mod unfinished;
mod validate;
mod watch;

use std::io::{self, Write};

use clap::{Parser, Subcommand};

pub use failure::Failure;

/// Exit codes, for the end of every help text.
const EXIT_CODES: &str = "\
Exit codes:
  0    everything asked for was done
  1    an unexpected failure, for instance of writing output
  2    wrong use of the command line
  3    a bad scenario, profile or trace
  5    a law of the simulation was broken: a bug in Rungwise
  7    a regression beyond the threshold asked for (sim report --fail-if, sim validate --strict)
  130  interrupted";

const AFTER_HELP: &str = "\
Start here:
  sim check scenarios/chunked.toml     is the scenario sound?
  sim run scenarios/chunked.toml       which candidate serves its traffic best?
  sim explain --decodes 13             why does a batch of 13 run padded to 16?
  sim sweep scenarios/chunked.toml --vary rate=4,6,8
                                       and at other loads?
  sim run scenarios/chunked.toml --watch
                                       which rungs fire, and when?
  sim import server.log --out mine.toml
                                       and on your server, by its log?

Results go to standard output and are the same bytes for the same seed; warnings go to standard error.";

/// Which batch sizes should an LLM server capture CUDA graphs for?
///
/// `sim` pushes traffic through the engine's exact scheduler and dispatcher, prices every step with a cost profile, and
/// compares candidate ladders: goodput, latency, padding, fallbacks, graph memory, start-up.
#[derive(Debug, Parser)]
#[command(
    name = "sim",
    version,
    after_help = AFTER_HELP,
    after_long_help = format!("{AFTER_HELP}\n\n{EXIT_CODES}"),
    max_term_width = 100,
    subcommand_required = true,
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Arguments),
    Watch(watch::Arguments),
    Import(import::Arguments),
    Fit(fit::Arguments),
    Propose(propose::Arguments),
    Sweep(sweep::Arguments),
    Merge(merge::Arguments),
    #[cfg(feature = "pages")]
    Report(report::Arguments),
    Price(price::Arguments),
    Ladder(ladder::Arguments),
    Startup(startup::Arguments),
    Explain(explain::Arguments),
    Check(check::Arguments),
    Validate(validate::Arguments),
    Completions(installing::CompletionsArguments),
    Manual(installing::ManualArguments),
}

impl Cli {
    /// Reads the process's arguments. Help and version, if that is what they ask for, go to `out` as any result does:
    /// `None` is then left to do.
    ///
    /// # Errors
    /// [`Failure::Arguments`] for a wrong command line, [`Failure::Stdout`] if help cannot be written.
    pub fn parse_arguments(out: &mut impl Write) -> Result<Option<Self>, Failure> {
        match Self::try_parse() {
            Ok(cli) => Ok(Some(cli)),
            Err(message) if message.use_stderr() => Err(message.into()),
            Err(help) => write!(out, "{}", help.render()).map(|()| None).map_err(Failure::Stdout),
        }
    }

    /// Does what was asked. Results go to `out`, everything else to standard error.
    ///
    /// # Errors
    /// [`Failure`], which knows its exit code.
    pub fn execute(self, out: &mut impl Write) -> Result<(), Failure> {
        match self.command {
            Command::Run(arguments) => run::execute(&arguments, out),
            Command::Watch(arguments) => watch::execute(&arguments),
            Command::Import(arguments) => import::execute(&arguments, out),
            Command::Fit(arguments) => fit::execute(&arguments, out),
            Command::Propose(arguments) => propose::execute(&arguments, out),
            Command::Sweep(arguments) => sweep::execute(&arguments, out),
            Command::Merge(arguments) => merge::execute(&arguments, out),
            #[cfg(feature = "pages")]
            Command::Report(arguments) => report::execute(&arguments, out),
            Command::Price(arguments) => price::execute(&arguments, out),
            Command::Ladder(arguments) => ladder::execute(&arguments, out),
            Command::Startup(arguments) => startup::execute(&arguments, out),
            Command::Explain(arguments) => explain::execute(&arguments, out),
            Command::Check(arguments) => check::execute(&arguments, out),
            Command::Validate(arguments) => validate::execute(&arguments, out),
            Command::Completions(arguments) => installing::completions(&arguments, out),
            Command::Manual(arguments) => installing::manual(&arguments, out),
        }
    }
}

/// Prints warnings on standard error; a closed standard error is nobody's concern.
fn warn(warnings: &[reports::Warning]) {
    let _ = reports::text::warnings(warnings, &mut io::stderr().lock());
}

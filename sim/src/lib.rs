//! Simulates an LLM server's exact scheduler and CUDA-graph dispatcher, prices every step with a cost profile, and
//! compares candidate ladders.
//!
//! ```text
//! scenario ─► traffic ─► engine (scheduler ─► dispatch) ─► cost ─► observe ─► metrics ─► record ─► reports
//!                              └────────── server: the event loop ──────────┘
//! ```

pub mod commands;
pub mod cost;
pub mod engine;
pub mod metrics;
pub mod observe;
pub mod price;
pub mod record;
pub mod scenario;
pub mod server;
pub mod time;
pub mod traffic;
pub mod warnings;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use calibrate::exit::Exit;
use clap::Parser;

use commands::{Cli, Failure};

/// Parses the command line, does what it asks, and reports what went wrong.
#[must_use]
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    let mut out = BufWriter::new(io::stdout().lock());
    let result = cli.execute(&mut out).and_then(|()| out.flush().map_err(Failure::Stdout));
    let Err(failure) = result else { return Exit::Ok.into() };
    let Some(exit) = failure.exit() else { return Exit::Ok.into() };
    // The report of an error must not itself fail the process: standard error may be closed.
    let _ = writeln!(io::stderr(), "{:?}", miette::Report::new(failure));
    exit.into()
}

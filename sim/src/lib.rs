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
pub mod file_error;
pub mod fit;
pub mod flags;
pub mod import;
pub mod kit;
pub mod limits;
pub mod metrics;
pub mod observe;
pub mod optimum;
pub mod parquet;
pub mod price;
pub mod propose;
pub mod record;
pub mod scenario;
pub mod server;
pub mod sweep;
pub mod time;
pub mod traffic;
pub mod validate;
pub mod warnings;
pub mod watch;

use std::io::{self, BufWriter, Write as _};
use std::process::ExitCode;

use calibrate::exit::Exit;
use commands::{Cli, Failure};

/// Parses the command line, does what it asks, and reports what went wrong.
#[must_use]
pub fn run() -> ExitCode {
    let mut out = BufWriter::new(io::stdout().lock());
    let done = Cli::parse_arguments(&mut out)
        .and_then(|cli| cli.map_or(Ok(()), |cli| cli.execute(&mut out)))
        .and_then(|()| out.flush().map_err(Failure::Stdout));
    match done {
        Ok(()) => Exit::Ok.into(),
        Err(failure) => failure.report().into(),
    }
}

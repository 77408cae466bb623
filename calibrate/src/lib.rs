//! The cost profile of one machine: what a step, a launch, a replay and a capture cost there, and who says so.
//!
//! [`profile`] is the library that the simulator prices steps with. The binary measures profiles on a GPU, and reads,
//! checks and compares them.

#[cfg(feature = "gpu")]
mod calibration;
mod command_line;
mod commands;
pub mod completions;
mod counted;
#[cfg(feature = "gpu")]
mod destination;
#[cfg(feature = "gpu")]
pub mod device;
pub mod device_name;
mod diff;
pub mod driver_rules;
pub mod exit;
pub mod findings;
pub mod fit;
pub mod gemm_backend;
pub mod graph_mode;
pub mod host;
mod layout;
pub mod list;
pub mod manual;
pub mod measure;
#[cfg(feature = "gpu")]
pub mod model;
pub mod padding;
pub mod partial;
pub mod pci;
pub mod plan;
pub mod pool;
pub mod probe;
pub mod profile;
#[cfg(feature = "gpu")]
mod progress;
pub mod reading;
#[cfg(feature = "gpu")]
pub mod replay;
mod report;
#[cfg(feature = "gpu")]
mod rule_probe;
#[cfg(feature = "gpu")]
pub mod self_check;
pub mod served_model;
pub mod show;
pub mod smi;
pub mod spelling;
pub mod state;
pub mod stderr;
pub mod visible;
mod whole_file;

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};

use clap::{CommandFactory, Parser};

use command_line::CommandLine;
use commands::Failure;
use exit::Exit;

/// Runs the binary: results go to stdout, everything else to stderr.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let command = match CommandLine::try_parse_from(arguments) {
        Ok(command) => command,
        Err(message) => return explain(&message),
    };
    let out = &mut io::stdout().lock();
    let done = match (command.action, command.gpu) {
        (Some(action), _) => commands::named(action, out),
        (None, gpu) if gpu.asks_something() => commands::gpu(&gpu, out),
        (None, _) => {
            return explain(&CommandLine::command().error(
                clap::error::ErrorKind::MissingSubcommand,
                "nothing to do: name a command, or a device to measure",
            ));
        }
    };
    match done.and_then(|exit| out.flush().map(|()| exit).map_err(Failure::Output)) {
        Ok(exit) => exit,
        Err(Failure::Output(error)) => unwritten(&error),
        Err(failure) => {
            failure.report();
            failure.exit()
        }
    }
}

/// Standard output could not be written. A reader that has seen enough, as in `calibrate show NAME | head`, is no failure.
fn unwritten(error: &io::Error) -> Exit {
    if error.kind() == ErrorKind::BrokenPipe {
        return Exit::Ok;
    }
    stderr::line(format_args!("error: cannot write to stdout: {error}"));
    Exit::Unexpected
}

/// Prints clap's message: help and version on stdout, mistakes on stderr.
fn explain(message: &clap::Error) -> Exit {
    match message.print() {
        _ if message.use_stderr() => Exit::Usage,
        Err(error) => unwritten(&error),
        Ok(()) => Exit::Ok,
    }
}

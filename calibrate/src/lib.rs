//! The cost profile of one machine: what a step, a launch, a replay and a capture cost there, and who says so.
//!
//! [`profile`] is the library that the simulator prices steps with. The binary reads and checks profiles; measuring on
//! a GPU is not built yet, and is refused rather than made up.

mod command_line;
pub mod exit;
pub mod profile;
mod show;
pub mod spelling;
pub mod stderr;

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};

use clap::{CommandFactory, Parser};

use command_line::{Action, CommandLine};
use exit::Exit;
use profile::{BUILTIN, Profile, ProfileError};

/// Runs the binary: results go to stdout, everything else to stderr.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let command = match CommandLine::try_parse_from(arguments) {
        Ok(command) => command,
        Err(message) => return explain(&message),
    };
    let done = match (command.action, command.device) {
        (Some(action), _) => act(action, &mut io::stdout().lock()),
        (None, Some(device)) => return refuse_to_measure(device),
        (None, None) => {
            return explain(&CommandLine::command().error(
                clap::error::ErrorKind::MissingSubcommand,
                "nothing to do: name a command, or a device to measure",
            ));
        }
    };
    match done {
        Ok(()) => Exit::Ok,
        Err(Failure::Profile(error)) => {
            let unwritable = matches!(error, ProfileError::Write { .. });
            stderr::report(&error);
            if unwritable { Exit::Unexpected } else { Exit::BadInput }
        }
        Err(Failure::Output(error)) => unwritten(&error),
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

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Profile(#[from] ProfileError),
    #[error(transparent)]
    Output(#[from] io::Error),
}

fn act(action: Action, out: &mut impl Write) -> Result<(), Failure> {
    match action {
        Action::Show { profile, toml: true } => out.write_all(Profile::open(&profile)?.to_toml().as_bytes())?,
        Action::Show { profile, toml: false } => show::profile(&Profile::open(&profile)?, out)?,
        Action::Check { file } => {
            let profile = Profile::load(&file)?;
            writeln!(out, "{}: ok: profile {}, {} groups", file.display(), profile.name, profile.groups().len())?;
        }
        Action::List => {
            for name in BUILTIN {
                show::line(&Profile::builtin(name)?, out)?;
            }
        }
    }
    out.flush()?;
    Ok(())
}

/// Prints clap's message: help and version on stdout, mistakes on stderr.
fn explain(message: &clap::Error) -> Exit {
    match message.print() {
        _ if message.use_stderr() => Exit::Usage,
        Err(error) => unwritten(&error),
        Ok(()) => Exit::Ok,
    }
}

fn refuse_to_measure(device: u32) -> Exit {
    stderr::line(format_args!(
        "error: this build cannot measure device {device} yet: it holds no GPU code\n  \
         help: use a built-in profile (`calibrate list`), or one that somebody measured (`calibrate check FILE`)"
    ));
    Exit::NoGpu
}

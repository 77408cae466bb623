//! One misuse in a child: this same binary, told by a hidden command which one.

use std::io::{self, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::Got;
use crate::device::misuse::{self, Performed};
use crate::driver_rules::{CaptureAfter, Misuse};

/// The hidden command.
pub(crate) const COMMAND: &str = "perform-misuse";

/// Opening a device takes seconds at worst; a misuse takes none.
const TIME_LIMIT: Duration = Duration::from_mins(1);

/// How long a child that was killed is waited for: one that hangs inside the kernel driver does not go before that lets it.
const KILL_LIMIT: Duration = Duration::from_secs(5);

/// Performs a misuse in a child on the device of this index.
pub(crate) fn run(misuse: Misuse, device: u32) -> Got {
    match run_child(misuse, device) {
        Ok(got) => got,
        Err(error) => Got::NotTried(format!("the process that should perform it cannot be run: {error}")),
    }
}

fn run_child(misuse: Misuse, device: u32) -> io::Result<Got> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args([COMMAND, misuse.rule().name, &device.to_string()]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let Some(status) = wait(&mut child, TIME_LIMIT)? else {
        child.kill()?;
        wait(&mut child, KILL_LIMIT)?;
        return Ok(Got::TimedOut);
    };
    let mut said = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_string(&mut said)?;
    }
    Ok(outcome(status, &said))
}

/// Waits, at most so long. What a child says fits into the pipe, so that it never waits for a reader.
fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    loop {
        let status = child.try_wait()?;
        if status.is_some() || start.elapsed() > limit {
            return Ok(status);
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn outcome(status: ExitStatus, said: &str) -> Got {
    // An outcome that was said counts, whatever happened when the driver was unloaded.
    if let Some(got) = heard(said) {
        return got;
    }
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return Got::Crashed { signal };
    }
    Got::NotTried(format!("the process that should perform it ended with {status}"))
}

/// The child's side: performs the misuse here.
pub(crate) fn perform_here(misuse: Misuse, device: u32) -> Got {
    match misuse::perform(misuse, device) {
        Ok(Performed { status, capture, context_survives }) => Got::Returned { status, capture, context_survives },
        Err(why) => Got::NotTried(why.to_string()),
    }
}

/// What the child says on its stdout: one line.
///
/// # Errors
/// It cannot be written.
pub(crate) fn answer(got: &Got, out: &mut impl Write) -> io::Result<()> {
    match got {
        Got::Returned { status, capture, context_survives } => {
            writeln!(out, "returned {status} {} {context_survives}", capture.word())
        }
        Got::NotTried(why) => writeln!(out, "not-tried {why}"),
        Got::Crashed { .. } | Got::TimedOut => Ok(()),
    }
}

/// Reads that line.
fn heard(said: &str) -> Option<Got> {
    let line = said.strip_suffix('\n')?;
    if let Some(why) = line.strip_prefix("not-tried ") {
        return Some(Got::NotTried(why.to_owned()));
    }
    let mut words = line.strip_prefix("returned ")?.split(' ');
    let (status, capture, context_survives) = (words.next()?, words.next()?, words.next()?);
    Some(Got::Returned {
        status: status.parse().ok()?,
        capture: CaptureAfter::from_word(capture)?,
        context_survives: context_survives.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_child_says_is_heard() {
        for got in [
            Got::Returned { status: 900, capture: CaptureAfter::Invalidated, context_survives: true },
            Got::Returned { status: 700, capture: CaptureAfter::None, context_survives: false },
            Got::NotTried("the driver lacks cuStreamQuery".to_owned()),
        ] {
            let mut line = Vec::new();
            answer(&got, &mut line).unwrap();
            assert_eq!(heard(std::str::from_utf8(&line).unwrap()), Some(got));
        }
        for cut in ["", "returned 900 invalidated tr", "returned 900 broken true\n", "hello\n"] {
            assert_eq!(heard(cut), None, "{cut}");
        }
    }
}

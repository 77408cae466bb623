//! What a check found, as a line, and what all of them come to.

use std::error::Error;
use std::fmt;
use std::io::{self, Write};

use super::Stopped;
use crate::device::DeviceError;
use crate::exit::Exit;

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    name: String,
    outcome: Outcome,
    /// The figure and what it is held to; of a check that did not pass, why.
    figure: String,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// As it should.
    Ok,
    /// It did not.
    Failed,
    /// It could not be run here.
    NotAvailable,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Failed => "FAILED",
            Self::NotAvailable => "not available",
        })
    }
}

impl Finding {
    pub(super) fn ok(name: impl Into<String>, figure: impl Into<String>) -> Self {
        Self { name: name.into(), outcome: Outcome::Ok, figure: figure.into() }
    }

    pub(super) fn not_available(name: impl Into<String>, why: impl Into<String>) -> Self {
        Self { name: name.into(), outcome: Outcome::NotAvailable, figure: why.into() }
    }

    pub(super) fn failed_as(name: impl Into<String>, why: impl Into<String>) -> Self {
        Self { name: name.into(), outcome: Outcome::Failed, figure: why.into() }
    }

    pub(super) fn failed(name: impl Into<String>, error: &dyn Error) -> Self {
        Self::failed_as(name, error.to_string())
    }
}

/// What all checks come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Checks that passed.
    pub ok: usize,
    /// Checks that did not.
    pub failed: usize,
    /// Checks that could not be run.
    pub not_available: usize,
}

impl Verdict {
    /// How the program ends.
    pub fn exit(self) -> Exit {
        if self.failed == 0 { Exit::Ok } else { Exit::Unexpected }
    }
}

/// Writes findings as they come, and counts them.
pub(super) struct Report<'w> {
    out: &'w mut dyn Write,
    verdict: Verdict,
}

impl<'w> Report<'w> {
    pub(super) fn new(out: &'w mut dyn Write) -> Self {
        Self { out, verdict: Verdict::default() }
    }

    /// Writes one line; a figure of several lines is indented below it.
    pub(super) fn add(&mut self, finding: Finding) -> io::Result<()> {
        let Finding { name, outcome, figure } = finding;
        match outcome {
            Outcome::Ok => self.verdict.ok += 1,
            Outcome::Failed => self.verdict.failed += 1,
            Outcome::NotAvailable => self.verdict.not_available += 1,
        }
        let mut lines = figure.lines();
        writeln!(self.out, "{outcome:<14} {name:<52} {}", lines.next().unwrap_or_default())?;
        for line in lines {
            writeln!(self.out, "{:<14} {line}", "")?;
        }
        self.out.flush()
    }

    /// Adds a check's result. True if the context is lost, and nothing more can be checked.
    ///
    /// # Errors
    /// The device cannot be used just now, which is no verdict on it; or the line cannot be written.
    pub(super) fn conclude<E: Error + Cause>(
        &mut self,
        name: &str,
        result: Result<String, E>,
    ) -> Result<bool, Stopped> {
        let error = match result {
            Ok(figure) => {
                self.add(Finding::ok(name, figure))?;
                return Ok(false);
            }
            Err(error) => error,
        };
        match error.device() {
            Some(cause) if cause.exit() != Exit::Unexpected => Err(cause.clone().into()),
            cause => {
                let is_lost = matches!(cause, Some(DeviceError::Lost { .. }));
                self.add(Finding::failed(name, &error))?;
                Ok(is_lost)
            }
        }
    }

    /// Writes the last line.
    pub(super) fn verdict(&mut self) -> io::Result<Verdict> {
        let Verdict { ok, failed, not_available } = self.verdict;
        let left_out = if not_available == 0 { String::new() } else { format!(", {not_available} not available") };
        match failed {
            0 => writeln!(self.out, "\nok: {ok} checks passed{left_out}")?,
            _ => writeln!(self.out, "\nFAILED: {failed} of {} checks{left_out}", ok + failed)?,
        }
        Ok(self.verdict)
    }
}

/// An error that the device may be the cause of.
pub(super) trait Cause {
    /// The device's error, if it is one.
    fn device(&self) -> Option<&DeviceError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_lines_and_the_last_one_counts_them() {
        let mut text = Vec::new();
        let mut report = Report::new(&mut text);
        report.add(Finding::ok("this", "1 of 1")).unwrap();
        report.add(Finding::not_available("that", "no library")).unwrap();
        assert_eq!(report.verdict().unwrap().exit(), Exit::Ok);
        report.add(Finding::failed_as("the other", "first line\nsecond line")).unwrap();
        let verdict = report.verdict().unwrap();
        assert_eq!((verdict.exit(), verdict), (Exit::Unexpected, Verdict { ok: 1, failed: 1, not_available: 1 }));
        insta::assert_snapshot!(String::from_utf8(text).unwrap(), @r"
        ok             this                                                 1 of 1
        not available  that                                                 no library

        ok: 1 checks passed, 1 not available
        FAILED         the other                                            first line
                       second line

        FAILED: 1 of 2 checks, 1 not available
        ");
    }
}

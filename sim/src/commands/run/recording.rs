//! What is kept of runs beside their figures.

use std::io;

use super::super::failure::Failure;
use super::logs::Logs;
use super::trace::Trace;

/// Where runs are recorded, as far as that was asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::commands) struct Recording<'a> {
    /// Requests, and perhaps steps.
    pub(super) logs: Option<&'a Logs>,
    /// The trace.
    pub(super) trace: Option<&'a Trace>,
}

impl Recording<'_> {
    /// The failure of whatever could not be written: spools of one place fail together.
    pub(super) fn unwritable(&self, error: io::Error) -> Failure {
        match (self.logs, self.trace) {
            (Some(logs), _) => logs.unwritable(error),
            (None, Some(trace)) => trace.unwritable(error),
            (None, None) => Failure::Stdout(error),
        }
    }
}

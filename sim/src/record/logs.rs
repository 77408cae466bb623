//! Observers that log what happens: requests and steps.

use std::io;

use reports::{Log, RequestRecord, StepRecord};

use super::recorders::{RequestRecorder, StepRecorder};
use crate::observe::{Event, Observer};
use crate::scenario::Slo;
use crate::server::Setup;

/// Logs each request when it finishes or is refused.
pub struct RequestLogger<L> {
    log: L,
    recorder: RequestRecorder,
}

/// Logs each step when its output is applied.
pub struct StepLogger<'a, L> {
    log: L,
    recorder: StepRecorder<'a>,
}

impl<L: Log<RequestRecord>> RequestLogger<L> {
    /// Logs the requests of one candidate and seed.
    #[must_use]
    pub fn new(log: L, candidate: &str, seed: u64, slo: Slo) -> Self {
        Self { log, recorder: RequestRecorder::new(candidate, seed, slo) }
    }

    /// Gives the log back.
    #[must_use]
    pub fn into_log(self) -> L {
        self.log
    }
}

impl<L: Log<RequestRecord>> Observer for RequestLogger<L> {
    fn observe(&mut self, event: &Event<'_>) -> io::Result<()> {
        self.recorder.observe(event, |request| self.log.record(&request))
    }
}

impl<'a, L: Log<StepRecord>> StepLogger<'a, L> {
    /// Logs the steps of one candidate and seed.
    #[must_use]
    pub fn new(log: L, setup: &'a Setup) -> Self {
        Self { log, recorder: StepRecorder::new(setup) }
    }

    /// Gives the log back.
    #[must_use]
    pub fn into_log(self) -> L {
        self.log
    }
}

impl<L: Log<StepRecord>> Observer for StepLogger<'_, L> {
    fn observe(&mut self, event: &Event<'_>) -> io::Result<()> {
        self.recorder.observe(event).map_or(Ok(()), |step| self.log.record(&step))
    }
}

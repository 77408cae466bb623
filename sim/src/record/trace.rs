//! The observer that writes a trace.

use std::io::{self, Write};

use reports::{StepRecord, TraceLog, TraceSpan};

use super::step::step;
use crate::observe::{Event, Observer};
use crate::server::Setup;

/// Writes every step where host and device ran it, when it is scheduled.
pub struct TraceLogger<'a, W: Write> {
    log: TraceLog<W>,
    setup: &'a Setup,
    /// Requests preempted since the last step was scheduled.
    preempted: u32,
}

impl<'a, W: Write> TraceLogger<'a, W> {
    /// Goes on with a log whose process and start-up are written.
    #[must_use]
    pub fn new(log: TraceLog<W>, setup: &'a Setup) -> Self {
        Self { log, setup, preempted: 0 }
    }

    /// Flushes and gives the sink back.
    ///
    /// # Errors
    /// The I/O error of the sink.
    pub fn finish(self) -> io::Result<W> {
        self.log.finish()
    }
}

impl<W: Write> Observer for TraceLogger<'_, W> {
    fn observe(&mut self, event: &Event<'_>) -> io::Result<()> {
        match event {
            Event::RequestPreempted { .. } => self.preempted += 1,
            Event::StepScheduled(scheduled) => {
                let preempted = std::mem::take(&mut self.preempted);
                let span = scheduled.span;
                let span = TraceSpan {
                    host_ns: [span.scheduled, span.host_free].map(|at| at.0),
                    device_ns: [span.device_start, span.end].map(|at| at.0),
                };
                self.log.step(&StepRecord { preempted, ..step(scheduled, self.setup) }, span)?;
            }
            _ => {}
        }
        Ok(())
    }
}

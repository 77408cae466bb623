//! The records of one run as rows.

use std::fmt;
use std::io::{self, Write};

use super::row::Row;
use super::{requests, steps};
use crate::{Log, RequestRecord, StepRecord};

/// Turns the records of one candidate and seed into rows for a [`Table`](super::Table).
///
/// Every row is one write to the sink, so that a sink that cuts what it gets into blocks can cut between rows.
pub struct RowLog<W: Write> {
    sink: W,
    candidate: String,
    seed: u64,
    row: Vec<u8>,
}

impl<W: Write> RowLog<W> {
    /// A log into `sink`.
    pub fn new(sink: W, candidate: &str, seed: u64) -> Self {
        Self { sink, candidate: candidate.to_owned(), seed, row: Vec::new() }
    }

    /// Writes one row, whole.
    fn row(&mut self, fill: impl FnOnce(&mut Row<'_>, &str, u64)) -> io::Result<()> {
        self.row.clear();
        fill(&mut Row::new(&mut self.row), &self.candidate, self.seed);
        self.sink.write_all(&self.row)
    }

    /// Flushes and gives the sink back.
    ///
    /// # Errors
    /// The I/O error of the sink, unchanged.
    pub fn finish(mut self) -> io::Result<W> {
        self.sink.flush()?;
        Ok(self.sink)
    }
}

/// One step, for the columns of [`step_columns`](super::step_columns).
impl<W: Write> Log<StepRecord> for RowLog<W> {
    fn record(&mut self, step: &StepRecord) -> io::Result<()> {
        self.row(|row, candidate, seed| steps::fill(row, candidate, seed, step))
    }
}

/// One request, for the columns of [`request_columns`](super::request_columns).
impl<W: Write> Log<RequestRecord> for RowLog<W> {
    fn record(&mut self, request: &RequestRecord) -> io::Result<()> {
        self.row(|row, _, _| requests::fill(row, request))
    }
}

impl<W: Write> fmt::Debug for RowLog<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { candidate, seed, .. } = self;
        f.debug_struct("RowLog").field("candidate", candidate).field("seed", seed).finish_non_exhaustive()
    }
}

//! Recorded traces: what a scenario says about one, and the reader that plays it.
//!
//! A trace is read line by line and never held whole, except where it has to be sorted.

mod format;
mod lines;
mod reader;
mod time;

use std::path::PathBuf;

use calibrate::stderr::printable;
pub use format::{Brought, ColumnNames, LabelColumns, TraceFormat, Wanted};
pub use reader::{SkippedRows, TraceReader};
pub use time::TimeUnit;

/// A recorded trace and how to read it.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceSource {
    /// The file, ready to open.
    pub path: PathBuf,
    /// Its format; `None` tells it from the first line.
    pub format: Option<TraceFormat>,
    /// How many times faster than recorded: 2 halves every gap.
    pub rate_multiplier: f64,
    /// Most usable rows to read; of a trace to be sorted, the earliest ones.
    pub limit: Option<u64>,
    /// What to do about rows that are not in order of time.
    pub unsorted: Unsorted,
    /// What to do about rows that cannot be used.
    pub bad_rows: BadRows,
}

impl TraceSource {
    /// The file for messages, as it can be opened from the current folder.
    pub(super) fn shown(&self) -> String {
        printable(&self.path.display().to_string())
    }
}

/// What to do about rows that are not in order of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unsorted {
    /// Refuse the trace.
    #[default]
    Refuse,
    /// Sort it, keeping the order of equal times; this holds the whole trace in memory.
    Sort,
}

/// What to do about rows that cannot be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BadRows {
    /// Refuse the trace at the first one.
    #[default]
    Refuse,
    /// Leave them out and count them.
    Skip,
}

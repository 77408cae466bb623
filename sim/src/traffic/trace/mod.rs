//! Recorded traces.

use std::path::PathBuf;

/// A recorded trace and how to read it.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceSource {
    /// The file, ready to open.
    pub path: PathBuf,
    /// The file as the scenario writes it, for messages.
    pub label: String,
    /// Its format; `None` tells it from the first line.
    pub format: Option<TraceFormat>,
    /// How many times faster than recorded: 2 halves every gap.
    pub rate_multiplier: f64,
    /// Most rows to use.
    pub limit: Option<u64>,
    /// What to do about rows that are not in order of time.
    pub unsorted: Unsorted,
    /// What to do about rows that cannot be used.
    pub bad_rows: BadRows,
}

/// The format of a trace file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// Comma-separated with a header line and named columns.
    Csv(ColumnNames),
    /// Azure LLM inference traces: `TIMESTAMP,ContextTokens,GeneratedTokens`, a date and time of day per row.
    Azure,
    /// Vidur: `arrived_at,num_prefill_tokens,num_decode_tokens`, seconds; lengths-only files lack the first column.
    Vidur,
    /// Mooncake: one JSON object a line with `timestamp` (ms), `input_length`, `output_length`; `hash_ids` are ignored.
    Mooncake,
}

/// The columns of a comma-separated trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnNames {
    /// Arrival time.
    pub arrival: String,
    /// Prompt length, in tokens.
    pub prompt: String,
    /// Output length, in tokens.
    pub output: String,
    /// Unit of a numeric arrival time; a date and time of day needs none.
    pub time_unit: TimeUnit,
}

/// Unit of a numeric time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds.
    Microseconds,
    /// Nanoseconds.
    Nanoseconds,
}

/// What to do about rows that are not in order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsorted {
    /// Refuse the trace.
    Refuse,
    /// Sort it, keeping the order of equal times; this holds the whole trace in memory.
    Sort,
}

/// What to do about rows that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadRows {
    /// Refuse the trace at the first one.
    Refuse,
    /// Leave them out and count them.
    Skip,
}

/// The rows left out so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkippedRows {
    /// How many.
    pub count: u64,
    /// Line number of the first one, from 1.
    pub first_line: Option<u64>,
}

/// One usable row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRow {
    /// Arrival in nanoseconds: since an epoch of the file's own choosing; 0 where times are not asked for.
    pub time_ns: i128,
    /// Prompt length, in tokens.
    pub prompt_tokens: u32,
    /// Output length, in tokens.
    pub output_tokens: u32,
}

/// Reads a trace row by row.
#[derive(Debug)]
pub struct TraceReader {}

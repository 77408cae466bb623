//! What can go wrong between a traffic description and its requests.

use std::io;

use miette::Diagnostic;

/// A traffic source that cannot give requests. Every message names the file, and the line where there is one.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum TrafficError {
    /// The file cannot be opened.
    #[error("cannot open the trace {file}")]
    #[diagnostic(help("the path is taken relative to the folder of the scenario; check its spelling and permissions"))]
    Open {
        /// The file.
        file: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Reading failed part of the way through.
    #[error("cannot read {file} after line {line}")]
    #[diagnostic(help("check that it is a file, and that the disk it lies on is sound"))]
    Read {
        /// The file.
        file: String,
        /// The last line read.
        line: u64,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The first line is that of no known format.
    #[error("{file}:1: {problem}")]
    Header {
        /// The file.
        file: String,
        /// What is wrong.
        problem: String,
        /// What to do.
        #[help]
        help: String,
    },
    /// The first line lacks a column that is needed.
    #[error("{file}:1: {problem}")]
    Column {
        /// The file.
        file: String,
        /// Its name, as looked for.
        column: String,
        /// What the line has instead.
        problem: String,
        /// What to do.
        #[help]
        help: String,
    },
    /// A row cannot be used.
    #[error("{file}:{line}: {problem}\n  in {text}")]
    BadRow {
        /// The file.
        file: String,
        /// Line number, from 1.
        line: u64,
        /// The column, or `row`, and what was expected there.
        problem: String,
        /// The row, shortened.
        text: String,
        /// What to do.
        #[help]
        help: String,
    },
    /// A row is earlier than the one before.
    #[error("{file}:{line}: this row arrives {earlier_by_s} s before the row above it")]
    #[diagnostic(help("sort the file by time, or set `unsorted = \"sort\"` (which holds the whole trace in memory)"))]
    Unsorted {
        /// The file.
        file: String,
        /// Line number, from 1.
        line: u64,
        /// By how much, in seconds.
        earlier_by_s: f64,
    },
    /// No usable row.
    #[error("{file} holds no requests{}", after_skipping(*.skipped))]
    #[diagnostic(help("a header line and at least one row are needed"))]
    Empty {
        /// The file.
        file: String,
        /// Rows left out as bad.
        skipped: u64,
    },
    /// More requests asked for than the trace has rows.
    #[error("{file} holds {rows} {}, fewer than the requests asked for", if *.rows == 1 { "row" } else { "rows" })]
    #[diagnostic(help("lower `requests`, or set `repeat = true` under [traffic.lengths.trace]"))]
    LengthsEnd {
        /// The file.
        file: String,
        /// Usable rows.
        rows: u64,
    },
    /// Nothing says how many requests there are.
    #[error("this traffic has no end: the number of requests is not given")]
    #[diagnostic(help("set `requests` under [traffic], or pass --requests"))]
    Endless,
    /// Traffic that is a histogram of step shapes has no requests.
    #[error("this traffic is a histogram of step shapes and has no requests to send")]
    #[diagnostic(help("use `sim price`, or describe [traffic.arrivals] and [traffic.lengths]"))]
    StepsOnly,
}

fn after_skipping(rows: u64) -> String {
    match rows {
        0 => String::new(),
        1 => " (1 row was skipped)".to_owned(),
        _ => format!(" ({rows} rows were skipped)"),
    }
}

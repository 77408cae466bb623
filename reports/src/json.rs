//! Reports as JSON: pretty, keys in the order of the record's fields, numbers in their shortest exact form.

use std::io::{self, Write};

use serde::Serialize;

/// Writes one report on one line: for files that no person reads.
///
/// # Errors
/// The I/O error of the sink, unchanged.
pub fn write_line(report: &impl Serialize, sink: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut *sink, report)?;
    sink.write_all(b"\n")
}

/// Writes one report and a final newline. Numbers that are not finite come out as null.
///
/// # Errors
/// The I/O error of the sink, unchanged.
pub fn write(report: &impl Serialize, sink: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *sink, report)?;
    sink.write_all(b"\n")
}

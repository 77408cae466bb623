//! `--format`.

use clap::ValueEnum;

/// How a report is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Tables for people.
    #[default]
    Text,
    /// One JSON document, every field documented in reports/SCHEMA.md.
    Json,
    /// One header row, then one row for each candidate (ladder: descriptor; explain: way to run the step).
    Csv,
}

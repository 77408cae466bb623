//! `requests.parquet`: one row a request.

use super::column::{Column, Kind};
use super::row::Row;
use crate::RequestRecord;

/// The columns of `requests.parquet`: those of `requests.csv`.
#[must_use]
pub fn request_columns() -> Vec<Column> {
    use Kind::{Count32, Count64, Flag, Number, Text};
    [
        ("candidate", Text),
        ("seed", Count64),
        ("id", Count64),
        ("arrival_s", Number),
        ("prompt_tokens", Count32),
        ("output_tokens", Count32),
        ("outcome", Text),
        ("ttft_ms", Number),
        ("tpot_ms", Number),
        ("e2el_ms", Number),
        ("preemptions", Count32),
        ("good", Flag),
    ]
    .map(|(name, kind)| Column::new(name, kind))
    .into()
}

/// One request, in the order of the columns.
pub(super) fn fill(row: &mut Row<'_>, request: &RequestRecord) {
    row.text(&*request.candidate)
        .count64(request.seed)
        .count64(request.id)
        .number(request.arrival_s)
        .count32(request.prompt_tokens)
        .count32(request.output_tokens)
        .text(&*request.outcome)
        .number(request.ttft_ms)
        .number(request.tpot_ms)
        .number(request.e2el_ms)
        .count32(request.preemptions)
        .flag(request.good);
}

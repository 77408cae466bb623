//! A plain table of measured steps: `mode`, `rows`, `requests`, `context`, `milliseconds`.
//!
//! `mode` is how the step ran: FULL, PIECEWISE, NONE (the compiled model without a graph) or EAGER (without compilation).
//! `rows` are those that ran, padding included; `context` is the mean of the decoding requests' KV tokens. Where a step
//! computes prompt tokens, `chunk` says how many; its request is not among `requests`, which decode.

use super::sheet::{Sheet, shown};
use crate::cost::Execution;
use crate::fit::FitError;
use crate::fit::measured_step::{Clock, MeasuredStep};

const COLUMNS: [&str; 5] = ["mode", "rows", "requests", "context", "milliseconds"];
/// The most rows of a step that anybody runs.
const ROWS_MAX: u32 = 1 << 20;
/// A step takes between 10 us and 100 s: outside the unit is another one.
const PLAUSIBLE_MS: [f64; 2] = [0.01, 1e5];

/// Whether the columns are those of such a table.
#[must_use]
pub fn is_steps(sheet: &Sheet) -> bool {
    sheet.has("mode") && sheet.has("rows") && COLUMNS.iter().filter(|name| sheet.has(name)).count() >= 3
}

/// Reads the steps.
///
/// # Errors
/// A missing column, or a cell that holds something else.
pub fn read(sheet: &Sheet) -> Result<Vec<MeasuredStep>, FitError> {
    let [mode, rows, requests, context, milliseconds] = COLUMNS.map(|name| sheet.column(name));
    let (mode, rows, requests, context) = (mode?, rows?, requests?, context?);
    let milliseconds = milliseconds?;
    let chunk = sheet.find("chunk");
    let mut steps = Vec::with_capacity(sheet.len());
    for row in sheet.rows() {
        let execution = match row.text(&mode).to_ascii_uppercase().as_str() {
            "FULL" => Execution::Full,
            "PIECEWISE" => Execution::Piecewise,
            "NONE" | "COMPILED" => Execution::CompiledEager,
            "EAGER" => Execution::Eager,
            _ => {
                let problem =
                    format!("column mode: `{}`: expected FULL, PIECEWISE, NONE or EAGER", shown(row.text(&mode)));
                return Err(
                    row.fault(problem, "NONE is the compiled model without a graph, EAGER a model without compilation")
                );
            }
        };
        let chunk = chunk.as_ref().map_or(Ok(0), |chunk| row.count(chunk))?;
        let (rows, requests) = (row.count(&rows)?, row.count(&requests)?);
        if rows > ROWS_MAX || u64::from(requests) + u64::from(chunk) > u64::from(rows) || requests + chunk == 0 {
            let problem = format!("{rows} rows for {requests} decoding requests and {chunk} prompt tokens");
            let help = "rows are those that ran: one at least for each request and prompt token, padding included";
            return Err(row.fault(problem, help));
        }
        let ms = row.time(&milliseconds)?;
        if !(PLAUSIBLE_MS[0]..=PLAUSIBLE_MS[1]).contains(&ms) {
            let problem =
                format!("column milliseconds: {ms}: expected {} to {} ms a step", PLAUSIBLE_MS[0], PLAUSIBLE_MS[1]);
            return Err(row.fault(problem, "check the unit"));
        }
        steps.push(MeasuredStep {
            line: row.line,
            execution,
            rows,
            work: MeasuredStep::work(requests, row.quantity(&context)?, chunk, 0),
            us: ms * 1e3,
            count: 1,
            clock: Clock::Period,
        });
    }
    Ok(steps)
}

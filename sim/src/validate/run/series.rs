//! `vllm_run_NAME_timeseries.csv`: what the server's own counters said once a tick.

use super::requests::RUN_S_MAX;
use super::{Text, WHOLE};
use crate::validate::ValidateError;

/// One tick of the series.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MeasuredTick {
    /// When it ended, in seconds since the first one began.
    pub at_s: f64,
    /// Prompt tokens a second, counted when a request's first token comes.
    pub prompt_tokens_per_s: f64,
    /// Output tokens a second.
    pub output_tokens_per_s: f64,
    /// Requests running at its end.
    pub running: f64,
    /// Requests waiting at its end.
    pub waiting: f64,
    /// Share of the KV pool in use at its end; `None` in a series without that column.
    pub kv_share: Option<f64>,
}

const COLUMNS: [&str; 5] = ["t", "prompt_throughput", "gen_throughput", "running", "waiting"];

/// The KV pool in use, in percent; not every series has it, and 0 all through says nothing.
const KV: &str = "kv_cache_pct";

/// All of the pool, with what rounding adds.
const PERCENT_MAX: f64 = 100.01;

/// Whether a tick is dated in seconds since 1970: from September 2001 to 2286.
fn is_since_1970(tick: &MeasuredTick) -> bool {
    (1e9..1e10).contains(&tick.at_s)
}

/// Dates ticks that were dated since 1970 since the beginning of the first, which is as long as the second.
fn from_the_beginning(file: &str, ticks: &mut [MeasuredTick]) -> Result<(), ValidateError> {
    let begin_s = match ticks {
        [first, ..] if !is_since_1970(first) => return Ok(()),
        [first, second, ..] => 2.0 * first.at_s - second.at_s,
        [first] => {
            let problem = format!("t of the only tick is {}, and how long it was cannot be told", first.at_s);
            return Err(ValidateError::file(file, problem, "give the time since the benchmark began, in seconds"));
        }
        [] => return Ok(()),
    };
    for tick in ticks {
        tick.at_s -= begin_s;
    }
    Ok(())
}

/// Reads the series.
///
/// # Errors
/// A column is missing, a cell is no number that it can be, or time does not rise.
pub fn read_series(text: &Text) -> Result<Vec<MeasuredTick>, ValidateError> {
    let file = &text.file;
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.text.as_bytes());
    let unreadable = |error: &csv::Error| {
        let line = error.position().map_or(1, csv::Position::line);
        ValidateError::line(file, line, format!("no row of a series: {error}"), WHOLE)
    };
    let header = reader.headers().map_err(|error| unreadable(&error))?.clone();
    let mut places = [0; COLUMNS.len()];
    for (place, column) in places.iter_mut().zip(COLUMNS) {
        *place = header.iter().position(|name| name == column).ok_or_else(|| {
            let names: Vec<&str> = header.iter().collect();
            let problem = format!("no column {column} among {}", calibrate::stderr::printable(&names.join(", ")));
            ValidateError::line(file, 1, problem, format!("a series has the columns {}", COLUMNS.join(", ")))
        })?;
    }
    let kv_place = header.iter().position(|name| name == KV);
    let mut ticks: Vec<MeasuredTick> = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| unreadable(&error))?;
        let line = record.position().map_or(0, csv::Position::line);
        let number = |column: &str, place: usize| {
            let text = record.get(place).unwrap_or_default();
            let value = text.parse::<f64>().ok().filter(|value| (0.0..=1e12).contains(value));
            value.ok_or_else(|| {
                let problem = format!("{column} is `{}`, expected a number from 0", calibrate::stderr::printable(text));
                ValidateError::line(file, line, problem, WHOLE)
            })
        };
        let cell = |index: usize| number(COLUMNS[index], places[index]);
        let percent = |place: usize| match number(KV, place)? {
            percent @ 0.0..=PERCENT_MAX => Ok(percent),
            percent => {
                let problem = format!("{KV} is {percent}, expected 0 to 100");
                Err(ValidateError::line(file, line, problem, "give the share of the KV pool in percent"))
            }
        };
        let tick = MeasuredTick {
            at_s: cell(0)?,
            prompt_tokens_per_s: cell(1)?,
            output_tokens_per_s: cell(2)?,
            running: cell(3)?,
            waiting: cell(4)?,
            kv_share: kv_place.map(percent).transpose()?.map(|percent| percent / 100.0),
        };
        let before_s = ticks.last().map_or(0.0, |before| before.at_s);
        if tick.at_s <= before_s {
            let problem = format!("t is {}, expected more than the {before_s} before it", tick.at_s);
            return Err(ValidateError::line(file, line, problem, WHOLE));
        }
        let first = ticks.first().unwrap_or(&tick);
        let begin_s = if is_since_1970(first) { first.at_s } else { 0.0 };
        if tick.at_s - begin_s > RUN_S_MAX {
            let problem = format!("t is {}, expected at most {RUN_S_MAX} s after {begin_s}", tick.at_s);
            return Err(ValidateError::line(
                file,
                line,
                problem,
                "give the time since the benchmark began, in seconds",
            ));
        }
        ticks.push(tick);
    }
    from_the_beginning(file, &mut ticks)?;
    if ticks.is_empty() {
        return Err(ValidateError::file(file, "no tick below the names of the columns", WHOLE));
    }
    Ok(ticks)
}

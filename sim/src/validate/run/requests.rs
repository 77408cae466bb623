//! `vllm_run_NAME_requests.jsonl`: one object a request, times in seconds of one clock: since the machine started, or since
//! 1970. Only differences of them count.

use std::collections::HashMap;

use serde::Deserialize;

use super::{Text, WHOLE, fault_of_json};
use crate::limits::REQUEST_TOKENS_MAX;
use crate::validate::ValidateError;

/// What one request saw. Times in seconds of the server's own clock.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredRequest {
    /// Its number in the workload, from 0: the digits at the end of its name, or else its place in the file.
    pub number: u32,
    /// Prompt length in tokens.
    pub prompt_tokens: u32,
    /// Tokens that it received.
    pub output_tokens: u32,
    /// When the scheduler got it.
    pub queued_s: f64,
    /// When its first token came.
    pub first_token_s: f64,
    /// When its last token came.
    pub last_token_s: f64,
}

#[derive(Deserialize)]
struct Row {
    request_id: String,
    input_toks: u32,
    output_toks: u32,
    queued_ts: f64,
    first_token_ts: f64,
    last_token_ts: f64,
}

/// Reads the requests, in the order in which they were queued.
///
/// # Errors
/// A line is no such request, two have one name, or there are others than `expected` many.
pub fn read_requests(text: &Text, expected: Option<u64>) -> Result<Vec<MeasuredRequest>, ValidateError> {
    let file = &text.file;
    let mut lines_of: HashMap<String, u64> = HashMap::new();
    let mut lines_of_numbers: HashMap<u32, u64> = HashMap::new();
    let mut requests: Vec<MeasuredRequest> = Vec::new();
    let mut lines: Vec<u64> = Vec::new();
    for (place, (line, json)) in (0..).zip(text.lines()) {
        let row: Row = serde_json::from_str(json).map_err(|error| {
            ValidateError::line(file, line, format!("not a request of a run: {}", fault_of_json(&error)), WHOLE)
        })?;
        check(&row).map_err(|problem| ValidateError::line(file, line, problem, "check the clock of the benchmark"))?;
        if let Some(before) = lines_of.insert(row.request_id.clone(), line) {
            let problem = format!("request_id {} is on line {before} too", row.request_id);
            return Err(ValidateError::line(file, line, problem, "give the requests of one run"));
        }
        let number = number(&row.request_id).unwrap_or(place);
        if let Some(before) = lines_of_numbers.insert(number, line) {
            let problem = format!("request_id {} is number {number}, as the one on line {before}", row.request_id);
            return Err(ValidateError::line(file, line, problem, "give the requests of one run"));
        }
        lines.push(line);
        requests.push(MeasuredRequest {
            number,
            prompt_tokens: row.input_toks,
            output_tokens: row.output_toks,
            queued_s: row.queued_ts,
            first_token_s: row.first_token_ts,
            last_token_s: row.last_token_ts,
        });
    }
    by_one_clock(file, &lines, &requests)?;
    let found = requests.len() as u64;
    if let Some(expected) = expected.filter(|&expected| expected != found) {
        let problem = format!("{found} requests, but meta.json says that {expected} were sent");
        return Err(ValidateError::file(file, problem, WHOLE));
    }
    requests.sort_by(|a, b| a.queued_s.total_cmp(&b.queued_s).then(a.number.cmp(&b.number)));
    Ok(requests)
}

/// The latest time: seconds since 1970 reach it in the year 2286, milliseconds since then have passed it in April 1970.
const SECONDS_MAX: f64 = 1e10;

/// The longest run: 30 days. Times that lie further apart are of two clocks.
pub(super) const RUN_S_MAX: f64 = 30.0 * 86_400.0;

fn check(row: &Row) -> Result<(), String> {
    for (key, tokens) in [("input_toks", row.input_toks), ("output_toks", row.output_toks)] {
        if !(1..=REQUEST_TOKENS_MAX).contains(&tokens) {
            return Err(format!("{key} is {tokens}, expected 1 to {REQUEST_TOKENS_MAX}"));
        }
    }
    let times =
        [("queued_ts", row.queued_ts), ("first_token_ts", row.first_token_ts), ("last_token_ts", row.last_token_ts)];
    for (key, seconds) in times {
        if !(0.0..=SECONDS_MAX).contains(&seconds) {
            return Err(format!("{key} is {seconds}, expected 0 to {SECONDS_MAX} seconds"));
        }
    }
    for [(earlier, before), (later, after)] in [[times[0], times[1]], [times[1], times[2]]] {
        if after < before {
            return Err(format!("{later} is {} s before {earlier}", before - after));
        }
    }
    Ok(())
}

/// Makes sure that the requests lie no further apart than a run is long.
fn by_one_clock(file: &str, lines: &[u64], requests: &[MeasuredRequest]) -> Result<(), ValidateError> {
    let placed = || lines.iter().zip(requests);
    let Some((first_line, first)) = placed().min_by(|(_, a), (_, b)| a.queued_s.total_cmp(&b.queued_s)) else {
        return Ok(());
    };
    let after_s = |request: &MeasuredRequest| request.last_token_s - first.queued_s;
    let Some((line, request)) = placed().find(|(_, request)| after_s(request) > RUN_S_MAX) else { return Ok(()) };
    let problem = format!(
        "last_token_ts is {:.0} s after the earliest queued_ts, on line {first_line}, expected at most {RUN_S_MAX}",
        after_s(request)
    );
    Err(ValidateError::line(file, *line, problem, "give all times of a run by one clock, in seconds"))
}

/// The digits at the end of a name.
fn number(name: &str) -> Option<u32> {
    let start = name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    name[start..].parse().ok()
}

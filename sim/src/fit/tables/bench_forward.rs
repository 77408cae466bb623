//! The JSON of `vllm bench forward`: forward passes of chosen batches, on every rank.

use serde::Deserialize;

use crate::cost::{Execution, StepWork};
use crate::fit::measured_step::{Clock, MeasuredStep};
use crate::fit::{FitError, Source};

/// The most tokens of a batch that anybody runs.
const ROWS_MAX: u32 = 1 << 20;

#[derive(Deserialize)]
struct Case {
    #[serde(rename = "case")]
    name: String,
    requests: Vec<Request>,
    median_us: f64,
    ranks: Vec<Rank>,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
struct Request {
    query_len: u32,
    kv_len: u32,
    #[serde(default)]
    num_draft_tokens: u32,
    #[serde(default)]
    chunked: bool,
}

#[derive(Deserialize)]
struct Rank {
    num_tokens: u32,
    num_tokens_after_padding: u32,
}

/// Reads the cases. A case whose requests are all alike may list one of them for all: its tokens tell how many there are.
///
/// # Errors
/// It is no such JSON, or a case of it cannot be.
pub fn read(source: &Source) -> Result<Vec<MeasuredStep>, FitError> {
    let text = source.text.trim_start_matches('\u{feff}');
    let cases: Vec<Case> = serde_json::from_str(text).map_err(|error| {
        let problem = format!("column {}: no JSON of `vllm bench forward`: {error}", error.column());
        let help = "expected a list of cases with case, requests, median_us and ranks; the file may be cut off";
        FitError::line(&source.file, error.line().max(1) as u64, problem, help)
    })?;
    if cases.is_empty() {
        return Err(FitError::file(&source.file, "no case", "run `vllm bench forward` with some"));
    }
    cases.iter().map(|case| step(case, &source.file)).collect()
}

fn step(case: &Case, file: &str) -> Result<MeasuredStep, FitError> {
    let name = super::sheet::shown(&case.name);
    let wrong = |problem: String| FitError::file(file, format!("case {name}: {problem}"), "leave the case out");
    if !(case.median_us.is_finite() && case.median_us > 0.0) {
        return Err(wrong(format!("median_us {}: expected microseconds, more than zero", case.median_us)));
    }
    // Every rank has the batch; the slowest of them, which the median of the case is, holds the others up.
    let rank = case.ranks.iter().max_by_key(|rank| rank.num_tokens).ok_or_else(|| wrong("no rank".to_owned()))?;
    let (first, listed) = match &case.requests[..] {
        [] => return Err(wrong("no request".to_owned())),
        requests => (requests[0], requests),
    };
    let tokens: u64 = listed.iter().map(|request| u64::from(request.query_len)).sum();
    let are_alike = listed.iter().all(|request| *request == first);
    let times = match u64::from(rank.num_tokens) {
        all if tokens == all => 1,
        all if are_alike && tokens > 0 && all.is_multiple_of(tokens) => all / tokens,
        all => return Err(wrong(format!("requests of {tokens} tokens in a batch of {all}"))),
    };
    if rank.num_tokens_after_padding > ROWS_MAX {
        return Err(wrong(format!("{} tokens: expected at most {ROWS_MAX}", rank.num_tokens_after_padding)));
    }
    if rank.num_tokens_after_padding < rank.num_tokens || rank.num_tokens == 0 {
        return Err(wrong(format!("{} tokens after padding {}", rank.num_tokens_after_padding, rank.num_tokens)));
    }
    let mut work = StepWork { tokens: rank.num_tokens, ..StepWork::default() };
    for request in listed.iter().flat_map(|request| std::iter::repeat_n(request, times as usize)) {
        if request.kv_len < request.query_len || request.query_len == 0 {
            return Err(wrong(format!("{} tokens of a request with {} in all", request.query_len, request.kv_len)));
        }
        work.requests += 1;
        work.sampled += 1;
        work.drafts += request.num_draft_tokens;
        if request.chunked || request.query_len > 1 + request.num_draft_tokens {
            work.add_chunk(request.query_len, request.kv_len - request.query_len);
        } else {
            work.decode_requests += 1;
            work.decode_context_tokens += u64::from(request.kv_len);
        }
    }
    Ok(MeasuredStep {
        line: 0,
        execution: Execution::Full,
        rows: rank.num_tokens_after_padding,
        work,
        us: case.median_us,
        count: 1,
        clock: Clock::Forward,
    })
}

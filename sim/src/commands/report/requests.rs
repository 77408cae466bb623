//! requests.csv as distributions of latencies.

use std::io::Read;

use reports::page::CandidateLatencies;
use reports::{CandidateReport, Figure, RequestRecord};

/// What is wrong with the file, and where.
#[derive(Debug)]
pub(super) struct Fault {
    /// The line, from 1.
    pub(super) line: u64,
    /// What.
    pub(super) problem: String,
}

impl Fault {
    fn of(error: &csv::Error) -> Self {
        Self { line: error.position().map_or(1, csv::Position::line), problem: problem(error) }
    }
}

/// Counts the latencies of the requests that the figures are of: those that finished, without what the warm-up cut leaves out.
///
/// `expected_rows` are those of each candidate, where the run says how many.
///
/// # Errors
/// A row that is no request, or is of a candidate that the run does not have; rows that are missing or too many.
pub(super) fn latencies(
    source: impl Read,
    candidates: &[CandidateReport],
    expected_rows: Option<u64>,
) -> Result<Vec<CandidateLatencies>, Fault> {
    let mut found: Vec<CandidateLatencies> = candidates
        .iter()
        .map(|candidate| CandidateLatencies { candidate: candidate.name.clone(), ..CandidateLatencies::default() })
        .collect();
    let mut reader = csv::Reader::from_reader(source);
    let header = reader.headers().map_err(|error| Fault::of(&error))?.clone();
    let (mut last, mut line) = (0, 1);
    let mut rows = vec![0_u64; candidates.len()];
    for record in reader.records() {
        let record = record.map_err(|error| Fault::of(&error))?;
        line = record.position().map_or(line, csv::Position::line);
        let wrong = |problem: String| Fault { line, problem };
        let request: RequestRecord = record.deserialize(Some(&header)).map_err(|error| wrong(problem(&error)))?;
        // Rows stand candidate by candidate.
        if found[last].candidate != request.candidate {
            let place = candidates.iter().position(|candidate| candidate.name == request.candidate);
            last = place.ok_or_else(|| {
                wrong(format!("candidate `{}` is not one of run.json: files of two runs are mixed", request.candidate))
            })?;
        }
        rows[last] += 1;
        if before_cut(&request, &candidates[last]) {
            continue;
        }
        let counts = &mut found[last];
        for (count, ms) in [
            (&mut counts.ttft, request.ttft_ms),
            (&mut counts.tpot, request.tpot_ms),
            (&mut counts.e2el, request.e2el_ms),
        ] {
            if let Some(ms) = ms.filter(|_| request.outcome == "finished") {
                count.add(ms);
            }
        }
    }
    for (candidate, rows) in candidates.iter().zip(rows) {
        if let Some(expected) = expected_rows.filter(|expected| rows != *expected) {
            let problem = format!("it has {rows} requests of candidate `{}`, the run had {expected}", candidate.name);
            return Err(Fault { line, problem });
        }
    }
    Ok(found)
}

/// Whether the warm-up cut leaves the request out. The cut is a number of requests, the same with every seed, or a time.
fn before_cut(request: &RequestRecord, candidate: &CandidateReport) -> bool {
    let settled = |figure: &Figure| match figure {
        Figure::Interval(interval) => (interval.low.to_bits() == interval.high.to_bits()).then_some(interval.mean),
        other => other.mean(),
    };
    match (settled(&candidate.cold_start.requests), settled(&candidate.cold_start.until_s)) {
        (Some(requests), _) => (request.id as f64) < requests,
        (None, Some(until_s)) => request.arrival_s < until_s,
        (None, None) => false,
    }
}

fn problem(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("it has {len} cells, the header {expected_len}")
        }
        csv::ErrorKind::Deserialize { err, .. } => err.to_string(),
        _ => error.to_string(),
    }
}

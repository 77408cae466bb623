//! requests.csv as distributions of latencies.

use std::collections::BTreeMap;
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

/// One request as it was offered, and what was served of it: to tell traffic that is the same from other traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Offered {
    /// Seed and number of the request: candidates finish them in orders of their own.
    pub(super) key: (u64, u64),
    /// Prompt, tokens.
    pub(super) prompt: u32,
    /// Arrival, s.
    pub(super) arrival_s: f64,
    /// Output, tokens; `None` if it did not finish.
    pub(super) output: Option<u32>,
}

/// The requests with some seeds, candidate by candidate, ascending by seed and number.
///
/// # Errors
/// A row that is no request.
pub(super) fn offered(source: impl Read, seeds: &[u64]) -> Result<BTreeMap<String, Vec<Offered>>, Fault> {
    let mut of_candidates: BTreeMap<String, Vec<Offered>> = BTreeMap::new();
    for row in csv::Reader::from_reader(source).deserialize::<RequestRecord>() {
        let request = row.map_err(|error| Fault::of(&error))?;
        if seeds.contains(&request.seed) {
            of_candidates.entry(request.candidate).or_default().push(Offered {
                key: (request.seed, request.id),
                prompt: request.prompt_tokens,
                arrival_s: request.arrival_s,
                output: (request.outcome == "finished").then_some(request.output_tokens),
            });
        }
    }
    of_candidates.values_mut().for_each(|requests| requests.sort_by_key(|request| request.key));
    Ok(of_candidates)
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

#[cfg(test)]
mod tests {
    use reports::ColdStart;

    use super::*;

    const ROWS: &str = "\
candidate,seed,id,arrival_s,prompt_tokens,output_tokens,outcome,ttft_ms,tpot_ms,e2el_ms,preemptions,good
a,7,0,0.5,10,2,finished,100.0,10.0,110.0,0,true
a,7,1,1.5,11,2,finished,200.0,20.0,220.0,0,true
a,7,2,2.5,12,0,refused,,,,0,false
b,7,0,0.5,10,2,finished,100.0,10.0,110.0,0,true
b,7,1,1.5,11,2,finished,200.0,20.0,220.0,0,true
b,7,2,2.5,12,0,refused,,,,0,false
";

    fn candidates(cut: ColdStart) -> Vec<CandidateReport> {
        ["a", "b"]
            .map(|name| CandidateReport { name: name.into(), cold_start: cut, ..CandidateReport::default() })
            .into()
    }

    fn counted(cut: ColdStart) -> [u64; 2] {
        let found = latencies(ROWS.as_bytes(), &candidates(cut), Some(3)).expect("sound");
        [found[0].ttft.total(), found[1].e2el.total()]
    }

    #[test]
    fn what_the_cut_leaves_out_is_not_counted() {
        let varying = Figure::over_seeds(&[Figure::from(1.0), Figure::from(2.0)]);
        assert_eq!(counted(ColdStart::default()), [2, 2], "without a cut all that finished");
        assert_eq!(counted(ColdStart { requests: 1_u64.into(), until_s: varying, ..ColdStart::default() }), [1, 1]);
        assert_eq!(counted(ColdStart { requests: varying, until_s: 1.0.into(), ..ColdStart::default() }), [1, 1]);
    }

    #[test]
    fn rows_that_are_missing_or_foreign_are_faults() {
        let faults = |rows: &str, expected| {
            latencies(rows.as_bytes(), &candidates(ColdStart::default()), Some(expected)).expect_err("a fault")
        };
        let missing = faults(&ROWS[..ROWS.len() - 30], 3);
        assert_eq!(missing.line, 7, "{missing:?}");
        assert!(faults(ROWS, 4).problem.contains("3 requests of candidate `a`, the run had 4"));
        let foreign = faults(&ROWS.replace("b,7,1", "c,7,1"), 3);
        assert_eq!((foreign.line, foreign.problem.contains("`c` is not one of run.json")), (6, true));
    }

    #[test]
    fn offered_requests_do_not_depend_on_the_order_of_completion() {
        let found = offered(ROWS.as_bytes(), &[7]).expect("sound");
        let (header, rows) = ROWS.split_once('\n').expect("a header");
        let turned: Vec<&str> = std::iter::once(header).chain(rows.lines().rev()).collect();
        assert_eq!(offered(turned.join("\n").as_bytes(), &[7]).expect("sound"), found);
        let of_b: Vec<_> = found["b"].iter().map(|request| (request.key, request.prompt, request.output)).collect();
        assert_eq!(of_b, [((7, 0), 10, Some(2)), ((7, 1), 11, Some(2)), ((7, 2), 12, None)]);
        assert!(offered(ROWS.as_bytes(), &[8]).expect("sound").is_empty());
    }
}

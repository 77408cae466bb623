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

/// What run.json says of the rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected<'a> {
    /// The candidates.
    pub(super) candidates: &'a [CandidateReport],
    /// The seeds.
    pub(super) seeds: &'a [u64],
    /// Rows of each candidate, where the run says how many.
    pub(super) rows: Option<u64>,
}

/// What the rows of one candidate come to, without what its warm-up cut leaves out.
#[derive(Clone, Debug, Default)]
struct Tally {
    rows: u64,
    finished: u64,
    refused: u64,
    /// Requests that finished and the sum of their end-to-end latencies, ms, by seed.
    e2el: BTreeMap<u64, (u64, f64)>,
}

impl Tally {
    fn add(&mut self, request: &RequestRecord) {
        match request.outcome.as_str() {
            "finished" => self.finished += 1,
            "refused" => self.refused += 1,
            _ => {}
        }
        if let Some(ms) = request.e2el_ms.filter(|_| request.outcome == "finished") {
            let (count, sum) = self.e2el.entry(request.seed).or_default();
            *count += 1;
            *sum += ms;
        }
    }

    /// What run.json has otherwise.
    fn contradiction(&self, candidate: &CandidateReport, seeds: usize) -> Option<String> {
        let name = &candidate.name;
        for (what, count, figure) in
            [("finished", self.finished, candidate.completed), ("refused", self.refused, candidate.refused)]
        {
            let expected = figure.mean().map(|mean| mean * seeds as f64);
            if let Some(expected) = expected.filter(|expected| (expected - count as f64).abs() > 0.5) {
                return Some(format!("{count} requests of candidate `{name}` {what} here, {expected:.0} in run.json"));
            }
        }
        let means = self.e2el.values().map(|(count, sum)| sum / *count as f64);
        let mean = means.sum::<f64>() / self.e2el.len() as f64;
        let expected = candidate.mean_e2el_ms.mean().filter(|_| self.e2el.len() == seeds)?;
        ((mean - expected).abs() > ROUNDING * expected.abs()).then(|| {
            format!("the mean end-to-end latency of candidate `{name}` is {mean} ms here, {expected} ms in run.json")
        })
    }
}

/// By which share sums of the same numbers in another order may differ.
pub(super) const ROUNDING: f64 = 1e-9;

/// Hands all rows over, each with the place of its candidate and whether the figures count it: the warm-up cut leaves some out.
///
/// # Errors
/// A row that is no request, or is of a candidate or a seed that the run does not have; rows that are missing or too many, or
/// come to other figures than run.json.
fn read(source: impl Read, run: Expected<'_>, mut each: impl FnMut(usize, RequestRecord, bool)) -> Result<(), Fault> {
    let mut reader = csv::Reader::from_reader(source);
    let header = reader.headers().map_err(|error| Fault::of(&error))?.clone();
    let (mut last, mut line) = (0, 1);
    let mut tallies = vec![Tally::default(); run.candidates.len()];
    for record in reader.records() {
        let record = record.map_err(|error| Fault::of(&error))?;
        line = record.position().map_or(line, csv::Position::line);
        let wrong = |problem: String| Fault { line, problem };
        let request: RequestRecord = record.deserialize(Some(&header)).map_err(|error| wrong(problem(&error)))?;
        // Rows stand candidate by candidate.
        if run.candidates[last].name != request.candidate {
            let place = run.candidates.iter().position(|candidate| candidate.name == request.candidate);
            last = place.ok_or_else(|| {
                wrong(format!("candidate `{}` is not one of run.json: files of two runs are mixed", request.candidate))
            })?;
        }
        if !run.seeds.contains(&request.seed) {
            return Err(wrong(format!("files of two runs are mixed: run.json has no seed {}", request.seed)));
        }
        let is_counted = !before_cut(&request, &run.candidates[last]);
        tallies[last].rows += 1;
        if is_counted {
            tallies[last].add(&request);
        }
        each(last, request, is_counted);
    }
    for (candidate, tally) in run.candidates.iter().zip(&tallies) {
        if let Some(expected) = run.rows.filter(|expected| tally.rows != *expected) {
            let problem =
                format!("it has {} requests of candidate `{}`, the run had {expected}", tally.rows, candidate.name);
            return Err(Fault { line, problem });
        }
        let contradiction =
            tally.contradiction(candidate, run.seeds.len()).filter(|_| cut(candidate) != Cut::OfEachSeed);
        if let Some(contradiction) = contradiction {
            return Err(Fault { line, problem: format!("files of two runs are mixed: {contradiction}") });
        }
    }
    Ok(())
}

/// Counts the latencies of the requests that the figures are of: those that finished, without what the warm-up cut leaves out.
///
/// # Errors
/// A row that is no request, or rows that are not those of the run.
pub(super) fn latencies(source: impl Read, run: Expected<'_>) -> Result<Vec<CandidateLatencies>, Fault> {
    let of = |candidate: &CandidateReport| CandidateLatencies {
        candidate: candidate.name.clone(),
        ..CandidateLatencies::default()
    };
    let mut found: Vec<CandidateLatencies> = run.candidates.iter().map(of).collect();
    read(source, run, |place, request, is_counted| {
        let counts = &mut found[place];
        for (count, ms) in [
            (&mut counts.ttft, request.ttft_ms),
            (&mut counts.tpot, request.tpot_ms),
            (&mut counts.e2el, request.e2el_ms),
        ] {
            if let Some(ms) = ms.filter(|_| is_counted && request.outcome == "finished") {
                count.add(ms);
            }
        }
    })?;
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

/// The requests with some of the seeds, candidate by candidate, ascending by seed and number.
///
/// # Errors
/// A row that is no request, or rows that are not those of the run.
pub(super) fn offered(
    source: impl Read,
    run: Expected<'_>,
    seeds: &[u64],
) -> Result<BTreeMap<String, Vec<Offered>>, Fault> {
    let mut of_candidates: BTreeMap<String, Vec<Offered>> = BTreeMap::new();
    read(source, run, |_, request, _| {
        if seeds.contains(&request.seed) {
            of_candidates.entry(request.candidate).or_default().push(Offered {
                key: (request.seed, request.id),
                prompt: request.prompt_tokens,
                arrival_s: request.arrival_s,
                output: (request.outcome == "finished").then_some(request.output_tokens),
            });
        }
    })?;
    for requests in of_candidates.values_mut() {
        requests.sort_by_key(|request| request.key);
    }
    Ok(of_candidates)
}

/// Where the warm-up cut of a candidate falls.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cut {
    /// Nothing is left out, or it is not known.
    None,
    /// Before this request.
    Request(f64),
    /// Before this time, s.
    Second(f64),
    /// At another request and another time with each seed: run.json does not say which.
    OfEachSeed,
}

/// The cut is a number of requests, the same with every seed, or a time.
fn cut(candidate: &CandidateReport) -> Cut {
    let settled = |figure: &Figure| match figure {
        Figure::Interval(interval) => (interval.low.to_bits() == interval.high.to_bits()).then_some(interval.mean),
        other => other.mean(),
    };
    let cold = &candidate.cold_start;
    match (settled(&cold.requests), settled(&cold.until_s)) {
        (Some(requests), _) => Cut::Request(requests),
        (None, Some(until_s)) => Cut::Second(until_s),
        (None, None) if cold.requests.mean().or(cold.until_s.mean()).is_some() => Cut::OfEachSeed,
        (None, None) => Cut::None,
    }
}

/// Whether the warm-up cut leaves the request out.
fn before_cut(request: &RequestRecord, candidate: &CandidateReport) -> bool {
    match cut(candidate) {
        Cut::Request(requests) => (request.id as f64) < requests,
        Cut::Second(until_s) => request.arrival_s < until_s,
        Cut::None | Cut::OfEachSeed => false,
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

    fn expected(candidates: &[CandidateReport], rows: u64) -> Expected<'_> {
        Expected { candidates, seeds: &[7], rows: Some(rows) }
    }

    fn counted(cut: ColdStart) -> [u64; 2] {
        let found = latencies(ROWS.as_bytes(), expected(&candidates(cut), 3)).expect("sound");
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
        let faults = |rows: &str, count| {
            latencies(rows.as_bytes(), expected(&candidates(ColdStart::default()), count)).expect_err("a fault")
        };
        let missing = faults(&ROWS[..ROWS.len() - 30], 3);
        assert_eq!(missing.line, 7, "{missing:?}");
        assert!(faults(ROWS, 4).problem.contains("3 requests of candidate `a`, the run had 4"));
        let foreign = faults(&ROWS.replace("b,7,1", "c,7,1"), 3);
        assert_eq!((foreign.line, foreign.problem.contains("`c` is not one of run.json")), (6, true));
        let seed = faults(&ROWS.replace("b,7,1", "b,8,1"), 3);
        assert_eq!((seed.line, seed.problem.as_str()), (6, "files of two runs are mixed: run.json has no seed 8"));
    }

    #[test]
    fn rows_that_come_to_other_figures_are_faults() {
        let sound = CandidateReport {
            completed: 2_u64.into(),
            refused: 1_u64.into(),
            mean_e2el_ms: 165.0.into(),
            ..CandidateReport::default()
        };
        let read = |change: &dyn Fn(&mut CandidateReport)| {
            let mut found = ["a", "b"].map(|name| CandidateReport { name: name.into(), ..sound.clone() });
            change(&mut found[1]);
            latencies(ROWS.as_bytes(), expected(&found, 3)).map_err(|fault| fault.problem)
        };
        read(&|_| {}).expect("sound");
        for (change, part) in [
            (
                &(|one: &mut CandidateReport| one.completed = 3_u64.into()) as &dyn Fn(&mut CandidateReport),
                "2 requests of",
            ),
            (&|one: &mut CandidateReport| one.refused = 0_u64.into(), "1 requests of candidate `b` refused here, 0"),
            (&|one: &mut CandidateReport| one.mean_e2el_ms = 164.0.into(), "is 165 ms here, 164 ms in run.json"),
        ] {
            let problem = read(change).expect_err(part);
            assert!(problem.starts_with("files of two runs are mixed: ") && problem.contains(part), "{problem}");
        }
    }

    #[test]
    fn offered_requests_do_not_depend_on_the_order_of_completion() {
        let candidates = candidates(ColdStart::default());
        let offered = |rows: &str, seeds: &[u64]| offered(rows.as_bytes(), expected(&candidates, 3), seeds);
        let found = offered(ROWS, &[7]).expect("sound");
        let (header, rows) = ROWS.split_once('\n').expect("a header");
        let turned: Vec<&str> = std::iter::once(header).chain(rows.lines().rev()).collect();
        assert_eq!(offered(&turned.join("\n"), &[7]).expect("sound"), found);
        let of_b: Vec<_> = found["b"].iter().map(|request| (request.key, request.prompt, request.output)).collect();
        assert_eq!(of_b, [((7, 0), 10, Some(2)), ((7, 1), 11, Some(2)), ((7, 2), 12, None)]);
        assert!(offered(ROWS, &[8]).expect("sound").is_empty());
    }
}

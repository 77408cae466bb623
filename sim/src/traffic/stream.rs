//! Requests, one at a time.

use super::acceptance::AcceptanceSource;
use super::arrivals::{ArrivalClock, Arrivals};
use super::labels::{Labeller, Labels};
use super::lengths::LengthSampler;
use super::random::Streams;
use super::ranks::RankStreams;
use super::trace::{SkippedRows, TraceReader, Wanted};
use super::{Lengths, Request, Traffic, TrafficError, TrafficKind};
use crate::engine::request::{RequestId, Slot};
use crate::time::SimTime;

/// A stream of requests in order of arrival. It holds one request at a time, whatever the length of a trace (unless
/// that has to be sorted), and ends after its first error.
pub struct RequestStream {
    source: Source,
    labeller: Labeller,
    acceptance: Option<AcceptanceSource>,
    /// Requests still to give; `None` where only the end of a trace ends the stream.
    left: Option<u64>,
    ended: bool,
}

enum Source {
    Trace(Box<TraceReader>),
    Open { arrivals: ArrivalClock, lengths: LengthSampler },
    Closed { concurrency: u32, lengths: LengthSampler },
    Ranks(RankStreams),
    Listed(std::vec::IntoIter<Request>),
}

impl RequestStream {
    /// These requests, in order of arrival, with what they carry.
    #[must_use]
    pub fn listed(requests: Vec<Request>) -> Self {
        debug_assert!(requests.is_sorted_by_key(|request| request.arrival), "in order of arrival");
        Self {
            source: Source::Listed(requests.into_iter()),
            labeller: Labeller::start(&Labels::default(), Streams::new(0)),
            acceptance: None,
            left: None,
            ended: false,
        }
    }

    pub(super) fn open(traffic: &Traffic, seed: u64) -> Result<Self, TrafficError> {
        let streams = Streams::new(seed);
        let source = match &traffic.kind {
            TrafficKind::Steps(_) => return Err(TrafficError::StepsOnly),
            TrafficKind::Trace(source) => Source::Trace(Box::new(TraceReader::open(source, Wanted::ALL)?)),
            TrafficKind::Ranks(ranks) => Source::Ranks(RankStreams::open(ranks, streams)?),
            TrafficKind::Synthetic { arrivals, lengths } => {
                let ends = matches!(arrivals, Arrivals::Trace(_))
                    || matches!(lengths, Lengths::Trace { repeat: false, .. })
                    || traffic.requests.is_some();
                if !ends {
                    return Err(TrafficError::Endless);
                }
                let sampler = LengthSampler::start(lengths, streams)?;
                match *arrivals {
                    Arrivals::ClosedLoop { concurrency } => Source::Closed { concurrency, lengths: sampler },
                    _ => Source::Open {
                        arrivals: ArrivalClock::start(arrivals, traffic.requests, streams)?,
                        lengths: sampler,
                    },
                }
            }
        };
        let labeller = Labeller::start(&traffic.labels, streams);
        let acceptance = traffic.acceptance.as_ref().map(|acceptance| acceptance.open(seed));
        Ok(Self { source, labeller, acceptance, left: traffic.requests, ended: false })
    }

    /// The number of clients of a closed loop; `None` for traffic whose arrivals do not wait for the server.
    #[must_use]
    pub fn concurrency(&self) -> Option<u32> {
        match self.source {
            Source::Closed { concurrency, .. } => Some(concurrency),
            _ => None,
        }
    }

    /// The next request of a closed loop, sent at `arrival`: at time zero for each client's first one, at a completion
    /// for every other. Open-loop traffic keeps its own arrival times.
    pub fn next_at(&mut self, arrival: SimTime) -> Option<Result<Request, TrafficError>> {
        if self.ended || self.left == Some(0) {
            return None;
        }
        let mut next = self.source.next(arrival, self.left.is_some()).transpose();
        // The streams of ranks have put their own labels on, and listed requests come with theirs.
        if let (Some(Ok(request)), false) = (&mut next, matches!(self.source, Source::Ranks(_) | Source::Listed(_))) {
            self.labeller.label(request);
        }
        self.left = self.left.map(|left| left - 1);
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }

    /// How many of `drafts` drafts the next verification of a request accepts; none where the traffic does not say.
    pub fn accepted(&mut self, id: RequestId, slot: Slot, drafts: u32) -> u32 {
        self.acceptance.as_mut().map_or(0, |acceptance| acceptance.accepted(id, slot, drafts))
    }

    /// Trace rows left out so far as bad; complete once the stream has ended.
    #[must_use]
    pub fn skipped_rows(&self) -> SkippedRows {
        let (first, second) = match &self.source {
            Source::Trace(reader) => (reader.skipped_rows(), SkippedRows::default()),
            Source::Open { arrivals, lengths } => (arrivals.skipped_rows(), lengths.skipped_rows()),
            Source::Closed { lengths, .. } => (lengths.skipped_rows(), SkippedRows::default()),
            Source::Ranks(ranks) => (ranks.skipped_rows(), SkippedRows::default()),
            Source::Listed(_) => (SkippedRows::default(), SkippedRows::default()),
        };
        first.and(second)
    }
}

impl Source {
    /// The next request; `None` at the end of a trace. With `counted` a trace of lengths may not end before the count.
    fn next(&mut self, closed_arrival: SimTime, counted: bool) -> Result<Option<Request>, TrafficError> {
        let (arrival, lengths) = match self {
            Self::Trace(reader) => return reader.next_request(),
            Self::Ranks(ranks) => return ranks.next_request(),
            Self::Listed(requests) => return Ok(requests.next()),
            Self::Open { arrivals, lengths } => match arrivals.next()? {
                None => return Ok(None),
                Some(arrival) => (arrival, lengths),
            },
            Self::Closed { lengths, .. } => (closed_arrival, lengths),
        };
        match lengths.next(arrival)? {
            Some(request) => Ok(Some(request)),
            None if !counted => Ok(None),
            None => {
                let (file, rows) = lengths.trace_end().expect("only a trace ends");
                Err(TrafficError::LengthsEnd { file, rows })
            }
        }
    }
}

impl Iterator for RequestStream {
    type Item = Result<Request, TrafficError>;

    /// The next request. In a closed loop its arrival is zero: use [`RequestStream::next_at`] there.
    fn next(&mut self) -> Option<Self::Item> {
        self.next_at(SimTime::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::super::{BadRows, LengthPair, Spread, TraceSource, Unsorted};
    use super::*;

    const FIXED: Lengths = Lengths::Fixed(LengthPair { prompt_tokens: 8, output_tokens: 2 });

    fn synthetic(arrivals: Arrivals, lengths: Lengths, requests: Option<u64>) -> Traffic {
        Traffic::plain(7, requests, TrafficKind::Synthetic { arrivals, lengths })
    }

    fn trace_of(path: &Path) -> TraceSource {
        TraceSource {
            path: path.to_owned(),
            format: None,
            rate_multiplier: 1.0,
            limit: None,
            unsorted: Unsorted::Refuse,
            bad_rows: BadRows::Refuse,
        }
    }

    fn collect(traffic: &Traffic, seed: u64) -> Vec<Request> {
        traffic.open(seed).expect("opens").collect::<Result<_, _>>().expect("reads")
    }

    /// A small trace on disk, kept as long as the folder.
    fn vidur_file(folder: &tempfile::TempDir, rows: &str) -> TraceSource {
        let path = folder.path().join("t.csv");
        fs::write(&path, format!("arrived_at,num_prefill_tokens,num_decode_tokens\n{rows}")).expect("writes");
        trace_of(&path)
    }

    #[test]
    fn a_seed_repeats_and_another_differs() {
        let uniform = Lengths::Uniform {
            prompt: super::super::Clip { min: 1, max: 500 },
            output: super::super::Clip { min: 1, max: 500 },
        };
        let traffic = synthetic(Arrivals::Poisson { rate: 5.0 }, uniform, Some(500));
        let first = collect(&traffic, 7);
        assert_eq!(first.len(), 500);
        assert_eq!(first, collect(&traffic, 7));
        assert_ne!(first, collect(&traffic, 8));
        assert!(first.is_sorted_by_key(|request| request.arrival));
    }

    #[test]
    fn traffic_draws_where_another_seed_gives_other_requests() {
        let folder = tempfile::tempdir().expect("a folder");
        let trace = vidur_file(&folder, "0,1,5\n1,2,6\n2,3,7\n");
        let clip = |min, max| super::super::Clip { min, max };
        let normal = |sigma| super::super::LogNormalLength { mu: 4.0, sigma, clip: clip(1, 500) };
        let pair = |prompt_tokens| LengthPair { prompt_tokens, output_tokens: 1 };
        let arrivals = [
            (Arrivals::Poisson { rate: 5.0 }, true),
            (Arrivals::Gamma { rate: 1.0, burstiness: 0.3, spread: Spread::Rescaled }, true),
            (Arrivals::Constant { rate: 5.0 }, false),
            (Arrivals::Trace(trace.clone()), false),
        ];
        let lengths = [
            (FIXED, false),
            (Lengths::Uniform { prompt: clip(1, 500), output: clip(3, 3) }, true),
            (Lengths::Uniform { prompt: clip(5, 5), output: clip(3, 3) }, false),
            (Lengths::LogNormal { prompt: normal(0.0), output: normal(1.0) }, true),
            (Lengths::LogNormal { prompt: normal(0.0), output: normal(0.0) }, false),
            (Lengths::Histogram(vec![(pair(1), 3), (pair(2), 3)]), true),
            (Lengths::Histogram(vec![(pair(1), 3)]), false),
            (Lengths::Trace { source: trace.clone(), repeat: true }, false),
        ];
        for (when, when_draws) in &arrivals {
            for (length, length_draws) in &lengths {
                let traffic = synthetic(when.clone(), length.clone(), Some(3));
                assert_eq!(traffic.draws(), *when_draws || *length_draws, "{traffic:?}");
                assert_eq!(traffic.draws(), collect(&traffic, 7) != collect(&traffic, 8), "{traffic:?}");
            }
        }
        assert!(!synthetic(Arrivals::ClosedLoop { concurrency: 4 }, FIXED, Some(3)).draws());
        assert!(!Traffic::plain(7, None, TrafficKind::Trace(trace)).draws());
    }

    #[test]
    fn other_arrivals_leave_the_lengths_alone() {
        let uniform = || Lengths::Uniform {
            prompt: super::super::Clip { min: 1, max: 500 },
            output: super::super::Clip { min: 1, max: 500 },
        };
        let lengths = |arrivals| {
            let requests = collect(&synthetic(arrivals, uniform(), Some(200)), 7);
            requests.iter().map(|request| (request.prompt_tokens, request.output_tokens)).collect::<Vec<_>>()
        };
        let gamma = Arrivals::Gamma { rate: 1.0, burstiness: 0.3, spread: Spread::Rescaled };
        assert_eq!(lengths(Arrivals::Poisson { rate: 5.0 }), lengths(gamma));
    }

    #[test]
    fn a_closed_loop_takes_its_arrivals_from_the_caller() {
        let traffic = synthetic(Arrivals::ClosedLoop { concurrency: 4 }, FIXED, Some(2));
        let mut stream = traffic.open(7).expect("opens");
        assert_eq!(stream.concurrency(), Some(4));
        assert_eq!(stream.next_at(SimTime(5)).expect("first").expect("fixed").arrival, SimTime(5));
        assert_eq!(stream.next_at(SimTime(9)).expect("second").expect("fixed").arrival, SimTime(9));
        assert!(stream.next_at(SimTime(9)).is_none());
    }

    #[test]
    fn endless_and_unopenable_traffic_is_refused() {
        let endless = synthetic(Arrivals::Poisson { rate: 5.0 }, FIXED, None).open(7);
        assert!(matches!(endless.err().expect("refused"), TrafficError::Endless));
        let missing = Traffic::plain(7, None, TrafficKind::Trace(trace_of(Path::new("no/such.csv"))));
        assert_eq!(missing.open(7).err().expect("refused").to_string(), "cannot open the trace no/such.csv");
    }

    #[test]
    fn trace_lengths_with_synthetic_arrivals_end_with_the_trace_or_repeat() {
        let folder = tempfile::tempdir().expect("a folder");
        let source = vidur_file(&folder, "0,1,5\n1,2,6\n");
        let lengths = |repeat| Lengths::Trace { source: source.clone(), repeat };
        let arrivals = || Arrivals::Constant { rate: 1.0 };
        let prompts = |requests: Vec<Request>| requests.iter().map(|r| r.prompt_tokens).collect::<Vec<_>>();
        assert_eq!(prompts(collect(&synthetic(arrivals(), lengths(false), None), 7)), [1, 2]);
        assert_eq!(prompts(collect(&synthetic(arrivals(), lengths(true), Some(5)), 7)), [1, 2, 1, 2, 1]);
        let mut short = synthetic(arrivals(), lengths(false), Some(3)).open(7).expect("opens");
        let error = short.by_ref().last().expect("some").expect_err("too few rows");
        assert!(error.to_string().ends_with("t.csv holds 2 rows, fewer than the requests asked for"), "{error}");
        assert!(short.next().is_none(), "a stream ends after its first error");
    }

    #[test]
    fn trace_arrivals_with_synthetic_lengths() {
        let folder = tempfile::tempdir().expect("a folder");
        let traffic = synthetic(Arrivals::Trace(vidur_file(&folder, "3,1,5\n4,2,6\n")), FIXED, None);
        let requests = collect(&traffic, 7);
        let expected = |s: u64| Request::plain(SimTime(s * 1_000_000_000), 8, 2);
        assert_eq!(requests, [expected(0), expected(1)]);
    }

    /// The folder of public traces, where this machine has it.
    fn shared_traces() -> Option<PathBuf> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let shared = std::env::var_os("RUNGWISE_SHARED").map_or_else(|| root.join("../shared"), PathBuf::from);
        let folder = shared.join("traces");
        if folder.is_dir() {
            return Some(folder);
        }
        println!("skipped: no {}", folder.display());
        None
    }

    #[test]
    fn public_traces_have_their_published_counts_and_means() {
        let Some(folder) = shared_traces() else { return };
        for (file, count, prompt_mean, output_mean, span_s) in [
            ("azure2023_conv.csv", 19_366, 1154.7, 211.1, 3501.7),
            ("azure2023_code.csv", 8_819, 2047.8, 27.9, 3435.9),
            ("vidur_splitwise_conv.csv", 19_366, 1154.7, 211.1, 3501.7),
            ("vidur_splitwise_code.csv", 8_819, 2047.8, 27.9, 3435.9),
            ("mooncake_conversation_trace.jsonl", 12_031, 12035.1, 342.6, 3537.0),
            ("mooncake_synthetic_trace.jsonl", 3_993, 15325.5, 149.1, 1022.0),
        ] {
            let kind = TrafficKind::Trace(trace_of(&folder.join(file)));
            let requests = collect(&Traffic::plain(0, None, kind), 0);
            let mean = |length: fn(&Request) -> u32| {
                requests.iter().map(|request| f64::from(length(request))).sum::<f64>() / requests.len() as f64
            };
            let (prompt, output) = (mean(|r| r.prompt_tokens), mean(|r| r.output_tokens));
            let span = requests.last().expect("some").arrival.0 as f64 / 1e9;
            println!("{file}: {} requests, prompt {prompt:.1}, output {output:.1}, span {span:.1} s", requests.len());
            assert_eq!(requests.len(), count, "{file}");
            assert!((prompt - prompt_mean).abs() < 0.051 && (output - output_mean).abs() < 0.051, "{file}");
            assert!((span - span_s).abs() < 0.051, "{file}");
        }
        for (file, count, prompt_mean, output_mean) in [
            ("sarathi_sharegpt_8k_lengths.csv", 30_731, 2340.0, 438.7),
            ("vidur_arxiv_summarization.csv", 28_257, 2588.1, 291.4),
        ] {
            let lengths = Lengths::Trace { source: trace_of(&folder.join(file)), repeat: false };
            let requests = collect(&synthetic(Arrivals::Constant { rate: 1.0 }, lengths, None), 0);
            let mean = |length: fn(&Request) -> u32| {
                requests.iter().map(|request| f64::from(length(request))).sum::<f64>() / requests.len() as f64
            };
            let (prompt, output) = (mean(|r| r.prompt_tokens), mean(|r| r.output_tokens));
            println!("{file}: {} lengths, prompt {prompt:.1}, output {output:.1}", requests.len());
            assert_eq!(requests.len(), count, "{file}");
            assert!((prompt - prompt_mean).abs() < 0.051 && (output - output_mean).abs() < 0.051, "{file}");
        }
    }

    #[test]
    fn both_forms_of_the_same_public_trace_agree() {
        let Some(folder) = shared_traces() else { return };
        let read = |file: &str| {
            let kind = TrafficKind::Trace(trace_of(&folder.join(file)));
            collect(&Traffic::plain(0, None, kind), 0)
        };
        let (azure, vidur) = (read("azure2023_conv.csv"), read("vidur_splitwise_conv.csv"));
        for (a, b) in azure.iter().zip(&vidur) {
            assert_eq!((a.prompt_tokens, a.output_tokens), (b.prompt_tokens, b.output_tokens));
            assert!(a.arrival.0.abs_diff(b.arrival.0) <= 1_000, "{a:?} against {b:?}");
        }
    }
}

//! Results of `vllm bench serve` (one JSON object) and of SGLang's `bench_serving` (one a line).

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

use crate::limits::SEQUENCES_MAX;

/// What a client sent, and what it measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Bench {
    /// Requests that were answered.
    pub completed: u64,
    /// Requests that were not.
    pub failed: u64,
    /// How they were sent.
    pub sent: Sent,
    /// Their lengths.
    pub lengths: BenchLengths,
    /// What was measured, by the names of the result: to compare a simulation with.
    pub measured: Vec<(&'static str, f64)>,
    /// Results in the source: the last one is this.
    pub runs: u64,
    /// What is not kept of a rate that rose or fell, in a sentence.
    pub ramp: Option<String>,
}

/// How requests were sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Sent {
    /// At these times, s from the first.
    At(Vec<f64>),
    /// At a rate, with gaps of this burstiness.
    Rate {
        /// Requests per second.
        rate: f64,
        /// Shape of the gaps.
        burstiness: f64,
    },
    /// Each when another was answered; all at once, if there are no more than so many.
    Closed {
        /// How many at once.
        concurrency: u32,
    },
}

/// Lengths of requests, prompt and output, in tokens.
#[derive(Clone, Debug, PartialEq)]
pub enum BenchLengths {
    /// Of each that was answered, in the order sent.
    Each(Vec<(u32, u32)>),
    /// Only their means.
    Mean {
        /// Prompt.
        prompt: u32,
        /// Output.
        output: u32,
    },
}

/// The fields that are read; all others are passed over.
#[derive(Debug, Deserialize)]
struct ResultFile {
    completed: Option<f64>,
    failed: Option<f64>,
    request_rate: Option<Value>,
    burstiness: Option<f64>,
    ramp_up_strategy: Option<String>,
    ramp_up_start_rps: Option<f64>,
    ramp_up_end_rps: Option<f64>,
    max_concurrency: Option<f64>,
    total_input_tokens: Option<f64>,
    total_output_tokens: Option<f64>,
    input_lens: Option<Vec<f64>>,
    output_lens: Option<Vec<f64>>,
    start_times: Option<Vec<f64>>,
    errors: Option<Vec<Value>>,
    duration: Option<f64>,
    request_throughput: Option<f64>,
    output_throughput: Option<f64>,
    mean_ttft_ms: Option<f64>,
    median_ttft_ms: Option<f64>,
    p99_ttft_ms: Option<f64>,
    mean_tpot_ms: Option<f64>,
    median_tpot_ms: Option<f64>,
    p99_tpot_ms: Option<f64>,
    mean_itl_ms: Option<f64>,
    median_itl_ms: Option<f64>,
    p99_itl_ms: Option<f64>,
}

impl ResultFile {
    /// What was measured, as both clients name it.
    fn measured(&self) -> Vec<(&'static str, f64)> {
        let figures = [
            ("duration", self.duration),
            ("request_throughput", self.request_throughput),
            ("output_throughput", self.output_throughput),
            ("mean_ttft_ms", self.mean_ttft_ms),
            ("median_ttft_ms", self.median_ttft_ms),
            ("p99_ttft_ms", self.p99_ttft_ms),
            ("mean_tpot_ms", self.mean_tpot_ms),
            ("median_tpot_ms", self.median_tpot_ms),
            ("p99_tpot_ms", self.p99_tpot_ms),
            ("mean_itl_ms", self.mean_itl_ms),
            ("median_itl_ms", self.median_itl_ms),
            ("p99_itl_ms", self.p99_itl_ms),
        ];
        figures.into_iter().filter_map(|(name, value)| Some((name, value.filter(|value| value.is_finite())?))).collect()
    }
}

impl Bench {
    /// Reads a result, or the last of several lines of results.
    ///
    /// # Errors
    /// What is wrong with it, in a sentence.
    pub fn read(text: &str) -> Result<Self, String> {
        let text = &*without_python_numbers(text);
        let (file, runs) = match serde_json::from_str::<ResultFile>(text) {
            Ok(file) => (file, 1),
            Err(whole) => {
                let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
                let last = lines.last().ok_or("it is empty")?;
                let file = serde_json::from_str(last).map_err(|_| format!("it is no result of a bench: {whole}"))?;
                (file, lines.len() as u64)
            }
        };
        Self::of(&file, runs)
    }

    fn of(file: &ResultFile, runs: u64) -> Result<Self, String> {
        let tokens = |length: &f64| (*length >= 0.0 && *length < f64::from(u32::MAX)).then(|| length.round() as u32);
        let (mut each, mut failed) = (Vec::new(), 0);
        if let (Some(prompts), Some(outputs)) = (&file.input_lens, &file.output_lens) {
            if prompts.len() != outputs.len() {
                return Err(format!("it has {} input_lens and {} output_lens", prompts.len(), outputs.len()));
            }
            let starts = file.start_times.as_deref().filter(|starts| starts.len() == prompts.len()).unwrap_or_default();
            for (at, (prompt, output)) in prompts.iter().zip(outputs).enumerate() {
                let is_error = file.errors.as_ref().and_then(|errors| errors.get(at)).and_then(Value::as_str);
                match (tokens(prompt), tokens(output)) {
                    (Some(prompt), Some(output)) if prompt > 0 && output > 0 && is_error.is_none_or(str::is_empty) => {
                        each.push((starts.get(at).copied().filter(|start| start.is_finite()), prompt, output));
                    }
                    _ => failed += 1,
                }
            }
        }
        let completed = if each.is_empty() { whole(file.completed) } else { each.len() as u64 };
        if completed == 0 {
            return Err("no request was answered".to_owned());
        }
        let lengths = if each.is_empty() {
            let mean = |total: Option<f64>, name: &str| match total {
                Some(total) if total > 0.0 => Ok((total / completed as f64).round().max(1.0) as u32),
                _ => Err(format!("it has neither lengths of each request nor {name}")),
            };
            BenchLengths::Mean {
                prompt: mean(file.total_input_tokens, "total_input_tokens")?,
                output: mean(file.total_output_tokens, "total_output_tokens")?,
            }
        } else {
            BenchLengths::Each(each.iter().map(|(_, prompt, output)| (*prompt, *output)).collect())
        };
        let starts: Option<Vec<f64>> = each.iter().map(|(start, ..)| *start).collect();
        let failed = if each.is_empty() { whole(file.failed) } else { failed };
        let mut sent = Self::sent(file, starts.filter(|starts| starts.len() > 1), completed);
        let ramp = if matches!(sent, Sent::At(_)) { None } else { file.ramp()? };
        let ramp = ramp.map(|ramp| {
            let Ramp { strategy, from, to } = ramp;
            let rate = ramp.mean();
            sent = Sent::Rate { rate, burstiness: file.burstiness() };
            format!(
                "The client went from {from} to {to} requests a second ({strategy}); here they arrive at the mean, {rate:.3}, all \
                 along. A result with start_times has each."
            )
        });
        Ok(Self { completed, failed, sent, lengths, measured: file.measured(), runs, ramp })
    }

    fn sent(file: &ResultFile, starts: Option<Vec<f64>>, completed: u64) -> Sent {
        if let Some(starts) = starts {
            let first = starts.iter().copied().fold(f64::INFINITY, f64::min);
            return Sent::At(starts.into_iter().map(|start| start - first).collect());
        }
        let limit = file.max_concurrency.filter(|most| (1.0..f64::from(SEQUENCES_MAX)).contains(most));
        // Without one, all come at once.
        let all = u32::try_from(completed).unwrap_or(SEQUENCES_MAX).min(SEQUENCES_MAX);
        let concurrency = limit.map_or(all, |most| (most as u32).min(all));
        // `inf` is a word in JSON, or a number that is none.
        let rate = file.request_rate.as_ref().and_then(Value::as_f64).filter(|rate| rate.is_finite() && *rate > 0.0);
        rate.map_or(Sent::Closed { concurrency }, |rate| Sent::Rate { rate, burstiness: file.burstiness() })
    }
}

/// A rate that changes from request to request.
#[derive(Clone, Copy, Debug)]
struct Ramp<'a> {
    /// `linear` or `exponential`.
    strategy: &'a str,
    /// Requests per second at the first.
    from: f64,
    /// Requests per second at the last.
    to: f64,
}

impl Ramp<'_> {
    /// All requests by all the time that they took, 1/s: the rate of each is between both ends by its place among all, so the
    /// gaps, which are one by it, are averaged.
    fn mean(&self) -> f64 {
        let Self { strategy, from, to } = *self;
        let growth = (to / from).ln();
        if growth.abs() < 1e-9 {
            from
        } else if strategy == "exponential" {
            growth / (from.recip() - to.recip())
        } else {
            (to - from) / growth
        }
    }
}

impl ResultFile {
    /// Shape of the gaps; 1 where it is not told.
    fn burstiness(&self) -> f64 {
        self.burstiness.filter(|shape| shape.is_finite() && *shape > 0.0).unwrap_or(1.0)
    }

    /// How the rate changed, if it did.
    fn ramp(&self) -> Result<Option<Ramp<'_>>, String> {
        let Some(strategy) = self.ramp_up_strategy.as_deref() else { return Ok(None) };
        let is_rate = |rate: &f64| rate.is_finite() && *rate > 0.0;
        match (self.ramp_up_start_rps.filter(is_rate), self.ramp_up_end_rps.filter(is_rate)) {
            (Some(from), Some(to)) if ["linear", "exponential"].contains(&strategy) => {
                Ok(Some(Ramp { strategy, from, to }))
            }
            _ => Err(format!("its rate changed ({strategy}) in a way that is not known here")),
        }
    }
}

/// Without the numbers that Python writes and JSON does not have: `NaN` and `Infinity` become `null`, as which they count.
fn without_python_numbers(text: &str) -> Cow<'_, str> {
    const WORDS: [&str; 3] = ["-Infinity", "Infinity", "NaN"];
    if !WORDS.iter().any(|word| text.contains(word)) {
        return Cow::Borrowed(text);
    }
    let (mut kept, mut rest) = (String::with_capacity(text.len()), text);
    let (mut quoted, mut escaped) = (false, false);
    while let Some(letter) = rest.chars().next() {
        if let Some(word) = WORDS.iter().find(|word| !quoted && rest.starts_with(**word)) {
            kept.push_str("null");
            rest = &rest[word.len()..];
            continue;
        }
        quoted ^= letter == '"' && !escaped;
        escaped = letter == '\\' && !escaped;
        kept.push(letter);
        rest = &rest[letter.len_utf8()..];
    }
    Cow::Owned(kept)
}

/// A count; zero where there is none.
fn whole(count: Option<f64>) -> u64 {
    count.filter(|count| count.is_finite() && *count >= 0.0).map_or(0, |count| count as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DETAILED: &str = r#"{"date": "20260101-000000", "backend": "vllm", "num_prompts": 3, "request_rate": 4.0,
        "burstiness": 0.5, "max_concurrency": null, "duration": 12.5, "completed": 2, "request_throughput": 0.16,
        "median_ttft_ms": 51.25, "input_lens": [100, 200, 300], "output_lens": [20, 0, 40], "errors": ["", "timeout", ""]}"#;

    #[test]
    fn requests_that_failed_are_left_out() {
        let bench = Bench::read(DETAILED).expect("a result");
        assert_eq!(bench.lengths, BenchLengths::Each(vec![(100, 20), (300, 40)]));
        assert_eq!((bench.completed, bench.failed, bench.runs), (2, 1, 1));
        assert_eq!(bench.sent, Sent::Rate { rate: 4.0, burstiness: 0.5 });
        assert_eq!(bench.measured, [("duration", 12.5), ("request_throughput", 0.16), ("median_ttft_ms", 51.25)]);
    }

    #[test]
    fn how_requests_were_sent() {
        let with = |from: &str, to: &str| Bench::read(&DETAILED.replace(from, to)).expect("a result").sent;
        assert_eq!(with("\"request_rate\": 4.0", "\"request_rate\": \"inf\""), Sent::Closed { concurrency: 2 });
        let closed = "\"request_rate\": \"inf\", \"max_concurrency\": 1, \"x\": 1";
        assert_eq!(
            with("\"request_rate\": 4.0,\n        \"burstiness\": 0.5, \"max_concurrency\": null", closed),
            Sent::Closed { concurrency: 1 }
        );
        let times = "\"start_times\": [7.5, 8.0, 9.0], \"duration\"";
        assert_eq!(with("\"duration\"", times), Sent::At(vec![0.0, 1.5]));
    }

    #[test]
    fn the_last_of_several_lines_counts_and_means_do_where_nothing_else_is() {
        let line = r#"{"request_rate": 2.0, "completed": 10, "total_input_tokens": 1005, "total_output_tokens": 200}"#;
        let bench = Bench::read(&format!("{{\"completed\": 1}}\n{line}\n")).expect("results");
        assert_eq!((bench.runs, bench.completed), (2, 10));
        assert_eq!(bench.lengths, BenchLengths::Mean { prompt: 101, output: 20 });
    }

    #[test]
    fn numbers_of_python_are_none() {
        let line = DETAILED.replace("4.0", "Infinity").replace("51.25", "NaN").replace("timeout", "a \\\"NaN");
        let bench = Bench::read(&line).expect("a result");
        assert_eq!(bench.sent, Sent::Closed { concurrency: 2 });
        assert_eq!(bench.measured, [("duration", 12.5), ("request_throughput", 0.16)]);
        assert_eq!(without_python_numbers(r#"{"NaN": -Infinity, "a": "\"NaN"}"#), r#"{"NaN": null, "a": "\"NaN"}"#);
    }

    #[test]
    fn a_rate_that_rises_is_said_and_its_mean_taken() {
        let with = |ramp: &str| Bench::read(&DETAILED.replace("4.0", &format!("\"inf\", {ramp}")));
        let ramp = |strategy: &str| {
            let keys = format!(r#""ramp_up_strategy": "{strategy}", "ramp_up_start_rps": 1, "ramp_up_end_rps": 20"#);
            let bench = with(&keys)?;
            let Sent::Rate { rate, .. } = bench.sent else { panic!("{:?}", bench.sent) };
            assert!(bench.ramp.expect("said").contains("from 1 to 20"));
            // The same from the gaps, one by one.
            let place = |at: u32| (f64::from(at) + 0.5) / 10_000.0;
            let gap = |place: f64| match strategy {
                "linear" => 1.0 / (1.0 + 19.0 * place),
                _ => 20.0_f64.powf(-place),
            };
            let seconds: f64 = (0..10_000).map(|at| gap(place(at))).sum();
            assert!((rate - 10_000.0 / seconds).abs() < 1e-4, "{strategy} {rate}");
            Ok::<_, String>(rate)
        };
        assert!(ramp("linear").expect("known") > ramp("exponential").expect("known"));
        assert!(with(r#""ramp_up_strategy": "steps""#).is_err());
        let times = with(r#""ramp_up_strategy": "steps", "start_times": [1.0, 2.0, 3.0]"#);
        assert!(times.is_ok_and(|bench| bench.ramp.is_none()), "the times say it all");
    }

    #[test]
    fn what_is_no_result_is_refused() {
        for wrong in
            ["", "{}", "[1]", "{\"completed\": 0}", "{\"completed\": 3}", "{\"input_lens\": [1], \"output_lens\": []}"]
        {
            assert!(Bench::read(wrong).is_err(), "{wrong}");
        }
        for end in 0..DETAILED.len() {
            assert!(Bench::read(&DETAILED[..end]).is_err());
        }
    }
}

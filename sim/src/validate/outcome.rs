//! What a run came to, measured or predicted, in the same terms: so that both are read in the same way.

use super::run::{MeasuredRequest, MeasuredTick};

/// A run. Times in seconds since its first request was queued.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Its requests, in the order in which they were queued.
    pub requests: Vec<RequestTimes>,
    /// Its ticks, in order.
    pub ticks: Vec<Tick>,
}

/// What one request saw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequestTimes {
    /// Which request of the run, from 0, in the order in which all of them were queued.
    pub place: u64,
    /// Prompt length in tokens.
    pub prompt_tokens: u32,
    /// Tokens that it received.
    pub output_tokens: u32,
    /// When it was queued.
    pub queued_s: f64,
    /// When its first token came.
    pub first_token_s: f64,
    /// When its last token came.
    pub last_token_s: f64,
}

/// What a server counted in one tick.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tick {
    /// How long it was.
    pub seconds: f64,
    /// Prompt tokens of the requests whose first token came.
    pub prompt_tokens: f64,
    /// Output tokens.
    pub output_tokens: f64,
    /// Requests running at its end.
    pub running: f64,
    /// Requests waiting at its end.
    pub waiting: f64,
    /// Share of the KV pool in use at its end, where that is known.
    pub kv_share: Option<f64>,
}

impl Outcome {
    /// A measured run.
    #[must_use]
    pub fn measured(requests: &[MeasuredRequest], series: &[MeasuredTick]) -> Self {
        let begin_s = requests.iter().map(|request| request.queued_s).fold(f64::INFINITY, f64::min);
        let requests = (0..)
            .zip(requests)
            .map(|(place, request)| RequestTimes {
                place,
                prompt_tokens: request.prompt_tokens,
                output_tokens: request.output_tokens,
                queued_s: request.queued_s - begin_s,
                first_token_s: request.first_token_s - begin_s,
                last_token_s: request.last_token_s - begin_s,
            })
            .collect();
        let begins = [0.0].into_iter().chain(series.iter().map(|tick| tick.at_s));
        let ticks = series.iter().zip(begins).map(|(tick, begin_s)| {
            let seconds = tick.at_s - begin_s;
            Tick {
                seconds,
                prompt_tokens: tick.prompt_tokens_per_s * seconds,
                output_tokens: tick.output_tokens_per_s * seconds,
                running: tick.running,
                waiting: tick.waiting,
                kv_share: tick.kv_share.filter(|&share| share > 0.0),
            }
        });
        Self { requests, ticks: ticks.collect() }
    }

    /// From the first request to the last token, s.
    #[must_use]
    pub fn wall_s(&self) -> f64 {
        self.requests.iter().map(|request| request.last_token_s).fold(0.0, f64::max)
    }

    /// Output tokens a second of that time.
    #[must_use]
    pub fn output_throughput(&self) -> f64 {
        let tokens: u64 = self.requests.iter().map(|request| u64::from(request.output_tokens)).sum();
        tokens as f64 / self.wall_s()
    }

    /// Times to the first token, in ms.
    #[must_use]
    pub fn ttft_ms(&self) -> Vec<f64> {
        self.requests.iter().map(|request| (request.first_token_s - request.queued_s) * 1e3).collect()
    }

    /// Times per output token after the first, in ms, of the requests that have any.
    #[must_use]
    pub fn tpot_ms(&self) -> Vec<f64> {
        self.requests.iter().filter_map(RequestTimes::tpot_ms).collect()
    }

    /// The same figure of all ticks.
    pub fn of_ticks(&self, figure: impl Fn(&Tick) -> f64) -> Vec<f64> {
        self.ticks.iter().map(figure).collect()
    }

    /// When the last tick ended at whose end somebody waited, in s; 0 where nobody ever did.
    #[must_use]
    pub fn queue_empty_s(&self) -> f64 {
        let last = self.ticks.iter().rposition(|tick| tick.waiting > 0.0).map_or(0, |last| last + 1);
        self.ticks[..last].iter().map(|tick| tick.seconds).sum()
    }
}

impl RequestTimes {
    /// Time per output token after the first, in ms; `None` of a single token.
    #[must_use]
    pub fn tpot_ms(&self) -> Option<f64> {
        let later_tokens = self.output_tokens.checked_sub(1).filter(|&tokens| tokens > 0)?;
        Some((self.last_token_s - self.first_token_s) * 1e3 / f64::from(later_tokens))
    }
}

/// The largest value.
#[must_use]
pub fn most(values: &[f64]) -> Option<f64> {
    values.iter().copied().max_by(f64::total_cmp)
}

/// A percentile, `share` of all values below it, linear between neighbours as numpy's; `None` without values.
#[must_use]
pub fn percentile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = share * (sorted.len().checked_sub(1)?) as f64;
    let low = sorted[place.floor() as usize];
    Some(low + (sorted[place.ceil() as usize] - low) * place.fract())
}

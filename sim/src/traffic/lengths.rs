//! How long requests are.

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution, StandardNormal};

use super::random::Streams;
use super::trace::{SkippedRows, TraceReader, TraceSource, Wanted};
use super::{Request, TrafficError};
use crate::time::{SimTime, nearest};

/// A source of prompt and output lengths, validated: every length it can make is at least 1 and at most
/// [`crate::limits::REQUEST_TOKENS_MAX`].
#[derive(Clone, Debug, PartialEq)]
pub enum Lengths {
    /// Every request has the same lengths.
    Fixed(LengthPair),
    /// Each length is uniform over its own inclusive range.
    Uniform {
        /// Shortest and longest prompt.
        prompt: Clip,
        /// Shortest and longest output.
        output: Clip,
    },
    /// Each length is lognormal, rounded to a whole token and clipped, independently of the other.
    LogNormal {
        /// Prompt lengths.
        prompt: LogNormalLength,
        /// Output lengths.
        output: LogNormalLength,
    },
    /// Pairs drawn with the frequencies of a table; never empty, no count is zero.
    Histogram(Vec<(LengthPair, u64)>),
    /// The lengths of a recorded trace, row by row; its arrival times are not used.
    Trace {
        /// The trace.
        source: TraceSource,
        /// Start again from the first row after the last.
        repeat: bool,
    },
}

impl Lengths {
    /// Whether another seed gives other lengths.
    pub(super) fn draws(&self) -> bool {
        let spans = |clip: &Clip| clip.min < clip.max;
        let spreads = |length: &LogNormalLength| length.sigma > 0.0 && spans(&length.clip);
        match self {
            Self::Fixed(_) | Self::Trace { .. } => false,
            Self::Uniform { prompt, output } => spans(prompt) || spans(output),
            Self::LogNormal { prompt, output } => spreads(prompt) || spreads(output),
            Self::Histogram(rows) => rows.windows(2).any(|rows| rows[0].0 != rows[1].0),
        }
    }
}

/// The lengths of one request, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LengthPair {
    /// Prompt length.
    pub prompt_tokens: u32,
    /// Output length.
    pub output_tokens: u32,
}

/// An inclusive range of lengths, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clip {
    /// Shortest.
    pub min: u32,
    /// Longest.
    pub max: u32,
}

/// One lognormal length. Draws outside `clip` take the nearest end, so a tight clip moves the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogNormalLength {
    /// Mean of the logarithm: the median is `exp(mu)`.
    pub mu: f64,
    /// Standard deviation of the logarithm.
    pub sigma: f64,
    /// Bounds on what is drawn.
    pub clip: Clip,
}

/// Gives lengths, one request after the other.
pub(super) enum LengthSampler {
    Fixed(LengthPair),
    Independent { prompt: LengthDraw, output: LengthDraw },
    Histogram { pairs: Vec<LengthPair>, upper: Vec<u64>, random: Xoshiro256PlusPlus },
    Trace(Box<LengthTrace>),
}

/// One independent length and its own stream.
pub(super) struct LengthDraw {
    shape: DrawShape,
    random: Xoshiro256PlusPlus,
}

enum DrawShape {
    Uniform(Clip),
    LogNormal(LogNormalLength),
}

/// The lengths of a trace, from the first row again where that is asked for.
pub(super) struct LengthTrace {
    source: TraceSource,
    repeat: bool,
    reader: TraceReader,
    /// Rows left out in the first pass: later ones leave out the same.
    skipped: Option<SkippedRows>,
}

impl LengthSampler {
    /// Starts a source of lengths.
    ///
    /// # Errors
    /// A trace that cannot be opened.
    pub(super) fn start(lengths: &Lengths, streams: Streams) -> Result<Self, TrafficError> {
        let draw = |shape, name| LengthDraw { shape, random: streams.stream(name) };
        Ok(match lengths {
            Lengths::Fixed(pair) => Self::Fixed(*pair),
            Lengths::Uniform { prompt, output } => Self::Independent {
                prompt: draw(DrawShape::Uniform(*prompt), "lengths.prompt"),
                output: draw(DrawShape::Uniform(*output), "lengths.output"),
            },
            Lengths::LogNormal { prompt, output } => Self::Independent {
                prompt: draw(DrawShape::LogNormal(*prompt), "lengths.prompt"),
                output: draw(DrawShape::LogNormal(*output), "lengths.output"),
            },
            Lengths::Histogram(rows) => {
                let mut total = 0;
                let add = |(_, count): &(LengthPair, u64)| {
                    total += count;
                    total
                };
                let upper = rows.iter().map(add).collect();
                let pairs = rows.iter().map(|(pair, _)| *pair).collect();
                Self::Histogram { pairs, upper, random: streams.stream("lengths") }
            }
            Lengths::Trace { source, repeat } => {
                let reader = TraceReader::open(source, Wanted::LENGTHS)?;
                Self::Trace(Box::new(LengthTrace { source: source.clone(), repeat: *repeat, reader, skipped: None }))
            }
        })
    }

    /// The next request, sent at `arrival`, with the labels of its row if it is one of a trace; `None` at the end of one.
    pub(super) fn next(&mut self, arrival: SimTime) -> Result<Option<Request>, TrafficError> {
        let LengthPair { prompt_tokens, output_tokens } = match self {
            Self::Fixed(pair) => *pair,
            Self::Independent { prompt, output } => {
                LengthPair { prompt_tokens: prompt.next(), output_tokens: output.next() }
            }
            Self::Histogram { pairs, upper, random } => {
                let total = *upper.last().expect("a histogram is never empty");
                let ticket = random.random_range(0..total);
                pairs[upper.partition_point(|&bound| bound <= ticket)]
            }
            Self::Trace(trace) => return Ok(trace.next()?.map(|request| Request { arrival, ..request })),
        };
        Ok(Some(Request::plain(arrival, prompt_tokens, output_tokens)))
    }

    /// Usable rows of a trace read so far, and its name; `None` for other sources.
    pub(super) fn trace_end(&self) -> Option<(String, u64)> {
        match self {
            Self::Trace(trace) => Some((trace.source.shown(), trace.reader.rows())),
            _ => None,
        }
    }

    pub(super) fn skipped_rows(&self) -> SkippedRows {
        match self {
            Self::Trace(trace) => trace.skipped.unwrap_or_else(|| trace.reader.skipped_rows()),
            _ => SkippedRows::default(),
        }
    }
}

impl LengthTrace {
    fn next(&mut self) -> Result<Option<Request>, TrafficError> {
        let mut request = self.reader.next_request()?;
        if request.is_none() && self.repeat {
            self.skipped.get_or_insert(self.reader.skipped_rows());
            self.reader = TraceReader::open(&self.source, Wanted::LENGTHS)?;
            request = self.reader.next_request()?;
        }
        Ok(request)
    }
}

impl LengthDraw {
    fn next(&mut self) -> u32 {
        match self.shape {
            DrawShape::Uniform(Clip { min, max }) => self.random.random_range(min..=max),
            DrawShape::LogNormal(LogNormalLength { mu, sigma, clip }) => {
                let normal: f64 = StandardNormal.sample(&mut self.random);
                let tokens = nearest((mu + sigma * normal).exp());
                tokens.clamp(clip.min.into(), clip.max.into()) as u32
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(lengths: &Lengths, count: usize, seed: u64) -> Vec<(u32, u32)> {
        let mut sampler = LengthSampler::start(lengths, Streams::new(seed)).expect("starts");
        let mut next = || sampler.next(SimTime::ZERO).expect("no trace").expect("endless");
        (0..count).map(|_| next()).map(|request| (request.prompt_tokens, request.output_tokens)).collect()
    }

    fn close(found: f64, expected: f64, within: f64) {
        assert!((found - expected).abs() <= within * expected, "{found} is not within {within} of {expected}");
    }

    fn mean(values: impl Iterator<Item = u32> + Clone) -> f64 {
        values.clone().map(f64::from).sum::<f64>() / values.count() as f64
    }

    #[test]
    fn uniform_covers_its_range_and_both_ends() {
        let lengths = Lengths::Uniform { prompt: Clip { min: 3, max: 7 }, output: Clip { min: 5, max: 5 } };
        let drawn = draw(&lengths, 50_000, 7);
        for length in 3..=7 {
            close(drawn.iter().filter(|pair| pair.0 == length).count() as f64, 10_000.0, 0.03);
        }
        assert!(drawn.iter().all(|pair| (3..=7).contains(&pair.0) && pair.1 == 5));
    }

    #[test]
    fn lognormal_has_its_median_mean_and_bounds() {
        let sigma = 0.8_f64;
        let length = |min, max| LogNormalLength { mu: 1000_f64.ln(), sigma, clip: Clip { min, max } };
        let lengths = Lengths::LogNormal { prompt: length(1, 1 << 26), output: length(500, 1500) };
        let drawn = draw(&lengths, 200_000, 7);
        close(mean(drawn.iter().map(|pair| pair.0)), 1000.0 * (sigma * sigma / 2.0).exp(), 0.01);
        let mut prompts: Vec<u32> = drawn.iter().map(|pair| pair.0).collect();
        prompts.sort_unstable();
        close(f64::from(prompts[100_000]), 1000.0, 0.01);
        assert!(drawn.iter().all(|pair| (500..=1500).contains(&pair.1)));
        assert!(drawn.iter().any(|pair| pair.1 == 500) && drawn.iter().any(|pair| pair.1 == 1500));
    }

    #[test]
    fn histogram_draws_by_count() {
        let pair = |prompt_tokens, output_tokens| LengthPair { prompt_tokens, output_tokens };
        let lengths = Lengths::Histogram(vec![(pair(10, 1), 1), (pair(20, 2), 3), (pair(30, 3), 6)]);
        let drawn = draw(&lengths, 100_000, 7);
        for (prompt, share) in [(10, 0.1), (20, 0.3), (30, 0.6)] {
            close(drawn.iter().filter(|pair| pair.0 == prompt).count() as f64, share * 1e5, 0.02);
        }
        assert!(drawn.iter().all(|pair| pair.0 == 10 * pair.1), "prompt and output stay together");
    }

    #[test]
    fn prompt_and_output_do_not_move_each_other() {
        let range = |min, max| Clip { min, max };
        let wide = Lengths::Uniform { prompt: range(1, 1000), output: range(1, 1000) };
        let narrow = Lengths::Uniform { prompt: range(9, 9), output: range(1, 1000) };
        let outputs = |lengths| draw(lengths, 100, 7).into_iter().map(|pair| pair.1).collect::<Vec<_>>();
        assert_eq!(outputs(&wide), outputs(&narrow));
        assert!(draw(&wide, 100, 7).iter().any(|pair| pair.0 != pair.1), "nor are they the same draws");
    }

    #[test]
    fn first_lengths_of_a_seed_are_pinned() {
        let length = LogNormalLength { mu: 5.0, sigma: 1.0, clip: Clip { min: 1, max: 8192 } };
        let uniform = Lengths::Uniform { prompt: Clip { min: 1, max: 1000 }, output: Clip { min: 1, max: 1000 } };
        insta::assert_debug_snapshot!([
            draw(&uniform, 3, 7),
            draw(&Lengths::LogNormal { prompt: length, output: length }, 3, 7),
        ]);
    }
}

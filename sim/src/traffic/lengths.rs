//! How long requests are.

use super::trace::TraceSource;

/// A source of prompt and output lengths, validated: every length it can make is at least 1 and at most
/// [`crate::scenario::limits::REQUEST_TOKENS_MAX`].
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
    /// Pairs drawn with the frequencies of a table.
    Histogram(Vec<(LengthPair, u64)>),
    /// The lengths of a recorded trace, row by row; its arrival times are not used.
    Trace {
        /// The trace.
        source: TraceSource,
        /// Start again from the first row after the last.
        repeat: bool,
    },
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

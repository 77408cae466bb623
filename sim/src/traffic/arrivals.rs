//! When requests arrive.

use super::trace::TraceSource;
use crate::time::SimDuration;

/// An arrival process, validated: rates are positive and finite, spans are not zero.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// Independent exponential gaps, as drawn: the realised rate varies as a Poisson process varies.
    Poisson {
        /// Requests per second.
        rate: f64,
    },
    /// Gamma gaps, as the engine's own benchmark client sends them.
    Gamma {
        /// Requests per second.
        rate: f64,
        /// Shape of the gaps: 1 is exponential, below 1 bursts, above 1 is more even.
        burstiness: f64,
        /// Whether the realised rate is made exact.
        spread: Spread,
    },
    /// Equal gaps of `1 / rate`.
    Constant {
        /// Requests per second.
        rate: f64,
    },
    /// A Poisson process whose rate switches between two levels on a fixed clock, starting with `on`.
    OnOff {
        /// Length of the busy phase.
        on: SimDuration,
        /// Length of the quiet phase.
        off: SimDuration,
        /// Requests per second while busy.
        rate_on: f64,
        /// Requests per second while quiet; may be zero.
        rate_off: f64,
    },
    /// A fixed number of clients, each sending its next request when its last one completes.
    ClosedLoop {
        /// Requests in the system at any time.
        concurrency: u32,
    },
    /// The arrival times of a recorded trace; its lengths are not used.
    Trace(TraceSource),
}

/// What is done with random gaps before they are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// All times are scaled so that the last of `n` arrivals falls on `n / rate`, as `vllm bench serve` does.
    Rescaled,
    /// Gaps are used as drawn.
    AsDrawn,
}

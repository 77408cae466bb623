//! Traffic: when requests arrive and how long they are.
//!
//! [`Traffic`] is the validated description a scenario holds; [`Traffic::open`] turns it into a [`RequestStream`] that
//! makes one request at a time. The same seed gives the same requests on every run and for every candidate: each random
//! choice draws from its own named stream ([`Streams`]), so that one more draw in one does not move another.

mod arrivals;
mod error;
mod histogram;
mod lengths;
mod random;
mod stream;
mod trace;

pub use arrivals::{Arrivals, Spread};
pub use error::TrafficError;
pub use histogram::{StepHistogram, StepRow};
pub use lengths::{Clip, LengthPair, Lengths, LogNormalLength};
pub use random::Streams;
pub use stream::RequestStream;
pub use trace::{BadRows, ColumnNames, SkippedRows, TimeUnit, TraceFormat, TraceReader, TraceSource, Unsorted, Wanted};

use crate::time::SimTime;

/// What is asked of the server, validated.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// Seed of every named stream; `--seed` replaces it and replication `i` of `--seeds K` opens `seed + i`.
    pub seed: u64,
    /// Most requests to offer; `None` lets a trace run to its end.
    pub requests: Option<u64>,
    /// Where the requests come from.
    pub kind: TrafficKind,
}

/// Where the requests come from.
#[derive(Clone, Debug, PartialEq)]
pub enum TrafficKind {
    /// Arrivals and lengths from two sources.
    Synthetic {
        /// When requests arrive.
        arrivals: Arrivals,
        /// How long they are.
        lengths: Lengths,
    },
    /// Arrivals and lengths of the same rows of a recorded trace.
    Trace(TraceSource),
    /// A histogram of step shapes, priced without an event loop (`sim price`).
    Steps(StepHistogram),
}

/// One request as it is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it arrives.
    pub arrival: SimTime,
    /// Prompt length, in tokens; at least 1.
    pub prompt_tokens: u32,
    /// Output length, in tokens; at least 1.
    pub output_tokens: u32,
}

impl Traffic {
    /// Opens the stream of requests for one seed.
    ///
    /// # Errors
    /// A trace that cannot be read, holds no rows or lacks a column, and traffic that is a histogram of step shapes.
    pub fn open(&self, seed: u64) -> Result<RequestStream, TrafficError> {
        RequestStream::open(self, seed)
    }

    /// Whether another seed gives other requests.
    #[must_use]
    pub fn draws(&self) -> bool {
        match &self.kind {
            TrafficKind::Synthetic { arrivals, lengths } => arrivals.draws() || lengths.draws(),
            TrafficKind::Trace(_) | TrafficKind::Steps(_) => false,
        }
    }
}

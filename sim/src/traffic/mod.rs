//! Traffic: when requests arrive, how long they are, what they carry, and how many of their drafts are accepted.
//!
//! [`Traffic`] is the validated description a scenario holds; [`Traffic::open`] turns it into a [`RequestStream`] that
//! makes one request at a time. The same seed gives the same requests on every run and for every candidate: each random
//! choice draws from its own named stream ([`Streams`]), so that one more draw in one does not move another.

mod acceptance;
mod arrivals;
mod error;
mod histogram;
mod labels;
mod lengths;
mod prefixes;
mod random;
mod ranks;
mod scaled;
mod shares;
mod stream;
mod trace;

pub use acceptance::{Acceptance, AcceptanceSource};
pub use arrivals::{Arrivals, Spread};
pub use error::TrafficError;
pub use histogram::{StepHistogram, StepRow};
pub use labels::{Adapters, Labels, Priorities};
pub use lengths::{Clip, LengthPair, Lengths, LogNormalLength};
pub use prefixes::{PrefixGroup, PrefixGroups, PrefixLevel};
pub use random::Streams;
pub use shares::{SHARES_GRAIN, Shares};
pub use stream::RequestStream;
pub use trace::{
    BadRows, Brought, ColumnNames, LabelColumns, SkippedRows, TimeUnit, TraceFormat, TraceReader, TraceSource,
    Unsorted, Wanted,
};

use crate::engine::request::{Adapter, NewRequest, RequestId, SharedPrefix};
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
    /// What requests carry beside their lengths.
    pub labels: Labels,
    /// How many drafts are accepted, where that is known.
    pub acceptance: Option<Acceptance>,
    /// What whoever made the traffic wants said beside every answer: what it does not tell, or only roughly.
    pub caution: Option<String>,
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
    /// Traffic of its own for each data-parallel rank.
    Ranks(Vec<Traffic>),
    /// A histogram of step shapes, priced without an event loop (`sim price`).
    Steps(StepHistogram),
}

/// One request as it is offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it arrives.
    pub arrival: SimTime,
    /// Prompt length, in tokens; at least 1.
    pub prompt_tokens: u32,
    /// Output length, in tokens; at least 1.
    pub output_tokens: u32,
    /// Smaller goes first, where the server asks.
    pub priority: i32,
    /// The adapter that it runs with.
    pub adapter: Option<Adapter>,
    /// The head of its prompt that others share; no longer than the prompt.
    pub shared: SharedPrefix,
    /// The data-parallel rank that it is sent to; `None` leaves it to the server.
    pub rank: Option<u32>,
}

impl Request {
    /// A request of default priority that shares nothing and runs without an adapter.
    #[must_use]
    pub fn plain(arrival: SimTime, prompt_tokens: u32, output_tokens: u32) -> Self {
        let shared = SharedPrefix::default();
        Self { arrival, prompt_tokens, output_tokens, priority: 0, adapter: None, shared, rank: None }
    }

    /// The request as it reaches an engine, under its number there.
    #[must_use]
    pub fn numbered(&self, id: RequestId) -> NewRequest {
        let Self { prompt_tokens, output_tokens, priority, adapter, .. } = *self;
        NewRequest { id, prompt_tokens, output_tokens, priority, adapter, shared: self.shared.clone() }
    }
}

impl Traffic {
    /// The trace files that it is read from.
    #[must_use]
    pub fn files(&self) -> Vec<&std::path::Path> {
        match &self.kind {
            TrafficKind::Synthetic { arrivals, lengths } => {
                let arrivals = match arrivals {
                    Arrivals::Trace(source) => Some(source),
                    _ => None,
                };
                let lengths = match lengths {
                    Lengths::Trace { source, .. } => Some(source),
                    _ => None,
                };
                arrivals.into_iter().chain(lengths).map(|source| source.path.as_path()).collect()
            }
            TrafficKind::Trace(source) => vec![&source.path],
            TrafficKind::Ranks(ranks) => ranks.iter().flat_map(Self::files).collect(),
            TrafficKind::Steps(_) => Vec::new(),
        }
    }

    /// Traffic whose requests carry nothing beside their lengths.
    #[must_use]
    pub fn plain(seed: u64, requests: Option<u64>, kind: TrafficKind) -> Self {
        Self { seed, requests, kind, labels: Labels::default(), acceptance: None, caution: None }
    }

    /// Opens the stream of requests for one seed.
    ///
    /// # Errors
    /// A trace that cannot be read, holds no rows or lacks a column, and traffic that is a histogram of step shapes.
    pub fn open(&self, seed: u64) -> Result<RequestStream, TrafficError> {
        RequestStream::open(self, seed)
    }

    /// Most requests of all ranks together; `None` where a trace runs to its end.
    #[must_use]
    pub fn requests_in_all(&self) -> Option<u64> {
        match &self.kind {
            TrafficKind::Ranks(ranks) => {
                ranks.iter().try_fold(0_u64, |sum, rank| Some(sum.saturating_add(rank.requests?)))
            }
            TrafficKind::Synthetic { .. } | TrafficKind::Trace(_) | TrafficKind::Steps(_) => self.requests,
        }
    }

    /// Whether requests ask for adapters, in a table of their own or in the rows of a trace.
    #[must_use]
    pub fn carries_adapters(&self) -> bool {
        let source = match &self.kind {
            TrafficKind::Trace(source) | TrafficKind::Synthetic { lengths: Lengths::Trace { source, .. }, .. } => {
                source
            }
            TrafficKind::Ranks(ranks) => return ranks.iter().any(Self::carries_adapters),
            TrafficKind::Synthetic { .. } | TrafficKind::Steps(_) => return self.labels.adapters.is_some(),
        };
        let brought = source.format.as_ref().is_some_and(|format| format.brings().adapters);
        self.labels.adapters.is_some() || brought
    }

    /// Whether another seed gives other requests, or other accepted drafts.
    #[must_use]
    pub fn draws(&self) -> bool {
        let of_kind = match &self.kind {
            TrafficKind::Synthetic { arrivals, lengths } => arrivals.draws() || lengths.draws(),
            TrafficKind::Trace(_) => false,
            TrafficKind::Ranks(ranks) => ranks.iter().any(Self::draws),
            TrafficKind::Steps(_) => return false,
        };
        of_kind || self.labels.draws() || self.acceptance.as_ref().is_some_and(Acceptance::draws)
    }
}

//! One ladder to be chosen: sizes, steps, costs, and how a step is priced.

use kernels::units::Bytes;

use super::budget::{Resources, Usage};
use crate::limits::COUNT_MAX;
use crate::time::SimDuration;

/// The kind of batch that a step is, for engines that keep graphs by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Batch {
    /// A uniform decode batch: it runs a FULL graph where there is one.
    Decode,
    /// Any other batch.
    Other,
}

/// The part of a step's time that depends on its graph, or the part that does not. The step takes the longer of both
/// sums, host and device ([`StepTimes::period`](crate::cost::StepTimes::period)): where host and device work one after the
/// other, all of it is `device` and `host` is zero; where the step's preparation is hidden behind nothing, it is part of
/// both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Terms {
    /// On the host.
    pub host: SimDuration,
    /// On the device.
    pub device: SimDuration,
}

/// A size that may become a rung.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Candidate {
    /// In the ladder's unit: tokens, or requests.
    pub size: u32,
    /// What its graph costs a uniform decode batch.
    pub decode: Terms,
    /// What its graph costs any other batch.
    pub other: Terms,
    /// What the shared pool needs if this is the largest rung.
    pub pool: Bytes,
    /// Every ladder has this rung.
    pub required: bool,
}

/// Steps of one shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepLoad {
    /// The size that its graph must hold, in the ladder's unit.
    pub size: u32,
    /// Its kind.
    pub batch: Batch,
    /// How many such steps.
    pub count: u64,
    /// What the step itself adds to the terms of its graph.
    pub own: Terms,
    /// What the step costs without a graph.
    pub eager: SimDuration,
}

/// When a step below the top rung runs its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Always: what vLLM and SGLang do.
    AlwaysPad,
    /// Where that is not dearer than running without.
    BestOfBoth,
}

/// What rungs take, by size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Captures {
    /// The last size with a graph for decode batches beside the one for others (vLLM: `max_num_seqs` requests).
    pub low_max: u32,
    /// A rung up to `low_max`.
    pub low: Resources,
    /// A rung above it.
    pub high: Resources,
    /// What the first capture takes longer.
    pub first_extra: SimDuration,
}

/// One ladder to be chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub(super) candidates: Vec<Candidate>,
    /// By size, ascending.
    pub(super) loads: Vec<StepLoad>,
    pub(super) policy: Policy,
    pub(super) captures: Captures,
}

/// Why there is no such problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProblemFault {
    /// A rung holds something.
    #[error("a rung holds at least 1, found a candidate of 0")]
    EmptyCandidate,
    /// Candidates are listed once, smallest first.
    #[error("candidates ascend, each listed once: {size} follows {previous}")]
    CandidateOrder {
        /// The one before.
        previous: u32,
        /// The one out of order.
        size: u32,
    },
    /// The pool of a larger rung has room for a smaller one.
    #[error("the pool does not shrink as rungs grow: {size} needs less than the candidate before it")]
    PoolShrinks {
        /// The larger rung.
        size: u32,
    },
    /// A count beyond what sums are made for.
    #[error("a step shape of size {size} has the count {count}; the most is {COUNT_MAX}")]
    Count {
        /// Of the steps.
        size: u32,
        /// How many.
        count: u64,
    },
    /// Only a ladder of its own for each kind of batch can be chosen beside another.
    #[error("a ladder beside another has one kind of rung; here rungs above {low_max} take other resources")]
    TwoKinds {
        /// The last size of the first kind.
        low_max: u32,
    },
}

impl Terms {
    /// Terms of a step whose host and device work one after the other, or of which only their sum is known.
    #[must_use]
    pub fn sum(time: SimDuration) -> Self {
        Self { host: SimDuration::ZERO, device: time }
    }

    /// Neither term is more than the other's.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        self.host <= other.host && self.device <= other.device
    }
}

impl Captures {
    /// Rungs of one kind.
    #[must_use]
    pub fn same(each: Resources) -> Self {
        Self { low_max: 0, low: each, high: each, first_extra: SimDuration::ZERO }
    }

    pub(super) fn of(&self, size: u32) -> &Resources {
        if size <= self.low_max { &self.low } else { &self.high }
    }
}

impl Candidate {
    /// Neither kind of batch pays more on it than on the other.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        self.decode.is_within(&other.decode) && self.other.is_within(&other.other)
    }

    pub(super) fn terms(&self, batch: Batch) -> &Terms {
        match batch {
            Batch::Decode => &self.decode,
            Batch::Other => &self.other,
        }
    }
}

impl StepLoad {
    /// One such step on the graph of a rung that holds it.
    #[inline]
    pub(super) fn on(&self, rung: &Candidate, policy: Policy) -> u64 {
        let graph = rung.terms(self.batch);
        let host = self.own.host.0.saturating_add(graph.host.0);
        let device = self.own.device.0.saturating_add(graph.device.0);
        match policy {
            Policy::AlwaysPad => host.max(device),
            Policy::BestOfBoth => host.max(device).min(self.eager.0),
        }
    }
}

impl Problem {
    /// Checks the parts. Loads may come in any order, shapes more than once.
    ///
    /// # Errors
    /// [`ProblemFault`].
    pub fn new(
        candidates: Vec<Candidate>,
        mut loads: Vec<StepLoad>,
        policy: Policy,
        captures: Captures,
    ) -> Result<Self, ProblemFault> {
        if candidates.first().is_some_and(|first| first.size == 0) {
            return Err(ProblemFault::EmptyCandidate);
        }
        for pair in candidates.windows(2) {
            let (previous, size) = (pair[0].size, pair[1].size);
            if size <= previous {
                return Err(ProblemFault::CandidateOrder { previous, size });
            }
            if pair[1].pool < pair[0].pool {
                return Err(ProblemFault::PoolShrinks { size });
            }
        }
        if let Some(load) = loads.iter().find(|load| load.count > COUNT_MAX) {
            return Err(ProblemFault::Count { size: load.size, count: load.count });
        }
        loads.retain(|load| load.count > 0);
        loads.sort_by_key(|load| load.size);
        Ok(Self { candidates, loads, policy, captures })
    }

    /// The same with these sizes required, as far as they are candidates.
    #[must_use]
    pub fn requiring(mut self, sizes: &[u32]) -> Self {
        for candidate in &mut self.candidates {
            candidate.required |= sizes.contains(&candidate.size);
        }
        self
    }

    /// The sizes that may become rungs, ascending.
    pub fn sizes(&self) -> impl Iterator<Item = u32> {
        self.candidates.iter().map(|candidate| candidate.size)
    }

    /// The size of the largest step; `None` without steps.
    #[must_use]
    pub fn largest_load(&self) -> Option<u32> {
        self.loads.last().map(|load| load.size)
    }

    /// The sizes of the steps, ascending, each with how many there are.
    #[must_use]
    pub fn sizes_of_steps(&self) -> Vec<(u32, u64)> {
        let of_size = |alike: &[StepLoad]| (alike[0].size, alike.iter().map(|load| load.count).sum());
        self.loads.chunk_by(|one, next| one.size == next.size).map(of_size).collect()
    }

    /// What graphs of these sizes take, ascending; sizes that are no candidates take no pool.
    #[must_use]
    pub fn usage(&self, rungs: &[u32]) -> Usage {
        let Some(&top) = rungs.last() else { return Usage::default() };
        let place = self.candidates.binary_search_by_key(&top, |candidate| candidate.size);
        let pool = place.map_or(Bytes(0), |place| self.candidates[place].pool);
        let low = rungs.partition_point(|&size| size <= self.captures.low_max);
        let first = Usage { pool, startup: self.captures.first_extra, ..Usage::default() };
        first.with_rungs(low, &self.captures.low).with_rungs(rungs.len() - low, &self.captures.high)
    }

    /// The number of loads that fit into each candidate: it starts with none for no candidate at all.
    pub(super) fn held(&self) -> Vec<usize> {
        let upto = |candidate: &Candidate| self.loads.partition_point(|load| load.size <= candidate.size);
        std::iter::once(0).chain(self.candidates.iter().map(upto)).collect()
    }
}

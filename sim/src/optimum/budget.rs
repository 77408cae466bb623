//! What captured graphs take, and how much of it may be taken.

use kernels::units::Bytes;

use crate::time::SimDuration;

/// What one rung takes, whatever its size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Descriptors captured for it.
    pub descriptors: u32,
    /// Their executables.
    pub executables: Bytes,
    /// Their capture.
    pub startup: SimDuration,
}

/// What a set of graphs takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Descriptors captured.
    pub descriptors: u32,
    /// All executables.
    pub executables: Bytes,
    /// The shared pool: what the largest rung needs of it.
    pub pool: Bytes,
    /// All captures, with what the first takes longer.
    pub startup: SimDuration,
}

/// The most that a set of graphs may take; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// Descriptors.
    pub descriptors: Option<u32>,
    /// Pool and executables together.
    pub memory: Option<Bytes>,
    /// Seconds of capture.
    pub startup: Option<SimDuration>,
}

impl Resources {
    /// No part of it is more than the other's.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        self.descriptors <= other.descriptors && self.executables <= other.executables && self.startup <= other.startup
    }
}

impl Usage {
    /// Pool and executables together.
    #[must_use]
    pub fn memory(&self) -> Bytes {
        Bytes(self.executables.0.saturating_add(self.pool.0))
    }

    /// The same with `count` more rungs that take `each`.
    #[must_use]
    pub fn with_rungs(self, count: usize, each: &Resources) -> Self {
        let count = count as u64;
        Self {
            descriptors: self.descriptors.saturating_add((count * u64::from(each.descriptors)) as u32),
            executables: Bytes(self.executables.0.saturating_add(each.executables.0.saturating_mul(count))),
            startup: SimDuration(self.startup.0.saturating_add(each.startup.0.saturating_mul(count))),
            ..self
        }
    }

    /// What two sets take together: their graphs share one pool, and only one capture is the first.
    pub(super) fn beside(self, other: &Self, first_extra: SimDuration) -> Self {
        let twice = self.startup > SimDuration::ZERO && other.startup > SimDuration::ZERO;
        let extra = if twice { first_extra } else { SimDuration::ZERO };
        Self {
            descriptors: self.descriptors.saturating_add(other.descriptors),
            executables: Bytes(self.executables.0.saturating_add(other.executables.0)),
            pool: self.pool.max(other.pool),
            startup: SimDuration(self.startup.0.saturating_add(other.startup.0) - extra.0),
        }
    }
}

impl Budget {
    /// Whether graphs that take so much may be captured.
    #[must_use]
    pub fn allows(&self, usage: &Usage) -> bool {
        self.descriptors.is_none_or(|most| usage.descriptors <= most)
            && self.memory.is_none_or(|most| usage.memory() <= most)
            && self.startup.is_none_or(|most| usage.startup <= most)
    }
}

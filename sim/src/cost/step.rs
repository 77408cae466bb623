//! One step's work in, one step's cost out.

use std::fmt;

use calibrate::profile::Overlap;

use crate::engine::step::StepPlan;
use crate::time::SimDuration;

/// How the model ran in one step, as far as its cost goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Execution {
    /// Operation by operation, no compilation.
    Eager,
    /// Compiled pieces launched without a graph: what mode NONE means in a compiled engine.
    CompiledEager,
    /// Compiled pieces replayed, attention launched between them.
    Piecewise,
    /// One replay.
    Full,
}

impl Execution {
    /// Whether a captured graph runs.
    #[must_use]
    pub fn is_graph(self) -> bool {
        matches!(self, Self::Piecewise | Self::Full)
    }
}

impl Execution {
    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Eager => "eager",
            Self::CompiledEager => "compiled eager",
            Self::Piecewise => "PIECEWISE",
            Self::Full => "FULL",
        }
    }
}

impl fmt::Display for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The real work of one step, padding apart: all that the cost formulas need of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepWork {
    /// Scheduled tokens.
    pub tokens: u32,
    /// Scheduled requests.
    pub requests: u32,
    /// Drafts that the output head looks at: it runs over one row for each request and one for each draft.
    pub drafts: u32,
    /// Requests that sample: a drafter then makes their next drafts.
    pub sampled: u32,
    /// Requests that decode, each with its KV context. One that verifies `k` drafts counts once: its `1 + k` queries read
    /// the same keys and values in one pass, and their arithmetic hides behind that as long as they fill one tile.
    pub decode_requests: u32,
    /// KV tokens read by all decoding requests together.
    pub decode_context_tokens: u64,
    /// Prompt tokens of all chunks: sum of c.
    pub chunk_tokens: u64,
    /// Sum of c² over the chunks.
    pub chunk_tokens_squared: u64,
    /// Sum of c·k over the chunks, k being the context before the chunk.
    pub chunk_context_product: u64,
}

impl StepWork {
    /// The work of a scheduled step.
    #[must_use]
    pub fn of(plan: &StepPlan) -> Self {
        let mut work = Self {
            tokens: plan.shape.tokens,
            requests: plan.shape.requests,
            drafts: plan.drafts,
            sampled: plan.sampled,
            decode_requests: plan.decode_requests,
            decode_context_tokens: plan.decode_context_tokens,
            ..Self::default()
        };
        for chunk in &plan.prefills {
            work.add_chunk(chunk.tokens, chunk.context);
        }
        work
    }

    /// Adds one prefill chunk of `tokens` with `context` tokens computed before it.
    pub fn add_chunk(&mut self, tokens: u32, context: u32) {
        let (c, k) = (u64::from(tokens), u64::from(context));
        self.chunk_tokens += c;
        self.chunk_tokens_squared += c * c;
        self.chunk_context_product += c * k;
    }

    /// The single chunk that stands for all of them, in tokens: sqrt(sum c²).
    #[must_use]
    pub fn equivalent_chunk(&self) -> f64 {
        (self.chunk_tokens_squared as f64).sqrt()
    }

    /// The context of that chunk, in tokens: sum(c·k) / sum(c). Zero without chunks.
    #[must_use]
    pub fn equivalent_chunk_context(&self) -> f64 {
        if self.chunk_tokens == 0 { 0.0 } else { self.chunk_context_product as f64 / self.chunk_tokens as f64 }
    }

    /// Mean context of a decoding request, in tokens. Zero without decoding requests.
    #[must_use]
    pub fn mean_decode_context(&self) -> f64 {
        if self.decode_requests == 0 {
            0.0
        } else {
            self.decode_context_tokens as f64 / f64::from(self.decode_requests)
        }
    }
}

/// A group of the profile that a step's price can come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum CostGroup {
    /// The staircase of everything but attention and head.
    Dense,
    /// LM head and sampler.
    Head,
    /// Decode attention.
    DecodeAttention,
    /// Prefill attention.
    PrefillAttention,
    /// Attention of steps that hold both.
    MixedAttention,
}

impl CostGroup {
    /// Every group, in the order of the device formula.
    pub const ALL: [Self; 5] =
        [Self::Dense, Self::Head, Self::DecodeAttention, Self::PrefillAttention, Self::MixedAttention];

    /// The group's name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Dense => "dense",
            Self::Head => "head",
            Self::DecodeAttention => "attention.decode",
            Self::PrefillAttention => "attention.prefill",
            Self::MixedAttention => "attention.mixed",
        }
    }
}

/// A set of cost groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CostGroups(u8);

impl CostGroups {
    /// No group.
    pub const NONE: Self = Self(0);

    /// This set with `group` added if `member`.
    #[must_use]
    pub fn with(self, group: CostGroup, member: bool) -> Self {
        if member { Self(self.0 | 1 << group as u8) } else { self }
    }

    /// The members of either set.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the set holds `group`.
    #[must_use]
    pub fn contains(self, group: CostGroup) -> bool {
        self.0 & (1 << group as u8) != 0
    }

    /// Whether the set holds nothing.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The members, in the order of [`CostGroup::ALL`].
    pub fn iter(self) -> impl Iterator<Item = CostGroup> {
        CostGroup::ALL.into_iter().filter(move |&group| self.contains(group))
    }
}

/// The price of one step, term by term, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepCost {
    /// Device: everything but attention and head, for the rows that run.
    pub dense_ns: u64,
    /// Device: LM head and sampler.
    pub head_ns: u64,
    /// Device: attention of the real requests, and the per-request term of requests that a FULL graph pads.
    pub attention_ns: u64,
    /// Device: making the next drafts, behind the head.
    pub drafting_ns: u64,
    /// Device: what the step takes longer than as one graph: the gaps of launches, or of pieces.
    pub gap_ns: u64,
    /// Host: the engine's fixed work per step, before the first launch.
    pub step_overhead_ns: u64,
    /// Host: the engine's work per scheduled request, before the first launch.
    pub request_overhead_ns: u64,
    /// Host: launches or replays.
    pub launch_ns: u64,
    /// Host: updates of executables that graphs share, between the replays.
    pub update_ns: u64,
    /// Host: dispatch and padding bookkeeping of a graph step.
    pub bookkeeping_ns: u64,
    /// Executables updated.
    pub updates: u32,
    /// Groups whose figures were read outside their measured range.
    pub outside: CostGroups,
    /// Groups whose figures are derived, and were read inside their valid range.
    pub derived: CostGroups,
    /// Prefill and decode attention were added although one kernel serves both (no mixed table).
    pub mixed_as_sum: bool,
}

/// A price as far as time goes: which resource works for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepTimes {
    /// Host time before the first launch: overhead and bookkeeping.
    pub preparation: SimDuration,
    /// Host time of launches or replays, and of the updates between them.
    pub launch: SimDuration,
    /// Time that the device works.
    pub device: SimDuration,
}

impl StepCost {
    /// Who works for how long.
    #[inline]
    #[must_use]
    pub fn times(&self) -> StepTimes {
        StepTimes {
            preparation: SimDuration(self.step_overhead_ns + self.request_overhead_ns + self.bookkeeping_ns),
            launch: SimDuration(self.launch_ns + self.update_ns),
            device: SimDuration(self.dense_ns + self.head_ns + self.attention_ns + self.drafting_ns + self.gap_ns),
        }
    }

    /// Time that the device works.
    #[must_use]
    pub fn device(&self) -> SimDuration {
        self.times().device
    }

    /// All host time of the step.
    #[must_use]
    pub fn host(&self) -> SimDuration {
        self.times().host()
    }

    /// See [`StepTimes::period`].
    #[must_use]
    pub fn period(&self, overlap: Overlap, asynchronous: bool) -> SimDuration {
        self.times().period(overlap, asynchronous)
    }
}

impl StepTimes {
    /// All host time of the step.
    #[inline]
    #[must_use]
    pub fn host(&self) -> SimDuration {
        self.preparation + self.launch
    }

    /// The same of a step whose attention takes longer by so much, or less.
    #[inline]
    #[must_use]
    pub fn with_attention_moved(self, by_ns: i64) -> Self {
        Self { device: SimDuration(self.device.0.wrapping_add_signed(by_ns)), ..self }
    }

    /// How long the step holds up the next one in steady state, with nothing else to wait for.
    ///
    /// `additive`: device + host. `pipelined`: launches run ahead of the device; asynchronous scheduling also hides the
    /// preparation behind the step before.
    #[inline]
    #[must_use]
    pub fn period(&self, overlap: Overlap, asynchronous: bool) -> SimDuration {
        match (overlap, asynchronous) {
            (Overlap::Additive, _) => self.device + self.host(),
            (Overlap::Pipelined, true) => self.device.max(self.host()),
            (Overlap::Pipelined, false) => self.preparation + self.device.max(self.launch),
        }
    }

    /// Whether [`Self::period`] is the device's: it then grows with device time, and else it does not until it is.
    #[inline]
    #[must_use]
    pub fn is_device_bound(&self, overlap: Overlap, asynchronous: bool) -> bool {
        match (overlap, asynchronous) {
            (Overlap::Additive, _) => true,
            (Overlap::Pipelined, true) => self.device >= self.host(),
            (Overlap::Pipelined, false) => self.device >= self.launch,
        }
    }

    /// The launch time beyond which [`Self::period`] grows under [`Overlap::Pipelined`]: the device time, less the
    /// preparation where asynchronous scheduling hides that behind the device too. Zero where nothing is left.
    #[inline]
    #[must_use]
    pub fn launch_slack(&self, asynchronous: bool) -> SimDuration {
        if asynchronous { self.device - self.preparation } else { self.device }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_grows_as_soon_as_launches_exceed_their_slack() {
        let step = |device_ns, launch_ns| StepCost {
            dense_ns: device_ns,
            step_overhead_ns: 800,
            request_overhead_ns: 4,
            launch_ns,
            ..StepCost::default()
        };
        for (device_ns, asynchronous, slack_ns) in
            [(5101, true, 4297), (5101, false, 5101), (804, true, 0), (700, true, 0), (700, false, 700)]
        {
            let slack = step(device_ns, 0).times().launch_slack(asynchronous);
            assert_eq!(slack.0, slack_ns);
            let period = |launch_ns| step(device_ns, launch_ns).period(Overlap::Pipelined, asynchronous);
            assert_eq!(period(slack_ns), period(0));
            assert!(period(slack_ns + 1) > period(0));
        }
    }
}

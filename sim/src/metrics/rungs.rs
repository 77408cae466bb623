//! Which graphs fired, how much they padded, what they saved, and why some steps had none.

use std::collections::BTreeMap;

use super::{HeldUp, SteadyStates};
use crate::cost::CostModel;
use crate::engine::shape::{Descriptor, FallbackCause};
use crate::observe::{StepScheduled, Stretch};
use crate::time::{SimDuration, SimTime};

/// What one captured graph did in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RungTally {
    /// Steps it served.
    pub steps: u64,
    /// Steps that it served without padding.
    pub exact_steps: u64,
    /// Real tokens that it ran.
    pub real_rows: u64,
    /// Tokens that nobody asked for.
    pub padded_rows: u64,
    /// Nanoseconds saved against the eager kind that the engine would have run; negative where replay loses.
    pub saved_ns: i64,
    /// When the first step that it served was scheduled.
    pub first_use: SimTime,
}

impl RungTally {
    /// Adds another graph's tally; the earlier first use stands.
    pub fn add(&mut self, other: &Self) {
        self.first_use = if self.steps == 0 { other.first_use } else { self.first_use.min(other.first_use) };
        self.steps += other.steps;
        self.exact_steps += other.exact_steps;
        self.real_rows += other.real_rows;
        self.padded_rows += other.padded_rows;
        self.saved_ns += other.saved_ns;
    }
}

/// Counts rungs and fallbacks as steps happen.
#[derive(Debug)]
pub struct RungRecorder<'a> {
    cost: &'a CostModel,
    asynchronous: bool,
    stats: RungStats,
    /// The graphs that fired.
    fired: Vec<(Descriptor, RungTally)>,
    /// By the tokens of a graph: which of them fired last, and most likely fires next.
    last_by_tokens: Vec<usize>,
}

/// What the rungs of a run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RungStats {
    /// Per captured graph that fired.
    pub rungs: BTreeMap<Descriptor, RungTally>,
    /// Steps without a graph, by cause.
    pub fallbacks: BTreeMap<FallbackCause, u64>,
    /// Rows that data-parallel ranks padded in steps without a graph.
    pub padded_rows_without_graph: u64,
    /// When the first step without a graph was scheduled.
    pub first_fallback: Option<SimTime>,
    /// Steps that wanted a FULL graph and ran PIECEWISE.
    pub relaxed_steps: u64,
    /// Steps in which replay cost more than the eager kind would have.
    pub losing_steps: u64,
    /// Of those, steps in which it also would if the dense table were read as stairs instead of lines between its
    /// measured sizes; where the table falls, stairs lie below lines and would add others.
    pub losing_steps_on_stairs: u64,
    /// What all graph steps saved in nanoseconds, read on stairs.
    pub saved_ns_on_stairs: i64,
    /// Steps without a graph by what their launch could cost; none where that is no planning figure.
    pub held_up: HeldUp,
    /// Graph steps by what their launch without the graph could cost; none where that is no planning figure.
    pub held_up_without_graph: HeldUp,
    /// What the steps say about steady states.
    pub steady: SteadyStates,
    /// Steps of decoding requests only.
    pub decode_steps: u64,
    /// Of those, steps above the largest captured size.
    pub decode_steps_above_ceiling: u64,
    /// How many of them ran each number of tokens: index is tokens.
    pub decode_steps_by_tokens: Vec<u64>,
}

impl<'a> RungRecorder<'a> {
    /// `asynchronous` decides how host and device time combine in what a replay saves.
    #[must_use]
    pub fn new(cost: &'a CostModel, asynchronous: bool) -> Self {
        Self { cost, asynchronous, stats: RungStats::default(), fired: Vec::new(), last_by_tokens: Vec::new() }
    }

    /// Takes note of a request that is sent.
    pub fn record_sent(&mut self) {
        self.stats.steady.record_sent();
    }

    /// Takes note of one step.
    pub fn record(&mut self, step: &StepScheduled<'_>) {
        self.record_alike(step, [(step.span.duration, step.cost.attention_ns)].into_iter());
    }

    /// Takes note of the steps of a stretch.
    pub fn record_stretch(&mut self, stretch: &Stretch<'_>) {
        self.record_alike(&stretch.first, stretch.beats.iter().map(|beat| (beat.span.duration, beat.attention_ns)));
    }

    /// Takes note of steps like `step` that take so long and whose attention takes so many nanoseconds.
    #[inline]
    fn record_alike(&mut self, step: &StepScheduled<'_>, each: impl ExactSizeIterator<Item = (SimDuration, u64)>) {
        let stats = &mut self.stats;
        let count = each.len() as u64;
        let above_ceiling = step.dispatch.cause == Some(FallbackCause::AboveCeiling);
        if step.work.chunk_tokens == 0 {
            stats.decode_steps += count;
            stats.decode_steps_above_ceiling += u64::from(above_ceiling) * count;
            let tokens = step.work.tokens as usize;
            if stats.decode_steps_by_tokens.len() <= tokens {
                stats.decode_steps_by_tokens.resize(tokens + 1, 0);
            }
            stats.decode_steps_by_tokens[tokens] += count;
        }
        stats.relaxed_steps += u64::from(step.dispatch.relaxed) * count;
        let padded_rows = u64::from(step.dispatch.padded_rows(&step.plan.shape));
        let (cost, asynchronous) = (self.cost, self.asynchronous);
        let replay = step.cost.times();
        let moved_ns = |attention_ns: u64| attention_ns.wrapping_sub(step.cost.attention_ns).cast_signed();
        let mut durations = SimDuration::ZERO;
        if let Some(cause) = step.dispatch.cause {
            *stats.fallbacks.entry(cause).or_default() += count;
            stats.padded_rows_without_graph += padded_rows * count;
            stats.first_fallback.get_or_insert(step.span.scheduled);
            for (duration, attention_ns) in each {
                durations += duration;
                if let Some(launch) = &cost.planned_launch {
                    let slack = replay.with_attention_moved(moved_ns(attention_ns)).launch_slack(asynchronous);
                    stats.held_up.add(slack, launch);
                }
            }
            stats.steady.record(step.work, step.dispatch.cause, count, durations, None);
            return;
        }
        let eager = cost.eager_times(step.work, step.dispatch, step.cost);
        let mut eager_durations = SimDuration::ZERO;
        let mut saved_in_all_ns = 0;
        for (duration, attention_ns) in each {
            let moved_ns = moved_ns(attention_ns);
            let eager = eager.with_attention_moved(moved_ns).period(cost.overlap, asynchronous);
            let replay = replay.with_attention_moved(moved_ns).period(cost.overlap, asynchronous);
            let saved_ns = eager.on_line.0.cast_signed() - replay.0.cast_signed();
            if let Some(launch) = &cost.planned_launch {
                stats.held_up_without_graph.add(eager.launch_slack, launch);
            }
            stats.losing_steps += u64::from(saved_ns < 0);
            stats.losing_steps_on_stairs += u64::from(saved_ns < 0 && eager.on_stairs < eager.graph_on_stairs);
            stats.saved_ns_on_stairs += eager.on_stairs.0.cast_signed() - eager.graph_on_stairs.0.cast_signed();
            saved_in_all_ns += saved_ns;
            durations += duration;
            eager_durations += eager.on_line;
        }
        stats.steady.record(step.work, None, count, durations, Some(eager_durations));
        let tally = self.tally(step);
        tally.steps += count;
        tally.exact_steps += u64::from(padded_rows == 0) * count;
        tally.real_rows += u64::from(step.work.tokens) * count;
        tally.padded_rows += padded_rows * count;
        tally.saved_ns += saved_in_all_ns;
    }

    fn tally(&mut self, step: &StepScheduled<'_>) -> &mut RungTally {
        let key = &step.dispatch.descriptor;
        let tokens = key.tokens as usize;
        if tokens >= self.last_by_tokens.len() {
            self.last_by_tokens.resize(tokens + 1, 0);
        }
        let last = &mut self.last_by_tokens[tokens];
        if self.fired.get(*last).is_none_or(|(last, _)| last != key) {
            *last = self.fired.iter().position(|(fired, _)| fired == key).unwrap_or(self.fired.len());
            if *last == self.fired.len() {
                self.fired.push((*key, RungTally { first_use: step.span.scheduled, ..RungTally::default() }));
            }
        }
        &mut self.fired[*last].1
    }

    /// The figures.
    #[must_use]
    pub fn finish(self) -> RungStats {
        RungStats { rungs: self.fired.into_iter().collect(), ..self.stats }
    }
}

impl RungStats {
    /// All graph steps together.
    #[must_use]
    pub fn total(&self) -> RungTally {
        let mut total = RungTally::default();
        for tally in self.rungs.values() {
            total.add(tally);
        }
        total
    }

    /// Steps without a graph.
    #[must_use]
    pub fn fallback_steps(&self) -> u64 {
        self.fallbacks.values().sum()
    }

    /// Tokens of the step without prefill at a share of all of them, 0.5 the median; `None` without such steps. The
    /// smallest number of tokens that at least that share of the steps does not exceed.
    #[must_use]
    pub fn decode_tokens_at(&self, share: f64) -> Option<u64> {
        let wanted = (share * self.decode_steps as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        self.decode_steps_by_tokens.iter().zip(0..).find_map(|(steps, tokens)| {
            seen += steps;
            (seen >= wanted).then_some(tokens)
        })
    }

    /// Share of graph steps that padded nothing; `None` without graph steps.
    #[must_use]
    pub fn exact_hit_rate(&self) -> Option<f64> {
        let total = self.total();
        ratio(total.exact_steps, total.steps)
    }

    /// Padded rows over real rows, graph steps only; `None` without graph steps.
    #[must_use]
    pub fn padding_ratio(&self) -> Option<f64> {
        let total = self.total();
        ratio(total.padded_rows, total.real_rows)
    }

    /// Padded rows over rows run, graph steps only; `None` without graph steps.
    #[must_use]
    pub fn waste_share(&self) -> Option<f64> {
        let total = self.total();
        ratio(total.padded_rows, total.padded_rows + total.real_rows)
    }

    /// Share of all steps that ran without a graph; `None` without steps.
    #[must_use]
    pub fn fallback_rate(&self) -> Option<f64> {
        let fallbacks = self.fallback_steps();
        ratio(fallbacks, fallbacks + self.total().steps)
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_decode_batches_are_values_that_occurred() {
        let stats =
            RungStats { decode_steps: 4, decode_steps_by_tokens: vec![0, 1, 0, 2, 0, 0, 0, 1], ..RungStats::default() };
        assert_eq!(
            [0.0, 0.25, 0.5, 0.75, 0.99, 1.0].map(|share| stats.decode_tokens_at(share)),
            [1, 1, 3, 3, 7, 7].map(Some)
        );
        assert_eq!(RungStats::default().decode_tokens_at(0.5), None);
    }
}

//! Which graphs fired, how much they padded, what they saved, and why some steps had none.

use std::collections::BTreeMap;

use calibrate::profile::Overlap;

use super::held_up::Held;
use super::{HeldUp, SteadyStates};
use crate::cost::{CostModel, EagerPeriod, EagerTimes, PlannedLaunch, StepTimes};
use crate::engine::shape::{Descriptor, FallbackCause};
use crate::observe::{Beat, StepScheduled, Stretch, Sums};
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
        self.record_alike(step, &Sums::of(step), &[]);
    }

    /// Takes note of the steps of a stretch, which come to `sums`.
    pub fn record_stretch(&mut self, stretch: &Stretch<'_>, sums: &Sums) {
        self.record_alike(&stretch.first, sums, stretch.beats);
    }

    /// Takes note of steps like `step`, up to their attention, that come to `sums`; `beats` are those steps if there are
    /// several.
    #[inline]
    fn record_alike(&mut self, step: &StepScheduled<'_>, sums: &Sums, beats: &[Beat]) {
        let stats = &mut self.stats;
        let count = sums.steps;
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
        if let Some(cause) = step.dispatch.cause {
            *stats.fallbacks.entry(cause).or_default() += count;
            stats.padded_rows_without_graph += padded_rows * count;
            stats.first_fallback.get_or_insert(step.span.scheduled);
            stats.steady.record(step.work, step.dispatch.cause, count, sums.duration, None);
            if let Some(launch) = &self.cost.planned_launch {
                self.record_slack(step, sums, beats, launch);
            }
            return;
        }
        let (saved_ns, eager) = self.record_saved(step, sums, beats);
        self.stats.steady.record(step.work, None, count, sums.duration, Some(eager));
        let tally = self.tally(step);
        tally.steps += count;
        tally.exact_steps += u64::from(padded_rows == 0) * count;
        tally.real_rows += u64::from(step.work.tokens) * count;
        tally.padded_rows += padded_rows * count;
        tally.saved_ns += saved_ns;
    }

    /// Takes note of what the launches of steps without a graph could hold up.
    fn record_slack(&mut self, step: &StepScheduled<'_>, sums: &Sums, beats: &[Beat], launch: &PlannedLaunch) {
        let (times, asynchronous) = (step.cost.times(), self.asynchronous);
        let at = |attention_ns: u64| {
            let slack = times.with_attention_moved(step.moved_ns(attention_ns)).launch_slack(asynchronous);
            (Held::of(slack, launch), slack)
        };
        let held_up = &mut self.stats.held_up;
        // Slack grows with attention.
        let (held, least_slack) = at(sums.attention_least_ns);
        if sums.is_even() || held == at(sums.attention_most_ns).0 {
            held_up.add(sums.steps, held, least_slack);
            return;
        }
        for beat in beats {
            let (held, slack) = at(beat.attention_ns);
            held_up.add(1, held, slack);
        }
    }

    /// Takes note of what graph steps save; returns that, in nanoseconds, and how long they would have taken without.
    #[inline]
    fn record_saved(&mut self, step: &StepScheduled<'_>, sums: &Sums, beats: &[Beat]) -> (i64, SimDuration) {
        let pair = Pair::of(step, self.cost, self.asynchronous);
        let least = pair.at(step.moved_ns(sums.attention_least_ns));
        if sums.is_even() {
            return self.add_saved(&least, sums.steps);
        }
        let bounds = pair.bounds(step.moved_ns(sums.attention_least_ns));
        let most_ns = step.moved_ns(sums.attention_most_ns);
        // Between the two, periods are straight lines if the same resource bounds each at both ends.
        if bounds == pair.bounds(most_ns) && self.is_judged_alike(&least, &pair.at(most_ns)) {
            let (saved_ns, eager) = self.add_saved(&least, sums.steps);
            let more_ns = (sums.attention_ns - sums.attention_least_ns * sums.steps).cast_signed();
            let [eager_more_ns, graph_more_ns, on_stairs_more_ns, graph_on_stairs_more_ns] =
                bounds.map(|is_devices| if is_devices { more_ns } else { 0 });
            self.stats.saved_ns_on_stairs += on_stairs_more_ns - graph_on_stairs_more_ns;
            return (saved_ns + eager_more_ns - graph_more_ns, eager + SimDuration(eager_more_ns.cast_unsigned()));
        }
        beats.iter().fold((0, SimDuration::ZERO), |(saved_ns, eager), beat| {
            let one = self.add_saved(&pair.at(step.moved_ns(beat.attention_ns)), 1);
            (saved_ns + one.0, eager + one.1)
        })
    }

    /// Whether two graph steps count as the same in everything that is counted.
    fn is_judged_alike(&self, one: &Periods, other: &Periods) -> bool {
        let held = |periods: &Periods| self.held_without_graph(periods);
        (one.is_losing(), one.is_losing_on_stairs()) == (other.is_losing(), other.is_losing_on_stairs())
            && held(one) == held(other)
    }

    #[inline]
    fn held_without_graph(&self, periods: &Periods) -> Option<Held> {
        self.cost.planned_launch.as_ref().map(|launch| Held::of(periods.eager.launch_slack, launch))
    }

    /// Adds so many graph steps of the same periods.
    #[inline]
    fn add_saved(&mut self, periods: &Periods, steps: u64) -> (i64, SimDuration) {
        let held = self.held_without_graph(periods);
        let (stats, Periods { eager, .. }) = (&mut self.stats, periods);
        if let Some(held) = held {
            stats.held_up_without_graph.add(steps, held, eager.launch_slack);
        }
        stats.losing_steps += u64::from(periods.is_losing()) * steps;
        stats.losing_steps_on_stairs += u64::from(periods.is_losing_on_stairs()) * steps;
        let all = |one_ns: i64| one_ns * steps.cast_signed();
        stats.saved_ns_on_stairs += all(eager.on_stairs.0.cast_signed() - eager.graph_on_stairs.0.cast_signed());
        let saved_ns = eager.on_line.0.cast_signed() - periods.graph.0.cast_signed();
        (all(saved_ns), SimDuration(eager.on_line.0 * steps))
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

/// Nanoseconds that one step won (negative: lost) by its graph against the eager kind; `None` without a graph.
#[must_use]
pub fn saved_ns(step: &StepScheduled<'_>, cost: &CostModel, asynchronous: bool) -> Option<i64> {
    let Periods { graph, eager } = step.dispatch.cause.is_none().then(|| Pair::of(step, cost, asynchronous).at(0))?;
    Some(eager.on_line.0.cast_signed() - graph.0.cast_signed())
}

/// A graph step and the same step without its graph, by both readings of the dense table.
struct Pair {
    graph: StepTimes,
    eager: EagerTimes,
    overlap: Overlap,
    asynchronous: bool,
}

/// How long either holds up the next step.
struct Periods {
    graph: SimDuration,
    eager: EagerPeriod,
}

impl Pair {
    #[inline]
    fn of(step: &StepScheduled<'_>, cost: &CostModel, asynchronous: bool) -> Self {
        let eager = cost.eager_times(step.work, step.dispatch, step.cost);
        Self { graph: step.cost.times(), eager, overlap: cost.overlap, asynchronous }
    }

    /// With so much more attention.
    #[inline]
    fn at(&self, moved_ns: i64) -> Periods {
        let Self { overlap, asynchronous, .. } = *self;
        Periods {
            graph: self.graph.with_attention_moved(moved_ns).period(overlap, asynchronous),
            eager: self.eager.with_attention_moved(moved_ns).period(overlap, asynchronous),
        }
    }

    /// Whether the device bounds each period: the eager one, that with the graph, and both on stairs.
    fn bounds(&self, moved_ns: i64) -> [bool; 4] {
        let EagerTimes { without_graph, on_stairs, graph_on_stairs } = self.eager;
        [without_graph, self.graph, on_stairs, graph_on_stairs]
            .map(|times| times.with_attention_moved(moved_ns).is_device_bound(self.overlap, self.asynchronous))
    }
}

impl Periods {
    /// Replay costs more than the eager kind.
    #[inline]
    fn is_losing(&self) -> bool {
        self.eager.on_line < self.graph
    }

    /// On stairs, too.
    #[inline]
    fn is_losing_on_stairs(&self) -> bool {
        self.is_losing() && self.eager.on_stairs < self.eager.graph_on_stairs
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
    use calibrate::profile::Profile;
    use proptest::prelude::*;

    use super::*;
    use crate::cost::{EngineSide, Execution, StepCost, StepWork};
    use crate::engine::shape::{Dispatch, RuntimeMode};
    use crate::engine::step::StepPlan;
    use crate::metrics::StepTotals;
    use crate::observe::{Event, StepSpan};

    /// Host and device in the reach of each other, so that either can bound any period.
    fn near_balance(overlap: Overlap) -> CostModel {
        let mut profile = Profile::builtin("h200-llama-3.1-8b").expect("built in");
        profile.overlap = overlap;
        let side = EngineSide {
            eager: Execution::CompiledEager,
            attention_layers: 32,
            pieces: 33,
            rows_max: 64,
            head_rows_max: 64,
            drafting: Vec::new(),
        };
        CostModel::new(&profile, &side)
    }

    fn beat(attention_ns: u64, number: u64) -> Beat {
        let at = SimTime(number * 1_000);
        let span = StepSpan {
            scheduled: at,
            host_free: at,
            device_start: at,
            end: at,
            duration: SimDuration(attention_ns + number),
            device_idle: SimDuration(number),
        };
        Beat { decode_context_tokens: number, attention_ns, span, free_blocks: 500 - number as u32, applied_at: at }
    }

    proptest! {
        #[test]
        fn a_stretch_is_its_steps_one_by_one(
            attention_us in prop::collection::vec(0u64..9_000, 1..12),
            spread in prop_oneof![Just(0), Just(1), Just(40), Just(1_000)],
            (rows, launches) in (1u32..60, any::<bool>()),
            (full, graph, additive, asynchronous) in any::<(bool, bool, bool, bool)>(),
        ) {
            let overlap = if additive { Overlap::Additive } else { Overlap::Pipelined };
            let mut cost = near_balance(overlap);
            cost.planned_launch = cost.planned_launch.filter(|_| launches);
            let mode = match (graph, full) {
                (false, _) => RuntimeMode::None,
                (true, false) => RuntimeMode::Piecewise,
                (true, true) => RuntimeMode::Full,
            };
            let descriptor = Descriptor {
                mode,
                tokens: rows + if graph { 4 } else { 0 },
                requests: full.then_some(rows + 4),
                uniform: None,
                max_query: None,
                loras: 0,
                ubatches: 1,
                prefix_chunks: None,
            };
            let dispatch = Dispatch { descriptor, cause: (!graph).then_some(FallbackCause::NoKey), relaxed: false };
            let work = StepWork { tokens: rows, requests: rows, decode_requests: rows, ..StepWork::default() };
            let first_us = attention_us[0];
            let beats: Vec<Beat> = (0..).zip(&attention_us)
                .map(|(number, us)| beat((first_us * 1_000 + us * spread) % 9_000_000 + 100_000, number))
                .collect();
            let first = StepCost { attention_ns: beats[0].attention_ns, ..cost.price(&work, &dispatch) };
            let mut plan = StepPlan::default();
            plan.push_lockstep(rows, 0);
            let stretch = Stretch {
                first: StepScheduled {
                    step: 0,
                    rank: 0,
                    plan: &plan,
                    work: &work,
                    dispatch: &dispatch,
                    cost: &first,
                    span: beats[0].span,
                    running: rows,
                    waiting: 0,
                    free_blocks: beats[0].free_blocks,
                    usable_blocks: 1_000,
                },
                applied_step: 0,
                beats: &beats,
            };
            let recorder = || (RungRecorder::new(&cost, asynchronous), StepTotals::default());
            let (mut at_once, mut one_by_one) = (recorder(), recorder());
            at_once.0.record_stretch(&stretch, &stretch.sums());
            at_once.1.record_stretch(&stretch, &stretch.sums());
            stretch.events(|event| {
                if let Event::StepScheduled(step) = event {
                    one_by_one.0.record(step);
                    one_by_one.1.record(step);
                }
                Ok(())
            })?;
            prop_assert_eq!(at_once.1, one_by_one.1);
            prop_assert_eq!(at_once.0.finish(), one_by_one.0.finish());
        }
    }

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

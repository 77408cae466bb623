//! What charts of a run draw: how often each batch size ran on what, and how a run went over time.

use std::collections::BTreeMap;
use std::io;

use super::cut::Cut;
use super::rungs::saved_ns;
use crate::cost::CostModel;
use crate::engine::plan::{GraphPlan, Rung};
use crate::engine::shape::FallbackCause;
use crate::observe::{Event, Observer, StepScheduled};
use crate::scenario::WarmUp;
use crate::time::SimTime;

/// A timeline never has more bins.
const BINS_MAX: usize = 512;

/// The width of a bin to begin with, in nanoseconds; it doubles as a run goes on.
const FIRST_BIN_NS: u64 = 1_000_000;

/// Steps of one size that ran on the same rung, or without a graph for the same cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BatchKey {
    /// Scheduled tokens.
    pub rows: u32,
    /// Why no graph ran; `None` on a rung.
    pub cause: Option<FallbackCause>,
    /// The rung; `None` without a graph.
    pub rung: Option<Rung>,
}

/// What such steps come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchTally {
    /// Steps.
    pub steps: u64,
    /// Tokens that nobody asked for.
    pub padded_rows: u64,
    /// Nanoseconds saved against the eager kind; negative where replay loses.
    pub saved_ns: i64,
}

/// Everything that was scheduled in one span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bin {
    /// Steps.
    pub steps: u64,
    /// Their scheduled tokens, all together.
    pub rows: u64,
    /// The most tokens of a step.
    pub rows_max: u32,
    /// Steps without a graph.
    pub no_graph: u64,
    /// Of those, steps with more tokens than the largest captured size.
    pub above_ceiling: u64,
    /// The most requests that ran on a rank.
    pub running_max: u32,
    /// The most requests that waited on a rank.
    pub waiting_max: u32,
    /// The largest share of a rank's KV blocks in use.
    pub kv_share_max: f64,
    /// Requests preempted.
    pub preempted: u64,
}

/// A run over time, in bins of equal width from its start.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// Width of a bin, in nanoseconds.
    pub bin_ns: u64,
    /// The bins, those without steps included.
    pub bins: Vec<Bin>,
}

/// Collects both as a run happens. Batches follow the warm-up cut, as all figures do; the timeline shows the whole run.
#[derive(Debug)]
pub struct HistoryRecorder<'a> {
    graphs: &'a GraphPlan,
    cost: &'a CostModel,
    asynchronous: bool,
    cut: Cut,
    batches: BTreeMap<BatchKey, BatchTally>,
    timeline: Option<Timeline>,
}

/// The history of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    /// Steps by size and rung, or cause.
    pub batches: BTreeMap<BatchKey, BatchTally>,
    /// The run over time, if it was asked for.
    pub timeline: Option<Timeline>,
}

impl BatchTally {
    /// Adds what other such steps come to.
    pub fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.padded_rows += other.padded_rows;
        self.saved_ns += other.saved_ns;
    }
}

impl Bin {
    fn record(&mut self, step: &StepScheduled<'_>) {
        self.steps += 1;
        self.rows += u64::from(step.work.tokens);
        self.rows_max = self.rows_max.max(step.work.tokens);
        self.no_graph += u64::from(step.dispatch.cause.is_some());
        self.above_ceiling += u64::from(step.dispatch.cause == Some(FallbackCause::AboveCeiling));
        self.running_max = self.running_max.max(step.running);
        self.waiting_max = self.waiting_max.max(step.waiting);
        let used = f64::from(step.usable_blocks - step.free_blocks);
        self.kv_share_max = self.kv_share_max.max(used / f64::from(step.usable_blocks.max(1)));
    }

    fn add(&mut self, later: &Self) {
        self.steps += later.steps;
        self.rows += later.rows;
        self.rows_max = self.rows_max.max(later.rows_max);
        self.no_graph += later.no_graph;
        self.above_ceiling += later.above_ceiling;
        self.running_max = self.running_max.max(later.running_max);
        self.waiting_max = self.waiting_max.max(later.waiting_max);
        self.kv_share_max = self.kv_share_max.max(later.kv_share_max);
        self.preempted += later.preempted;
    }
}

impl Default for Timeline {
    fn default() -> Self {
        Self { bin_ns: FIRST_BIN_NS, bins: Vec::new() }
    }
}

impl Timeline {
    /// The bin of an instant. Where it lies beyond the last bin that may be, pairs of bins become one.
    fn bin(&mut self, at: SimTime) -> &mut Bin {
        let index = loop {
            let index = at.0 / self.bin_ns;
            if index < BINS_MAX as u64 {
                break index as usize;
            }
            self.bins = self
                .bins
                .chunks(2)
                .map(|pair| {
                    let mut whole = pair[0];
                    pair[1..].iter().for_each(|later| whole.add(later));
                    whole
                })
                .collect();
            self.bin_ns = self.bin_ns.saturating_mul(2);
        };
        if index >= self.bins.len() {
            self.bins.resize(index + 1, Bin::default());
        }
        &mut self.bins[index]
    }
}

impl<'a> HistoryRecorder<'a> {
    /// `asynchronous` decides how host and device time combine in what a replay saves.
    #[must_use]
    pub fn new(
        warm_up: WarmUp,
        graphs: &'a GraphPlan,
        cost: &'a CostModel,
        asynchronous: bool,
        timeline: bool,
    ) -> Self {
        let timeline = timeline.then(Timeline::default);
        Self { graphs, cost, asynchronous, cut: Cut::new(warm_up), batches: BTreeMap::new(), timeline }
    }

    /// What was collected.
    #[must_use]
    pub fn finish(self) -> History {
        History { batches: self.batches, timeline: self.timeline }
    }

    fn record(&mut self, step: &StepScheduled<'_>) {
        if let Some(timeline) = &mut self.timeline {
            timeline.bin(step.span.scheduled).record(step);
        }
        if !self.cut.keeps_step(step.span.scheduled) {
            return;
        }
        let cause = step.dispatch.cause;
        let rung = cause.is_none().then(|| self.graphs.rung(&step.dispatch.descriptor));
        self.batches.entry(BatchKey { rows: step.work.tokens, cause, rung }).or_default().add(&BatchTally {
            steps: 1,
            padded_rows: step.dispatch.padded_rows(&step.plan.shape).into(),
            saved_ns: saved_ns(step, self.cost, self.asynchronous).unwrap_or_default(),
        });
    }
}

impl Observer for HistoryRecorder<'_> {
    fn observe(&mut self, event: &Event<'_>) -> io::Result<()> {
        match event {
            Event::RequestArrived { at, id, .. } | Event::RequestRefused { at, id, .. } => {
                self.cut.request_sent(*id, *at);
            }
            Event::RequestPreempted { at, .. } => {
                if let Some(timeline) = &mut self.timeline {
                    timeline.bin(*at).preempted += 1;
                }
            }
            Event::StepScheduled(step) => self.record(step),
            Event::DummyStepRun { .. } | Event::StepApplied { .. } => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bins of the final width, made at once.
    fn plain(bin_ns: u64, instants: &[u64]) -> Vec<Bin> {
        let last = instants.iter().map(|at| at / bin_ns).max().expect("some instant");
        (0..=last)
            .map(|index| Bin {
                preempted: instants.iter().filter(|&at| at / bin_ns == index).count() as u64,
                ..Bin::default()
            })
            .collect()
    }

    proptest! {
        #[test]
        fn bins_that_grew_are_those_of_the_final_width(
            instants in prop::collection::vec((0u64..50_000_000_000, 0u32..20), 1..80),
        ) {
            let mut timeline = Timeline::default();
            let mut instants: Vec<u64> = instants.into_iter().map(|(at, less)| at >> less).collect();
            instants.sort_unstable();
            for at in &instants {
                timeline.bin(SimTime(*at)).preempted += 1;
            }
            prop_assert!(timeline.bins.len() <= BINS_MAX);
            let narrower = instants.last().expect("some") / (timeline.bin_ns / 2);
            prop_assert!(timeline.bin_ns == FIRST_BIN_NS || narrower >= BINS_MAX as u64, "no wider than needed");
            prop_assert_eq!(timeline.bins, plain(timeline.bin_ns, &instants));
        }
    }
}

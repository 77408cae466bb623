//! What a run comes to: latencies, throughput, goodput, rungs, fallbacks, host and device time.
//!
//! Names and definitions are those of `vllm bench serve`. A warm-up cut leaves out requests that were sent, and steps
//! that were scheduled, before it; they are summed up apart.

pub mod attainment;
pub mod cut;
pub mod distribution;
pub mod drafts;
pub mod held_up;
pub mod history;
pub mod latency;
pub mod prefix_cache;
pub mod rungs;
pub mod steady;
pub mod steps;

use std::io;

pub use attainment::Attainment;
pub use cut::Cut;
pub use distribution::{Distribution, Spread};
pub use drafts::DraftTotals;
pub use held_up::HeldUp;
pub use history::{History, HistoryRecorder};
pub use latency::{Latency, LatencyRecorder};
pub use prefix_cache::{PrefixCacheRecorder, PrefixTotals};
pub use rungs::{RungRecorder, RungStats};
pub use steady::SteadyStates;
pub use steps::StepTotals;

use crate::cost::CostModel;
use crate::engine::options::EngineOptions;
use crate::observe::{Event, Observer, StepScheduled, Stretch};
use crate::scenario::{Slo, WarmUp};
use crate::time::SimTime;

/// All metrics of one run, collected as it happens.
#[derive(Debug)]
pub struct Metrics<'a> {
    latency: LatencyRecorder,
    rungs: RungRecorder<'a>,
    drafts: DraftTotals,
    /// `None` without a prefix cache.
    prefix_cache: Option<PrefixCacheRecorder>,
    prefixes: PrefixTotals,
    steps: StepTotals,
    steps_before_cut: StepTotals,
    /// Requests that joined the queue, those before the cut included.
    sent: u64,
    /// By rank.
    queues: Vec<Queues>,
    waiting_at_last_sent: u32,
    running_at_last_sent: u32,
    dummy_steps: u64,
}

/// One rank's queues as of its last schedule; waiting requests that joined since are counted.
#[derive(Clone, Copy, Debug, Default)]
struct Queues {
    waiting: u32,
    running: u32,
}

/// What the metrics of one run came to.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Requests, tokens and times.
    pub latency: Latency,
    /// Graphs that fired, and steps that ran without one.
    pub rungs: RungStats,
    /// Drafts and how many of them were accepted.
    pub drafts: DraftTotals,
    /// What the prefix cache saved; nothing without one.
    pub prefixes: PrefixTotals,
    /// Host and device time, and where prices came from.
    pub steps: StepTotals,
    /// The steps that the warm-up cut leaves out.
    pub steps_before_cut: StepTotals,
    /// Requests that joined the queue, those before the cut included.
    pub sent_in_all: u64,
    /// Requests that were waiting when the last one was sent, itself included.
    pub waiting_at_last_sent: u32,
    /// Requests that were running then.
    pub running_at_last_sent: u32,
    /// Steps that data-parallel ranks without work ran because others had work.
    pub dummy_steps: u64,
}

impl<'a> Metrics<'a> {
    /// Metrics of everything after the warm-up. The engine's scheduling decides what a replay saves, and the prefix cache
    /// whether anybody looks for what it saves.
    #[must_use]
    pub fn new(slo: Slo, warm_up: WarmUp, cost: &'a CostModel, options: &EngineOptions) -> Self {
        Self {
            latency: LatencyRecorder::new(slo, Cut::new(warm_up)),
            rungs: RungRecorder::new(cost, options.asynchronous()),
            drafts: DraftTotals::default(),
            prefix_cache: options.caches_prefixes().then(PrefixCacheRecorder::default),
            prefixes: PrefixTotals::default(),
            steps: StepTotals::default(),
            steps_before_cut: StepTotals::default(),
            sent: 0,
            queues: Vec::new(),
            waiting_at_last_sent: 0,
            running_at_last_sent: 0,
            dummy_steps: 0,
        }
    }

    fn queues(&mut self, rank: u32) -> &mut Queues {
        let rank = rank as usize;
        if rank >= self.queues.len() {
            self.queues.resize(rank + 1, Queues::default());
        }
        &mut self.queues[rank]
    }

    /// The figures, once the run has ended.
    #[must_use]
    pub fn finish(self) -> Summary {
        Summary {
            latency: self.latency.finish(),
            rungs: self.rungs.finish(),
            drafts: self.drafts,
            prefixes: self.prefixes,
            steps: self.steps,
            steps_before_cut: self.steps_before_cut,
            sent_in_all: self.sent,
            waiting_at_last_sent: self.waiting_at_last_sent,
            running_at_last_sent: self.running_at_last_sent,
            dummy_steps: self.dummy_steps,
        }
    }
}

impl Metrics<'_> {
    fn arrived(&mut self, rank: u32) {
        self.sent += 1;
        self.queues(rank).waiting += 1;
        self.waiting_at_last_sent = self.queues.iter().map(|queues| queues.waiting).sum();
        self.running_at_last_sent = self.queues.iter().map(|queues| queues.running).sum();
        self.rungs.record_sent();
    }

    fn scheduled(&mut self, step: &StepScheduled<'_>) {
        *self.queues(step.rank) = Queues { waiting: step.waiting, running: step.running };
        if self.keeps_step(step.span.scheduled) {
            self.rungs.record(step);
            self.steps.record(step);
        } else {
            self.steps_before_cut.record(step);
        }
    }

    #[inline]
    fn keeps_step(&self, at: SimTime) -> bool {
        self.latency.cut().keeps_step(at)
    }

    /// Tells the recorder of the prefix cache, if there is one.
    #[inline]
    fn look_for_hits(&mut self, event: &Event<'_>) {
        let counts = !matches!(event, Event::StepScheduled(step) if !self.keeps_step(step.span.scheduled));
        if let Some(prefix_cache) = &mut self.prefix_cache {
            let mut before_cut = PrefixTotals::default();
            prefix_cache.record(event, if counts { &mut self.prefixes } else { &mut before_cut });
        }
    }
}

impl Observer for Metrics<'_> {
    #[expect(clippy::inline_always, reason = "whoever tells an event knows which it is: little of this is left there")]
    #[inline(always)]
    fn observe(&mut self, event: &Event<'_>) -> io::Result<()> {
        self.latency.record(event);
        match event {
            Event::RequestArrived { rank, .. } => self.arrived(*rank),
            Event::DummyStepRun { at, .. } => self.dummy_steps += u64::from(self.keeps_step(*at)),
            Event::StepScheduled(step) => self.scheduled(step),
            Event::RequestPreempted { at, .. } if self.keeps_step(*at) => self.steps.preemptions += 1,
            Event::RequestPreempted { .. } => self.steps_before_cut.preemptions += 1,
            Event::StepApplied { at, outcome, .. } if self.keeps_step(*at) => self.drafts.record(outcome),
            Event::RequestRefused { .. } | Event::StepApplied { .. } => {}
        }
        self.look_for_hits(event);
        Ok(())
    }

    fn observe_stretch(&mut self, stretch: &Stretch<'_>) -> io::Result<()> {
        let [first, last] = [stretch.beats.first(), stretch.beats.last()]
            .map(|beat| beat.is_some_and(|beat| self.keeps_step(beat.span.scheduled)));
        if first != last {
            return stretch.events(|event| self.observe(event));
        }
        self.latency.record_stretch(stretch);
        let sums = stretch.sums();
        let step = &stretch.first;
        *self.queues(step.rank) = Queues { waiting: step.waiting, running: step.running };
        if first {
            self.rungs.record_stretch(stretch, &sums);
            self.steps.record_stretch(stretch, &sums);
        } else {
            self.steps_before_cut.record_stretch(stretch, &sums);
        }
        Ok(())
    }
}

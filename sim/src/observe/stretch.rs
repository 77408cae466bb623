//! Decode steps in a row in which nobody arrives, finishes or is looked at: they differ in times, contexts and blocks only.

use std::io;

use super::event::{Event, StepScheduled, StepSpan};
use crate::cost::{StepCost, StepWork};
use crate::engine::step::{StepOutcome, StepPlan};
use crate::time::{SimDuration, SimTime};

/// A row of steps of one rank, in which the same requests get one token each, all in lockstep and on the same graph.
#[derive(Clone, Copy, Debug)]
pub struct Stretch<'a> {
    /// The first step. The others are like it, up to what their [`Beat`] says.
    pub first: StepScheduled<'a>,
    /// The number of the step whose output is applied after the first one is scheduled: itself, or the one before it.
    /// It was one of the same requests in lockstep, too.
    pub applied_step: u64,
    /// The steps in order; at least one.
    pub beats: &'a [Beat],
}

/// One step of a [`Stretch`], and the output that is applied behind it.
#[derive(Clone, Copy, Debug)]
pub struct Beat {
    /// Tokens that the requests attend to: computed before, and scheduled.
    pub decode_context_tokens: u64,
    /// Device time of attention, in nanoseconds.
    pub attention_ns: u64,
    /// Where the step lies in time.
    pub span: StepSpan,
    /// Free KV blocks after scheduling.
    pub free_blocks: u32,
    /// When the output of the oldest step in flight was applied.
    pub applied_at: SimTime,
}

/// What the steps of a [`Stretch`] come to, or a single step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sums {
    /// Steps.
    pub steps: u64,
    /// Their durations.
    pub duration: SimDuration,
    /// Time that the device waited for the host in them.
    pub device_idle: SimDuration,
    /// Their attention, in nanoseconds: all together, the least and the most of a step.
    pub attention_ns: u64,
    /// See [`attention_ns`](Self::attention_ns).
    pub attention_least_ns: u64,
    /// See [`attention_ns`](Self::attention_ns).
    pub attention_most_ns: u64,
}

impl Sums {
    /// Those of one step.
    #[inline]
    #[must_use]
    pub fn of(step: &StepScheduled<'_>) -> Self {
        let (StepSpan { duration, device_idle, .. }, attention_ns) = (step.span, step.cost.attention_ns);
        let (attention_least_ns, attention_most_ns) = (attention_ns, attention_ns);
        Self { steps: 1, duration, device_idle, attention_ns, attention_least_ns, attention_most_ns }
    }
}

impl Sums {
    /// Whether attention takes the same time in all steps.
    #[inline]
    #[must_use]
    pub fn is_even(&self) -> bool {
        self.attention_least_ns == self.attention_most_ns
    }
}

impl Stretch<'_> {
    /// What its steps come to.
    #[must_use]
    pub fn sums(&self) -> Sums {
        let mut sums = Sums {
            steps: self.beats.len() as u64,
            duration: SimDuration::ZERO,
            device_idle: SimDuration::ZERO,
            attention_ns: 0,
            attention_least_ns: u64::MAX,
            attention_most_ns: 0,
        };
        for beat in self.beats {
            sums.duration += beat.span.duration;
            sums.device_idle += beat.span.device_idle;
            sums.attention_ns += beat.attention_ns;
            sums.attention_least_ns = sums.attention_least_ns.min(beat.attention_ns);
            sums.attention_most_ns = sums.attention_most_ns.max(beat.attention_ns);
        }
        sums
    }

    /// The price of one of its steps.
    #[must_use]
    pub fn cost(&self, beat: &Beat) -> StepCost {
        StepCost { attention_ns: beat.attention_ns, ..*self.first.cost }
    }

    /// Tells the events that it stands for, in order.
    ///
    /// # Errors
    /// The first that `tell` returns.
    pub fn events(&self, mut tell: impl FnMut(&Event<'_>) -> io::Result<()>) -> io::Result<()> {
        let first = &self.first;
        let mut plan: StepPlan = first.plan.clone();
        let outcome = StepOutcome { is_beat: true, lockstep: plan.lockstep, ..StepOutcome::default() };
        for (number, beat) in (0..).zip(self.beats) {
            plan.decode_context_tokens = beat.decode_context_tokens;
            plan.lockstep_context_tokens = beat.decode_context_tokens;
            let work = StepWork { decode_context_tokens: beat.decode_context_tokens, ..*first.work };
            tell(&Event::StepScheduled(&StepScheduled {
                step: first.step + number,
                plan: &plan,
                work: &work,
                cost: &self.cost(beat),
                span: beat.span,
                free_blocks: beat.free_blocks,
                ..*first
            }))?;
            let (at, step) = (beat.applied_at, self.applied_step + number);
            tell(&Event::StepApplied { at, step, rank: first.rank, outcome: &outcome })?;
        }
        Ok(())
    }
}

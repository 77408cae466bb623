//! Decode steps in a row in which nobody arrives, finishes or is looked at: they differ in times, contexts and blocks only.

use std::io;

use super::event::{Event, StepScheduled, StepSpan};
use crate::cost::{StepCost, StepWork};
use crate::engine::step::{StepOutcome, StepPlan};
use crate::time::SimTime;

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

impl Stretch<'_> {
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

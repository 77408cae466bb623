//! What happened.

use crate::cost::{StepCost, StepWork};
use crate::engine::refusal::Refusal;
use crate::engine::request::{RequestId, Slot};
use crate::engine::shape::Dispatch;
use crate::engine::step::{StepOutcome, StepPlan};
use crate::time::{SimDuration, SimTime};
use crate::traffic::Request;

/// One fact of a run.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A request joined the waiting queue.
    RequestArrived {
        /// When it was sent.
        at: SimTime,
        /// Its number, in order of arrival.
        id: RequestId,
        /// The data-parallel rank that serves it.
        rank: u32,
        /// Its index among the live requests of all ranks.
        slot: Slot,
        /// Its lengths and what it carries.
        request: &'a Request,
    },
    /// The engine refused a request.
    RequestRefused {
        /// When it was sent.
        at: SimTime,
        /// Its number, in order of arrival.
        id: RequestId,
        /// Its lengths and what it carries.
        request: &'a Request,
        /// Why.
        refusal: Refusal,
    },
    /// A running request lost its KV blocks to an older one and waits again; the schedule that took them may hand out
    /// no tokens.
    RequestPreempted {
        /// When.
        at: SimTime,
        /// Its number, in order of arrival.
        id: RequestId,
        /// Its index among the live requests of all ranks, which it keeps.
        slot: Slot,
    },
    /// A rank without work ran a dummy step because others had work.
    DummyStepRun {
        /// When it was scheduled.
        at: SimTime,
        /// The rank.
        rank: u32,
        /// Tokens that it ran.
        rows: u32,
    },
    /// A step with tokens was scheduled, dispatched and priced.
    StepScheduled(&'a StepScheduled<'a>),
    /// The output of a step was applied.
    StepApplied {
        /// When.
        at: SimTime,
        /// The step's number.
        step: u64,
        /// The data-parallel rank that ran it.
        rank: u32,
        /// Who received what.
        outcome: &'a StepOutcome,
    },
}

/// A step as scheduled.
#[derive(Clone, Copy, Debug)]
pub struct StepScheduled<'a> {
    /// Its number, from zero, among the steps with tokens.
    pub step: u64,
    /// The data-parallel rank that runs it.
    pub rank: u32,
    /// Who runs what, and who was preempted.
    pub plan: &'a StepPlan,
    /// The same as the cost formulas see it.
    pub work: &'a StepWork,
    /// The graph that runs, or why none.
    pub dispatch: &'a Dispatch,
    /// Its price.
    pub cost: &'a StepCost,
    /// Where it lies in time.
    pub span: StepSpan,
    /// Running requests of the rank after scheduling.
    pub running: u32,
    /// Waiting requests of the rank after scheduling.
    pub waiting: u32,
    /// Free KV blocks after scheduling.
    pub free_blocks: u32,
    /// KV blocks of the pool.
    pub usable_blocks: u32,
}

impl StepScheduled<'_> {
    /// How much longer attention takes in a step that differs from this one in nothing else: so many nanoseconds there.
    #[inline]
    #[must_use]
    pub fn moved_ns(&self, attention_ns: u64) -> i64 {
        attention_ns.wrapping_sub(self.cost.attention_ns).cast_signed()
    }
}

/// Where one step lies in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepSpan {
    /// The scheduler decided.
    pub scheduled: SimTime,
    /// The last launch was issued: the host may go on.
    pub host_free: SimTime,
    /// The device began.
    pub device_start: SimTime,
    /// The device finished: the output can be applied.
    pub end: SimTime,
    /// From the end of the step before, or from scheduling if that was later, to the end.
    pub duration: SimDuration,
    /// The device waited for the host although there was work.
    pub device_idle: SimDuration,
}

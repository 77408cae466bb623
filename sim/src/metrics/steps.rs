//! Totals over steps: host and device time by term, and how many prices were read outside the measured range.

use std::collections::BTreeMap;

use crate::cost::CostGroup;
use crate::observe::StepScheduled;
use crate::time::SimDuration;

/// Adds up steps as they happen.
#[derive(Clone, Debug, Default)]
pub struct StepRecorder {
    totals: StepTotals,
}

/// What the steps of a run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepTotals {
    /// Steps with tokens.
    pub steps: u64,
    /// Device time of everything but attention and head.
    pub dense: SimDuration,
    /// Device time of LM head and sampler.
    pub head: SimDuration,
    /// Device time of attention.
    pub attention: SimDuration,
    /// Device time of requests that FULL graphs padded.
    pub padded_requests: SimDuration,
    /// Host time before the first launch.
    pub overhead: SimDuration,
    /// Host time of launches and replays.
    pub launch: SimDuration,
    /// Host time of dispatch and padding bookkeeping.
    pub bookkeeping: SimDuration,
    /// The device waited for the host although there was work.
    pub device_idle: SimDuration,
    /// Steps that read some figure outside its measured range.
    pub outside_steps: u64,
    /// The same, by cost group.
    pub outside_by_group: BTreeMap<CostGroup, u64>,
    /// Steps that were priced inside every range, some figure of them derived rather than measured or imported.
    pub derived_steps: u64,
    /// Steps whose mixed attention was priced as a sum although one kernel serves both parts.
    pub mixed_as_sum_steps: u64,
}

impl StepRecorder {
    /// Takes note of one step.
    pub fn record(&mut self, step: &StepScheduled<'_>) {
        let (totals, cost) = (&mut self.totals, &step.cost);
        totals.steps += 1;
        totals.dense += SimDuration(cost.dense_ns);
        totals.head += SimDuration(cost.head_ns);
        totals.attention += SimDuration(cost.attention_ns);
        totals.padded_requests += SimDuration(cost.padded_requests_ns);
        totals.overhead += SimDuration(cost.overhead_ns);
        totals.launch += SimDuration(cost.launch_ns);
        totals.bookkeeping += SimDuration(cost.bookkeeping_ns);
        totals.device_idle += step.span.device_idle;
        totals.mixed_as_sum_steps += u64::from(cost.mixed_as_sum);
        totals.derived_steps += u64::from(cost.outside.is_empty() && !cost.derived.is_empty());
        if !cost.outside.is_empty() {
            totals.outside_steps += 1;
            for group in cost.outside.iter() {
                *totals.outside_by_group.entry(group).or_default() += 1;
            }
        }
    }

    /// The figures.
    #[must_use]
    pub fn finish(self) -> StepTotals {
        self.totals
    }
}

impl StepTotals {
    /// Device time of all steps.
    #[must_use]
    pub fn device(&self) -> SimDuration {
        self.dense + self.head + self.attention + self.padded_requests
    }

    /// Host time of all steps.
    #[must_use]
    pub fn host(&self) -> SimDuration {
        self.overhead + self.launch + self.bookkeeping
    }
}

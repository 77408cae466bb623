//! Totals over steps: host and device time by term, KV use, and where prices came from.

use std::collections::BTreeMap;

use crate::cost::CostGroup;
use crate::observe::{StepScheduled, Stretch, Sums};
use crate::time::SimDuration;

/// What the steps of a run came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepTotals {
    /// Steps with tokens.
    pub steps: u64,
    /// Scheduled tokens of all steps.
    pub real_rows: u64,
    /// Durations of all steps, each from the end of the step before.
    pub duration: SimDuration,
    /// Device time of everything but attention and head.
    pub dense: SimDuration,
    /// Device time of LM head and sampler.
    pub head: SimDuration,
    /// Device time of attention.
    pub attention: SimDuration,
    /// Device time of making drafts.
    pub drafting: SimDuration,
    /// Device time beyond that of one graph.
    pub gap: SimDuration,
    /// Host time per step, before the first launch.
    pub step_overhead: SimDuration,
    /// Host time per request, before the first launch.
    pub request_overhead: SimDuration,
    /// Host time of launches and replays.
    pub launch: SimDuration,
    /// Host time of updates of shared executables.
    pub update: SimDuration,
    /// Executables updated.
    pub updates: u64,
    /// Host time of dispatch and padding bookkeeping.
    pub bookkeeping: SimDuration,
    /// The device waited for the host although there was work.
    pub device_idle: SimDuration,
    /// Requests preempted.
    pub preemptions: u64,
    /// Most requests waiting after a schedule.
    pub waiting_max: u32,
    /// Most KV blocks in use after a schedule.
    pub used_blocks_max: u32,
    /// KV blocks of the pool.
    pub usable_blocks: u32,
    /// Steps that read some figure outside its measured range.
    pub outside_steps: u64,
    /// The same, by cost group.
    pub outside_by_group: BTreeMap<CostGroup, u64>,
    /// Steps that were priced inside every range, some figure of them derived rather than measured or imported.
    pub derived_steps: u64,
    /// Steps whose mixed attention was priced as a sum although one kernel serves both parts.
    pub mixed_as_sum_steps: u64,
}

impl StepTotals {
    /// Adds one step.
    pub fn record(&mut self, step: &StepScheduled<'_>) {
        self.record_alike(step, &Sums::of(step));
    }

    /// Adds the steps of a stretch, which come to `sums`.
    pub fn record_stretch(&mut self, stretch: &Stretch<'_>, sums: &Sums) {
        self.record_alike(&stretch.first, sums);
        // Blocks are taken in a stretch, and none given back.
        let free_blocks = stretch.beats.last().map_or(stretch.first.free_blocks, |beat| beat.free_blocks);
        self.used_blocks_max = self.used_blocks_max.max(stretch.first.usable_blocks - free_blocks);
    }

    /// Adds steps that come to `sums` and are like `step` in all else, blocks apart.
    #[expect(clippy::inline_always, reason = "of a single step nothing is multiplied")]
    #[inline(always)]
    fn record_alike(&mut self, step: &StepScheduled<'_>, sums: &Sums) {
        let (cost, count) = (step.cost, sums.steps);
        let all = |ns: u64| SimDuration(ns * count);
        self.steps += count;
        self.real_rows += u64::from(step.work.tokens) * count;
        self.duration += sums.duration;
        self.device_idle += sums.device_idle;
        self.attention += SimDuration(sums.attention_ns);
        self.dense += all(cost.dense_ns);
        self.head += all(cost.head_ns);
        self.drafting += all(cost.drafting_ns);
        self.gap += all(cost.gap_ns);
        self.step_overhead += all(cost.step_overhead_ns);
        self.request_overhead += all(cost.request_overhead_ns);
        self.launch += all(cost.launch_ns);
        self.update += all(cost.update_ns);
        self.updates += u64::from(cost.updates) * count;
        self.bookkeeping += all(cost.bookkeeping_ns);
        self.waiting_max = self.waiting_max.max(step.waiting);
        self.used_blocks_max = self.used_blocks_max.max(step.usable_blocks - step.free_blocks);
        self.usable_blocks = step.usable_blocks;
        self.mixed_as_sum_steps += u64::from(cost.mixed_as_sum) * count;
        self.derived_steps += u64::from(cost.outside.is_empty() && !cost.derived.is_empty()) * count;
        if !cost.outside.is_empty() {
            self.outside_steps += count;
            for group in cost.outside.iter() {
                *self.outside_by_group.entry(group).or_default() += count;
            }
        }
    }

    /// Host time of all steps.
    #[must_use]
    pub fn host(&self) -> SimDuration {
        self.step_overhead + self.request_overhead + self.launch + self.update + self.bookkeeping
    }

    /// The mean over all steps of a total, in milliseconds; `None` without steps.
    #[must_use]
    pub fn ms_per_step(&self, total: SimDuration) -> Option<f64> {
        (self.steps > 0).then(|| total.as_ms() / self.steps as f64)
    }
}

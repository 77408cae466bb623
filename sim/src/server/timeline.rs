//! When a step's host work and device work happen: two resources, each serving one step at a time.

use calibrate::profile::Overlap;

use crate::cost::StepCost;
use crate::observe::StepSpan;
use crate::time::SimTime;

/// The host and device of one replica.
#[derive(Clone, Debug)]
pub struct Timeline {
    overlap: Overlap,
    /// When the host can begin to prepare the next step.
    next_work: SimTime,
    device_free: SimTime,
}

impl Timeline {
    /// A replica that has done nothing yet.
    #[must_use]
    pub fn new(overlap: Overlap) -> Self {
        Self { overlap, next_work: SimTime::ZERO, device_free: SimTime::ZERO }
    }

    /// Runs one step scheduled at `scheduled`; `work_since` is when the replica last had nothing to do until.
    ///
    /// `pipelined`: the device starts when the host has prepared the step and the step before is done; launches run
    /// ahead, so the device ends no earlier than the last launch. `additive`: host, then device, nothing at once; the
    /// host is free to decide and to apply output while the device runs, but its work on the next step waits.
    pub fn run(&mut self, scheduled: SimTime, work_since: SimTime, cost: &StepCost) -> StepSpan {
        let prepared = scheduled.max(self.next_work) + cost.preparation();
        let launched = prepared + cost.launch();
        let (device_start, end) = match self.overlap {
            Overlap::Pipelined => {
                let device_start = prepared.max(self.device_free);
                (device_start, (device_start + cost.device()).max(launched))
            }
            Overlap::Additive => {
                let device_start = launched.max(self.device_free);
                (device_start, device_start + cost.device())
            }
        };
        let waited = device_start.since(self.device_free.max(work_since).min(device_start));
        let starved = end.since(device_start) - cost.device();
        let duration = end.since(self.device_free.max(scheduled));
        self.next_work = match self.overlap {
            Overlap::Pipelined => launched,
            Overlap::Additive => end,
        };
        self.device_free = end;
        StepSpan { scheduled, host_free: launched, device_start, end, duration, device_idle: waited + starved }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::SimDuration;

    fn cost(preparation_ns: u64, launch_ns: u64, device_ns: u64) -> StepCost {
        StepCost { step_overhead_ns: preparation_ns, launch_ns, dense_ns: device_ns, ..StepCost::default() }
    }

    #[test]
    fn synchronous_steps_pay_preparation_and_hide_launches() {
        let mut timeline = Timeline::new(Overlap::Pipelined);
        let first = timeline.run(SimTime(0), SimTime(0), &cost(10, 30, 100));
        assert_eq!((first.device_start, first.end, first.host_free), (SimTime(10), SimTime(110), SimTime(40)));
        assert_eq!(first.device_idle, SimDuration(10));
        let second = timeline.run(first.end, SimTime(0), &cost(10, 30, 100));
        assert_eq!((second.device_start, second.end), (SimTime(120), SimTime(220)));
    }

    #[test]
    fn asynchronous_steps_hide_the_host_behind_the_step_before() {
        let mut timeline = Timeline::new(Overlap::Pipelined);
        let first = timeline.run(SimTime(0), SimTime(0), &cost(10, 30, 100));
        let second = timeline.run(first.host_free, SimTime(0), &cost(10, 30, 100));
        assert_eq!((second.device_start, second.end), (SimTime(110), SimTime(210)));
        assert_eq!(second.device_idle, SimDuration::ZERO);
    }

    #[test]
    fn a_slow_host_starves_the_device() {
        let mut timeline = Timeline::new(Overlap::Pipelined);
        let span = timeline.run(SimTime(0), SimTime(0), &cost(10, 300, 100));
        assert_eq!(span.end, SimTime(310));
        assert_eq!(span.device_idle, SimDuration(10 + 200));
    }

    #[test]
    fn additive_steps_overlap_nothing() {
        let mut timeline = Timeline::new(Overlap::Additive);
        let first = timeline.run(SimTime(0), SimTime(0), &cost(10, 30, 100));
        assert_eq!((first.device_start, first.end, first.host_free), (SimTime(40), SimTime(140), SimTime(40)));
        let second = timeline.run(first.host_free, SimTime(0), &cost(10, 30, 100));
        assert_eq!((second.host_free, second.device_start, second.end), (SimTime(180), SimTime(180), SimTime(280)));
    }

    #[test]
    fn time_without_work_is_not_idle_time() {
        let mut timeline = Timeline::new(Overlap::Pipelined);
        timeline.run(SimTime(0), SimTime(0), &cost(0, 0, 100));
        let span = timeline.run(SimTime(1_000), SimTime(1_000), &cost(10, 0, 100));
        assert_eq!(span.device_idle, SimDuration(10));
    }
}

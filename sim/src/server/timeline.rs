//! When a step's host work and device work happen: two resources, each serving one step at a time.

use calibrate::profile::Overlap;

use crate::cost::StepTimes;
use crate::observe::StepSpan;
use crate::time::SimTime;

/// The host and device of one replica, or of ranks that run every step together.
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
    #[inline]
    pub fn run(&mut self, scheduled: SimTime, work_since: SimTime, times: &StepTimes) -> StepSpan {
        let begun = scheduled.max(self.next_work);
        let host_free = begun + times.host();
        let device = times.device;
        let (device_start, end) = match self.overlap {
            Overlap::Pipelined => {
                let device_start = self.device_free.max(begun + times.preparation);
                (device_start, (device_start + device).max(host_free))
            }
            Overlap::Additive => {
                let device_start = self.device_free.max(host_free);
                (device_start, device_start + device)
            }
        };
        let waited = device_start.since(self.device_free.max(work_since).min(device_start));
        let starved = end.since(device_start) - device;
        let duration = end.since(self.device_free.max(scheduled));
        self.next_work = match self.overlap {
            Overlap::Pipelined => host_free.max(begun),
            Overlap::Additive => end,
        };
        self.device_free = end;
        StepSpan { scheduled, host_free, device_start, end, duration, device_idle: waited + starved }
    }

    /// Runs one step of several ranks, each with its own host and device, that meet in a collective of every layer:
    /// their devices start when the last rank is ready and end together. `told` gets each rank and its span, in order.
    pub fn run_together(
        &mut self,
        scheduled: SimTime,
        work_since: SimTime,
        all: &[StepTimes],
        mut told: impl FnMut(usize, StepSpan),
    ) {
        let begun = scheduled.max(self.next_work);
        let launched = |times: &StepTimes| begun + times.host();
        let ready = |times: &StepTimes| match self.overlap {
            Overlap::Pipelined => begun + times.preparation,
            Overlap::Additive => launched(times),
        };
        let device_start = all.iter().map(ready).fold(self.device_free, SimTime::max);
        let device_end = |times: &StepTimes| match self.overlap {
            Overlap::Pipelined => (device_start + times.device).max(launched(times)),
            Overlap::Additive => device_start + times.device,
        };
        let end = all.iter().map(device_end).fold(device_start, SimTime::max);
        let waited = device_start.since(self.device_free.max(work_since).min(device_start));
        let duration = end.since(self.device_free.max(scheduled));
        for (rank, times) in all.iter().enumerate() {
            let starved = end.since(device_start) - times.device;
            let host_free = launched(times);
            told(rank, StepSpan { scheduled, host_free, device_start, end, duration, device_idle: waited + starved });
        }
        self.next_work = match self.overlap {
            Overlap::Pipelined => all.iter().map(launched).fold(begun, SimTime::max),
            Overlap::Additive => end,
        };
        self.device_free = end;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::time::SimDuration;

    fn times(preparation_ns: u64, launch_ns: u64, device_ns: u64) -> StepTimes {
        let [preparation, launch, device] = [preparation_ns, launch_ns, device_ns].map(SimDuration);
        StepTimes { preparation, launch, device }
    }

    #[test]
    fn synchronous_steps_pay_preparation_and_hide_launches() {
        let mut timeline = Timeline::new(Overlap::Pipelined);
        let first = timeline.run(SimTime(0), SimTime(0), &times(10, 30, 100));
        assert_eq!((first.device_start, first.end, first.host_free), (SimTime(10), SimTime(110), SimTime(40)));
        assert_eq!(first.device_idle, SimDuration(10));
        let second = timeline.run(first.end, SimTime(0), &times(10, 30, 100));
        assert_eq!((second.device_start, second.end), (SimTime(120), SimTime(220)));
    }

    #[test]
    fn asynchronous_steps_hide_the_host_behind_the_step_before() {
        let mut timeline = Timeline::new(Overlap::Pipelined);
        let first = timeline.run(SimTime(0), SimTime(0), &times(10, 30, 100));
        let second = timeline.run(first.host_free, SimTime(0), &times(10, 30, 100));
        assert_eq!((second.device_start, second.end), (SimTime(110), SimTime(210)));
        assert_eq!(second.device_idle, SimDuration::ZERO);
    }

    #[test]
    fn a_slow_host_starves_the_device() {
        let mut timeline = Timeline::new(Overlap::Pipelined);
        let span = timeline.run(SimTime(0), SimTime(0), &times(10, 300, 100));
        assert_eq!(span.end, SimTime(310));
        assert_eq!(span.device_idle, SimDuration(10 + 200));
    }

    #[test]
    fn additive_steps_overlap_nothing() {
        let mut timeline = Timeline::new(Overlap::Additive);
        let first = timeline.run(SimTime(0), SimTime(0), &times(10, 30, 100));
        assert_eq!((first.device_start, first.end, first.host_free), (SimTime(40), SimTime(140), SimTime(40)));
        let second = timeline.run(first.host_free, SimTime(0), &times(10, 30, 100));
        assert_eq!((second.host_free, second.device_start, second.end), (SimTime(180), SimTime(180), SimTime(280)));
    }

    #[test]
    fn ranks_start_and_end_together() {
        for overlap in [Overlap::Pipelined, Overlap::Additive] {
            let mut timeline = Timeline::new(overlap);
            let mut spans = Vec::new();
            let all = [times(10, 30, 100), times(50, 30, 20), times(10, 200, 20)];
            timeline.run_together(SimTime(0), SimTime(0), &all, |_, span| spans.push(span));
            let (start, end) = if overlap == Overlap::Pipelined { (50, 210) } else { (210, 310) };
            assert!(spans.iter().all(|span| (span.device_start, span.end) == (SimTime(start), SimTime(end))));
            assert_eq!(spans[1].device_idle, SimDuration(end - 20), "it waited for the others at both ends");
            assert_eq!(spans.iter().map(|span| span.host_free.0).collect::<Vec<_>>(), [40, 80, 210]);
        }
    }

    proptest! {
        #[test]
        fn one_rank_alone_is_one_of_many(
            steps in prop::collection::vec((0_u64..300, 0_u64..200, 0_u64..200, 0_u64..200), 1..40),
            additive in any::<bool>(),
        ) {
            let overlap = if additive { Overlap::Additive } else { Overlap::Pipelined };
            let (mut alone, mut together) = (Timeline::new(overlap), Timeline::new(overlap));
            let mut now = SimTime(0);
            for (wait_ns, preparation_ns, launch_ns, device_ns) in steps {
                let times = times(preparation_ns, launch_ns, device_ns);
                now += SimDuration(wait_ns);
                let mut spans = Vec::new();
                together.run_together(now, SimTime(wait_ns), &[times], |_, span| spans.push(span));
                let span = alone.run(now, SimTime(wait_ns), &times);
                prop_assert_eq!(&[span][..], &spans[..]);
                now = now.max(span.host_free);
            }
        }
    }

    #[test]
    fn time_without_work_is_not_idle_time() {
        let mut timeline = Timeline::new(Overlap::Pipelined);
        timeline.run(SimTime(0), SimTime(0), &times(0, 0, 100));
        let span = timeline.run(SimTime(1_000), SimTime(1_000), &times(10, 0, 100));
        assert_eq!(span.device_idle, SimDuration(10));
    }
}

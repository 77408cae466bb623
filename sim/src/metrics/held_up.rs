//! How many steps the host would hold up with their launches, over the planning range of what a launch costs.

use crate::cost::PlannedLaunch;
use crate::time::SimDuration;

/// Steps whose launches without a graph the host could not hide, at three costs per operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldUp {
    /// All steps asked about.
    pub steps: u64,
    /// Those held up at the low end of the planning range.
    pub at_low: u64,
    /// As declared.
    pub as_declared: u64,
    /// At the high end.
    pub at_high: u64,
    /// The least launch time beyond which some step is held up; `None` without steps.
    pub least_slack: Option<SimDuration>,
}

/// Whether a step is held up, at each of three costs per operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    at_low: bool,
    as_declared: bool,
    at_high: bool,
}

impl Held {
    /// Of a step that launches beyond `slack` hold up.
    #[inline]
    #[must_use]
    pub fn of(slack: SimDuration, launch: &PlannedLaunch) -> Self {
        Self { at_low: launch.low > slack, as_declared: launch.declared > slack, at_high: launch.high > slack }
    }
}

impl HeldUp {
    /// Adds so many steps, all of them held up alike, that launches beyond `least_slack` or more hold up.
    #[inline]
    pub fn add(&mut self, steps: u64, held: Held, least_slack: SimDuration) {
        self.steps += steps;
        self.at_low += u64::from(held.at_low) * steps;
        self.as_declared += u64::from(held.as_declared) * steps;
        self.at_high += u64::from(held.at_high) * steps;
        self.least_slack = Some(self.least_slack.map_or(least_slack, |least| least.min(least_slack)));
    }
}

#[cfg(test)]
mod tests {
    use calibrate::profile::Profile;

    use super::*;
    use crate::cost::{Execution, StepCost};

    #[test]
    fn steps_are_held_up_by_launches_beyond_their_slack() {
        let profile = Profile::builtin("h200-llama-3.1-8b").expect("built in");
        // 324 operations: 1,620 us at 2 us each, 4,212 us at 10 us, 7,452 us at 20 us, the launch of 3 us included.
        let launch = PlannedLaunch::of(&profile, Execution::CompiledEager).expect("declared with a range");
        let mut held = HeldUp::default();
        for device_us in [9000, 8256, 8255, 5101, 5016, 5015, 2424, 2423, 700] {
            let cost = StepCost {
                dense_ns: device_us * 1000,
                step_overhead_ns: 800_000,
                request_overhead_ns: 4000,
                ..StepCost::default()
            };
            let slack = cost.times().launch_slack(true);
            held.add(1, Held::of(slack, &launch), slack);
        }
        // Behind 804 us of preparation: at 2 us the last two are held up, at 10 us also 2,424 and 5,015 us, at 20 us also
        // 5,016, 5,101 and 8,255 us; the last one has no slack at all.
        let least_slack = Some(SimDuration::ZERO);
        assert_eq!(held, HeldUp { steps: 9, at_low: 2, as_declared: 4, at_high: 7, least_slack });
    }
}

//! The launch of a step without a graph where its cost per operation is a planning figure.

use calibrate::profile::{Kind, Overlap, PlanningRange, Profile};

use super::step::Execution;
use crate::time::SimDuration;

/// What a step without a graph takes to launch: a declared cost per operation, and its planning range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlannedLaunch {
    /// Operations of the step.
    pub ops: u32,
    /// Microseconds of one launch, whatever the framework adds.
    pub launch_us: f64,
    /// Microseconds that the framework adds per operation, as declared.
    pub per_op_us: f64,
    /// Where `per_op_us` may lie.
    pub range: PlanningRange,
    /// Launch time of the step at the low end of the range.
    pub low: SimDuration,
    /// As declared.
    pub declared: SimDuration,
    /// At the high end.
    pub high: SimDuration,
}

impl PlannedLaunch {
    /// The launch of the eager kind `eager`. `None` where nothing can flip inside a range: the figure is not declared,
    /// it has no range, or host and device time add up, so that every launch counts in full.
    #[must_use]
    pub fn of(profile: &Profile, eager: Execution) -> Option<Self> {
        let (ops, dispatch) = (&profile.engine.ops.figures, &profile.engine.dispatch);
        let declared = dispatch.provenance.kind == Kind::Declared && profile.overlap == Overlap::Pipelined;
        let figures = &dispatch.figures;
        let (ops, per_op_us, range) = match eager {
            Execution::Eager => (ops.eager, figures.eager_us, figures.eager_us_range),
            _ => (ops.compiled, figures.compiled_us, figures.compiled_us_range),
        };
        let range = range.filter(|_| declared)?;
        let launch_us = profile.machine.launch.figures.launch_us;
        let at = |per_op_us: f64| SimDuration::from_us(f64::from(ops) * (launch_us + per_op_us));
        let (low, high) = (at(range.low), at(range.high));
        Some(Self { ops, launch_us, per_op_us, range, low, declared: at(per_op_us), high })
    }

    /// The cost per operation, in microseconds, with which the step launches for `launch`. Below zero where the launches
    /// alone take longer.
    #[must_use]
    pub fn per_op_us_for(&self, launch: SimDuration) -> f64 {
        launch.0 as f64 / 1e3 / f64::from(self.ops) - self.launch_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 3 us per launch; 30 us (7 to 56) per operation of 356 eager ones, 10 us (2 to 20) of 324 compiled ones.
    fn h200() -> Profile {
        Profile::builtin("h200-llama-3.1-8b").expect("built in")
    }

    #[test]
    fn launches_at_the_ends_of_the_range_follow_the_formula() {
        let us = |launch: PlannedLaunch| [launch.low, launch.declared, launch.high].map(|time| time.0 / 1000);
        let compiled = PlannedLaunch::of(&h200(), Execution::CompiledEager).expect("declared with a range");
        assert_eq!((compiled.ops, us(compiled)), (324, [324 * 5, 324 * 13, 324 * 23]));
        let eager = PlannedLaunch::of(&h200(), Execution::Eager).expect("declared with a range");
        assert_eq!((eager.ops, us(eager)), (356, [356 * 10, 356 * 33, 356 * 59]));
    }

    #[test]
    fn the_cost_per_operation_is_the_formula_backwards() {
        let launch = PlannedLaunch::of(&h200(), Execution::CompiledEager).expect("declared with a range");
        assert!((launch.per_op_us_for(launch.high) - 20.0).abs() < 1e-9);
        // A step of 5,101 us on the device after 804 us of preparation leaves 4,297 us for launches.
        let even_us = launch.per_op_us_for(SimDuration::from_us(5101.0 - 804.0));
        assert!((even_us - 10.262).abs() < 5e-4, "{even_us}");
        assert!((launch.per_op_us_for(SimDuration::ZERO) + 3.0).abs() < 1e-9);
    }

    #[test]
    fn only_a_declared_figure_with_a_range_that_can_hide_is_planned() {
        let spoilt = |spoil: fn(&mut Profile)| {
            let mut profile = h200();
            spoil(&mut profile);
            PlannedLaunch::of(&profile, Execution::CompiledEager)
        };
        assert!(spoilt(|_| {}).is_some());
        assert_eq!(spoilt(|profile| profile.engine.dispatch.provenance.kind = Kind::Measured), None);
        assert_eq!(spoilt(|profile| profile.engine.dispatch.figures.compiled_us_range = None), None);
        assert_eq!(spoilt(|profile| profile.overlap = Overlap::Additive), None);
    }
}

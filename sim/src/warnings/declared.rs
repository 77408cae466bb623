//! The warning about the declared launch cost of steps without a graph.

use super::percent;
use crate::cost::PlannedLaunch;
use crate::metrics::{HeldUp, RungStats};

/// Steps that the host would hold up at the high end of the planning range are of note above this share.
const SHARE_OF_NOTE: f64 = 0.01;

/// Where the host could hold up steps without a graph inside the planning range of their launch cost: that the answer
/// rests on it. The candidate's own steps without a graph are set against all of its steps, since they move its
/// latency; its graph steps, run without their graphs, against each other, since they move what the graphs save.
pub(super) fn rests_on_declared(launch: Option<&PlannedLaunch>, rungs: &RungStats) -> Option<String> {
    let launch = launch?;
    let (own, saved) = (&rungs.held_up, &rungs.held_up_without_graph);
    let of_note = |held: &HeldUp, among: u64| held.at_high as f64 > SHARE_OF_NOTE * among as f64;
    let own = of_note(own, own.steps + saved.steps).then(|| held_up(own, "steps without a graph", launch));
    let saved = of_note(saved, saved.steps).then(|| {
        let held = held_up(saved, "graph steps, run without their graphs,", launch);
        format!("{held}, and what the graphs save rests on that")
    });
    if own.is_none() && saved.is_none() {
        return None;
    }
    Some(format!(
        "a step without a graph launches {} operations in {:.1} ms: {} us each and a declared {} us on top (planning \
         range {} to {} us); {}; measure it before acting on a difference that graphs make",
        launch.ops,
        launch.declared.as_ms(),
        launch.launch_us,
        launch.per_op_us,
        launch.range.low,
        launch.range.high,
        [own, saved].into_iter().flatten().collect::<Vec<_>>().join("; "),
    ))
}

/// How many of `steps` the host would hold up at both ends of the range and as declared.
fn held_up(held: &HeldUp, steps: &str, launch: &PlannedLaunch) -> String {
    let share = |part: u64| match part {
        0 => "none".to_owned(),
        part => format!("{part} ({})", percent(part, held.steps)),
    };
    let first = match held.least_slack {
        Some(slack) if held.at_low == 0 => format!(", the first one above {:.1} us", launch.per_op_us_for(slack)),
        _ => String::new(),
    };
    format!(
        "of {} {steps} the host would hold up {} at {} us, {} at {} us and {} at {} us{first}",
        held.steps,
        share(held.at_low),
        launch.range.low,
        share(held.as_declared),
        launch.per_op_us,
        share(held.at_high),
        launch.range.high
    )
}

#[cfg(test)]
mod tests {
    use calibrate::profile::Profile;

    use super::*;
    use crate::cost::Execution;
    use crate::time::SimDuration;

    fn warning(own: HeldUp, saved: HeldUp) -> Option<String> {
        let profile = Profile::builtin("h200-llama-3.1-8b").expect("built in");
        let launch = PlannedLaunch::of(&profile, Execution::CompiledEager);
        rests_on_declared(
            launch.as_ref(),
            &RungStats { held_up: own, held_up_without_graph: saved, ..RungStats::default() },
        )
    }

    fn tally(steps: u64, [at_low, as_declared, at_high]: [u64; 3], slack_us: f64) -> HeldUp {
        HeldUp { steps, at_low, as_declared, at_high, least_slack: Some(SimDuration::from_us(slack_us)) }
    }

    const LAUNCH: &str = "a step without a graph launches 324 operations in 4.2 ms: 3 us each and a declared 10 us on top \
                          (planning range 2 to 20 us); ";
    const ADVICE: &str = "; measure it before acting on a difference that graphs make";

    #[test]
    fn steps_without_graphs_are_counted_over_the_range() {
        let held = "of 21685 steps without a graph the host would hold up none at 2 us, 1 (less than 0.1 %) at 10 us and \
                    6273 (28.9 %) at 20 us, the first one above 9.9 us";
        let own = tally(21685, [0, 1, 6273], 4179.6);
        assert_eq!(warning(own, HeldUp::default()).expect("a warning"), format!("{LAUNCH}{held}{ADVICE}"));
    }

    #[test]
    fn what_graphs_save_is_counted_over_the_range() {
        let held = "of 1000 graph steps, run without their graphs, the host would hold up 20 (2.0 %) at 2 us, 500 (50.0 %) \
                    at 10 us and 1000 (100.0 %) at 20 us, and what the graphs save rests on that";
        let saved = tally(1000, [20, 500, 1000], 100.0);
        assert_eq!(warning(HeldUp::default(), saved).expect("a warning"), format!("{LAUNCH}{held}{ADVICE}"));
        let both = warning(saved, saved).expect("a warning");
        assert!(both.contains("of 1000 steps without a graph") && both.contains(held), "{both}");
    }

    #[test]
    fn nothing_is_said_where_the_range_moves_less_than_a_hundredth() {
        assert_eq!(warning(tally(1000, [0, 0, 10], 7000.0), HeldUp::default()), None);
        assert!(warning(tally(1000, [0, 0, 11], 7000.0), HeldUp::default()).is_some());
        assert_eq!(warning(HeldUp::default(), tally(1000, [0, 0, 10], 7000.0)), None);
        assert!(warning(HeldUp::default(), tally(1000, [0, 0, 11], 7000.0)).is_some());
        // Ten of a few steps above the ceiling among a thousand graph steps that no launch can hold up.
        assert_eq!(warning(tally(12, [0, 0, 10], 7000.0), tally(1000, [0; 3], 9000.0)), None);
        assert_eq!(warning(HeldUp::default(), HeldUp::default()), None);
        assert_eq!(rests_on_declared(None, &RungStats::default()), None);
    }
}

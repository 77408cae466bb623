//! The ladders of the practice exercise, section 2, as worked by hand. Model M1: one cost curve for real and padded rows,
//! `4.0 + slope * (rows - 8)` ms on the device; a launch costs 1.1 ms eager and 0.2 + 0.15 ms with a graph.

use crate::optimum::{Batch, Budget, Candidate, Captures, Optimum, Policy, Problem, Resources, StepLoad, Terms, front};
use crate::time::SimDuration;

/// Batches of the exercise in 4,800ths: 8 % of 1, 17 % of 2 to 4, 31 % of 5 to 8, 29 % of 9 to 16, 15 % of 17 to 32.
const STEPS: u32 = 4800;

/// Per padded row, in microseconds.
const STEEP_US: u32 = 240;
const FLAT_US: u32 = 20;

fn count(batch: u32) -> u64 {
    match batch {
        1 => 384,
        2..=4 => 272,
        5..=8 => 372,
        9..=16 => 174,
        _ => 45,
    }
}

fn problem(slope_us: u32, policy: Policy) -> Problem {
    let device_us = |rows: u32| 4000 + slope_us * rows - 8 * slope_us;
    let us = |us: u32| SimDuration(u64::from(us) * 1000);
    let candidate = |size| {
        let terms = Terms::sum(us(device_us(size) + 350));
        Candidate { size, decode: terms, other: terms, ..Candidate::default() }
    };
    let load = |batch| StepLoad {
        size: batch,
        batch: Batch::Decode,
        count: count(batch),
        own: Terms::default(),
        eager: us(device_us(batch) + 1100),
    };
    let each = Resources { descriptors: 1, ..Resources::default() };
    Problem::new((1..=32).map(candidate).collect(), (1..=32).map(load).collect(), policy, Captures::same(each))
        .expect("valid")
}

/// The mean step in nanoseconds, as a sum over all steps.
fn sum_ns(mean_ns: u64) -> u128 {
    u128::from(mean_ns) * u128::from(STEPS)
}

/// The same figure to six digits after the point in milliseconds: the sum is within half a nanosecond a step.
fn assert_mean(found: &Optimum, mean_ns: u64) {
    let off = found.cost_ns.abs_diff(sum_ns(mean_ns));
    assert!(2 * off <= u128::from(STEPS), "{:?}: {} ns, expected {mean_ns}", found.rungs, found.cost_ns / 4800);
}

fn assert_front(slope_us: u32, policy: Policy, expected: &[(&[u32], u64)]) {
    let found = front(&problem(slope_us, policy), &Budget::default(), expected.len());
    for (k, (rungs, mean_ns)) in expected.iter().enumerate() {
        let optimum = found.at_most[k + 1].as_ref().expect("no budget");
        assert_eq!(optimum.rungs, *rungs);
        assert_mean(optimum, *mean_ns);
    }
}

#[test]
fn one_to_eight_rungs_padding_always() {
    assert_front(
        STEEP_US,
        Policy::AlwaysPad,
        &[
            (&[3], 5_464_200),
            (&[3, 7], 5_343_925),
            (&[2, 5, 8], 5_253_000),
            (&[2, 5, 8, 12], 5_196_450),
            (&[2, 5, 8, 12, 16], 5_139_900),
            (&[2, 4, 6, 8, 12, 16], 5_094_100),
            (&[2, 4, 6, 8, 10, 13, 16], 5_050_600),
            (&[2, 4, 6, 8, 10, 12, 14, 16], 5_024_500),
        ],
    );
    assert_front(
        FLAT_US,
        Policy::AlwaysPad,
        &[
            (&[16], 4_648_000),
            (&[12, 32], 4_548_000),
            (&[8, 16, 32], 4_468_400),
            (&[5, 9, 16, 32], 4_448_325),
            (&[5, 9, 16, 24, 32], 4_436_325),
            (&[4, 8, 12, 16, 24, 32], 4_424_800),
            (&[2, 5, 8, 12, 16, 24, 32], 4_416_950),
            (&[2, 5, 8, 12, 16, 21, 26, 32], 4_413_012),
        ],
    );
}

#[test]
fn one_to_six_rungs_where_eager_may_win() {
    assert_front(
        STEEP_US,
        Policy::BestOfBoth,
        &[
            (&[8], 5_436_300),
            (&[5, 8], 5_334_600),
            (&[2, 5, 8], 5_253_000),
            (&[2, 5, 8, 12], 5_196_450),
            (&[2, 5, 8, 12, 16], 5_139_900),
            (&[2, 4, 6, 8, 12, 16], 5_094_100),
        ],
    );
}

const LADDER: [u32; 5] = [1, 4, 8, 16, 32];

fn with(rungs: &[u32], added: u32) -> Vec<u32> {
    let mut all = [rungs, &[added]].concat();
    all.sort_unstable();
    all
}

#[test]
fn the_best_rung_to_add() {
    for (slope_us, policy, before_ns, added, mean_ns) in [
        (STEEP_US, Policy::AlwaysPad, 5_473_200, 24, 5_329_200),
        (STEEP_US, Policy::BestOfBoth, 5_218_425, 6, 5_144_025),
        (FLAT_US, Policy::AlwaysPad, 4_443_600, 24, 4_431_600),
        (FLAT_US, Policy::BestOfBoth, 4_443_600, 24, 4_431_600),
    ] {
        let front = front(&problem(slope_us, policy).requiring(&LADDER), &Budget::default(), 6);
        assert!(front.at_most[4].is_none(), "five rungs are required");
        let before = front.at_most[5].as_ref().expect("the ladder itself");
        assert_eq!(before.rungs, LADDER);
        assert_mean(before, before_ns);
        let after = front.at_most[6].as_ref().expect("one more");
        assert_eq!(after.rungs, with(&LADDER, added));
        assert_mean(after, mean_ns);
    }
}

#[test]
fn runners_up_of_the_rung_to_add() {
    for (slope_us, policy, before_ns, gains) in [
        (STEEP_US, Policy::AlwaysPad, 5_473_200, &[(23, 141_750), (25, 141_750), (12, 139_200), (22, 135_000)][..]),
        (STEEP_US, Policy::BestOfBoth, 5_218_425, &[(12, 56_550), (5, 55_800), (7, 55_800), (11, 55_462)]),
        (FLAT_US, Policy::AlwaysPad, 4_443_600, &[(23, 11_813), (25, 11_813), (12, 11_600)]),
    ] {
        let problem = problem(slope_us, policy);
        for &(added, gain_ns) in gains {
            let cost_ns = problem.assign(&with(&LADDER, added)).expect("candidates").cost_ns();
            let off = (sum_ns(before_ns) - cost_ns).abs_diff(sum_ns(gain_ns));
            assert!(2 * off <= u128::from(STEPS), "rung {added}");
        }
    }
}

#[test]
fn the_best_rung_to_move() {
    for (slope_us, policy, removed, added, mean_ns) in [
        (STEEP_US, Policy::AlwaysPad, 32, 12, 5_176_500),
        (STEEP_US, Policy::BestOfBoth, 32, 6, 5_158_650),
        (FLAT_US, Policy::AlwaysPad, 1, 24, 4_436_400),
        (FLAT_US, Policy::BestOfBoth, 1, 24, 4_436_400),
    ] {
        let moved = |&left_out: &u32| {
            let kept: Vec<u32> = LADDER.into_iter().filter(|&rung| rung != left_out).collect();
            let front = front(&problem(slope_us, policy).requiring(&kept), &Budget::default(), 5);
            (front.at_most[5].clone().expect("no budget"), left_out)
        };
        let (best, left_out) = LADDER.iter().map(moved).min_by_key(|(best, _)| best.cost_ns).expect("five");
        assert_eq!(left_out, removed);
        let mut expected = LADDER.map(|rung| if rung == removed { added } else { rung });
        expected.sort_unstable();
        assert_eq!(best.rungs, expected);
        assert_mean(&best, mean_ns);
    }
}

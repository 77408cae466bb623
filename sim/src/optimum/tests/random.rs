//! Small random problems: stairs and dips, both kinds of batch, both policies, strides, required rungs, budgets.

use kernels::units::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

use super::{brute, plain};
use crate::optimum::{
    Batch, Budget, Candidate, Captures, Policy, Problem, Resources, StepLoad, Terms, front, front_apart,
};
use crate::time::SimDuration;

/// Costs from a small range: dips and ties are common.
fn terms() -> impl Strategy<Value = Terms> {
    let time = |most: u64| (0..=most).prop_map(SimDuration);
    prop_oneof![time(12).prop_map(Terms::sum), (time(12), time(12)).prop_map(|(host, device)| Terms { host, device }),]
}

/// A staircase that mostly rises, with dips, for both kinds: `other` is dearer by a fixed launch.
fn stairs(sizes: Vec<u32>) -> impl Strategy<Value = Vec<Candidate>> {
    let count = sizes.len();
    (vec(-2_i64..=4, count), 0_u64..6, 0_u64..4, any::<bool>()).prop_map(move |(rises, launch, own, pipelined)| {
        let mut device: i64 = 5;
        let candidate = |(&size, rise): (&u32, &i64)| {
            device = (device + rise).max(0);
            let device = device as u64;
            let terms = |host_ns: u64| {
                if pipelined {
                    Terms { host: SimDuration(host_ns), device: SimDuration(device) }
                } else {
                    Terms::sum(SimDuration(device + host_ns))
                }
            };
            Candidate { size, decode: terms(own), other: terms(own + launch), ..Candidate::default() }
        };
        sizes.iter().zip(&rises).map(candidate).collect()
    })
}

/// Costs without any order.
fn scattered(sizes: Vec<u32>) -> impl Strategy<Value = Vec<Candidate>> {
    vec((terms(), terms()), sizes.len()).prop_map(move |costs| {
        let candidate = |(&size, &(decode, other)): (&u32, &(Terms, Terms))| Candidate {
            size,
            decode,
            other,
            ..Candidate::default()
        };
        sizes.iter().zip(&costs).map(candidate).collect()
    })
}

fn candidates(count_max: usize) -> impl Strategy<Value = Vec<Candidate>> {
    let sizes = (vec(1_u32..=3, 0..=count_max), 1_u32..=4).prop_map(|(gaps, stride)| {
        let mut size = 0;
        let step = |gap: u32| {
            size += gap * stride;
            size
        };
        gaps.into_iter().map(step).collect::<Vec<u32>>()
    });
    let costs = sizes.prop_flat_map(|sizes| prop_oneof![stairs(sizes.clone()).boxed(), scattered(sizes).boxed()]);
    // Pools grow by a part of each rung; one rung in ten is required.
    (costs, 0_u64..8, 0_u64..3, vec(prop::bool::weighted(0.1), count_max)).prop_map(
        |(mut candidates, base, per_row, required)| {
            for (candidate, required) in candidates.iter_mut().zip(required) {
                candidate.pool = Bytes(base + per_row * u64::from(candidate.size));
                candidate.required = required;
            }
            candidates
        },
    )
}

fn loads(size_max: u32, count_max: usize) -> impl Strategy<Value = Vec<StepLoad>> {
    let load =
        (1..=size_max, any::<bool>(), 0_u64..4, terms(), 0_u64..40).prop_map(|(size, decodes, count, own, eager)| {
            let batch = if decodes { Batch::Decode } else { Batch::Other };
            StepLoad { size, batch, count, own, eager: SimDuration(eager) }
        });
    let additive = vec(load, 0..count_max);
    (additive, any::<bool>()).prop_map(|(mut loads, one_after_the_other)| {
        if one_after_the_other {
            for load in &mut loads {
                load.own.host = SimDuration::ZERO;
            }
        }
        loads
    })
}

fn resources() -> impl Strategy<Value = Resources> {
    (0_u32..3, 0_u64..6, 0_u64..6).prop_map(|(descriptors, executables, startup)| Resources {
        descriptors,
        executables: Bytes(executables),
        startup: SimDuration(startup),
    })
}

fn budget() -> impl Strategy<Value = Budget> {
    let most = |most: u64| prop::option::of(0..most);
    (most(10), most(60), most(30)).prop_map(|(descriptors, memory, startup)| Budget {
        descriptors: descriptors.map(|most| most as u32),
        memory: memory.map(Bytes),
        startup: startup.map(SimDuration),
    })
}

/// A problem of up to `count_max` candidates; with `two_kinds`, low rungs may take other resources than high ones.
pub(in crate::optimum) fn problem(count_max: usize, two_kinds: bool) -> impl Strategy<Value = Problem> {
    let policy = prop_oneof![Just(Policy::AlwaysPad), Just(Policy::BestOfBoth)];
    let captures = (0_u32..20, resources(), resources(), 0_u64..4);
    let loads = loads(4 * count_max as u32, count_max + 4);
    (candidates(count_max), loads, policy, captures).prop_map(
        move |(candidates, loads, policy, (low_max, low, high, extra))| {
            let captures =
                Captures { low_max, low, high: if two_kinds { high } else { low }, first_extra: SimDuration(extra) };
            Problem::new(candidates, loads, policy, captures).expect("valid")
        },
    )
}

proptest! {
    #[test]
    fn one_ladder_is_what_brute_force_finds(problem in problem(8, true), budget in budget()) {
        let ladders = brute::ladders(&problem);
        for budget in [budget, Budget::default()] {
            let front = front(&problem, &budget, 9);
            for (rungs_max, found) in front.at_most.iter().enumerate() {
                prop_assert_eq!(found, &brute::best(&problem, &ladders, &budget, rungs_max), "{} rungs", rungs_max);
            }
        }
    }

    #[test]
    fn longer_ladders_are_what_the_plain_recurrence_finds(problem in problem(24, true), budget in budget()) {
        for budget in [budget, Budget::default()] {
            prop_assert_eq!(front(&problem, &budget, 7).at_most, plain::front(&problem, &budget, 7));
        }
    }

    #[test]
    fn two_ladders_are_what_brute_force_finds(
        first in problem(5, false),
        second in problem(5, false),
        budget in budget(),
    ) {
        // The first capture is the same capture, whichever ladder it is for.
        let first = Problem {
            captures: Captures { first_extra: second.captures.first_extra, ..first.captures },
            ..first
        };
        let ladders = [brute::ladders(&first), brute::ladders(&second)];
        let problems = [&first, &second];
        let pairs = front_apart(problems, &budget, 11).expect("one kind each");
        for (rungs_max, found) in pairs.iter().enumerate() {
            prop_assert_eq!(found, &brute::best_pair(problems, &ladders, &budget, rungs_max), "{} rungs", rungs_max);
        }
    }
}

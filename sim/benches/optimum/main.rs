//! How long the exact optimum takes: `cargo bench -p sim --bench optimum`.
//!
//! 8,192 sizes with a step at each, so that none can be left out, and the best ladder for each number of rungs up to 64.

use std::hint::black_box;

use criterion::{Criterion, SamplingMode};
use kernels::units::Bytes;
use sim::optimum::{Budget, Policy, front, front_apart};
use work::{Clock, problem};

mod work;

const RUNGS: usize = 64;

fn main() {
    let mut criterion = Criterion::default().sample_size(10).configure_from_args();
    one_ladder(&mut criterion);
    two_kinds(&mut criterion);
    two_ladders(&mut criterion);
    criterion.final_summary();
}

/// Counts of rungs alone, so far as they are within the budget.
fn one_ladder(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("one ladder, 64 rungs");
    group.sampling_mode(SamplingMode::Flat);
    for sizes in [512, 2048, 8192] {
        for (name, policy, clock) in [
            ("padding always, additive", Policy::AlwaysPad, Clock::Additive),
            ("padding always, pipelined", Policy::AlwaysPad, Clock::Pipelined),
            ("best of both, pipelined", Policy::BestOfBoth, Clock::Pipelined),
        ] {
            let problem = problem(sizes, 256, policy, clock);
            group.bench_function(format!("{sizes} sizes, {name}"), |bencher| {
                bencher.iter(|| front(black_box(&problem), &Budget::default(), RUNGS));
            });
        }
    }
    group.finish();
}

/// A budget that binds, so that rungs with one descriptor and with two are counted apart.
fn two_kinds(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("one ladder under a budget that binds, 64 rungs");
    group.sampling_mode(SamplingMode::Flat);
    let budget = Budget { memory: Some(Bytes(1 << 30)), ..Budget::default() };
    for sizes in [512, 2048, 8192] {
        for (name, clock) in [("additive", Clock::Additive), ("pipelined", Clock::Pipelined)] {
            let problem = problem(sizes, 256, Policy::AlwaysPad, clock);
            group.bench_function(format!("{sizes} sizes, {name}"), |bencher| {
                bencher.iter(|| front(black_box(&problem), &budget, RUNGS));
            });
        }
    }
    group.finish();
}

/// Decode graphs of up to 1,024 requests beside prefill graphs.
fn two_ladders(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("two ladders under one budget, 64 rungs");
    group.sampling_mode(SamplingMode::Flat);
    let budget = Budget { memory: Some(Bytes(1 << 30)), ..Budget::default() };
    let decode = problem(1024, 1024, Policy::AlwaysPad, Clock::Pipelined);
    let other = problem(8192, 0, Policy::AlwaysPad, Clock::Pipelined);
    group.bench_function("1024 and 8192 sizes", |bencher| {
        bencher.iter(|| front_apart(black_box([&decode, &other]), &budget, RUNGS).expect("one kind each"));
    });
    group.finish();
}

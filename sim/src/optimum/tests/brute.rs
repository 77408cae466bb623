//! Every ladder there is, priced by the plain walk.

use crate::optimum::{Budget, Optimum, Pair, Problem, Usage};
use crate::time::SimDuration;

/// Every ladder that has the required rungs, with its cost.
pub(super) fn ladders(problem: &Problem) -> Vec<(u128, Vec<u32>)> {
    let sizes: Vec<u32> = problem.sizes().collect();
    let required = |rungs: &[u32]| {
        problem.candidates.iter().filter(|candidate| candidate.required).all(|one| rungs.contains(&one.size))
    };
    (0..1_u32 << sizes.len())
        .map(|set| {
            let chosen = sizes.iter().enumerate().filter(|&(place, _)| set >> place & 1 == 1);
            chosen.map(|(_, &size)| size).collect::<Vec<u32>>()
        })
        .filter(|rungs| required(rungs))
        .map(|rungs| (problem.assign(&rungs).expect("candidates").cost_ns(), rungs))
        .collect()
}

/// The best ladder of at most so many rungs, by the rule for ties.
pub(super) fn best(
    problem: &Problem,
    ladders: &[(u128, Vec<u32>)],
    budget: &Budget,
    rungs_max: usize,
) -> Option<Optimum> {
    let within = ladders.iter().filter(|(_, rungs)| rungs.len() <= rungs_max && budget.allows(&problem.usage(rungs)));
    let best = within.min_by_key(|(cost_ns, rungs)| (*cost_ns, rungs.len(), rungs.iter().rev().collect::<Vec<_>>()));
    best.map(|(cost_ns, rungs)| Optimum { rungs: rungs.clone(), cost_ns: *cost_ns, usage: problem.usage(rungs) })
}

/// The best pair of at most so many rungs together.
pub(super) fn best_pair(
    problems: [&Problem; 2],
    ladders: &[Vec<(u128, Vec<u32>)>; 2],
    budget: &Budget,
    rungs_max: usize,
) -> Option<Pair> {
    let top_down = |rungs: &[u32]| rungs.iter().rev().copied().collect::<Vec<u32>>();
    let pairs = ladders[0].iter().flat_map(|first| ladders[1].iter().map(move |second| (first, second)));
    pairs
        .filter(|(first, second)| first.1.len() + second.1.len() <= rungs_max)
        .map(|(first, second)| {
            let usage = together(problems, [&first.1, &second.1]);
            Pair { rungs: [first.1.clone(), second.1.clone()], cost_ns: first.0 + second.0, usage }
        })
        .filter(|pair| budget.allows(&pair.usage))
        .min_by_key(|pair| {
            let [first, second] = &pair.rungs;
            (pair.cost_ns, first.len() + second.len(), first.len(), top_down(first), top_down(second))
        })
}

/// What two ladders take: one pool, and one capture that is the first.
fn together(problems: [&Problem; 2], rungs: [&[u32]; 2]) -> Usage {
    let [first, second] = [0, 1].map(|side| problems[side].usage(rungs[side]));
    let both = !rungs[0].is_empty() && !rungs[1].is_empty();
    let counted_twice = if both { problems[0].captures.first_extra.0 } else { 0 };
    Usage {
        descriptors: first.descriptors + second.descriptors,
        executables: kernels::units::Bytes(first.executables.0 + second.executables.0),
        pool: first.pool.max(second.pool),
        startup: SimDuration(first.startup.0 + second.startup.0 - counted_twice),
    }
}

//! The recurrence as it is written: every rung below every rung, low and high rungs counted apart.

use crate::optimum::{Budget, Optimum, Problem};

/// A ladder on the way: its cost, and its rungs from the top down.
type Partial = (u128, Vec<u32>);

/// The best ladders of at most 0, 1, ..., `rungs_max` rungs.
pub(super) fn front(problem: &Problem, budget: &Budget, rungs_max: usize) -> Vec<Option<Optimum>> {
    let sizes: Vec<u32> = std::iter::once(0).chain(problem.sizes()).collect();
    let bounds = sizes.len();
    // By low rungs, high rungs and bound.
    let mut best: Vec<Vec<Vec<Option<Partial>>>> = vec![vec![vec![None; bounds]; rungs_max + 1]; rungs_max + 1];
    best[0][0][0] = Some((0, Vec::new()));
    for to in 1..bounds {
        for from in (0..to).filter(|&from| !leaves_out(problem, from, to)) {
            let between_ns = between_ns(problem, sizes[from], to);
            for (low, high) in counts(rungs_max - 1) {
                let Some((cost_ns, rungs)) = best[low][high][from].clone() else { continue };
                let is_low = sizes[to] <= problem.captures.low_max;
                let place = if is_low { &mut best[low + 1][high][to] } else { &mut best[low][high + 1][to] };
                let longer = (cost_ns + between_ns, [&[sizes[to]], &rungs[..]].concat());
                if place.as_ref().is_none_or(|best| longer < *best) {
                    *place = Some(longer);
                }
            }
        }
    }
    let mut exact: Vec<Option<Partial>> = vec![None; rungs_max + 1];
    for (low, high) in counts(rungs_max) {
        for bound in (0..bounds).filter(|&bound| !leaves_out(problem, bound, bounds)) {
            let Some((cost_ns, top_down)) = best[low][high][bound].clone() else { continue };
            let whole = (cost_ns + above_ns(problem, sizes[bound]), top_down);
            let is_within = budget.allows(&problem.usage(&upwards(&whole.1)));
            let place = &mut exact[low + high];
            if is_within && place.as_ref().is_none_or(|best| whole < *best) {
                *place = Some(whole);
            }
        }
    }
    let at_most = |most: usize| {
        let least = exact[..=most].iter().flatten().min_by_key(|(cost_ns, rungs)| (*cost_ns, rungs.len()));
        least.map(|(cost_ns, top_down)| {
            let rungs = upwards(top_down);
            Optimum { usage: problem.usage(&rungs), rungs, cost_ns: *cost_ns }
        })
    };
    (0..=rungs_max).map(at_most).collect()
}

fn upwards(top_down: &[u32]) -> Vec<u32> {
    top_down.iter().rev().copied().collect()
}

fn counts(most: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..=most).flat_map(move |low| (0..=most - low).map(move |high| (low, high)))
}

/// Whether a required rung lies between two bounds.
fn leaves_out(problem: &Problem, from: usize, to: usize) -> bool {
    problem.candidates[from..to - 1].iter().any(|candidate| candidate.required)
}

fn between_ns(problem: &Problem, above: u32, to: usize) -> u128 {
    let rung = &problem.candidates[to - 1];
    let held = problem.loads.iter().filter(|load| load.size > above && load.size <= rung.size);
    held.map(|load| u128::from(load.count) * u128::from(load.on(rung, problem.policy))).sum()
}

fn above_ns(problem: &Problem, top: u32) -> u128 {
    let above = problem.loads.iter().filter(|load| load.size > top);
    above.map(|load| u128::from(load.count) * u128::from(load.eager.0)).sum()
}

//! Two ladders of their own under one budget: decode graphs and prefill graphs.
//!
//! The steps of each are given, so the ladders bear on each other through the budget alone. Descriptors, executables and
//! seconds add up by the number of rungs of both; the pool is what the larger top needs, so that a limit on it is the same
//! limit on either top. For each pair of counts the budget leaves a limit for the pool, and below it both ladders are
//! chosen on their own.
//!
//! Under vLLM a decode batch above the decode ceiling runs a prefill graph. Then its steps are the other ladder's, and the
//! ceiling has to be given: make it required, leave larger sizes out of the decode ladder, and give larger decode steps to the
//! other one. Under SGLang, and in vLLM's `FULL_DECODE_ONLY`, such a batch runs without a graph, and the ceiling is free.

use kernels::units::Bytes;

use super::budget::{Budget, Usage};
use super::chain::{Chain, UNREACHED};
use super::front::{Costed, Search, at_most, sizes};
use super::problem::{Problem, ProblemFault};
use super::prune::prune;

/// Two ladders that are the best ones together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The rungs of both, ascending.
    pub rungs: [Vec<u32>; 2],
    /// All steps of both, in nanoseconds.
    pub cost_ns: u128,
    /// What all graphs take.
    pub usage: Usage,
}

/// The best pairs of ladders with at most 0, 1, ..., `rungs_max` rungs together, within the budget; `None` where there is
/// none. Of pairs with the same cost and as many rungs the one with fewer rungs in the first ladder is taken.
///
/// # Errors
/// [`ProblemFault::TwoKinds`] if the rungs of one ladder do not all take the same resources.
pub fn front_apart(
    problems: [&Problem; 2],
    budget: &Budget,
    rungs_max: usize,
) -> Result<Vec<Option<Pair>>, ProblemFault> {
    let pruned = problems.map(prune);
    let sides = [Side::new(&pruned[0], rungs_max)?, Side::new(&pruned[1], rungs_max)?];
    let first_extra = pruned[0].captures.first_extra.min(pruned[1].captures.first_extra);
    let mut best: Vec<Option<Found>> = vec![None; rungs_max + 1];
    for first in 0..=sides[0].chain.layers() {
        for second in 0..=sides[1].chain.layers().min(rungs_max - first) {
            let usage = sides[0].usage(first).beside(&sides[1].usage(second), first_extra);
            let fits = |pool: Bytes| budget.allows(&Usage { pool, ..usage });
            let (Some((cost_0, top_0)), Some((cost_1, top_1))) =
                (sides[0].best(first, fits), sides[1].best(second, fits))
            else {
                continue;
            };
            let cost_ns = cost_0 + cost_1;
            let best = &mut best[first + second];
            if best.as_ref().is_none_or(|best| cost_ns < best.cost_ns) {
                *best = Some(Found { cost_ns, counts: [first, second], tops: [top_0, top_1] });
            }
        }
    }
    Ok(at_most(best, |found| {
        let rungs = [0, 1].map(|side| sides[side].rungs(found.counts[side], found.tops[side]));
        let usage = pruned[0].usage(&rungs[0]).beside(&pruned[1].usage(&rungs[1]), first_extra);
        Pair { rungs, cost_ns: found.cost_ns, usage }
    }))
}

#[derive(Clone, Debug)]
struct Found {
    cost_ns: u128,
    counts: [usize; 2],
    tops: [usize; 2],
}

impl Costed for Found {
    fn cost_ns(&self) -> u128 {
        self.cost_ns
    }
}

/// One of the two ladders.
struct Side<'a> {
    search: Search<'a>,
    chain: Chain,
    /// By rungs, then by bound: the least cost of ladders that end at most there, and where the first of them ends.
    up_to: Vec<Vec<(u128, u32)>>,
}

impl<'a> Side<'a> {
    fn new(problem: &'a Problem, rungs_max: usize) -> Result<Self, ProblemFault> {
        let search = Search::new(problem, Budget::default());
        if search.kind.is_none() {
            return Err(ProblemFault::TwoKinds { low_max: problem.captures.low_max });
        }
        let chain = search.chain(rungs_max);
        let up_to = (0..=chain.layers())
            .map(|rungs| {
                let tops = search.tops(rungs, 0);
                let mut least = (UNREACHED, 0);
                let mut upto = Vec::with_capacity(problem.candidates.len() + 1);
                for bound in 0..=problem.candidates.len() {
                    let cost = chain.cost[rungs][bound];
                    if cost != UNREACHED && tops.as_ref().is_some_and(|tops| tops.contains(&bound)) {
                        least = least.min((cost + search.sums.above[bound], bound as u32));
                    }
                    upto.push(least);
                }
                upto
            })
            .collect();
        Ok(Self { search, chain, up_to })
    }

    /// What so many rungs take, the pool aside.
    fn usage(&self, rungs: usize) -> Usage {
        if rungs == 0 {
            return Usage::default();
        }
        let startup = self.search.problem.captures.first_extra;
        Usage { startup, ..Usage::default() }.with_rungs(rungs, &self.search.kind.unwrap_or_default())
    }

    /// The least cost of a ladder of so many rungs whose pool fits, and its bound.
    fn best(&self, rungs: usize, fits: impl Fn(Bytes) -> bool) -> Option<(u128, usize)> {
        if !fits(Bytes(0)) {
            return None;
        }
        let last = self.search.problem.candidates.partition_point(|candidate| fits(candidate.pool));
        let (cost, bound) = self.up_to[rungs][last];
        (cost != UNREACHED).then_some((cost, bound as usize))
    }

    fn rungs(&self, count: usize, top: usize) -> Vec<u32> {
        sizes(self.search.problem, &self.chain.laid(count, top).0)
    }
}

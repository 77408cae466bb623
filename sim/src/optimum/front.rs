//! The best ladder for every number of rungs.

use std::ops::RangeInclusive;

use kernels::units::Bytes;
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use super::budget::{Budget, Resources, Usage};
use super::chain::{Chain, UNREACHED};
use super::problem::Problem;
use super::prune::prune;
use super::sums::Sums;

/// A ladder that is the best one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Optimum {
    /// Its rungs, ascending; none where no graph is best.
    pub rungs: Vec<u32>,
    /// All steps together, those without a graph included, in nanoseconds.
    pub cost_ns: u128,
    /// What its graphs take.
    pub usage: Usage,
}

/// The best ladders by size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Front {
    /// At place `k` the best ladder of at most `k` rungs within the budget; `None` where there is none, because required
    /// rungs are more than `k` or take more than the budget.
    pub at_most: Vec<Option<Optimum>>,
}

/// The best ladders of at most 0, 1, ..., `rungs_max` rungs within the budget.
///
/// Where rungs up to some size take other resources than those above it, and the best ladders without a budget are not
/// within it, ladders are searched by the number of both: `rungs_max` times as long.
#[must_use]
pub fn front(problem: &Problem, budget: &Budget, rungs_max: usize) -> Front {
    let problem = prune(problem);
    let search = Search::new(&problem, *budget);
    let mut best = vec![None; rungs_max + 1];
    search.of_one_kind(&mut best);
    let is_bound = |found: &Option<Found>| {
        found.as_ref().is_some_and(|found| !budget.allows(&problem.usage(&sizes(&problem, &found.rungs))))
    };
    if search.kind.is_none() && best.iter().any(is_bound) {
        best.fill(None);
        search.of_two_kinds(&mut best);
    }
    Front { at_most: at_most(best, |found| optimum(&problem, found)) }
}

/// Of the best for each exact number of rungs the best for at most so many.
pub(super) fn at_most<F: Costed, T>(exact: Vec<Option<F>>, mut made: impl FnMut(&F) -> T) -> Vec<Option<T>>
where
    T: Clone,
{
    let mut best: Option<(u128, T)> = None;
    let mut at_most = Vec::with_capacity(exact.len());
    for found in exact {
        if let Some(found) = found
            && best.as_ref().is_none_or(|(cost, _)| found.cost_ns() < *cost)
        {
            best = Some((found.cost_ns(), made(&found)));
        }
        at_most.push(best.as_ref().map(|(_, made)| made.clone()));
    }
    at_most
}

/// Something with a cost.
pub(super) trait Costed {
    /// In nanoseconds.
    fn cost_ns(&self) -> u128;
}

/// A ladder as candidates.
#[derive(Clone, Debug)]
struct Found {
    cost_ns: u128,
    rungs: Vec<usize>,
}

impl Costed for Found {
    fn cost_ns(&self) -> u128 {
        self.cost_ns
    }
}

/// The rungs' sizes.
pub(super) fn sizes(problem: &Problem, rungs: &[usize]) -> Vec<u32> {
    rungs.iter().map(|&rung| problem.candidates[rung].size).collect()
}

fn optimum(problem: &Problem, found: &Found) -> Optimum {
    let rungs = sizes(problem, &found.rungs);
    Optimum { usage: problem.usage(&rungs), rungs, cost_ns: found.cost_ns }
}

/// A problem with only the candidates that matter, made ready.
pub(super) struct Search<'a> {
    pub(super) problem: &'a Problem,
    pub(super) sums: Sums<'a>,
    budget: Budget,
    /// Candidates up to here take the resources of low rungs.
    split: usize,
    /// What every rung takes, if all take the same.
    pub(super) kind: Option<Resources>,
    /// The bound of the largest required rung; 0 without one.
    required: usize,
}

impl<'a> Search<'a> {
    pub(super) fn new(problem: &'a Problem, budget: Budget) -> Self {
        let (candidates, captures) = (&problem.candidates, &problem.captures);
        let split = candidates.partition_point(|candidate| candidate.size <= captures.low_max);
        let kind = if captures.low == captures.high || split == candidates.len() {
            Some(captures.low)
        } else {
            (split == 0).then_some(captures.high)
        };
        let required = candidates.iter().rposition(|candidate| candidate.required).map_or(0, |last| last + 1);
        Self { problem, sums: Sums::new(problem), budget, split, kind, required }
    }

    /// Costs of no rung at all.
    fn origin(&self) -> Vec<u128> {
        let mut source = vec![UNREACHED; self.problem.candidates.len() + 1];
        source[0] = 0;
        source
    }

    /// All ladders of up to so many rungs, without regard to budgets.
    pub(super) fn chain(&self, rungs_max: usize) -> Chain {
        Chain::new(&self.sums, &(0..self.problem.candidates.len()), self.origin(), rungs_max)
    }

    /// The bounds at which a ladder of such rungs may end; `None` if the budget has no room for it.
    pub(super) fn tops(&self, low: usize, high: usize) -> Option<RangeInclusive<usize>> {
        let usage = self.without_pool(low, high);
        let fits = |pool: Bytes| self.budget.allows(&Usage { pool, ..usage });
        let last = self.problem.candidates.partition_point(|candidate| fits(candidate.pool));
        let last = if low + high == 0 { 0 } else { last };
        (fits(Bytes(0)) && self.required <= last).then_some(self.required..=last)
    }

    fn without_pool(&self, low: usize, high: usize) -> Usage {
        let captures = &self.problem.captures;
        let startup = if low + high == 0 { crate::time::SimDuration::ZERO } else { captures.first_extra };
        Usage { startup, ..Usage::default() }.with_rungs(low, &captures.low).with_rungs(high, &captures.high)
    }

    /// Every number of rungs, where all take the same. Where they do not, budgets are left aside.
    fn of_one_kind(&self, best: &mut [Option<Found>]) {
        let chain = self.chain(best.len() - 1);
        for (rungs, best) in best.iter_mut().enumerate().take(chain.layers() + 1) {
            let tops = match self.kind {
                Some(_) => self.tops(if self.split == 0 { 0 } else { rungs }, if self.split == 0 { rungs } else { 0 }),
                None => Some(self.required..=self.problem.candidates.len()),
            };
            let top = tops.and_then(|tops| chain.best(rungs, *tops.start()..tops.end() + 1, &self.sums.above));
            *best = top.map(|(cost_ns, bound)| Found { cost_ns, rungs: chain.laid(rungs, bound).0 });
        }
    }

    /// Every number of rungs, low and high ones counted apart. Low rungs are below all high ones, so a ladder is one of low
    /// rungs with a chain of high ones laid on it: for each number of low ones a chain of its own, all side by side.
    fn of_two_kinds(&self, best: &mut [Option<Found>]) {
        let rungs_max = best.len() - 1;
        let low_chain = Chain::new(&self.sums, &(0..self.split), self.origin(), rungs_max);
        let laid: Vec<Vec<Found>> =
            (0..=low_chain.layers()).into_par_iter().map(|low| self.laid_on(&low_chain, low, rungs_max)).collect();
        for found in laid.into_iter().flatten() {
            keep(&mut best[found.rungs.len()], found);
        }
    }

    /// The best ladders of so many low rungs, for every number of high ones.
    fn laid_on(&self, low_chain: &Chain, low: usize, rungs_max: usize) -> Vec<Found> {
        let count = self.problem.candidates.len();
        let mut all = Vec::new();
        if let Some(tops) = self.tops(low, 0) {
            let top = low_chain.best(low, *tops.start()..(*tops.end()).min(self.split) + 1, &self.sums.above);
            all.extend(top.map(|(cost_ns, bound)| Found { cost_ns, rungs: low_chain.laid(low, bound).0 }));
        }
        let fitting = (1..=rungs_max - low).take_while(|&high| self.tops(low, high).is_some()).count();
        if fitting == 0 {
            return all;
        }
        let high_chain = Chain::new(&self.sums, &(self.split..count), low_chain.cost[low].clone(), fitting);
        for high in 1..=high_chain.layers() {
            let Some(tops) = self.tops(low, high) else { continue };
            let first = (*tops.start()).max(self.split + 1);
            if let Some((cost_ns, bound)) = high_chain.best(high, first..tops.end() + 1, &self.sums.above) {
                let (above, below) = high_chain.laid(high, bound);
                let mut rungs = low_chain.laid(low, below).0;
                rungs.extend(above);
                all.push(Found { cost_ns, rungs });
            }
        }
        all
    }
}

/// Keeps the better of two ladders of as many rungs.
fn keep(best: &mut Option<Found>, found: Found) {
    let is_better = |best: &Found| {
        found.cost_ns.cmp(&best.cost_ns).then_with(|| found.rungs.iter().rev().cmp(best.rungs.iter().rev())).is_lt()
    };
    if best.as_ref().is_none_or(is_better) {
        *best = Some(found);
    }
}

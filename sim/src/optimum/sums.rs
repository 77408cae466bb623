//! Sums over the steps between two bounds, each at the price of one rung.

use super::problem::{Batch, Policy, Problem, StepLoad};

/// Entries of the table of sums: 32 MiB.
const TABLE_ENTRIES: usize = 1 << 21;

/// Sums of one problem.
#[derive(Debug)]
pub(super) struct Sums<'a> {
    pub(super) problem: &'a Problem,
    /// Loads that fit into each bound.
    held: Vec<usize>,
    method: Method,
    /// What all steps above each bound cost without a graph.
    pub(super) above: Vec<u128>,
}

#[derive(Debug)]
enum Method {
    /// Every step costs the sum of its own time and its graph's: counts and own times by bound tell all.
    Linear(Vec<Held>),
    /// Sums at the price of each rung, up to every bound that is a multiple of `stride`; steps between are walked.
    Table { stride: usize, columns: usize, sums: Vec<u128> },
}

/// The steps that fit into a bound.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    decodes: u128,
    others: u128,
    own_ns: u128,
}

impl<'a> Sums<'a> {
    pub(super) fn new(problem: &'a Problem) -> Self {
        Self::with_table(problem, TABLE_ENTRIES)
    }

    /// With a table of about so many entries, if one is needed.
    fn with_table(problem: &'a Problem, entries: usize) -> Self {
        let held = problem.held();
        let eager_ns = |loads: &[StepLoad]| -> u128 {
            loads.iter().map(|load| u128::from(load.count) * u128::from(load.eager.0)).sum()
        };
        let mut above = vec![0; held.len()];
        let mut so_far = problem.loads.len();
        let mut sum = 0;
        for bound in (0..held.len()).rev() {
            sum += eager_ns(&problem.loads[held[bound]..so_far]);
            so_far = held[bound];
            above[bound] = sum;
        }
        let method = if is_linear(problem) { linear(problem, &held) } else { table(problem, &held, entries) };
        Self { problem, held, method, above }
    }

    /// Nanoseconds of the steps above bound `from` that fit into bound `to`, on the graph of a candidate.
    #[inline]
    pub(super) fn between(&self, from: usize, to: usize, candidate: usize) -> u128 {
        match &self.method {
            Method::Linear(held) => {
                let (from, to, rung) = (&held[from], &held[to], &self.problem.candidates[candidate]);
                (to.decodes - from.decodes) * u128::from(rung.decode.device.0)
                    + (to.others - from.others) * u128::from(rung.other.device.0)
                    + (to.own_ns - from.own_ns)
            }
            Method::Table { stride, columns, sums } => {
                let (first, last) = (from.div_ceil(*stride), to / stride);
                if first >= last {
                    return self.walk(from, to, candidate);
                }
                let row = &sums[candidate * columns..][..*columns];
                let (before, after) = (first * stride, last * stride);
                self.walk(from, before, candidate) + (row[last] - row[first]) + self.walk(after, to, candidate)
            }
        }
    }

    fn walk(&self, from: usize, to: usize, candidate: usize) -> u128 {
        walk(self.problem, self.held[from]..self.held[to], candidate)
    }
}

fn walk(problem: &Problem, loads: std::ops::Range<usize>, candidate: usize) -> u128 {
    let rung = &problem.candidates[candidate];
    problem.loads[loads].iter().map(|load| u128::from(load.count) * u128::from(load.on(rung, problem.policy))).sum()
}

/// No step's price depends on which of two times is the longer.
fn is_linear(problem: &Problem) -> bool {
    let has_host = problem.loads.iter().any(|load| load.own.host.0 > 0)
        || problem.candidates.iter().any(|rung| rung.decode.host.0 > 0 || rung.other.host.0 > 0);
    // A sum that `on` would cut off at the largest number is not linear.
    let own_max = problem.loads.iter().map(|load| load.own.device.0).max().unwrap_or(0);
    let rung_max =
        problem.candidates.iter().map(|rung| rung.decode.device.0.max(rung.other.device.0)).max().unwrap_or(0);
    problem.policy == Policy::AlwaysPad && !has_host && own_max.checked_add(rung_max).is_some()
}

fn linear(problem: &Problem, held: &[usize]) -> Method {
    let mut sum = Held::default();
    let mut so_far = 0;
    let up_to = |&end: &usize| {
        for load in &problem.loads[std::mem::replace(&mut so_far, end)..end] {
            let count = u128::from(load.count);
            match load.batch {
                Batch::Decode => sum.decodes += count,
                Batch::Other => sum.others += count,
            }
            sum.own_ns += count * u128::from(load.own.device.0);
        }
        sum
    };
    Method::Linear(held.iter().map(up_to).collect())
}

fn table(problem: &Problem, held: &[usize], entries: usize) -> Method {
    let rungs = problem.candidates.len();
    let stride = (rungs * held.len()).div_ceil(entries).max(1);
    let columns = (held.len() - 1) / stride + 1;
    let mut sums = Vec::with_capacity(rungs * columns);
    for candidate in 0..rungs {
        let mut sum = 0;
        for column in 0..columns {
            if column > 0 {
                sum += walk(problem, held[(column - 1) * stride]..held[column * stride], candidate);
            }
            sums.push(sum);
        }
    }
    Method::Table { stride, columns, sums }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::optimum::tests::random;

    proptest! {
        #[test]
        fn sums_are_those_of_a_walk_however_coarse_the_table(problem in random::problem(12, true), entries in 1_usize..200) {
            let sums = Sums::with_table(&problem, entries);
            let bounds = problem.candidates.len() + 1;
            for (from, to) in (0..bounds).flat_map(|from| (from..bounds).map(move |to| (from, to))) {
                for candidate in 0..problem.candidates.len() {
                    prop_assert_eq!(sums.between(from, to, candidate), sums.walk(from, to, candidate));
                }
            }
        }
    }
}

//! How batches, queue and KV cache went over the whole run so far, in a fixed number of bins.

use reports::StepRecord;

/// More bins than any terminal has columns.
const BINS_MAX: usize = 512;
/// Width of the first bins, in nanoseconds; it doubles as a run gets longer.
const FIRST_BIN_NS: u64 = 1_000_000;

/// What happened in equal stretches of time, from zero on.
#[derive(Clone, Debug, PartialEq)]
pub struct History {
    bin_ns: u64,
    bins: Vec<Bin>,
}

/// Steps that began in one stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bin {
    /// Steps.
    pub steps: u64,
    /// Rows that requests asked for, all together, rows.
    pub rows: u64,
    /// Most of one step, rows.
    pub rows_max: u32,
    /// Steps without a graph.
    pub no_graph: u64,
    /// Requests that lost their KV blocks.
    pub preempted: u64,
    /// Most requests waiting.
    pub waiting_max: u64,
    /// Most of the KV blocks in use, a share.
    pub kv_share_max: f64,
    /// Most tokens of context in one step: those that decoding requests read.
    pub context_max: u64,
}

impl Default for History {
    fn default() -> Self {
        Self { bin_ns: FIRST_BIN_NS, bins: Vec::new() }
    }
}

impl History {
    /// Takes note of a step; `waiting` and `kv_share` are those of all ranks then.
    pub fn add(&mut self, step: &StepRecord, waiting: u64, kv_share: f64) {
        while step.start_ns / self.bin_ns >= BINS_MAX as u64 {
            self.widen();
        }
        let index = (step.start_ns / self.bin_ns) as usize;
        if index >= self.bins.len() {
            self.bins.resize(index + 1, Bin::default());
        }
        self.bins[index].add(&Bin {
            steps: 1,
            rows: u64::from(step.real_rows),
            rows_max: step.real_rows,
            no_graph: u64::from(step.descriptor.is_none()),
            preempted: u64::from(step.preempted),
            waiting_max: waiting,
            kv_share_max: kv_share,
            context_max: step.decode_context,
        });
    }

    /// What happened in each of `columns` equal stretches from zero to `until_ns`. Where bins are wider than that, a bin
    /// stands in several columns, and where a bin reaches over an edge, on both sides of it: no column is empty for lack of
    /// detail.
    #[must_use]
    pub fn columns(&self, columns: u16, until_ns: u64) -> Vec<Bin> {
        let edge = |column: u16| (u128::from(until_ns) * u128::from(column) / u128::from(columns.max(1))) as u64;
        let column = |number: u16| {
            let (start, end) = (edge(number), edge(number + 1).max(edge(number) + 1));
            let first = (start / self.bin_ns) as usize;
            let behind = end.div_ceil(self.bin_ns) as usize;
            let mut all = Bin::default();
            for bin in self.bins.iter().take(behind).skip(first) {
                all.add(bin);
            }
            all
        };
        (0..columns).map(column).collect()
    }

    /// All of it.
    #[must_use]
    pub fn total(&self) -> Bin {
        let mut all = Bin::default();
        for bin in &self.bins {
            all.add(bin);
        }
        all
    }

    fn widen(&mut self) {
        self.bin_ns = self.bin_ns.saturating_mul(2);
        let pair = |pair: &[Bin]| {
            let mut both = pair[0];
            pair[1..].iter().for_each(|other| both.add(other));
            both
        };
        self.bins = self.bins.chunks(2).map(pair).collect();
    }
}

impl Bin {
    fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.rows += other.rows;
        self.rows_max = self.rows_max.max(other.rows_max);
        self.no_graph += other.no_graph;
        self.preempted += other.preempted;
        self.waiting_max = self.waiting_max.max(other.waiting_max);
        self.kv_share_max = self.kv_share_max.max(other.kv_share_max);
        self.context_max = self.context_max.max(other.context_max);
    }

    /// Mean rows of a step; `None` without steps.
    #[must_use]
    pub fn mean_rows(&self) -> Option<f64> {
        (self.steps > 0).then(|| self.rows as f64 / self.steps as f64)
    }

    /// Share of the steps without a graph; `None` without steps.
    #[must_use]
    pub fn no_graph_share(&self) -> Option<f64> {
        (self.steps > 0).then(|| self.no_graph as f64 / self.steps as f64)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::watch::samples::step;

    proptest! {
        /// However often bins were doubled, they hold what a plain count of all steps by time says.
        #[test]
        fn bins_hold_every_step_once(gaps_us in prop::collection::vec(0u64..4_000_000, 1..200), columns in 1u16..200) {
            let mut history = History::default();
            let mut steps = Vec::new();
            let mut at_us = 0;
            for (number, gap) in (0u64..).zip(gaps_us) {
                at_us += gap;
                let rows = (number % 7 + 1) as u32;
                let record = step(number, at_us * 1_000, rows, (!number.is_multiple_of(3)).then_some(8));
                history.add(&record, number, 0.5);
                steps.push(record);
            }
            let all = history.total();
            prop_assert_eq!(all.steps, steps.len() as u64);
            prop_assert_eq!(all.rows, steps.iter().map(|step| u64::from(step.real_rows)).sum::<u64>());
            prop_assert_eq!(all.no_graph, steps.iter().filter(|step| step.descriptor.is_none()).count() as u64);
            prop_assert!(history.bins.len() <= BINS_MAX);
            for (number, bin) in (0u64..).zip(&history.bins) {
                let inside = steps.iter().filter(|step| step.start_ns / history.bin_ns == number);
                prop_assert_eq!(bin.steps, inside.clone().count() as u64);
                prop_assert_eq!(bin.rows_max, inside.map(|step| step.real_rows).max().unwrap_or(0));
            }
            // Every step is in the column of its time.
            let until_ns = at_us * 1_000 + 1;
            let shown = history.columns(columns, until_ns);
            prop_assert_eq!(shown.len(), usize::from(columns));
            for step in &steps {
                let edge = |column: u128| u128::from(until_ns) * column / u128::from(columns);
                let place = (0..u128::from(columns)).find(|&column| u128::from(step.start_ns) < edge(column + 1));
                let bin = &shown[place.expect("before the end") as usize];
                prop_assert!(bin.steps > 0 && bin.rows_max >= step.real_rows);
            }
        }
    }

    #[test]
    fn a_clock_that_jumps_far_is_no_matter() {
        let mut history = History::default();
        history.add(&step(0, 5, 3, None), 0, 0.0);
        history.add(&step(1, u64::MAX, 4, None), 0, 0.0);
        assert_eq!(history.total().steps, 2);
        assert_eq!(history.columns(0, 10), []);
        assert_eq!(history.columns(3, 0).len(), 3);
    }
}

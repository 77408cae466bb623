//! Which compiled version of the model each row count runs: single sizes, and ranges of sizes between them.
//!
//! vLLM compiles the model once for every range of row counts, the last one ending at the token budget, and once for
//! every single size. A single size wins over the range it lies in.

use std::collections::BTreeSet;
use std::fmt;

use super::error::EngineError;

/// Row counts that run one compiled version, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CompileRange {
    /// Fewest rows.
    pub first: u32,
    /// Most rows.
    pub last: u32,
}

/// Everything that the engine compiles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompileRanges {
    ranges: Vec<CompileRange>,
    sizes: BTreeSet<u32>,
}

impl CompileRanges {
    /// The ranges that end at `endpoints` and at the token budget, and the single sizes within the budget. Endpoints of 1
    /// and from the budget on are dropped, as the engine does in silence.
    ///
    /// # Errors
    /// [`EngineError::CompileEndpointZero`] for an endpoint of 0.
    pub fn new(endpoints: &[u32], sizes: &[u32], max_num_batched_tokens: u32) -> Result<Self, EngineError> {
        if endpoints.contains(&0) {
            return Err(EngineError::CompileEndpointZero);
        }
        let inner = endpoints.iter().copied().filter(|&endpoint| 1 < endpoint && endpoint < max_num_batched_tokens);
        let ends: BTreeSet<u32> = inner.chain([max_num_batched_tokens]).collect();
        let mut first = 1;
        let ranges = ends
            .into_iter()
            .map(|last| {
                let range = CompileRange { first, last };
                first = last + 1;
                range
            })
            .collect();
        let sizes = sizes.iter().copied().filter(|size| (1..=max_num_batched_tokens).contains(size)).collect();
        Ok(Self { ranges, sizes })
    }

    /// What a step of `rows` rows, padding included, runs; `None` beyond the token budget and without compilation.
    #[must_use]
    pub fn of_rows(&self, rows: u32) -> Option<CompileRange> {
        if self.sizes.contains(&rows) {
            return Some(CompileRange { first: rows, last: rows });
        }
        let place = self.ranges.partition_point(|range| range.last < rows);
        self.ranges.get(place).copied().filter(|range| range.first <= rows)
    }

    /// The ranges, ascending.
    #[must_use]
    pub fn ranges(&self) -> &[CompileRange] {
        &self.ranges
    }

    /// The sizes compiled for themselves, ascending.
    pub fn sizes(&self) -> impl Iterator<Item = u32> {
        self.sizes.iter().copied()
    }

    /// How often the model is compiled.
    #[must_use]
    pub fn compilations(&self) -> u32 {
        (self.ranges.len() + self.sizes.len()) as u32
    }
}

impl fmt::Display for CompileRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}, {}]", self.first, self.last)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(endpoints: &[u32], sizes: &[u32], budget: u32) -> CompileRanges {
        CompileRanges::new(endpoints, sizes, budget).expect("no zero")
    }

    #[test]
    fn a_single_size_wins_over_its_range() {
        let made = of(&[8], &[4], 2048);
        let range = |rows| made.of_rows(rows).map(|range| (range.first, range.last));
        assert_eq!(
            [range(3), range(4), range(8), range(9), range(2048), range(2049)],
            [Some((1, 8)), Some((4, 4)), Some((1, 8)), Some((9, 2048)), Some((9, 2048)), None]
        );
        assert_eq!(made.compilations(), 3);
    }

    #[test]
    fn useless_endpoints_are_dropped_and_zero_is_refused() {
        assert_eq!(of(&[1, 64, 64, 2048, 9000], &[], 2048), of(&[64], &[], 2048));
        assert_eq!(of(&[], &[4, 4, 9000], 2048).compilations(), 2);
        assert_eq!(CompileRanges::new(&[0], &[], 2048), Err(EngineError::CompileEndpointZero));
        assert_eq!(CompileRanges::default().of_rows(1), None);
    }

    proptest! {
        /// Every row count within the budget runs exactly one version, and the slow search finds the same.
        #[test]
        fn ranges_cover_the_budget(
            endpoints in prop::collection::vec(1_u32..70, 0..6),
            sizes in prop::collection::vec(1_u32..70, 0..4),
            budget in 1_u32..64,
        ) {
            let made = of(&endpoints, &sizes, budget);
            for rows in 1..=budget {
                let last = endpoints.iter().copied().filter(|&end| end > 1 && end >= rows && end < budget).min();
                let first = endpoints.iter().copied().filter(|&end| end > 1 && end < rows).max();
                let wanted = if sizes.contains(&rows) {
                    CompileRange { first: rows, last: rows }
                } else {
                    CompileRange { first: first.map_or(1, |end| end + 1), last: last.unwrap_or(budget) }
                };
                prop_assert_eq!(made.of_rows(rows), Some(wanted));
            }
            prop_assert_eq!(made.of_rows(budget + 1), None);
        }
    }
}

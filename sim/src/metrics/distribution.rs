//! Exact distributions of durations: mean, median and percentiles with linear interpolation, as numpy computes them.

use crate::time::SimDuration;

/// A multiset of durations, kept as runs of equal values.
#[derive(Clone, Debug, Default)]
pub struct Distribution {
    /// `(nanoseconds, how often)`, in order of arrival; neighbours differ.
    runs: Vec<(u64, u64)>,
}

/// Three figures of a distribution, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Arithmetic mean.
    pub mean_ms: f64,
    /// The 50th percentile.
    pub median_ms: f64,
    /// The 99th percentile.
    pub p99_ms: f64,
}

impl Distribution {
    /// Adds one value.
    pub fn add(&mut self, value: SimDuration) {
        self.add_many(value, 1);
    }

    /// Adds the same value `count` times.
    pub fn add_many(&mut self, value: SimDuration, count: u64) {
        match self.runs.last_mut() {
            Some((ns, times)) if *ns == value.0 => *times += count,
            _ => self.runs.push((value.0, count)),
        }
    }

    /// How many values were added.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.runs.iter().map(|(_, times)| times).sum()
    }

    /// Mean, median and 99th percentile; `None` without values.
    #[must_use]
    pub fn spread(mut self) -> Option<Spread> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let sum_ns: u128 = self.runs.iter().map(|&(ns, times)| u128::from(ns) * u128::from(times)).sum();
        self.runs.sort_unstable();
        Some(Spread {
            mean_ms: sum_ns as f64 / count as f64 / 1e6,
            median_ms: self.percentile_ns(0.50, count) / 1e6,
            p99_ms: self.percentile_ns(0.99, count) / 1e6,
        })
    }

    /// The value at rank `share * (count - 1)`, linear between neighbouring ranks. The runs must be sorted.
    fn percentile_ns(&self, share: f64, count: u64) -> f64 {
        let rank = share * (count - 1) as f64;
        let below = rank.floor() as u64;
        let low = self.value_at(below) as f64;
        let high = self.value_at((below + 1).min(count - 1)) as f64;
        low + (high - low) * (rank - below as f64)
    }

    fn value_at(&self, rank: u64) -> u64 {
        let mut seen = 0;
        for &(ns, times) in &self.runs {
            seen += times;
            if rank < seen {
                return ns;
            }
        }
        unreachable!("a rank is below the count")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn percentiles_interpolate_linearly() {
        let mut distribution = Distribution::default();
        for ms in [4, 1, 3, 2] {
            distribution.add(SimDuration(ms * 1_000_000));
        }
        let spread = distribution.spread().expect("four values");
        assert!((spread.mean_ms - 2.5).abs() < 1e-12);
        assert!((spread.median_ms - 2.5).abs() < 1e-12);
        assert!((spread.p99_ms - 3.97).abs() < 1e-12);
    }

    #[test]
    fn nothing_has_no_spread() {
        assert_eq!(Distribution::default().spread(), None);
    }

    proptest! {
        #[test]
        fn runs_are_as_good_as_single_values(values in prop::collection::vec((0u64..20, 1u64..5), 1..40)) {
            let mut runs = Distribution::default();
            let mut flat: Vec<u64> = Vec::new();
            for &(ns, times) in &values {
                runs.add_many(SimDuration(ns), times);
                flat.extend(std::iter::repeat_n(ns, times as usize));
            }
            flat.sort_unstable();
            let at = |share: f64| {
                let rank = share * (flat.len() - 1) as f64;
                let low = flat[rank.floor() as usize] as f64;
                let high = flat[rank.ceil() as usize] as f64;
                (low + (high - low) * rank.fract()) / 1e6
            };
            let spread = runs.spread().expect("not empty");
            prop_assert!((spread.median_ms - at(0.5)).abs() < 1e-12);
            prop_assert!((spread.p99_ms - at(0.99)).abs() < 1e-12);
        }
    }
}

//! Distributions of durations: mean, median and percentiles with linear interpolation, as numpy computes them.
//!
//! Exact up to [`RUNS_MOST`] runs of equal values. Beyond, values are only counted, in bins a 1,024th of their value wide:
//! memory stays bounded, the mean stays exact, and percentiles are off by no more than 0.05 %.

use crate::time::SimDuration;

/// Runs of equal values that are kept; above, they are counted in bins.
pub const RUNS_MOST: usize = 1 << 19;

/// Runs that are looked at to see whether values come again.
const SAMPLED: usize = 1 << 12;

/// A multiset of durations.
#[derive(Clone, Debug, Default)]
pub struct Distribution {
    /// `(nanoseconds, how often)`, in order of arrival; neighbours differ. Empty once there are bins.
    runs: Vec<(u64, u64)>,
    bins: Option<Bins>,
    count: u64,
    sum_ns: u128,
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
    #[inline]
    pub fn add(&mut self, value: SimDuration) {
        self.add_many(value, 1);
    }

    /// Adds the same value `count` times.
    #[inline]
    pub fn add_many(&mut self, value: SimDuration, count: u64) {
        if count > 0 {
            self.count += count;
            self.sum_ns += u128::from(value.0) * u128::from(count);
            self.note(value.0, count);
        }
    }

    /// Adds each of `values` `count` times.
    #[inline]
    pub fn add_each(&mut self, values: impl Iterator<Item = SimDuration>, count: u64) {
        if count == 0 {
            return;
        }
        let (mut number, mut sum_ns) = (0, 0);
        for value in values {
            number += 1;
            sum_ns += u128::from(value.0);
            self.note(value.0, count);
        }
        self.count += number * count;
        self.sum_ns += sum_ns * u128::from(count);
    }

    /// Keeps a value that occurs so many times.
    #[inline]
    fn note(&mut self, value_ns: u64, count: u64) {
        match self.runs.last_mut() {
            Some((ns, times)) if *ns == value_ns => *times += count,
            _ => self.add_run(value_ns, count),
        }
    }

    /// Adds a value that differs from the one before.
    #[inline]
    fn add_run(&mut self, ns: u64, count: u64) {
        if let Some(bins) = &mut self.bins {
            bins.add(ns, count);
        } else if self.runs.len() == RUNS_MOST {
            self.make_room(ns, count);
        } else {
            self.runs.push((ns, count));
        }
    }

    /// Puts equal runs together; counts in bins from now on if most are different. A sample of them says whether to try.
    #[cold]
    fn make_room(&mut self, ns: u64, count: u64) {
        self.runs.push((ns, count));
        let mut sample: Vec<u64> = self.runs.iter().step_by(RUNS_MOST / SAMPLED).map(|&(ns, _)| ns).collect();
        sample.sort_unstable();
        sample.dedup();
        if sample.len() > SAMPLED / 2 {
            self.bins = Some(Bins::of(&std::mem::take(&mut self.runs)));
            return;
        }
        self.runs.sort_unstable();
        self.runs.dedup_by(|later, kept| {
            let is_same = later.0 == kept.0;
            kept.1 += if is_same { later.1 } else { 0 };
            is_same
        });
        if self.runs.len() > RUNS_MOST / 2 {
            self.bins = Some(Bins::of(&std::mem::take(&mut self.runs)));
        }
    }

    /// How many values were added.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether values are only counted in bins.
    #[must_use]
    pub fn is_binned(&self) -> bool {
        self.bins.is_some()
    }

    /// Mean, median and 99th percentile; `None` without values.
    #[must_use]
    pub fn spread(&self) -> Option<Spread> {
        if self.count == 0 {
            return None;
        }
        let counted;
        let bins = if let Some(bins) = &self.bins {
            bins
        } else {
            counted = Bins::of(&self.runs);
            &counted
        };
        Some(Spread {
            mean_ms: self.sum_ns as f64 / self.count as f64 / 1e6,
            median_ms: self.percentile_ns(bins, 0.50) / 1e6,
            p99_ms: self.percentile_ns(bins, 0.99) / 1e6,
        })
    }

    /// The value at rank `share * (count - 1)`, linear between neighbouring ranks.
    fn percentile_ns(&self, bins: &Bins, share: f64) -> f64 {
        let rank = share * (self.count - 1) as f64;
        let below = rank.floor() as u64;
        let [low, high] = self.values_at(bins, [below, (below + 1).min(self.count - 1)]).map(|ns| ns as f64);
        low + (high - low) * (rank - below as f64)
    }

    /// The values of two ranks that are the same or neighbours, the lower one first: of their runs, found in the bins of
    /// the ranks; where only bins are left, the middles of those.
    fn values_at(&self, bins: &Bins, ranks: [u64; 2]) -> [u64; 2] {
        let [(first, before), (last, _)] = ranks.map(|rank| bins.find(rank));
        if self.bins.is_some() {
            return [first, last].map(Bins::middle_ns);
        }
        let from = Bins::first_ns(first);
        let span = Bins::first_ns(last) - from + (Bins::width_ns(last) - 1);
        let in_bins = |(ns, _): &&(u64, u64)| ns.wrapping_sub(from) <= span;
        let mut runs: Vec<(u64, u64)> = self.runs.iter().filter(in_bins).copied().collect();
        runs.sort_unstable();
        ranks.map(|rank| {
            let mut seen = before;
            let holds = |&&(_, times): &&(u64, u64)| {
                seen += times;
                rank < seen
            };
            runs.iter().find(holds).expect("the bins hold both ranks").0
        })
    }
}

/// Counts of values by bins whose width is a 1,024th of their values, or a nanosecond.
#[derive(Clone, Debug)]
struct Bins {
    counts: Vec<u64>,
}

impl Bins {
    /// Bins between a power of two and the next: 2 to this.
    const BITS: u32 = 10;

    fn of(runs: &[(u64, u64)]) -> Self {
        let mut bins = Self { counts: Vec::new() };
        for &(ns, times) in runs {
            bins.add(ns, times);
        }
        bins
    }

    #[inline]
    fn add(&mut self, ns: u64, count: u64) {
        let place = Self::place(ns);
        if place >= self.counts.len() {
            self.counts.resize((place + 1).next_power_of_two(), 0);
        }
        self.counts[place] += count;
    }

    /// Where a value is counted: by its highest bit and the ten bits behind that.
    #[inline]
    fn place(ns: u64) -> usize {
        let shift = (u64::BITS - ns.leading_zeros()).saturating_sub(Self::BITS + 1);
        ((u64::from(shift) << Self::BITS) + (ns >> shift)) as usize
    }

    /// The middle of a bin.
    fn middle_ns(place: usize) -> u64 {
        Self::first_ns(place) + (Self::width_ns(place) >> 1)
    }

    /// The smallest value of a bin.
    fn first_ns(place: usize) -> u64 {
        let (place, shift) = (place as u64, Self::shift(place));
        (place - (shift << Self::BITS)) << shift
    }

    /// How many values fall into a bin.
    fn width_ns(place: usize) -> u64 {
        1 << Self::shift(place)
    }

    fn shift(place: usize) -> u64 {
        (place as u64 >> Self::BITS).saturating_sub(1)
    }

    /// The bin of a rank, and how many values lie in the bins before it.
    fn find(&self, rank: u64) -> (usize, u64) {
        let mut seen = 0;
        for (place, &count) in self.counts.iter().enumerate() {
            if rank < seen + count {
                return (place, seen);
            }
            seen += count;
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

    #[test]
    fn bins_are_narrow_and_in_order() {
        let mut last = 0;
        for ns in (0..5_000).chain((0..40).map(|bit| (1 << 20) + (1 << bit) / 3)).chain([u64::MAX / 3, u64::MAX]) {
            let place = Bins::place(ns);
            let middle = Bins::middle_ns(place);
            assert_eq!(Bins::place(middle), place, "{ns}");
            assert!(middle.abs_diff(ns) <= ns / 2_048 + u64::from(ns >= 2_048), "{ns} {middle}");
            last = last.max(place);
        }
        assert!(last < 56 << Bins::BITS, "{last}");
        let places: Vec<usize> = (0..100_000).map(Bins::place).collect();
        assert!(places.is_sorted() && places.windows(2).all(|pair| pair[1] - pair[0] <= 1));
    }

    #[test]
    fn beyond_so_many_runs_percentiles_are_near_and_the_mean_is_exact() {
        let values = 3 * RUNS_MOST as u64;
        let mut distribution = Distribution::default();
        let ns = |place: u64| 1_000_000 + place * 7_919 % values * 10;
        (0..values).for_each(|place| distribution.add(SimDuration(ns(place))));
        assert!(distribution.is_binned() && distribution.runs.is_empty());
        let spread = distribution.spread().expect("values");
        let last = (values - 1) as f64 * 10.0;
        assert!((spread.mean_ms - (1e6 + last / 2.0) / 1e6).abs() < 1e-9, "{spread:?}");
        for (found, share) in [(spread.median_ms, 0.5), (spread.p99_ms, 0.99)] {
            let exact = (1e6 + last * share) / 1e6;
            assert!((found / exact - 1.0).abs() < 5e-4, "{found} {exact}");
        }
    }

    #[test]
    fn values_that_come_again_stay_exact() {
        let mut distribution = Distribution::default();
        (0..2_000_000).for_each(|place| distribution.add(SimDuration(1_000_000 + place % 1_000)));
        assert!(!distribution.is_binned());
        let spread = distribution.spread().expect("values");
        assert!((spread.median_ms - 1.000_499_5).abs() < 1e-9, "{spread:?}");
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

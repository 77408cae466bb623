//! Intervals of what is computed of medians.

use kernels::random::Random;

use crate::measure::{expanded_interval, median};

/// Resamples: about five of them lie beyond either end of the interval.
const RESAMPLES: u32 = 200;
/// Values of a group that are drawn from, spread over all of it: more would only take longer.
const VALUES_MAX: usize = 1_000;

/// The 95 % interval of a statistic of the medians of groups: the values of each group are drawn again with replacement, as
/// many as there are. It holds `value`, the statistic itself; without values it is nothing but that. The same groups give the
/// same interval.
pub fn interval_of_medians(groups: &[Vec<f64>], value: f64, of: impl Fn(&[f64]) -> Option<f64>) -> [f64; 2] {
    let groups: Vec<Vec<f64>> = groups.iter().map(|group| thinned(group)).collect();
    let mut random = Random::named("interval of medians", 0);
    let mut resample = || -> Option<f64> {
        let medians: Vec<f64> = groups
            .iter()
            .map(|group| {
                let count = group.len() as u32;
                median(&(0..count).map(|_| group[random.below(count) as usize]).collect::<Vec<_>>())
            })
            .collect();
        of(&medians)
    };
    let drawn: Vec<f64> = (0..RESAMPLES).filter_map(|_| resample()).collect();
    let rounds = groups.iter().map(Vec::len).sum::<usize>() as u32;
    expanded_interval(drawn, rounds, value)
}

fn thinned(group: &[f64]) -> Vec<f64> {
    let stride = group.len().div_ceil(VALUES_MAX).max(1);
    group.iter().copied().step_by(stride).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_holds_the_median_and_narrows_with_values() {
        let values = |count: u32| -> Vec<f64> {
            let mut random = Random::named("values", 5);
            (0..count).map(|_| 10.0 + random.signed()).collect()
        };
        let width = |count: u32| {
            let groups = [values(count)];
            let value = median(&groups[0]);
            let [low, high] = interval_of_medians(&groups, value, |medians| medians.first().copied());
            assert!(low <= value && value <= high && low <= 10.0 && 10.0 <= high, "{low} {high}");
            high - low
        };
        assert!(width(1_000) < width(100) && width(100) < width(10));
        // As many as there may be are thinned, not cut off.
        assert!(width(100_000) < 0.2);
    }

    #[test]
    fn nothing_and_single_values_give_an_interval_without_width() {
        let first = |medians: &[f64]| medians.first().copied();
        assert_eq!(interval_of_medians(&[], 3.0, first).map(f64::to_bits), [3.0_f64; 2].map(f64::to_bits));
        assert_eq!(interval_of_medians(&[vec![4.0]], 4.0, first).map(f64::to_bits), [4.0_f64; 2].map(f64::to_bits));
        let again = || interval_of_medians(&[vec![1.0, 2.0, 5.0], vec![7.0, 9.0]], 2.0, first).map(f64::to_bits);
        assert_eq!(again(), again());
    }
}

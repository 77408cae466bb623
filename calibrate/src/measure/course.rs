//! How a series of times went: steadily, always further the same way, or at once to another level.

use super::order_statistics::{MEDIAN, mad, median};

/// A change is seen if it is larger than this many of its standard errors.
pub(super) const CHANGE_ERRORS: f64 = 3.0;
/// Each level of a step has this many values.
const LEVEL_LEAST: usize = 2;

/// How a series went; changes as shares of its beginning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Course {
    /// No change that its spread does not explain.
    Steady,
    /// Further and further.
    Trend {
        /// From its beginning to its end.
        by: f64,
    },
    /// At once, and there it stayed.
    Step {
        /// From the first level to the second.
        by: f64,
        /// The first value of the second level.
        at: usize,
    },
}

impl Course {
    /// Of positive values in the order of time. A line and a step are laid through them; the one with the smaller sum of
    /// distances tells which it was, so that single values that stand apart decide nothing.
    pub(super) fn of(values: &[f64]) -> Self {
        if values.len() < 2 * LEVEL_LEAST {
            return Self::Steady;
        }
        let distance = |expected: &dyn Fn(usize) -> f64| -> f64 {
            values.iter().enumerate().map(|(at, value)| (value - expected(at)).abs()).sum()
        };
        let slope = slope(values);
        let middle = (values.len() - 1) as f64 / 2.0;
        let level = median(&values.iter().enumerate().map(|(at, value)| value - slope * at as f64).collect::<Vec<_>>());
        let of_line = distance(&|at| level + slope * at as f64);
        let step = (LEVEL_LEAST..=values.len() - LEVEL_LEAST).map(|at| {
            let [before, after] = [median(&values[..at]), median(&values[at..])];
            (distance(&|place| if place < at { before } else { after }), at, before, after)
        });
        let Some((of_step, at, before, after)) = step.min_by(|one, other| one.0.total_cmp(&other.0)) else {
            return Self::Steady;
        };
        let (from, change, is_step) =
            if of_step < of_line { (before, after - before, true) } else { (level, slope * 2.0 * middle, false) };
        let expected = |place: usize| {
            let on_step = if place < at { before } else { after };
            if is_step { on_step } else { level + slope * place as f64 }
        };
        let rests: Vec<f64> = values.iter().enumerate().map(|(place, value)| value - expected(place)).collect();
        // Of the difference between two medians; a line's ends know as much as halves do.
        let count = values.len() as f64;
        let first = if is_step { at as f64 } else { count / 2.0 };
        let error = MEDIAN * mad(&rests) * (1.0 / first + 1.0 / (count - first)).sqrt();
        let by = change / from;
        if !by.is_finite() || change.abs() <= CHANGE_ERRORS * error {
            Self::Steady
        } else if is_step {
            Self::Step { by, at }
        } else {
            Self::Trend { by }
        }
    }
}

/// The median slope of all pairs (Theil 1950, Sen 1968).
fn slope(values: &[f64]) -> f64 {
    let mut slopes = Vec::new();
    for (one, first) in values.iter().enumerate() {
        for (other, second) in values.iter().enumerate().skip(one + 1) {
            slopes.push((second - first) / (other - one) as f64);
        }
    }
    median(&slopes)
}

#[cfg(test)]
mod tests {
    use kernels::random::Random;

    use super::*;
    use crate::measure::made::normal;

    fn noisy(count: usize, seed: u64, level: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut random = Random::named("course", seed);
        (0..count).map(|at| level(at) * (1.0 + 0.005 * normal(&mut random))).collect()
    }

    #[test]
    fn short_and_steady_series_change_nowhere() {
        assert_eq!(Course::of(&[]), Course::Steady);
        assert_eq!(Course::of(&[1.0, 2.0, 3.0]), Course::Steady);
        assert_eq!(Course::of(&[0.0; 9]), Course::Steady);
        let steady = (0..200).filter(|&seed| Course::of(&noisy(12, seed, |_| 1.0)) == Course::Steady);
        let steady = steady.count();
        println!("steady: {steady} of 200");
        assert!(steady >= 150, "{steady}");
        // What is seen of noise is no more than noise.
        for seed in 0..200 {
            let (Course::Trend { by } | Course::Step { by, .. }) = Course::of(&noisy(12, seed, |_| 1.0)) else {
                continue;
            };
            assert!(by.abs() < 0.025, "{by}");
        }
    }

    #[test]
    fn a_drift_is_no_step_and_a_step_no_drift() {
        for seed in 0..100 {
            let drift = Course::of(&noisy(12, seed, |at| 1.0 + 0.01 * at as f64));
            assert!(matches!(drift, Course::Trend { by } if (by - 0.11).abs() < 0.03), "{seed}: {drift:?}");
            let step = Course::of(&noisy(12, seed, |at| if at < 5 { 1.0 } else { 1.3 }));
            assert!(matches!(step, Course::Step { by, at: 5 } if (by - 0.3).abs() < 0.02), "{seed}: {step:?}");
        }
    }

    #[test]
    fn a_few_slow_values_are_neither() {
        for seed in 0..100 {
            let course = Course::of(&noisy(20, seed, |at| if at % 7 == 3 { 1.5 } else { 1.0 }));
            let (Course::Trend { by } | Course::Step { by, .. }) = course else { continue };
            assert!(by.abs() < 0.03, "{seed}: {course:?}");
        }
    }
}

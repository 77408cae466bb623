//! Medians and their kin, which a few wild values do not move.

/// What makes the median absolute deviation of a normal distribution its standard deviation.
const NORMAL: f64 = 1.4826;

/// The standard error of the median of normal values by that of their mean: the root of half pi.
pub(super) const MEDIAN: f64 = 1.2533;

/// The median; the mean of the middle two of an even count; NaN of nothing.
pub fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    let middle = values.len() / 2;
    if values.is_empty() {
        return f64::NAN;
    }
    let is_odd = values.len() % 2 == 1;
    let (below, &mut upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    if is_odd { upper } else { f64::midpoint(below.iter().copied().fold(f64::NEG_INFINITY, f64::max), upper) }
}

/// The value below which a share of the values lies, which stand in rising order; linear between neighbours as numpy does
/// it; NaN of nothing.
pub(super) fn sorted_quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = share.clamp(0.0, 1.0) * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    let part = place - below as f64;
    if part == 0.0 { sorted[below] } else { sorted[below] + (sorted[above] - sorted[below]) * part }
}

/// The median absolute deviation from the median, scaled to be the standard deviation of a normal distribution; NaN of
/// nothing.
pub fn mad(values: &[f64]) -> f64 {
    let middle = median(values);
    let deviations: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    median(&deviations) * NORMAL
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "small numbers, computed exactly")]
mod tests {
    use super::*;

    #[test]
    fn medians_and_quantiles_are_those_of_numpy() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(sorted_quantile(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.1), 1.4);
        assert_eq!([0.0, 1.0].map(|share| sorted_quantile(&[7.0, 8.0, 9.0], share)), [7.0, 9.0]);
    }

    #[test]
    fn nothing_has_no_median_and_one_value_is_its_own() {
        assert!(median(&[]).is_nan() && mad(&[]).is_nan() && sorted_quantile(&[], 0.3).is_nan());
        assert_eq!((median(&[5.0]), mad(&[5.0]), sorted_quantile(&[5.0], 0.9)), (5.0, 0.0, 5.0));
    }

    #[test]
    fn one_wild_value_moves_neither_median_nor_deviation() {
        let calm = [9.0, 10.0, 11.0, 10.0, 9.5, 10.5, 10.0];
        let wild = [9.0, 10.0, 1e9, 10.0, 9.5, 10.5, 10.0];
        assert_eq!((median(&calm), mad(&calm)), (median(&wild), mad(&wild)));
    }
}

//! How much a figure has changed, in words that can be read at every size.

use super::number;

/// Beyond this share of the baseline a change is a factor: percentages of five digits say nothing.
const FACTOR_FROM: f64 = 10.0;

/// Below this a factor has a decimal.
const WHOLE_FROM: f64 = 100.0;

/// A difference as a share of what it is from: `+3.61 %`, and `4,441 times` the baseline where it is more than 1,000 %; `None`
/// of nothing, or where a figure is not finite.
pub(crate) fn change(difference: f64, baseline: f64) -> Option<String> {
    let share = difference / baseline.abs();
    if baseline == 0.0 || !share.is_finite() {
        return None;
    }
    // What changes its sign is no multiple of what it was.
    let as_factor = factor(difference / baseline);
    let sign = if share > 0.0 { "+" } else { "" };
    Some(as_factor.unwrap_or_else(|| format!("{sign}{} %", number::fixed(100.0 * share, 2))))
}

/// What has grown by so many times itself, as a multiple of what it was: `4,441 times`; `None` where a percentage is as easily
/// read, up to 1,000 %.
#[must_use]
pub fn factor(growth: f64) -> Option<String> {
    let times = 1.0 + growth;
    let decimals = usize::from(times < WHOLE_FROM);
    (growth > FACTOR_FROM && growth.is_finite()).then(|| format!("{} times", number::fixed(times, decimals)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_becomes_a_factor_where_it_is_no_longer_readable() {
        let said = |difference, baseline| change(difference, baseline).expect("a change");
        assert_eq!(said(3.61, 100.0), "+3.61 %");
        assert_eq!(said(-3.61, 100.0), "-3.61 %");
        assert_eq!(said(10.0, 1.0), "+1,000.00 %");
        assert_eq!(said(10.5, 1.0), "11.5 times");
        assert_eq!(said(4_439.818_2, 1.0), "4,441 times");
        assert_eq!(said(0.0, 7.0), "0.00 %");
    }

    #[test]
    fn only_what_keeps_its_sign_is_a_multiple() {
        assert_eq!(change(-3_814.0, -1.0).as_deref(), Some("3,815 times"));
        assert_eq!(change(-3_816.0, 1.0).as_deref(), Some("-381,600.00 %"));
        assert_eq!(change(3_816.0, -1.0).as_deref(), Some("+381,600.00 %"));
    }

    #[test]
    fn of_nothing_there_is_no_share() {
        assert_eq!(change(1.0, 0.0), None);
        assert_eq!(change(f64::NAN, 1.0), None);
        assert_eq!(factor(f64::INFINITY), None);
    }
}

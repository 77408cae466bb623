//! A straight line through times whose errors grow with them.

/// `fixed + each * x` with the least relative errors: each time counts by its inverse, so that what the small counts say of
/// the fixed part is not drowned in the noise of the large ones. All times are positive, and there are two counts or more.
pub(super) fn relative_line(x: &[f64], y: &[f64]) -> [f64; 2] {
    let mut sums = [0.0; 5];
    for (&x, &y) in x.iter().zip(y) {
        let weight = y.max(f64::MIN_POSITIVE).powi(-2);
        for (sum, term) in sums.iter_mut().zip([1.0, x, x * x, y, x * y]) {
            *sum += weight * term;
        }
    }
    let [one, x, xx, y, xy] = sums;
    let each = (one * xy - x * y) / (one * xx - x * x);
    [(y - each * x) / one, each]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_again() {
        let x = [8.0, 16.0, 64.0, 480.0];
        let [fixed, each] = relative_line(&x, &x.map(|x| 2.5 + 1.85 * x));
        assert!((fixed - 2.5).abs() < 1e-9 && (each - 1.85).abs() < 1e-12, "{fixed} {each}");
    }

    /// The minimum by hand: no neighbour of the answer has a smaller sum of squared relative errors.
    #[test]
    fn no_other_line_has_smaller_relative_errors() {
        let (x, y) = ([1.0, 2.0, 4.0, 8.0], [3.1, 4.9, 9.2, 16.5]);
        let errors = |fixed: f64, each: f64| -> f64 {
            x.iter().zip(&y).map(|(x, y)| ((fixed + each * x - y) / y).powi(2)).sum()
        };
        let [fixed, each] = relative_line(&x, &y);
        for (dx, dy) in [(1e-3, 0.0), (-1e-3, 0.0), (0.0, 1e-3), (0.0, -1e-3), (1e-3, -1e-3), (-1e-3, 1e-3)] {
            assert!(errors(fixed + dx, each + dy) > errors(fixed, each));
        }
    }
}

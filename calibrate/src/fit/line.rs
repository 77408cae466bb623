//! Straight lines through points.

use crate::measure::median;

/// `intercept + slope * x`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// The value at 0.
    pub intercept: f64,
    /// Change for each unit.
    pub slope: f64,
}

impl Line {
    /// The line that most pairs of points agree on (Theil 1950, Sen 1968): its slope is the median of the slopes of all
    /// pairs, and half of the points lie above it. `None` where there are not two different `x`.
    pub fn theil_sen(points: &[(f64, f64)]) -> Option<Self> {
        let slope = median_slope([points])?;
        let rests: Vec<f64> = points.iter().map(|(x, y)| y - slope * x).collect();
        Some(Self { intercept: median(&rests), slope })
    }

    /// The line of the least squares. `None` where there are not two different `x`.
    pub fn least_squares(points: &[(f64, f64)]) -> Option<Self> {
        let weights = slope_weights(points.iter().map(|point| point.0))?;
        let slope = points.iter().zip(&weights).map(|((_, y), weight)| weight * y).sum();
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / points.len() as f64;
        Some(Self { intercept: mean(|point| point.1) - slope * mean(|point| point.0), slope })
    }

    /// The value at `x`.
    pub fn at(&self, x: f64) -> f64 {
        self.intercept + self.slope * x
    }
}

/// The median of the slopes of all pairs within each of the groups: what lines have in common that lie at different heights.
/// `None` where no group has two different `x`.
pub fn median_slope<'a>(groups: impl IntoIterator<Item = &'a [(f64, f64)]>) -> Option<f64> {
    let mut slopes = Vec::new();
    for points in groups {
        for (place, one) in points.iter().enumerate() {
            let others = points[place + 1..].iter().filter(|other| (other.0 - one.0).abs() > 0.0);
            slopes.extend(others.map(|other| (other.1 - one.1) / (other.0 - one.0)));
        }
    }
    Some(median(&slopes)).filter(|slope| slope.is_finite())
}

/// How much each `y` counts in the slope of the least squares: the slope is the sum of `weight * y`.
pub(super) fn slope_weights(x: impl Iterator<Item = f64>) -> Option<Vec<f64>> {
    let x: Vec<f64> = x.collect();
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    let spread: f64 = x.iter().map(|x| (x - mean).powi(2)).sum();
    (spread > 0.0 && spread.is_finite()).then(|| x.iter().map(|x| (x - mean) / spread).collect())
}

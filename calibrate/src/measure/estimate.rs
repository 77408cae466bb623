//! A figure with what is not known about it.

use serde::{Deserialize, Serialize};

use super::bootstrap::{self, Resamples};
use super::order_statistics::{MEDIAN, median};
use super::protocol::ROUNDS_LEAST;

/// A measured figure and the interval that holds the true one in 95 of 100 campaigns. The unit is told by the field that
/// holds it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// Low end of the interval.
    pub low: f64,
    /// High end of the interval.
    pub high: f64,
    /// Independent readings behind it: rounds of a campaign, each a mean over the repetitions of a visit. One reading alone
    /// has no interval: both its ends are the figure.
    pub samples: u32,
}

/// Student's t for 95 %, by degrees of freedom from 1.
const STUDENT: [f64; 4] = [12.706, 4.303, 3.182, 2.776];

/// Student's t for 95 %; of more degrees of freedom than the table has, by its expansion. There is one at least.
fn student(freedom: usize) -> f64 {
    STUDENT.get(freedom.saturating_sub(1)).copied().unwrap_or_else(|| bootstrap::student(freedom as f64))
}

impl Estimate {
    /// The medians of several groups of independent readings of one kind, such as the instantiations of every rung.
    ///
    /// Two or three readings that happen to lie close together would claim an interval that they have not: with two degrees
    /// of freedom a figure is three half-widths off once in 170 cases. So no interval is narrower than the spread of all
    /// groups together says, as shares of their values (the pooled variance of an analysis of variance; Fisher 1925). `None`
    /// where a group has no reading, or one that is no number.
    pub fn of_each(groups: &[Vec<f64>], seed: u64) -> Option<Vec<Self>> {
        let mut estimates = groups.iter().map(|readings| Self::of(readings, seed)).collect::<Option<Vec<_>>>()?;
        let mut squares = 0.0;
        let mut freedom = 0;
        for readings in groups {
            let mean = readings.iter().sum::<f64>() / readings.len() as f64;
            if mean > 0.0 {
                squares += readings.iter().map(|reading| (reading / mean - 1.0).powi(2)).sum::<f64>();
                freedom += readings.len() - 1;
            }
        }
        if freedom == 0 {
            return Some(estimates);
        }
        let deviation = (squares / freedom as f64).sqrt();
        for estimate in estimates.iter_mut().filter(|estimate| estimate.samples > 1) {
            let error = MEDIAN * deviation * estimate.value.abs() / f64::from(estimate.samples).sqrt();
            let half_width = student(freedom) * error;
            estimate.low = estimate.low.min(estimate.value - half_width);
            estimate.high = estimate.high.max(estimate.value + half_width);
        }
        Some(estimates)
    }

    /// A figure that is known without error, such as a count.
    pub fn exact(value: f64) -> Self {
        Self { value, low: value, high: value, samples: 1 }
    }

    /// The median of independent readings: its interval by resampling them, and from their standard deviation where they
    /// are too few for that. `None` where there is no reading or one that is no number.
    pub fn of(readings: &[f64], seed: u64) -> Option<Self> {
        if readings.is_empty() || readings.iter().any(|reading| !reading.is_finite()) {
            return None;
        }
        let samples = readings.len() as u32;
        let value = median(readings);
        if samples >= ROUNDS_LEAST {
            let rows: Vec<[f64; 1]> = readings.iter().map(|&reading| [reading]).collect();
            let medians = Resamples::new(samples, seed).medians(&rows);
            let drawn = medians.iter().map(|medians| medians[0]).collect();
            let [low, high] = bootstrap::interval(drawn, samples, value);
            return Some(Self { value, low, high, samples });
        }
        let mean = readings.iter().sum::<f64>() / f64::from(samples);
        let squares: f64 = readings.iter().map(|reading| (reading - mean).powi(2)).sum();
        let half_width = match samples {
            1 => 0.0,
            _ => student(samples as usize - 1) * (squares / f64::from(samples * (samples - 1))).sqrt(),
        };
        Some(Self { value, low: value - half_width, high: value + half_width, samples })
    }

    /// The same in another unit: `factor` of it are one of this; or of one part of what it is for.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        let (low, high) = if factor < 0.0 { (self.high, self.low) } else { (self.low, self.high) };
        Self { value: self.value * factor, low: low * factor, high: high * factor, samples: self.samples }
    }

    /// The wider side of the interval as a share of the figure; infinite where there is no interval to go by.
    pub fn relative_half_width(&self) -> f64 {
        let width = (self.high - self.value).max(self.value - self.low);
        match self {
            Self { samples: 0 | 1, .. } => f64::INFINITY,
            _ if width == 0.0 => 0.0,
            _ => width / self.value.abs(),
        }
    }

    /// The standard error that an interval of this width belongs to, of a normal distribution.
    pub fn standard_error(&self) -> f64 {
        (self.high - self.low) / (2.0 * 1.959_964)
    }

    /// Whether the interval holds this value.
    pub fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

//! How memory grows with the number of things in it.

use kernels::units::Bytes;
use serde::{Deserialize, Serialize};

use super::line::{Line, slope_weights};
use crate::measure::Estimate;

/// Free memory of a device moves in steps of this size (GPU specification section 4).
pub const FREE_MEMORY_GRANULE: Bytes = Bytes(2 << 20);

/// Bytes taken by a number of things: `fixed + each * count`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Growth {
    /// Whatever the number: what the driver reserves at once, and the part of a granule that was taken before.
    pub fixed_bytes: Estimate,
    /// For each.
    pub each_bytes: Estimate,
}

impl Growth {
    /// By least squares from how many things there were and the bytes gone since there was none, as readings of one series
    /// that adds things and removes none.
    ///
    /// The interval is the range that granules leave open: a reading may be off by half a granule to either side, and by as
    /// much as the worst of them lies off the line where the driver takes more at once. It holds the truth for certain, so
    /// it is wider than one of 95 %. `None` where there are not two different counts.
    pub fn of(readings: &[(u32, f64)], granule: Bytes) -> Option<Self> {
        let points: Vec<(f64, f64)> = readings.iter().map(|&(count, bytes)| (f64::from(count), bytes)).collect();
        let line = Line::least_squares(&points)?;
        let off = points.iter().map(|&(count, bytes)| (bytes - line.at(count)).abs());
        let off = off.fold(granule.0 as f64 / 2.0, f64::max);
        let weights = slope_weights(points.iter().map(|point| point.0))?;
        let mean = points.iter().map(|point| point.0).sum::<f64>() / points.len() as f64;
        // The intercept is the mean of the readings less the slope's part: what each reading counts in it.
        let counts = weights.iter().map(|weight| 1.0 / points.len() as f64 - weight * mean);
        let wide = |value: f64, half_width: f64| Estimate {
            value,
            low: value - half_width,
            high: value + half_width,
            samples: points.len() as u32,
        };
        Some(Self {
            fixed_bytes: wide(line.intercept, off * counts.map(f64::abs).sum::<f64>()),
            each_bytes: wide(line.slope, off * weights.iter().map(|weight| weight.abs()).sum::<f64>()),
        })
    }
}

//! How memory grows with the number of things in it.

use kernels::units::Bytes;

use super::line::{Line, slope_weights};
use crate::measure::Estimate;

/// Free memory of a device moves in steps of this size (GPU specification section 4).
pub const FREE_MEMORY_GRANULE: Bytes = Bytes(2 << 20);

/// Bytes that each of a number of things takes, beside what is taken whatever their number: by least squares from how many
/// there were and the bytes gone since there was none, as readings of one series that adds things and removes none.
///
/// The interval is the range that granules leave open: a reading may be off by half a granule to either side, and by as
/// much as the worst of them lies off the line where the driver takes more at once. It holds the truth for certain, so
/// it is wider than one of 95 %. `None` where there are not two different counts.
pub fn each_bytes(readings: &[(u32, f64)], granule: Bytes) -> Option<Estimate> {
    let points: Vec<(f64, f64)> = readings.iter().map(|&(count, bytes)| (f64::from(count), bytes)).collect();
    let line = Line::least_squares(&points)?;
    let off = points.iter().map(|&(count, bytes)| (bytes - line.at(count)).abs());
    let off = off.fold(granule.0 as f64 / 2.0, f64::max);
    let weights = slope_weights(points.iter().map(|point| point.0))?;
    let half_width = off * weights.iter().map(|weight| weight.abs()).sum::<f64>();
    let (low, high) = (line.slope - half_width, line.slope + half_width);
    Some(Estimate { value: line.slope, low, high, samples: points.len() as u32 })
}

//! How far readings between measured points may be off.

use crate::measure::median;

/// Errors at points that were left out and read on the line between their neighbours, as
/// [`Curve::at`](crate::profile::Curve::at) does; shares of the measured value. Ladders' sizes lie between measured ones in
/// the same way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeldOut {
    /// Points left out: all but the first, the last and those beside an edge.
    pub points: u32,
    /// The median of the errors.
    pub median: f64,
    /// The largest.
    pub max: f64,
    /// Where the largest is.
    pub max_at: f64,
}

impl HeldOut {
    /// Leaves out every second inner point, then the others, so that each inner point is read once from its neighbours.
    /// Points one apart stay: they are there to show an edge, which would be gone with one of them. `x` rises strictly.
    /// `None` where no point is left out, or where a value is not above 0.
    pub fn of(points: &[(f64, f64)]) -> Option<Self> {
        let is_usable = |&(x, y): &(f64, f64)| x.is_finite() && y.is_finite() && y > 0.0;
        if !points.is_sorted_by(|one, other| one.0 < other.0) || !points.iter().all(is_usable) {
            return None;
        }
        let is_free = |near: &&[(f64, f64)]| near.is_sorted_by(|one, other| other.0 - one.0 > 1.0);
        let error = |near: &[(f64, f64)]| {
            let [low, (x, y), high] = [near[0], near[1], near[2]];
            let read = low.1 + (high.1 - low.1) * (x - low.0) / (high.0 - low.0);
            (x, (read / y - 1.0).abs())
        };
        let errors: Vec<(f64, f64)> = points.windows(3).filter(is_free).map(error).collect();
        let &(max_at, max) = errors.iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
        let median = median(&errors.iter().map(|error| error.1).collect::<Vec<_>>());
        Some(Self { points: errors.len() as u32, median, max, max_at })
    }
}

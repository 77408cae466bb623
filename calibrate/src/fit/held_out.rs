//! How far readings between measured points may be off.

use serde::{Deserialize, Serialize};

use crate::measure::median;

/// Errors at points that were left out and read from their neighbours, as shares of the measured value. Ladders' sizes lie
/// between measured ones in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeldOut {
    /// Points left out: all but the first, the last and those beside an edge.
    pub points: u32,
    /// Reading on the line between the neighbours, as [`Curve::at`](crate::profile::Curve::at) does.
    pub linear: Errors,
    /// Reading the upper neighbour, as [`Curve::on_stairs`](crate::profile::Curve::on_stairs) does.
    pub stairs: Errors,
}

/// Relative errors.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Errors {
    /// The median.
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
        let left_out: Vec<&[(f64, f64)]> = points.windows(3).filter(is_free).collect();
        let errors = |read: fn([(f64, f64); 2], f64) -> f64| {
            let off = |near: &&[(f64, f64)]| {
                let (x, y) = near[1];
                (x, (read([near[0], near[2]], x) / y - 1.0).abs())
            };
            Errors::of(&left_out.iter().map(off).collect::<Vec<_>>())
        };
        Some(Self {
            points: left_out.len() as u32,
            linear: errors(|[low, high], x| low.1 + (high.1 - low.1) * (x - low.0) / (high.0 - low.0))?,
            stairs: errors(|[_, high], _| high.1)?,
        })
    }
}

impl Errors {
    fn of(errors: &[(f64, f64)]) -> Option<Self> {
        let &(max_at, max) = errors.iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
        Some(Self { median: median(&errors.iter().map(|error| error.1).collect::<Vec<_>>()), max, max_at })
    }
}

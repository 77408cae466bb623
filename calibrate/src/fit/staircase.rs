//! Times over rows as stairs: treads that are flat or rise gently, and edges between them.

use serde::{Deserialize, Serialize};

use super::line::{Line, median_slope};
use super::segmentation::{POINTS_LEAST, Point, Segment, segments};
use crate::measure::{Estimate, Measured};

/// An edge is one only if its jump is larger than this many of its standard errors.
const JUMP_ERRORS: f64 = 3.0;
/// A standard error is taken to be no less than this share of the value: below it lies what a clock cannot resolve.
const ERROR_LEAST: f64 = 1e-4;

/// Treads and edges over one quantity.
#[derive(Clone, Debug, PartialEq)]
pub struct Staircase {
    /// The treads in rising order of `x`.
    pub treads: Vec<Tread>,
    /// Where the time jumps, for certain.
    pub edges: Vec<Edge>,
    /// Where it may, but the points do not prove it.
    pub doubtful: Vec<(Edge, Doubt)>,
}

/// Neighbouring points on one line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tread {
    /// The `x` of its first and its last point.
    pub range: [f64; 2],
    /// How many points lie on it.
    pub points: u32,
    /// Flat where no slope is needed.
    pub line: Line,
}

/// A jump between two neighbouring points; where these are `b` and `b + 1`, it is known exactly where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edge {
    /// The last point before it.
    pub below: f64,
    /// The first point after it.
    pub above: f64,
    /// By how much the value rises; negative where it falls.
    pub jump: f64,
    /// Standard error of the jump.
    pub jump_error: f64,
}

/// Why an edge is doubtful.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// Too few points lie between it and the border.
    Border,
    /// The jump is within what chance does: a bend, or nothing.
    Small,
}

impl Edge {
    /// Whether no size lies between its two points.
    pub fn is_exact(&self) -> bool {
        self.above - self.below <= 1.0
    }
}

impl Staircase {
    /// The stairs through medians and their standard errors, `x` strictly rising, all three of one length; empty where
    /// anything is not so.
    pub fn of(x: &[f64], y: &[f64], errors: &[f64]) -> Self {
        let is_rising = x.is_sorted_by(|one, other| one < other);
        let are_numbers = x.iter().chain(y).chain(errors).all(|value| value.is_finite());
        if !is_rising || !are_numbers || x.len() != y.len() || x.len() != errors.len() {
            return Self { treads: Vec::new(), edges: Vec::new(), doubtful: Vec::new() };
        }
        // The last term stands in where all of a value is 0.
        let error = |error: f64, y: f64| error.max(ERROR_LEAST * y.abs()).max(f64::MIN_POSITIVE.sqrt());
        let points: Vec<Point> =
            x.iter().zip(y).zip(errors).map(|((&x, &y), &own)| Point { x, y, error: error(own, y) }).collect();
        Self::from_segments(&points, &segments(&points))
    }

    /// The stairs through measured points, by the quantity that `x` says; in any order.
    pub fn measured<P>(measured: &Measured<P>, x: impl Fn(&P) -> f64) -> Self {
        let errors = measured.standard_errors_us();
        let mut rows: Vec<(f64, f64, f64)> = (measured.points.iter().map(x))
            .zip(measured.medians_us())
            .zip(errors)
            .map(|((x, &median_us), error_us)| (x, median_us, error_us))
            .collect();
        rows.sort_by(|one, other| one.0.total_cmp(&other.0));
        let column = |of: fn(&(f64, f64, f64)) -> f64| rows.iter().map(of).collect::<Vec<_>>();
        Self::of(&column(|row| row.0), &column(|row| row.1), &column(|row| row.2))
    }

    fn from_segments(points: &[Point], segments: &[Segment]) -> Self {
        let tread = |segment: &Segment| Tread {
            range: [points[segment.first].x, points[segment.end - 1].x],
            points: segment.len() as u32,
            line: segment.line,
        };
        let mut stairs = Self { treads: segments.iter().map(tread).collect(), edges: Vec::new(), doubtful: Vec::new() };
        for pair in segments.windows(2) {
            let (left, right) = (&pair[0], &pair[1]);
            let [below, above] = [left.end - 1, right.first].map(|place| points[place].x);
            let jump_at = |x: f64| right.line.at(x) - left.line.at(x);
            let error_at = |x: f64| (left.variance_at(x) + right.variance_at(x)).sqrt();
            let middle = f64::midpoint(below, above);
            let edge = Edge { below, above, jump: jump_at(middle), jump_error: error_at(middle) };
            // Lines that meet between the two points bend there and do not jump.
            let is_bend = jump_at(below) * jump_at(above) <= 0.0;
            let is_small = [below, above].iter().any(|&x| jump_at(x).abs() <= JUMP_ERRORS * error_at(x));
            if left.len().min(right.len()) < POINTS_LEAST {
                stairs.doubtful.push((edge, Doubt::Border));
            } else if is_bend || is_small {
                stairs.doubtful.push((edge, Doubt::Small));
            } else {
                stairs.edges.push(edge);
            }
        }
        stairs
    }

    /// The slope between edges: the median of the slopes of all pairs of points that share a tread, its interval by
    /// resampling the rounds in which they were measured. `None` where no tread has two points.
    pub fn slope<P>(&self, measured: &Measured<P>, x: impl Fn(&P) -> f64) -> Option<Estimate> {
        let places: Vec<Vec<(f64, usize)>> = (self.treads.iter())
            .map(|tread| {
                let on_tread = |x: &f64| (tread.range[0]..=tread.range[1]).contains(x);
                let placed = measured.points.iter().map(&x).enumerate().map(|(place, x)| (x, place));
                placed.filter(|(x, _)| on_tread(x)).collect()
            })
            .collect();
        let slope = |medians_us: &[f64]| {
            let groups: Vec<Vec<(f64, f64)>> =
                places.iter().map(|tread| tread.iter().map(|&(x, place)| (x, medians_us[place])).collect()).collect();
            median_slope(groups.iter().map(Vec::as_slice))
        };
        slope(measured.medians_us())?;
        Some(measured.derive(|medians_us| slope(medians_us).unwrap_or(f64::NAN)))
    }
}

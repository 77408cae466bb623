//! Times over rows as stairs: treads that are flat or rise gently, and edges between them.

use super::line::{Line, median_slope};
use super::segmentation::{POINTS_LEAST, Point, Segment, segments};
use crate::measure::{Estimate, mad, median};

/// An edge is one only if its jump is larger than this many of its standard errors.
const JUMP_ERRORS: f64 = 3.0;
/// A standard error is taken to be no less than this share of the value: below it lies what a clock cannot resolve.
const ERROR_LEAST: f64 = 1e-4;
/// To either side, in the order of their values: points whose errors are compared with a point's own.
const ERROR_NEIGHBOURS: usize = 6;

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
    /// Flat where no slope is needed.
    pub line: Line,
}

/// A jump between two neighbouring points; where these are `b` and `b + 1`, it is known exactly where it lies.
#[derive(Clone, Copy, Debug, PartialEq)]
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

    /// The stairs through estimates over rising `x`, each as uncertain as its interval says. Intervals hold what all points
    /// of a round share as well, so a clock that moved hides small edges and makes none up.
    pub fn of_estimates(points: &[(f64, Estimate)]) -> Self {
        let (x, y): (Vec<f64>, Vec<f64>) = points.iter().map(|(x, estimate)| (x, estimate.value)).unzip();
        let own: Vec<f64> = points.iter().map(|(_, estimate)| estimate.standard_error()).collect();
        Self::of(&x, &y, &steadied(&y, &own))
    }

    /// The stairs through values over rising `x` that stray by this share of themselves.
    pub fn of_values(points: &[(f64, f64)], stray: f64) -> Self {
        let (x, y): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
        let errors: Vec<f64> = y.iter().map(|y| stray * y.abs()).collect();
        Self::of(&x, &y, &errors)
    }

    fn from_segments(points: &[Point], segments: &[Segment]) -> Self {
        let tread = |segment: &Segment| Tread {
            range: [points[segment.first].x, points[segment.end - 1].x],
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

    /// The slope between edges of points over these `x`, given all their values: the median of the slopes of all pairs that
    /// share a tread. `None` where no tread has two points.
    pub fn slope(&self, x: &[f64], y: &[f64]) -> Option<f64> {
        let on = |tread: &Tread| -> Vec<(f64, f64)> {
            let points = x.iter().copied().zip(y.iter().copied());
            points.filter(|(x, _)| (tread.range[0]..=tread.range[1]).contains(x)).collect()
        };
        let treads: Vec<Vec<(f64, f64)>> = self.treads.iter().map(on).collect();
        median_slope(treads.iter().map(Vec::as_slice))
    }
}

/// Errors, each no less than the middle one of those that belong to values about as large: the error of few rounds is
/// uncertain itself, and grows with the value.
fn steadied(values: &[f64], own: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..own.len()).collect();
    order.sort_by(|&one, &other| values[one].total_cmp(&values[other]));
    let mut errors = own.to_vec();
    for (rank, &point) in order.iter().enumerate() {
        let near = &order[rank.saturating_sub(ERROR_NEIGHBOURS)..order.len().min(rank + ERROR_NEIGHBOURS + 1)];
        errors[point] = own[point].max(median(&near.iter().map(|&near| own[near]).collect::<Vec<_>>()));
    }
    errors
}

/// How far values over rising `x` stray from each other, as a share: the deviation of each from the line through its
/// neighbours (Gasser, Sroka and Jennen-Steinmetz 1986), in the middle of all of them, so that a few edges do not count.
/// `None` of fewer than three, or where a value is not above 0.
pub fn scatter(points: &[(f64, f64)]) -> Option<f64> {
    let stray = |near: &[(f64, f64)]| {
        let [low, (x, y), high] = [near[0], near[1], near[2]];
        let part = (x - low.0) / (high.0 - low.0);
        let off = y - low.1 - (high.1 - low.1) * part;
        // Of three values that stray alike: their own, and the neighbours' by their parts.
        off / (y * (1.0 + part.powi(2) + (1.0 - part).powi(2)).sqrt())
    };
    let strays: Vec<f64> = points.windows(3).map(stray).collect();
    let is_usable = !strays.is_empty() && points.iter().all(|(_, y)| *y > 0.0);
    // Around 0, where those of a line lie.
    let both_ways: Vec<f64> = strays.iter().flat_map(|stray| [*stray, -stray]).collect();
    Some(mad(&both_ways)).filter(|share| is_usable && share.is_finite())
}

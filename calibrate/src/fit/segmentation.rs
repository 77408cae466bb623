//! The best division of points into segments, found exactly.

use super::line::Line;

/// A point and its standard error.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) error: f64,
}

/// Points `first..end` on one line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Segment {
    pub(super) first: usize,
    pub(super) end: usize,
    pub(super) line: Line,
    pub(super) is_sloped: bool,
    /// Squared distances from the line in squared standard errors.
    pub(super) misfit: f64,
    /// What the points know: sum of the weights, their mean `x`, and their spread around it.
    pub(super) weight: f64,
    pub(super) mean_x: f64,
    pub(super) spread_x: f64,
}

/// A segment has this many points, for two lie on a line whatever they are; only at a border there may be fewer.
pub const POINTS_LEAST: usize = 3;

impl Segment {
    pub(super) fn len(&self) -> usize {
        self.end - self.first
    }

    /// Parameters of its line.
    fn parameters(&self) -> f64 {
        if self.is_sloped { 2.0 } else { 1.0 }
    }

    /// Squared standard error of the line at `x`. Where the points lie farther from it than their errors allow, as those of
    /// two short treads on one line do, it is as much larger.
    pub(super) fn variance_at(&self, x: f64) -> f64 {
        let of_slope = if self.is_sloped { (x - self.mean_x).powi(2) / self.spread_x } else { 0.0 };
        let free = self.len() as f64 - self.parameters();
        let excess = if free > 0.0 { (self.misfit / free).max(1.0) } else { 1.0 };
        excess * (1.0 / self.weight + of_slope)
    }
}

/// What a cut costs in units of ln(n), beside the levels and slopes. One that may lie anywhere fits chance better than a
/// parameter does: 2 (Zhang and Siegmund 2007, a BIC for change points). One more, for the errors are estimates themselves.
pub(super) const CUT_PARAMETERS: f64 = 3.0;

/// The segments of the least BIC (the errors are known, so misfit plus ln(n) for every parameter), each constant or sloped. Exact, by dynamic programming over where the last segment begins (Bellman 1961; Auger and
/// Lawrence 1989).
///
/// Points at a border that belong to a tread outside of the range would bend the segment next to them: they may stand
/// apart, one or two, and are then no evidence of where an edge lies.
pub(super) fn segments(points: &[Point]) -> Vec<Segment> {
    let count = points.len();
    let price = (count as f64).ln();
    let mut best: Vec<Option<(f64, Segment)>> = vec![None; count + 1];
    // Ends in rising order, so what lies before a segment is final when it is tried.
    let tried: Vec<Vec<Segment>> = (0..count).map(|first| from(points, first)).collect();
    for end in 1..=count {
        for first in 0..end {
            let is_at_border = first == 0 || end == count;
            if end - first < POINTS_LEAST && !is_at_border {
                continue;
            }
            let before = match first {
                0 => 0.0,
                _ => match best[first] {
                    Some((bic, _)) => bic + CUT_PARAMETERS * price,
                    None => continue,
                },
            };
            let segment = tried[first][end - first - 1];
            let bic = before + segment.misfit + segment.parameters() * price;
            if best[end].is_none_or(|(least, _)| bic < least) {
                best[end] = Some((bic, segment));
            }
        }
    }
    let mut found = Vec::new();
    let mut end = count;
    while let Some((_, segment)) = best[end] {
        found.push(segment);
        end = segment.first;
    }
    found.reverse();
    found
}

/// The segments that begin at `first`, by length, each with the line that suits it better.
fn from(points: &[Point], first: usize) -> Vec<Segment> {
    let price = (points.len() as f64).ln();
    // Counted from the first point, so that little is lost where sums of squares are taken from each other.
    let origin = points[first];
    let (mut weight, mut mean_x, mut mean_y) = (0.0, 0.0, 0.0);
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    let extend = |(offset, point): (usize, &Point)| {
        let (x, y, own) = (point.x - origin.x, point.y - origin.y, point.error.powi(-2));
        weight += own;
        let (from_x, from_y) = (x - mean_x, y - mean_y);
        mean_x += from_x * own / weight;
        mean_y += from_y * own / weight;
        // Welford 1962: means and squares of one more point without taking large numbers from each other.
        xx += own * from_x * (x - mean_x);
        xy += own * from_x * (y - mean_y);
        yy += own * from_y * (y - mean_y);
        let length = offset + 1;
        let gain = if length >= POINTS_LEAST && xx > 0.0 { xy * xy / xx } else { 0.0 };
        let is_sloped = gain > price;
        let slope = if is_sloped { xy / xx } else { 0.0 };
        Segment {
            first,
            end: first + length,
            line: Line { intercept: origin.y + mean_y - slope * (origin.x + mean_x), slope },
            is_sloped,
            misfit: (yy - if is_sloped { gain } else { 0.0 }).max(0.0),
            weight,
            mean_x: origin.x + mean_x,
            spread_x: xx,
        }
    };
    points[first..].iter().enumerate().map(extend).collect()
}

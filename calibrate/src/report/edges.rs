//! Where the dense work jumps from one row to the next: the edges of tiles.

use std::io::{self, Write};

use super::layout::{heading, number, sentence};
use crate::profile::{Curve, Interval, Profile};

/// A jump from one row to the next is an edge above this share of the cost, where no interval says better.
const SHARE_OF_NOTE: f64 = 0.02;
/// As many are listed, the largest first.
const LISTED: usize = 12;

/// One edge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Edge {
    /// The last row before it.
    pub(super) rows: f64,
    /// What the next row costs more, microseconds; negative where it costs less.
    pub(super) jump_us: f64,
    /// The same in percent of the cost before it.
    pub(super) percent: f64,
}

/// Edges by ascending rows: jumps between knots one row apart that both intervals leave no doubt of.
pub(super) fn of(profile: &Profile) -> Vec<Edge> {
    let dense = &profile.machine.dense;
    let Curve::Table(table) = &dense.figures else { return Vec::new() };
    let intervals: &[Interval] = dense.measured.as_ref().map_or(&[], |measured| measured.of("us"));
    let (x, y) = (table.x(), table.y());
    let jumps = (1..x.len()).filter(|&after| x[after] - x[after - 1] <= 1.0).filter_map(|after| {
        let (below, above) = (y[after - 1], y[after]);
        let certain = match (intervals.get(after - 1), intervals.get(after)) {
            (Some(one), Some(other)) => !one.overlaps(other),
            _ => (above - below).abs() > SHARE_OF_NOTE * below,
        };
        let jump_us = above - below;
        certain.then(|| Edge { rows: x[after - 1], jump_us, percent: 100.0 * jump_us / below })
    });
    jumps.collect()
}

pub(super) fn list(profile: &Profile, out: &mut impl Write) -> io::Result<()> {
    let mut edges = of(profile);
    if edges.is_empty() {
        return Ok(());
    }
    heading("Tile edges: what one row more costs there", out)?;
    let more = edges.len().saturating_sub(LISTED);
    edges.sort_by(|a, b| b.jump_us.abs().total_cmp(&a.jump_us.abs()));
    edges.truncate(LISTED);
    edges.sort_by(|a, b| a.rows.total_cmp(&b.rows));
    let words: Vec<String> = edges
        .iter()
        .map(|edge| {
            let sign = if edge.jump_us < 0.0 { '-' } else { '+' };
            let us = number(edge.jump_us.abs());
            format!("after {:.0} rows {sign}{us} us ({:+.1} %)", edge.rows, edge.percent)
        })
        .collect();
    let more = if more == 0 { String::new() } else { format!("; and {more} smaller ones") };
    sentence(&format!("{}{more}", words.join(", ")), out)
}

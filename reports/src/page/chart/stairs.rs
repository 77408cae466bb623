//! The padding staircase of a profile.

use std::io;

use super::axis::Axis;
use super::legend::{self, Entry};
use super::palette::{EDGE, INK, series};
use super::panel::Panel;
use super::{Svg, canvas};

/// Units of the plot.
const HEIGHT: i32 = 320;

/// Draws a table of the profile over its quantity, `name` with its unit, with edges after some values and the sizes captured.
///
/// # Errors
/// That of the drawing.
pub(in crate::page) fn stairs(name: &str, knots: &[[f64; 2]], edges: &[f64], rungs: &[f64]) -> io::Result<Svg> {
    let mut entries = vec![Entry::line(series(0), "time on the device")];
    entries.extend((!edges.is_empty()).then(|| Entry::line(EDGE, "edge: one row more costs a jump")));
    entries.extend((!rungs.is_empty()).then(|| Entry::line(INK, "captured size")));
    let above = legend::height(&entries);
    let most = knots.last().map_or(1.0, |[x, _]| *x);
    let points: Vec<(f64, f64)> = knots.iter().map(|[x, us]| (*x, us / 1e3)).collect();
    let (low, high) = points.iter().fold((f64::INFINITY, 0.0_f64), |(l, h), (_, ms)| (l.min(*ms), h.max(*ms)));
    canvas(above + HEIGHT, |area| {
        legend::draw(area, &entries)?;
        let (_, plot) = area.split_vertically(above);
        let y = if high > 8.0 * low {
            Axis::decades("time on the device, ms (equal room for equal ratios)", low, high * 1.02)
        } else {
            Axis::near("time on the device, ms", [low, high], 5)
        };
        let mut panel = Panel::new(&plot, Axis::doublings(name, most), y)?;
        panel.edges(edges, EDGE, |edge| format!("{edge:.0}"))?;
        panel.line(&points, series(0), 2)?;
        points.iter().try_for_each(|(x, ms)| panel.dot(*x, *ms, series(0)))?;
        rungs.iter().try_for_each(|rung| panel.tick(*rung, 12, INK, 1))
    })
}

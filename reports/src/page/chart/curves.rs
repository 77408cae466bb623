//! Shares of requests over a latency, one curve a candidate, with the SLO.

use std::io;

use super::axis::Axis;
use super::legend::{self, Entry};
use super::palette::{LIMIT, series};
use super::panel::Panel;
use super::{Svg, canvas};

/// Units of the plot.
const HEIGHT: i32 = 300;

/// One candidate's curve.
#[derive(Clone, Debug)]
pub(in crate::page) struct Curve {
    /// Its letter on the page.
    pub(in crate::page) letter: String,
    /// Its name.
    pub(in crate::page) name: String,
    /// Its place among all candidates.
    pub(in crate::page) place: usize,
    /// Latency, ms, and the share of requests that took no longer; ascending.
    pub(in crate::page) points: Vec<(f64, f64)>,
}

/// Draws the curves over `name`, an axis with its unit.
///
/// # Errors
/// That of the drawing.
pub(in crate::page) fn curves(name: &str, curves: &[Curve], slo_ms: Option<f64>) -> io::Result<Svg> {
    let mut entries: Vec<Entry> =
        curves.iter().map(|curve| Entry::letter(&curve.letter, series(curve.place), &curve.name)).collect();
    entries.extend(slo_ms.map(|_| Entry::line(LIMIT, "SLO")));
    let above = legend::height(&entries);
    let all = || curves.iter().flat_map(|curve| &curve.points);
    let low = all().map(|(ms, _)| *ms).filter(|ms| *ms > 0.0).fold(f64::INFINITY, f64::min);
    let high = all().map(|(ms, _)| *ms).fold(0.0, f64::max);
    let (low, high) = if low.is_finite() { (low, high) } else { (1.0, 10.0) };
    let (low, high) = (low.min(slo_ms.unwrap_or(low)) * 0.95, high.max(slo_ms.unwrap_or(high)) * 1.05);
    canvas(above + HEIGHT, |area| {
        legend::draw(area, &entries)?;
        let (_, plot) = area.split_vertically(above);
        let x = Axis::decades(&format!("{name} (equal room for equal ratios)"), low, high);
        let mut panel = Panel::new(&plot, x, Axis::from_zero("requests that took no longer, %", 100.0, 5))?;
        if let Some(slo) = slo_ms {
            panel.upright(slo, LIMIT, 2)?;
            // At the bottom, where the curves are no more.
            panel.beside(slo, false, &format!("SLO {slo} ms"), LIMIT)?;
        }
        for curve in curves {
            let percent: Vec<(f64, f64)> = curve.points.iter().map(|(ms, share)| (*ms, 100.0 * share)).collect();
            panel.line(&percent, series(curve.place), 2)?;
        }
        // Letters at different heights, so that curves that lie on each other can be told apart.
        for (order, curve) in curves.iter().enumerate() {
            let aim = 0.15 + 0.7 * (order as f64 + 0.5) / curves.len() as f64;
            let at = curve.points.iter().find(|(_, share)| *share >= aim);
            if let Some((ms, _)) = at {
                panel.letter(*ms, 100.0 * aim, &curve.letter, series(curve.place))?;
            }
        }
        Ok(())
    })
}

//! What each captured rung took: time of its capture, memory by which the pool grew.

use std::io;

use super::axis::Axis;
use super::legend::{self, Entry};
use super::palette::part;
use super::panel::Panel;
use super::{Svg, WIDTH, canvas};

/// Units of each of the two parts.
const PARTS: [i32; 2] = [160, 200];

/// One captured rung of a profile.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::page) struct CapturedRung {
    /// Rows.
    pub(in crate::page) rows: f64,
    /// Milliseconds that its capture took.
    pub(in crate::page) capture_ms: f64,
    /// Milliseconds that making it executable took.
    pub(in crate::page) instantiate_ms: f64,
    /// MiB by which the shared pool grew.
    pub(in crate::page) pool_mib: f64,
}

/// Draws the rungs, ascending.
///
/// # Errors
/// That of the drawing.
pub(in crate::page) fn captured_rungs(rungs: &[CapturedRung]) -> io::Result<Svg> {
    let entries = [
        Entry::fill(part(0), "capture"),
        Entry::fill(part(1), "made executable"),
        Entry::fill(part(4), "growth of the shared pool"),
    ];
    let above = legend::height(&entries);
    let labels: Vec<String> = rungs.iter().map(|rung| format!("{:.0}", rung.rows)).collect();
    let x = Axis::categories("captured size, rows (captured from right to left)", &labels, f64::from(WIDTH) - 90.0);
    let grew = rungs.iter().map(|rung| rung.pool_mib).fold(0.0, f64::max);
    // A pool that did not grow, for another mode had grown it before, is not drawn.
    let [time_height, memory_height] = if grew > 0.0 { PARTS } else { [PARTS[1], 0] };
    canvas(above + time_height + memory_height, |area| {
        legend::draw(area, &entries)?;
        let (_, rest) = area.split_vertically(above);
        let (time, memory) = rest.split_vertically(time_height);
        let most = rungs.iter().map(|rung| rung.capture_ms + rung.instantiate_ms).fold(0.0, f64::max);
        let mut panel = Panel::new(
            &time,
            if grew > 0.0 { x.bare() } else { x.clone() },
            Axis::from_zero("time of a capture, ms", most, 4),
        )?;
        for (place, rung) in rungs.iter().enumerate() {
            let across = [place as f64 + 0.15, place as f64 + 0.85];
            panel.bar(across, [0.0, rung.capture_ms], part(0))?;
            panel.bar(across, [rung.capture_ms, rung.capture_ms + rung.instantiate_ms], part(1))?;
        }
        if grew == 0.0 {
            return Ok(());
        }
        let mut panel = Panel::new(&memory, x.clone(), Axis::from_zero("growth of the pool, MiB", grew, 4))?;
        for (place, rung) in rungs.iter().enumerate() {
            panel.bar([place as f64 + 0.15, place as f64 + 0.85], [0.0, rung.pool_mib], part(4))?;
        }
        Ok(())
    })
}

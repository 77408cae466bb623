//! Rung by rung what was measured.

use std::io::{self, Write};

use kernels::units::Bytes;

use crate::layout::{heading, number};
use crate::profile::{Profile, Rungs};

/// Every captured size of either mode.
pub(super) fn table(profile: &Profile, out: &mut impl Write) -> io::Result<()> {
    let Some(run) = &profile.measurement else { return Ok(()) };
    for (mode, rungs) in [("FULL", &run.full), ("PIECEWISE", &run.piecewise)] {
        if let Some(rungs) = rungs {
            heading(&format!("Rungs, {mode}: one capture and the step it replays, and the step run eagerly"), out)?;
            of_mode(rungs, out)?;
        }
    }
    Ok(())
}

fn of_mode(rungs: &Rungs, out: &mut impl Write) -> io::Result<()> {
    let names = ["rows", "nodes", "capture", "instant.", "pool", "replay us", "replay us", "eager us", "eager us"];
    let units = ["", "", "ms", "ms", "growth", "host", "device", "host", "device"];
    for line in [names, units] {
        row(&line.map(str::to_owned), out)?;
    }
    for place in 0..rungs.rows.len() {
        let at = |column: &[f64]| column.get(place).copied().unwrap_or(0.0);
        let growth = at(&rungs.pool_growth_bytes);
        let cells = [
            format!("{:.0}", at(&rungs.rows)),
            format!("{:.0}", at(&rungs.nodes)),
            number(at(&rungs.capture_ms)),
            number(at(&rungs.instantiate_ms)),
            if growth == 0.0 { "-".to_owned() } else { Bytes(growth as u64).to_string() },
            number(at(&rungs.replay_host_us)),
            number(at(&rungs.replay_device_us)),
            number(at(&rungs.eager_host_us)),
            number(at(&rungs.eager_device_us)),
        ];
        row(&cells, out)?;
    }
    Ok(())
}

fn row(cells: &[String; 9], out: &mut impl Write) -> io::Result<()> {
    let widths = [5, 6, 8, 9, 11, 10, 10, 9, 9];
    let line = cells.iter().zip(widths).fold(String::new(), |line, (cell, width)| line + &format!("{cell:>width$}"));
    writeln!(out, "{line}")
}

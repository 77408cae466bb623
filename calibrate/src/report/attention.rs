//! Attention costs on a few knots of their grids.

use std::io::{self, Write};

use crate::layout::{heading, number, sentence};
use crate::profile::{Attention, Grid, Profile, Surface};

/// Columns and lines of a grid; from more knots a few are taken.
const KNOTS: usize = 7;

pub(super) fn grids(profile: &Profile, out: &mut impl Write) -> io::Result<()> {
    let Some(group) = profile.attention() else { return Ok(()) };
    let Attention { decode, prefill, mixed, separate_kernels, padded_request_us, shared_us } = &group.figures;
    heading("Attention of all layers, ms of device time", out)?;
    surface(decode, "decode", "requests", out)?;
    surface(prefill, "prefill", "chunk tokens", out)?;
    let mixed = match (mixed, separate_kernels) {
        (Some(_), _) => "from their own table",
        (None, true) => "the sum: their kernels are separate",
        (None, false) => "the sum, a stand-in: one kernel serves both, and was not measured so",
    };
    let shared =
        if *shared_us > 0.0 { format!(", less {} us that both hold", number(*shared_us)) } else { String::new() };
    sentence(&format!("mixed steps: {mixed}{shared}; a padded request: {} us", number(*padded_request_us)), out)
}

fn surface(surface: &Surface, name: &str, quantity: &str, out: &mut impl Write) -> io::Result<()> {
    match surface {
        Surface::Constant(us) => sentence(&format!("{name}: {} ms whatever the step", number(us / 1e3)), out),
        Surface::Grid(grid) => table(grid, name, quantity, out),
    }
}

fn table(grid: &Grid, name: &str, quantity: &str, out: &mut impl Write) -> io::Result<()> {
    let [x, y] = grid.axes().map(|axis| few(axis.knots()));
    let title = format!("{name}: {quantity} by tokens of context");
    writeln!(out, "  {title}")?;
    let line = |head: String, cells: Vec<String>| {
        cells.iter().fold(format!("  {head:>8}"), |line, cell| line + &format!("{cell:>9}"))
    };
    writeln!(out, "{}", line(String::new(), y.iter().map(|knot| format!("{knot:.0}")).collect()))?;
    for &at in &x {
        let values = y.iter().map(|&context| number(grid.at(at, context).value / 1e3)).collect();
        writeln!(out, "{}", line(format!("{at:.0}"), values))?;
    }
    Ok(())
}

/// The first, the last, and some between them.
fn few(knots: &[f64]) -> Vec<f64> {
    if knots.len() <= KNOTS {
        return knots.to_vec();
    }
    (0..KNOTS).map(|place| knots[place * (knots.len() - 1) / (KNOTS - 1)]).collect()
}

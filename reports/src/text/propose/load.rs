//! How far the load may move before the answer changes, and what then.

use std::io::{self, Write};

use super::number;
use crate::text::grid::{Align, Grid};
use crate::text::prose::paragraph;
use crate::{Sensitivity, SensitivityPoint};

/// Writes what was moved, a row for each factor at which the answer does not stand.
pub(super) fn sensitivity(moved: &[Sensitivity], sink: &mut impl Write) -> io::Result<()> {
    if moved.is_empty() {
        return Ok(());
    }
    writeln!(sink)?;
    let columns = [
        ("moved", Align::Left),
        ("the answer stands", Align::Left),
        ("beyond that", Align::Left),
        ("against current", Align::Left),
        ("over the best, %", Align::Right),
    ];
    let mut grid = Grid::new(&columns);
    for Sensitivity { what, points, holds: [low, high] } in moved {
        let holds = if low < high { format!("from {low} to {high} times") } else { "only as it is".to_owned() };
        let mut named = [what.replace('_', " "), holds];
        let beyond: Vec<&SensitivityPoint> =
            points.iter().filter(|point| point.factor < *low || point.factor > *high).collect();
        if beyond.is_empty() {
            grid.row(named.into_iter().chain(["nothing tried".to_owned()]));
            continue;
        }
        for point in beyond {
            let cells = [
                format!("{} times", point.factor),
                point.verdict.replace('_', " "),
                number::fixed(100.0 * point.regret, 2),
            ];
            grid.row(std::mem::take(&mut named).into_iter().chain(cells));
        }
    }
    grid.write(sink)?;
    let line = "Over the best: by how much more the steps cost there than on the best ladders of as many sizes.";
    paragraph(sink, line, "", "  ")
}

//! How far the load may move before the answer changes, and what then.

use std::io::{self, Write};

use super::number;
use crate::text::grid::{Align, Grid};
use crate::{Sensitivity, SensitivityPoint};

/// Columns for what happens beyond.
const BEYOND_WIDTH: usize = 66;

/// Writes a row for each thing that was moved, if any was.
pub(super) fn sensitivity(moved: &[Sensitivity], sink: &mut impl Write) -> io::Result<()> {
    if moved.is_empty() {
        return Ok(());
    }
    writeln!(sink)?;
    let columns = [("moved", Align::Left), ("the answer stands", Align::Left), ("beyond that", Align::Left)];
    let mut grid = Grid::new(&columns).wrap(2, BEYOND_WIDTH);
    for Sensitivity { what, points, holds: [low, high] } in moved {
        let is_beyond = |point: &&SensitivityPoint| point.factor < *low || point.factor > *high;
        let beyond: Vec<String> = points.iter().filter(is_beyond).map(happens).collect();
        let beyond = match (points.is_empty(), beyond.is_empty()) {
            (true, _) => "no other factor tried".to_owned(),
            (false, true) => "it stands at every factor tried".to_owned(),
            (false, false) => beyond.join("\n"),
        };
        let holds = if low < high { format!("from {low} to {high} times") } else { "only as it is".to_owned() };
        grid.row([what.replace('_', " "), holds, beyond]);
    }
    grid.write(sink)
}

fn happens(point: &SensitivityPoint) -> String {
    let against = match point.verdict.as_ref() {
        "better" => "better than the current ladders",
        "worse" => "worse than the current ladders",
        "equal" => "the same as the current ladders",
        "not_distinguishable" => "not distinguishable from the current ladders",
        other => other,
    };
    let regret = number::fixed(100.0 * point.regret, 2);
    format!("{} times: {against}; steps cost {regret} % more than on the best ladders there", point.factor)
}

//! Step time against rows, drawn with characters.

use std::io::{self, Write};

use crate::layout::{heading, number, sentence};
use crate::padding::{TableStairs, rows_most_of};
use crate::profile::{Curve, Profile};

/// Columns of the drawing, its labels apart.
const COLUMNS: usize = 68;
const LINES: usize = 14;
/// The range of rows that is drawn, and what is drawn there.
struct Drawing<'a> {
    curve: &'a Curve,
    rows: [f64; 2],
}

impl<'a> Drawing<'a> {
    fn of(profile: &'a Profile) -> Self {
        let curve = &profile.machine.dense.figures;
        let [first, last] = match curve {
            Curve::Table(table) => [table.x()[0], table.x()[table.x().len() - 1]],
            Curve::Line(line) => line.valid,
            Curve::Constant(_) => [1.0, f64::INFINITY],
        };
        let first = first.max(1.0);
        Self { curve, rows: [first, last.min(rows_most_of(profile)).max(first + 1.0)] }
    }

    /// The rows of a column: as many columns for each doubling.
    fn at(&self, column: usize) -> f64 {
        let share = column as f64 / (COLUMNS - 1) as f64;
        self.rows[0] * (self.rows[1] / self.rows[0]).powf(share)
    }

    fn column(&self, rows: f64) -> Option<usize> {
        let inside = (self.rows[0]..=self.rows[1]).contains(&rows);
        let share = (rows / self.rows[0]).ln() / (self.rows[1] / self.rows[0]).ln();
        inside.then(|| (share * (COLUMNS - 1) as f64).round() as usize)
    }

    /// Milliseconds of a column, and those of every knot that falls into it.
    fn points(&self) -> Vec<(usize, f64)> {
        let between = (0..COLUMNS).map(|column| (column, self.curve.at(self.at(column)).value / 1e3));
        let knots = match self.curve {
            Curve::Table(table) => table.x().iter().copied().zip(table.y().iter().copied()).collect(),
            Curve::Line(_) | Curve::Constant(_) => Vec::new(),
        };
        let knots = knots.into_iter().filter_map(|(rows, us)| Some((self.column(rows)?, us / 1e3)));
        between.chain(knots).collect()
    }
}

/// The drawing with its axes, and below it where rungs and edges are.
pub(super) fn steps(profile: &Profile, out: &mut impl Write) -> io::Result<()> {
    heading("Step time against rows: all layers without attention, ms of device time", out)?;
    let drawing = Drawing::of(profile);
    if let Curve::Constant(us) = drawing.curve {
        return sentence(&format!("{} ms whatever the rows", number(us / 1e3)), out);
    }
    let points = drawing.points();
    let [low, high] = points.iter().fold([f64::INFINITY, 0.0_f64], |[low, high], &(_, ms)| [low.min(ms), high.max(ms)]);
    // A curve that is level up to the last digit shown has nothing to draw.
    if number(low) == number(high) {
        let [first, last] = drawing.rows;
        return sentence(&format!("{} ms from {first:.0} to {last:.0} rows", number(low)), out);
    }
    let floor = (low - (high - low) / 6.0).max(0.0);
    let step = ((high - floor) / (LINES - 1) as f64).max(f64::MIN_POSITIVE);
    let line = |ms: f64| (((ms - floor) / step).round() as usize).min(LINES - 1);
    let mut grid = vec![[' '; COLUMNS]; LINES];
    for (column, ms) in points {
        grid[line(ms)][column] = '*';
    }
    for (place, marks) in grid.iter().enumerate().rev() {
        let label = if place % 3 == 1 { number(floor + place as f64 * step) } else { String::new() };
        let marks: String = marks.iter().collect();
        writeln!(out, "  {label:>7} |{}", marks.trim_end())?;
    }
    writeln!(out, "  {:>7} +{}", "", "-".repeat(COLUMNS))?;
    let marked = |rows: &[f64], mark: char| {
        let mut line = [' '; COLUMNS];
        rows.iter().filter_map(|&rows| drawing.column(rows)).for_each(|column| line[column] = mark);
        line.iter().collect::<String>().trim_end().to_owned()
    };
    let rungs = profile.captured_rows();
    if !rungs.is_empty() {
        writeln!(out, "  {:>7}  {}", "rungs", marked(&rungs, '^'))?;
    }
    let stairs = TableStairs::of_profile(profile);
    let edges: Vec<f64> = stairs.iter().flat_map(|of_steps| &of_steps.stairs.edges).map(|edge| edge.below).collect();
    if !edges.is_empty() {
        writeln!(out, "  {:>7}  {}", "edges", marked(&edges, '!'))?;
    }
    writeln!(out, "  {:>7}  {}", "rows", axis(&drawing))?;
    if floor > 0.0 { sentence("(the axis of times does not begin at 0)", out) } else { Ok(()) }
}

/// Powers of two below their columns, and the last row at the end.
fn axis(drawing: &Drawing<'_>) -> String {
    let mut text = String::new();
    let last = format!("{:.0}", drawing.rows[1]);
    let powers = (0..31).map(|power| f64::from(1_u32 << power));
    for rows in powers {
        let Some(column) = drawing.column(rows) else { continue };
        let label = format!("{rows:.0}");
        let room_left = column + label.len() + 1 + last.len() <= COLUMNS;
        if room_left && (text.is_empty() || column > text.len()) {
            text = format!("{text:<column$}{label}");
        }
    }
    let end = COLUMNS - last.len();
    format!("{text:<end$}{last}")
}

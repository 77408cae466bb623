//! How many rows steps had, over the padding staircase: where the rungs lie beside the edges.

use std::io;

use super::axis::Axis;
use super::legend::{self, Entry};
use super::palette::{EAGER, EDGE, EXACT, INK, LIMIT, PADDED, series};
use super::panel::Panel;
use super::{DrawError, Svg, canvas};

/// Units of the staircase, and of the steps below it.
const PARTS: [i32; 2] = [190, 240];
/// Bars for each doubling of rows, from where single rows are too narrow.
const BARS_A_DOUBLING: f64 = 8.0;

/// Units of the mark of a rung where rungs are many.
const RUNG_TICK: i32 = 12;

/// Steps of one number of rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::page) struct BatchBar {
    /// Real rows.
    pub(in crate::page) rows: u32,
    /// Steps on a rung of just as many rows.
    pub(in crate::page) exact: f64,
    /// Steps that were padded.
    pub(in crate::page) padded: f64,
    /// Steps without a graph.
    pub(in crate::page) eager: f64,
}

/// What the chart shows.
#[derive(Clone, Debug, Default)]
pub(in crate::page) struct Batches<'a> {
    /// Steps by their rows, ascending.
    pub(in crate::page) bars: &'a [BatchBar],
    /// Captured sizes, ascending, tokens.
    pub(in crate::page) rungs: &'a [u32],
    /// Knots of the profile's dense table, rows and microseconds; empty: no staircase is drawn.
    pub(in crate::page) knots: &'a [[f64; 2]],
    /// The row before each proven edge.
    pub(in crate::page) edges: &'a [f64],
    /// The last row that is shown, with as much room for each row; `None`: all, with as much room for each doubling.
    pub(in crate::page) up_to: Option<u32>,
}

impl Batches<'_> {
    /// Draws it.
    ///
    /// # Errors
    /// That of the drawing.
    pub(in crate::page) fn draw(&self) -> io::Result<Svg> {
        let most = self.last();
        let name = "rows of a step before padding, rows";
        let x = match self.up_to {
            Some(last) => Axis::whole(name, 1.0, f64::from(last), 16),
            None => Axis::doublings(name, f64::from(most)),
        };
        let entries = self.entries();
        let above = legend::height(&entries);
        let stairs = if self.knots.is_empty() { 0 } else { PARTS[0] };
        canvas(above + stairs + PARTS[1], |area| {
            legend::draw(area, &entries)?;
            let (_, rest) = area.split_vertically(above);
            let (top, bottom) = rest.split_vertically(stairs);
            if stairs > 0 {
                self.staircase(&top, &x, f64::from(most))?;
            }
            self.steps(&bottom, &x)
        })
    }

    /// The steps of each bar with the rows that it stands for.
    pub(in crate::page) fn figures(&self) -> Vec<(String, BatchBar)> {
        let named = |bin: Bin| {
            let rows =
                if bin.first < bin.last { format!("{} to {}", bin.first, bin.last) } else { bin.first.to_string() };
            let Bin { first, exact, padded, eager, .. } = bin;
            (rows, BatchBar { rows: first as u32, exact, padded, eager })
        };
        self.bins().into_iter().map(named).collect()
    }

    fn entries(&self) -> Vec<Entry> {
        let mut entries = vec![Entry::fill(EXACT, "steps, exact hits"), Entry::fill(PADDED, "steps, padded")];
        entries.push(Entry::fill(EAGER, "steps without a graph"));
        if !self.rungs.is_empty() {
            entries.push(Entry::line(INK, "rung"));
            entries.push(Entry::line(LIMIT, "ceiling"));
        }
        if !self.knots.is_empty() {
            entries.push(Entry::line(series(0), "dense work"));
        }
        if !self.edges.is_empty() {
            entries.push(Entry::line(EDGE, "edge of the staircase"));
        }
        entries
    }

    fn staircase(&self, area: &super::Area<'_>, x: &Axis, most: f64) -> Result<(), DrawError> {
        let shown: Vec<(f64, f64)> = self.knots.iter().map(|[rows, us]| (*rows, us / 1e3)).collect();
        let first_beyond = shown.iter().position(|(rows, _)| *rows >= most).map_or(shown.len(), |place| place + 1);
        let shown = &shown[..first_beyond];
        let (low, high) = shown.iter().fold((f64::INFINITY, 0.0_f64), |(l, h), (_, ms)| (l.min(*ms), h.max(*ms)));
        let y = if self.up_to.is_some() {
            Axis::near("dense work of a step on the device, ms", [low, high], 4)
        } else {
            Axis::decades("dense work of a step on the device, ms (equal room for equal ratios)", low, high * 1.02)
        };
        let mut panel = Panel::new(area, x.bare(), y)?;
        self.edges(&mut panel)?;
        let cut = clipped(shown, most);
        let rungs = self.rungs.iter().map(|rung| f64::from(*rung)).filter(|rung| x.holds(*rung));
        for rung in rungs {
            match value_at(&cut, rung).filter(|_| self.up_to.is_some()) {
                Some(ms) => panel.line(&[(rung, 0.0), (rung, ms)], INK, 1)?,
                None => panel.tick(rung, RUNG_TICK, INK, 1)?,
            }
        }
        panel.line(&cut, series(0), 2)?;
        shown.iter().filter(|(rows, _)| *rows <= most).try_for_each(|(rows, ms)| panel.dot(*rows, *ms, series(0)))
    }

    fn edges(&self, panel: &mut Panel<'_, '_>) -> Result<(), DrawError> {
        panel.edges(self.edges, EDGE, |edge| match self.up_to {
            Some(_) => format!("{edge:.0}|{:.0}", edge + 1.0),
            None => format!("{edge:.0}"),
        })
    }

    fn steps(&self, area: &super::Area<'_>, x: &Axis) -> Result<(), DrawError> {
        let bins = self.bins();
        let most = bins.iter().map(|bin| bin.exact + bin.padded + bin.eager).fold(0.0, f64::max);
        let name = if self.up_to.is_some() { "steps" } else { "steps (a bar holds more rows further right)" };
        let mut panel = Panel::new(area, x.clone(), Axis::from_zero(name, most, 4))?;
        for edge in self.edges.iter().filter(|edge| x.holds(**edge + 0.5)) {
            panel.upright(edge + 0.5, EDGE, 2)?;
        }
        for bin in &bins {
            let across = [bin.first - 0.5 + bin.gap, bin.last + 0.5 - bin.gap];
            let mut from = 0.0;
            for (steps, shade) in [(bin.exact, EXACT), (bin.padded, PADDED), (bin.eager, EAGER)] {
                panel.bar(across, [from, from + steps], shade)?;
                from += steps;
            }
        }
        if self.knots.is_empty() {
            let rungs = self.rungs.iter().map(|rung| f64::from(*rung)).filter(|rung| x.holds(*rung));
            rungs.into_iter().try_for_each(|rung| panel.tick(rung, -RUNG_TICK / 2, INK, 1))?;
        }
        let Some(ceiling) = self.rungs.last().copied().filter(|rung| x.holds(f64::from(*rung))) else { return Ok(()) };
        panel.upright(f64::from(ceiling), LIMIT, 2)?;
        panel.beside(f64::from(ceiling), true, &format!("ceiling {ceiling}"), LIMIT)
    }

    /// The last row shown.
    fn last(&self) -> u32 {
        let last_rows = self.bars.last().map_or(1, |bar| bar.rows);
        self.up_to.unwrap_or_else(|| last_rows.max(self.rungs.last().copied().unwrap_or(1)))
    }

    /// Steps by bar: one a row as far as there is room, else some rows together.
    fn bins(&self) -> Vec<Bin> {
        let mut bins: Vec<Bin> = Vec::new();
        let last = self.up_to.unwrap_or(u32::MAX);
        for bar in self.bars.iter().filter(|bar| (1..=last).contains(&bar.rows)) {
            let [first, end] = if self.up_to.is_some() { [bar.rows; 2] } else { bin_of(bar.rows) };
            if bins.last().is_none_or(|bin| bin.first < f64::from(first)) {
                let gap = if first == end { 0.1 } else { 0.0 };
                bins.push(Bin {
                    first: f64::from(first),
                    last: f64::from(end),
                    gap,
                    exact: 0.0,
                    padded: 0.0,
                    eager: 0.0,
                });
            }
            if let Some(bin) = bins.last_mut() {
                bin.exact += bar.exact;
                bin.padded += bar.padded;
                bin.eager += bar.eager;
            }
        }
        bins
    }
}

/// Steps that share a bar.
#[derive(Clone, Copy, Debug)]
struct Bin {
    first: f64,
    last: f64,
    gap: f64,
    exact: f64,
    padded: f64,
    eager: f64,
}

/// First and last rows of the bar that holds this many.
fn bin_of(rows: u32) -> [u32; 2] {
    let place = (f64::from(rows).log2() * BARS_A_DOUBLING + 1e-9).floor();
    let first_of = |place: f64| 2_f64.powf(place / BARS_A_DOUBLING).ceil() as u32;
    let (first, next) = (first_of(place - 1e-7), first_of(place + 1.0 - 1e-7));
    [first.min(rows), next.saturating_sub(1).max(rows)]
}

/// A line up to a value of x, its last piece cut.
fn clipped(points: &[(f64, f64)], most: f64) -> Vec<(f64, f64)> {
    let mut kept: Vec<(f64, f64)> = Vec::new();
    for &(x, y) in points {
        match kept.last() {
            Some(&(before, from)) if x > most => {
                let share = (most - before) / (x - before);
                kept.push((most, from + share * (y - from)));
                break;
            }
            _ => kept.push((x, y)),
        }
    }
    kept
}

/// The height of a line at a value of x; `None` beyond its ends.
fn value_at(points: &[(f64, f64)], x: f64) -> Option<f64> {
    let next = points.partition_point(|(at, _)| *at < x);
    match (next.checked_sub(1).map(|place| points[place]), points.get(next)) {
        (_, Some(&(at, y))) if at <= x => Some(y),
        (Some((before, from)), Some(&(after, to))) => Some(from + (to - from) * (x - before) / (after - before)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_between_its_points_and_not_beyond() {
        let points = [(1.0, 1.0), (3.0, 5.0)];
        let read = [0.5, 1.0, 2.0, 3.0, 3.5].map(|x| value_at(&points, x));
        assert_eq!(read, [None, Some(1.0), Some(3.0), Some(5.0), None]);
    }

    #[test]
    fn bars_hold_every_row_once() {
        let mut previous = 0;
        let mut rows = 1;
        while rows <= 9_000 {
            let [first, last] = bin_of(rows);
            assert_eq!(first, previous + 1, "no gap and no overlap before {rows}");
            assert!((first..=last).contains(&rows));
            for inside in first..=last {
                assert_eq!(bin_of(inside), [first, last], "{inside}");
            }
            (previous, rows) = (last, last + 1);
        }
    }

    #[test]
    fn a_line_ends_where_it_is_cut() {
        assert_eq!(clipped(&[(1.0, 1.0), (3.0, 3.0), (5.0, 9.0)], 4.0), [(1.0, 1.0), (3.0, 3.0), (4.0, 6.0)]);
        assert_eq!(clipped(&[(1.0, 1.0)], 4.0), [(1.0, 1.0)]);
    }
}

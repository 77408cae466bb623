//! The ladder: a line for each rung that fired, the largest on top, and one for all that never did between two of them.

use std::ops::Range;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::palette::Palette;
use super::text::{count, counted, cut, signed_ms, whole};
use super::{Column, put, rows_of};
use crate::watch::state::{Lane, RungTally};

/// Columns of the size, and of the mark before it.
const SIZE_COLUMNS: usize = 7;
/// Columns of what a rung saved.
const SAVED_COLUMNS: usize = 11;
/// A bar of fewer columns says nothing.
const BAR_COLUMNS_MIN: usize = 4;

/// A line of the ladder.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Entry<'a> {
    /// A rung that fired.
    Rung(u32, &'a RungTally),
    /// Rungs that never did, from the largest to the smallest.
    Dead { largest: u32, smallest: u32, count: usize },
}

/// The widths of a line's parts.
#[derive(Clone, Copy, Debug)]
struct Columns {
    steps: usize,
    bar: usize,
    saved: usize,
}

/// Draws it.
pub(super) fn render(frame: &mut Frame<'_>, column: &Column<'_>, area: Rect) {
    let mut rows = rows_of(area);
    let Some(heading) = rows.next() else { return };
    let entries = entries(column.lane);
    let columns = Columns::of(column.lane, usize::from(area.width));
    let visible = window(&entries, column.selected, usize::from(area.height) - 1);
    let hidden = entries.len() - visible.len();
    put(frame, Line::styled(columns.heading(hidden), Palette::faint()), heading);
    for (entry, row) in entries[visible].iter().zip(rows) {
        put(frame, line(column, *entry, columns), row);
    }
}

/// The sizes that are captured, and others that fired; ascending.
pub(super) fn sizes(lane: &Lane) -> Vec<u32> {
    let mut sizes: Vec<u32> = lane.capture_sizes.clone();
    // Replay layers and images have graphs of sizes of their own.
    sizes.extend(lane.tallies.rungs.keys().filter(|size| lane.capture_sizes.binary_search(size).is_err()));
    sizes.sort_unstable();
    sizes
}

/// All lines, the largest rung first.
fn entries(lane: &Lane) -> Vec<Entry<'_>> {
    let mut entries = Vec::new();
    for &size in sizes(lane).iter().rev() {
        match (lane.tallies.rungs.get(&size), entries.last_mut()) {
            (Some(tally), _) => entries.push(Entry::Rung(size, tally)),
            (None, Some(Entry::Dead { smallest, count, .. })) => {
                *smallest = size;
                *count += 1;
            }
            (None, _) => entries.push(Entry::Dead { largest: size, smallest: size, count: 1 }),
        }
    }
    entries
}

/// The lines that fit: those around the rung that is selected, else those that served most steps, so that the lines stay
/// where they are while rungs fire.
fn window(entries: &[Entry<'_>], selected: Option<u32>, height: usize) -> Range<usize> {
    let height = height.min(entries.len());
    let starts = 0..=entries.len() - height;
    let place = entries.iter().position(|entry| matches!(entry, Entry::Rung(size, _) if Some(*size) == selected));
    let start = match place {
        Some(place) => place.saturating_sub(height / 2).min(*starts.end()),
        None => starts
            .rev()
            .max_by_key(|&start| entries[start..start + height].iter().map(Entry::steps).sum::<u64>())
            .unwrap_or(0),
    };
    start..start + height
}

impl Entry<'_> {
    fn steps(&self) -> u64 {
        match self {
            Self::Rung(_, tally) => tally.steps,
            Self::Dead { .. } => 0,
        }
    }
}

impl Columns {
    fn of(lane: &Lane, width: usize) -> Self {
        let most = lane.tallies.rungs.values().map(|tally| tally.steps).max().unwrap_or(0);
        let steps = count(most).len().max("steps".len()) + 1;
        let left = width.saturating_sub(SIZE_COLUMNS + steps);
        let saved = if left >= SAVED_COLUMNS + BAR_COLUMNS_MIN + 2 { SAVED_COLUMNS } else { 0 };
        let bar = left.saturating_sub(saved + 1);
        Self { steps, bar: if bar >= BAR_COLUMNS_MIN { bar } else { 0 }, saved }
    }

    fn heading(self, hidden: usize) -> String {
        let Self { steps, bar, saved } = self;
        let key = match hidden {
            0 => "█ exact ░ padded".to_owned(),
            hidden => format!("█ exact ░ padded, {} more", counted(hidden as u64, "line")),
        };
        let key = cut(&key, bar);
        let saved_ms = if saved > 0 { "saved, ms" } else { "" };
        format!("{:>SIZE_COLUMNS$}{:>steps$} {key:<bar$}{saved_ms:>saved$}", "rung", "steps")
    }
}

fn line<'a>(column: &Column<'_>, entry: Entry<'_>, columns: Columns) -> Line<'a> {
    let Column { lane, palette, selected, most_steps, .. } = *column;
    let Columns { steps, bar, saved } = columns;
    let (size, tally) = match entry {
        Entry::Rung(size, tally) => (size, tally),
        Entry::Dead { largest, smallest, count } => return dead(largest, smallest, count, columns),
    };
    let mark = match (lane.firing() == Some(size), selected == Some(size)) {
        (_, true) => '◆',
        (true, _) => '▶',
        _ => ' ',
    };
    let name = whole(&count(size.into()), SIZE_COLUMNS - 1);
    let served = whole(&count(tally.steps), steps - 1);
    let padded_steps = tally.steps - tally.exact_steps;
    let drawn = super::bars::graph(tally.exact_steps, padded_steps, most_steps, bar, palette);
    let used: usize = drawn.iter().map(Span::width).sum();
    let won = tally.saved_ms().map_or_else(|| "-".to_owned(), signed_ms);
    let won = if saved > 0 { whole(&won, saved - 1) } else { String::new() };
    let style = if tally.saved_ns < 0 { palette.no_graph() } else { palette.exact() };
    let head = Span::raw(format!("{mark}{name:>0$}{served:>steps$} ", SIZE_COLUMNS - 1));
    let head = if mark == ' ' { head } else { head.style(Palette::strong()) };
    let [exact, padded] = drawn;
    Line::from(vec![
        head,
        exact,
        padded,
        Span::raw(" ".repeat(bar - used)),
        Span::styled(format!("{won:>saved$}"), style),
    ])
}

fn dead<'a>(largest: u32, smallest: u32, count_dead: usize, columns: Columns) -> Line<'a> {
    let width = SIZE_COLUMNS + columns.steps + 1 + columns.bar + columns.saved;
    let name = whole(&count(largest.into()), SIZE_COLUMNS - 1);
    let down_to = match count_dead {
        1 => "never hit".to_owned(),
        dead => format!("to {}: {dead} sizes never hit", count(smallest.into())),
    };
    Line::styled(cut(&format!("{name:>SIZE_COLUMNS$} {down_to}"), width), Palette::faint())
}

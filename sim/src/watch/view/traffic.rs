//! The traffic of one rung: which batches hit it, how far they were padded, and what that came to.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::palette::Palette;
use super::text::{count, counted, fields, percent, signed_ms};
use super::{Column, put, rows_of};
use crate::watch::state::RungTally;

/// Batches of neighbouring sizes, taken together where there are more sizes than lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Group {
    smallest: u32,
    largest: u32,
    steps: u64,
}

/// Draws it: what it came to, then a line for each size of batch, the largest first.
pub(super) fn render(frame: &mut Frame<'_>, column: &Column<'_>, rung: u32, area: Rect) {
    let Column { lane, palette, .. } = *column;
    let width = usize::from(area.width);
    let none = RungTally::default();
    let tally = lane.tallies.rungs.get(&rung).unwrap_or(&none);
    let share = tally.steps as f64 / lane.tallies.steps.max(1) as f64;
    let modes: Vec<String> = tally.modes.iter().map(|(mode, steps)| format!("{mode} {}", count(*steps))).collect();
    let rows_run = tally.padded_rows + tally.real_rows;
    let exact = tally.exact_steps as f64 / tally.steps.max(1) as f64;
    let waste = tally.padded_rows as f64 / rows_run.max(1) as f64;
    let saved = match (tally.saved_ms(), tally.steps) {
        (Some(_), 0) => String::new(),
        (Some(ms), steps) => {
            format!("saved {} ms in all, {} ms a step", signed_ms(ms), thousandths(ms / steps as f64))
        }
        (None, _) => "saved: not in the log".to_owned(),
    };
    let lines = [
        Line::styled(
            fields([&*format!("rung {}", count(rung.into())), &*counted(tally.steps, "step"), &*percent(share)], width),
            Palette::strong(),
        ),
        Line::raw(fields(modes.iter().map(String::as_str), width)),
        Line::raw(fields(
            [
                &*format!("exact {}", percent(exact)),
                &*format!("padded {}", percent(waste)),
                &*format!("{} rows of {}", count(tally.padded_rows), count(rows_run)),
            ],
            width,
        )),
        Line::raw(fields([&*saved], width)),
        Line::styled(fields(["rows asked for, and steps"], width), Palette::faint()),
    ];
    let mut rows = rows_of(area);
    let mut left = usize::from(area.height);
    for (line, row) in lines.into_iter().zip(&mut rows) {
        put(frame, line, row);
        left -= 1;
    }
    let groups = groups(tally, left);
    let most = groups.iter().map(|group| group.steps).max().unwrap_or(0);
    let names: Vec<String> = groups.iter().map(Group::name).collect();
    let name_columns = names.iter().map(String::len).max().unwrap_or(0);
    let digits = count(most).len();
    for ((group, name), row) in groups.iter().zip(names).zip(rows) {
        let bar = width.saturating_sub(name_columns + digits + 3);
        let exact = if group.smallest == rung { group.steps } else { 0 };
        let [exact, padded] = super::bars::graph(exact, group.steps - exact, most, bar, palette);
        let head = format!(" {name:>name_columns$} {:>digits$} ", count(group.steps));
        let line = Line::from(vec![Span::raw(head), exact, padded]);
        put(frame, line, row);
    }
}

/// The batches in at most so many lines, the largest first. The rung itself, which is not padded, is never taken together
/// with smaller ones if there are two lines.
fn groups(tally: &RungTally, lines: usize) -> Vec<Group> {
    let (Some((&least, _)), Some((&most, _))) = (tally.batches.first_key_value(), tally.batches.last_key_value())
    else {
        return Vec::new();
    };
    if lines == 0 {
        return Vec::new();
    }
    let ones = || tally.batches.iter().rev().map(|(&rows, &steps)| Group { smallest: rows, largest: rows, steps });
    if tally.batches.len() <= lines {
        return ones().collect();
    }
    // The largest stands alone; the others share the lines that are left.
    let (alone, others) = if lines > 1 { (1, lines as u32 - 1) } else { (0, 1) };
    let top = most - alone;
    let span = (top - least + 1).div_ceil(others).max(1);
    let mut groups: Vec<Group> = ones().take(alone as usize).collect();
    for one in ones().skip(alone as usize) {
        let place = (top - one.largest) / span;
        match groups.last_mut().filter(|last| last.largest <= top && (top - last.largest) / span == place) {
            Some(last) => {
                last.smallest = one.smallest;
                last.steps += one.steps;
            }
            None => groups.push(one),
        }
    }
    groups
}

impl Group {
    fn name(&self) -> String {
        if self.smallest == self.largest {
            count(self.largest.into())
        } else {
            format!("{}-{}", count(self.smallest.into()), count(self.largest.into()))
        }
    }
}

/// A small number of milliseconds with its sign.
fn thousandths(ms: f64) -> String {
    let rounded = (ms * 1e3).round() / 1e3;
    if rounded == 0.0 { "0.000".to_owned() } else { format!("{rounded:+.3}") }
}

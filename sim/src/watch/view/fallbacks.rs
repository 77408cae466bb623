//! Steps without a graph, by cause.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::palette::Palette;
use super::text::{count, counted, cut, fields, percent, whole};
use super::{Column, put, rows_of};

/// Columns of a cause with the blank behind it.
const CAUSE_COLUMNS: usize = 16;

/// Draws a heading with their share, then the causes, the most frequent first.
pub(super) fn render(frame: &mut Frame<'_>, column: &Column<'_>, area: Rect) {
    let Column { lane, palette, most_steps, .. } = *column;
    let width = usize::from(area.width);
    let tallies = &lane.tallies;
    let mut causes: Vec<(&str, u64)> = tallies.fallbacks.iter().map(|(cause, &steps)| (&**cause, steps)).collect();
    causes.sort_by_key(|&(cause, steps)| (std::cmp::Reverse(steps), cause));
    let mut rows = rows_of(area);
    let Some(heading) = rows.next() else { return };
    let all = tallies.fallback_steps();
    let share = match tallies.steps {
        0 => "no steps yet".to_owned(),
        steps => format!("{} of {}", percent(all as f64 / steps as f64), counted(steps, "step")),
    };
    let relaxed = match tallies.relaxed {
        0 => String::new(),
        relaxed => format!("FULL relaxed to PIECEWISE {}", count(relaxed)),
    };
    let room = usize::from(area.height) - 1;
    let first = causes.first().filter(|_| room == 0).map(|(cause, steps)| format!("{cause} {}", count(*steps)));
    let title = fields(["without a graph", &*share, first.as_deref().unwrap_or_default(), &*relaxed], width);
    put(frame, Line::styled(title, if all > 0 { Palette::strong() } else { Palette::faint() }), heading);
    let shown = if causes.len() > room { room.saturating_sub(1) } else { causes.len() };
    let digits = count(causes.first().map_or(0, |&(_, steps)| steps)).len();
    for (&(cause, steps), row) in causes[..shown].iter().zip(&mut rows) {
        let cause = cut(cause, (CAUSE_COLUMNS - 1).min(width));
        let number = whole(&count(steps), width.saturating_sub(CAUSE_COLUMNS));
        let bar = width.saturating_sub(CAUSE_COLUMNS + digits + 1);
        put(
            frame,
            Line::from(vec![
                Span::raw(format!("{cause:<CAUSE_COLUMNS$}{number:>digits$} ")),
                super::bars::no_graph(steps, most_steps, bar, palette),
            ]),
            row,
        );
    }
    if let (true, Some(row)) = (shown < causes.len(), rows.next()) {
        let more = counted((causes.len() - shown) as u64, "more cause");
        put(frame, Line::styled(cut(&more, width), Palette::faint()), row);
    }
}

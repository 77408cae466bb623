//! A state drawn into an area: pure functions, one module a region.
//!
//! ```text
//! header                 the clock, what it does, what runs; that the warm-up is counted
//! candidate │ candidate  now, service, ladder, fallbacks, timeline (or the traffic of a rung); or the keys
//! footer                 what came of the last key, or the keys
//! ```
//!
//! Whatever the size of the area, nothing is drawn that would be false there: texts end with `…`, numbers are whole or left
//! out, regions that do not fit are left out from the bottom up.

mod bars;
mod fallbacks;
mod footer;
mod header;
mod help;
mod ladder;
mod now;
mod palette;
mod service;
mod text;
mod timeline;
mod traffic;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;

use self::palette::Palette;
use self::text::cut;
use super::state::{Lane, State};

/// Two candidates stand side by side if each gets so many columns.
const SIDE_BY_SIDE_COLUMNS: u16 = 38;
/// One candidate alone has its ladder left and the rest right of it from so many columns on.
const WIDE_COLUMNS: u16 = 90;

/// One candidate on the screen.
#[derive(Clone, Copy, Debug)]
pub struct Column<'a> {
    lane: &'a Lane,
    palette: Palette,
    has_focus: bool,
    /// The rung whose traffic is shown.
    selected: Option<u32>,
    /// The end of the time axis, which all candidates share.
    until_ns: u64,
    /// The steps of the longest bar, of the rungs and of the causes alike.
    most_steps: u64,
}

/// Lines of each region of a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Heights {
    now: u16,
    service: u16,
    ladder: u16,
    fallbacks: u16,
    timeline: u16,
    /// The traffic of a rung has no other place than that of the ladder.
    traffic_hides_ladder: bool,
}

/// Lines that the candidates on the screen have a use for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Wanted {
    /// A heading and a line for each size.
    ladder: u16,
    /// A heading and a line for each cause.
    fallbacks: u16,
}

/// Draws everything.
pub fn render(frame: &mut Frame<'_>, state: &State, area: Rect) {
    let area = area.intersection(frame.area());
    if area.is_empty() {
        return;
    }
    // What a view leaves out of a report's figures is said where there is room for figures at all.
    let warm_up = u16::from(state.warm_up.is_some() && area.height > 6);
    let (top, bottom) = (1 + warm_up, u16::from(area.height > 2));
    let [header, middle, footer] =
        Layout::vertical([Constraint::Length(top), Constraint::Fill(1), Constraint::Length(bottom)]).areas(area);
    header::render(frame, state, header);
    if state.help {
        help::render(frame, middle);
    } else {
        candidates(frame, state, middle);
    }
    footer::render(frame, state, footer);
}

/// The candidates, side by side where there is room, else the one in focus.
fn candidates(frame: &mut Frame<'_>, state: &State, area: Rect) {
    let places: Vec<usize> = (0..state.shown.len()).collect();
    let fits = area.width >= state.shown.len() as u16 * (SIDE_BY_SIDE_COLUMNS + 1) - 1;
    let shown = if fits { places } else { vec![state.focus] };
    let columns = shown.iter().map(|_| Constraint::Fill(1));
    let areas = Layout::horizontal(columns).spacing(1).split(area);
    let wanted = Wanted::of(shown.iter().map(|&place| &state.lanes[state.shown[place]]));
    for (place, &area) in shown.iter().zip(areas.iter()) {
        candidate(frame, state, *place, wanted, area);
        if let Some(left) = area.x.checked_sub(1).filter(|_| *place > 0 && fits) {
            let line = Rect { x: left, width: 1, ..area };
            rows_of(line).for_each(|row| put(frame, Line::styled("│", Palette::faint()), row));
        }
    }
}

fn candidate(frame: &mut Frame<'_>, state: &State, place: usize, wanted: Wanted, area: Rect) {
    let lane = &state.lanes[state.shown[place]];
    let has_focus = place == state.focus;
    let most_steps = |lane: &Lane| {
        let rungs = lane.tallies.rungs.values().map(|tally| tally.steps);
        rungs.chain(lane.tallies.fallbacks.values().copied()).max().unwrap_or(0)
    };
    let column = Column {
        lane,
        palette: Palette::of(state),
        has_focus,
        selected: state.selected.filter(|_| has_focus),
        until_ns: state.clock_ns.max(1),
        most_steps: most_steps(lane),
    };
    if area.width >= WIDE_COLUMNS {
        let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).spacing(2).areas(area);
        let top = Heights::of(left.height, wanted);
        let ladder = left.height - top.now - top.service;
        regions(frame, &column, left, Heights { ladder, ..top.alone() });
        let fallbacks = wanted.fallbacks.min(right.height / 3);
        let timeline = right.height - fallbacks;
        regions(frame, &column, right, Heights { fallbacks, timeline, ..Heights::default() });
    } else {
        regions(frame, &column, area, Heights::of(area.height, wanted));
    }
}

fn regions(frame: &mut Frame<'_>, column: &Column<'_>, area: Rect, heights: Heights) {
    let Heights { now, service, ladder, fallbacks, timeline, traffic_hides_ladder } = heights;
    let lengths = [now, service, ladder, fallbacks, timeline].map(Constraint::Length);
    let [now, service, ladder, fallbacks, timeline] = Layout::vertical(lengths).areas(area);
    now::render(frame, column, now);
    service::render(frame, column, service);
    match column.selected {
        Some(rung) if traffic_hides_ladder => traffic::render(frame, column, rung, ladder),
        _ => ladder::render(frame, column, ladder),
    }
    fallbacks::render(frame, column, fallbacks);
    match column.selected {
        Some(rung) => traffic::render(frame, column, rung, timeline),
        None => timeline::render(frame, column, timeline),
    }
}

impl Wanted {
    /// The most of any of them, so that regions stand side by side.
    fn of<'a>(lanes: impl Iterator<Item = &'a Lane>) -> Self {
        lanes.fold(Self::default(), |wanted, lane| Self {
            ladder: wanted.ladder.max(1 + ladder::sizes(lane).len().min(1_000) as u16),
            fallbacks: wanted.fallbacks.max(1 + lane.tallies.fallbacks.len().min(6) as u16),
        })
    }
}

impl Heights {
    /// What fits into so many lines: the name first, the timeline last, which takes what the ladder has no use for.
    fn of(height: u16, wanted: Wanted) -> Self {
        let now = height.min(3);
        let service = (height - now).min(if height >= 12 { 2 } else { u16::from(height >= 6) });
        let mut left = height - now - service;
        let fallbacks = match left {
            0..3 => 0,
            3..9 => 1,
            _ => wanted.fallbacks.min(left / 4),
        };
        left -= fallbacks;
        let timeline =
            if left >= 13 { (left * 9 / 20).clamp(6, 16).max(left.saturating_sub(wanted.ladder)) } else { 0 };
        let ladder = left - timeline;
        Self { now, service, ladder, fallbacks, timeline, traffic_hides_ladder: timeline == 0 }
    }

    /// Without what stands right of it on a wide screen.
    fn alone(self) -> Self {
        Self { fallbacks: 0, timeline: 0, traffic_hides_ladder: false, ..self }
    }
}

/// Draws a line of text; what is too wide ends with `…`.
fn put<'a>(frame: &mut Frame<'_>, line: impl Into<Line<'a>>, row: Rect) {
    let line = line.into();
    let columns = usize::from(row.width);
    if line.width() <= columns {
        frame.render_widget(line, row);
    } else {
        let text: String = line.spans.iter().map(|span| &*span.content).collect();
        frame.render_widget(Line::styled(cut(&text, columns), line.style), row);
    }
}

/// The lines of an area, from the top.
fn rows_of(area: Rect) -> impl Iterator<Item = Rect> {
    (area.top()..area.bottom()).filter(move |_| area.width > 0).map(move |y| Rect { y, height: 1, ..area })
}

#[cfg(test)]
mod tests;

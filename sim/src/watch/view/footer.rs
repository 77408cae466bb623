//! The last line: what came of the last key, or the keys that matter most.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::palette::Palette;
use super::put;
use super::text::{cut, fields};
use crate::watch::state::State;

/// The most needed first: where there is little room, the rest is left out.
const HINTS: [&str; 11] = [
    "? keys",
    "q quit",
    "space hold",
    ". step",
    "+ - speed",
    "f fallback",
    "r rung",
    "p preemption",
    "↑ ↓ traffic",
    "Tab focus",
    "c candidate",
];

/// Draws it.
pub(super) fn render(frame: &mut Frame<'_>, state: &State, area: Rect) {
    let line = match &state.note {
        Some(note) => Line::styled(cut(note, area.width.into()), Palette::strong()),
        None => Line::styled(fields(HINTS, area.width.into()), Palette::faint()),
    };
    put(frame, line, area);
}

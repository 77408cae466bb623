//! The first line: the clock, what it does, what was not drawn, and what runs.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::palette::Palette;
use super::put;
use super::text::{clock, counted, fields};
use crate::watch::action::Target;
use crate::watch::state::{Playback, State};

/// Draws it.
pub(super) fn render(frame: &mut Frame<'_>, state: &State, area: Rect) {
    let undrawn = match state.frames.skipped {
        0 => String::new(),
        skipped => format!("{} undrawn, all counted", counted(skipped, "step")),
    };
    let line = fields([&*clock(state.clock_ns), &*playback(state), &*undrawn, &*state.title], area.width.into());
    put(frame, Line::styled(line, Palette::strong()), area);
}

fn playback(state: &State) -> String {
    match state.playback {
        Playback::Running => format!("▶ {}", state.speed),
        Playback::Held => "held".to_owned(),
        Playback::Seeking(Target::End) => "» to the end".to_owned(),
        Playback::Seeking(target) => format!("» next {}", target.name()),
        Playback::Ended => "the run has ended".to_owned(),
    }
}

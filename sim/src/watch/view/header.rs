//! The first line: the clock, what it does, what was not drawn, and what runs; below it, where reports begin to count.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::palette::Palette;
use super::text::{clock, counted, cut, fields};
use super::{put, rows_of};
use crate::watch::action::Target;
use crate::watch::state::{Playback, State, WarmUpCut};

/// Draws it.
pub(super) fn render(frame: &mut Frame<'_>, state: &State, area: Rect) {
    let undrawn = match state.frames.skipped {
        0 => String::new(),
        skipped => format!("{} undrawn, all counted", counted(skipped, "step")),
    };
    let line = fields([&*clock(state.clock_ns), &*playback(state), &*undrawn, &*state.title], area.width.into());
    let warm_up = state.warm_up.map(|cut_at| Line::raw(cut(&warm_up(cut_at), area.width.into())));
    let lines = [Some(Line::styled(line, Palette::strong())), warm_up];
    for (line, row) in lines.into_iter().flatten().zip(rows_of(area)) {
        put(frame, line, row);
    }
}

/// That reports leave the warm-up out, and the view does not.
fn warm_up(cut: WarmUpCut) -> String {
    let before = match (cut.requests, cut.until_ns) {
        (Some(requests), Some(until_ns)) => {
            format!("{}, sent before {}", counted(requests, "request"), clock(until_ns))
        }
        (Some(requests), None) => format!("the first {}", counted(requests, "request")),
        (None, Some(until_ns)) => format!("what was sent before {}", clock(until_ns)),
        (None, None) => "it".to_owned(),
    };
    format!("warm-up included; the report leaves out {before}")
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

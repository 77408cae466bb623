//! The keys and the characters, in place of the candidates.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::text::{cut, width};
use super::{put, rows_of};
use crate::watch::action::BINDINGS;
use crate::watch::state::RECENT_STEPS;

/// Columns of the keys with the blanks around them.
const KEY_COLUMNS: usize = 9;

/// Draws them, with `…` as the last line where there are more.
pub(super) fn render(frame: &mut Frame<'_>, area: Rect) {
    let lines = lines();
    let room = usize::from(area.height);
    let is_cut = lines.len() > room;
    for (number, (line, row)) in lines.iter().zip(rows_of(area)).enumerate() {
        let text = if is_cut && number + 1 == room { "…" } else { line };
        put(frame, Line::raw(cut(text, area.width.into())), row);
    }
}

fn lines() -> Vec<String> {
    let key = |shown: &str, meaning: &str| {
        let blanks = KEY_COLUMNS.saturating_sub(2 + width(shown));
        format!("  {shown}{}{meaning}", " ".repeat(blanks))
    };
    let legend = [
        ("█ ░ ▒", "steps that ran as they were, padded, without a graph".to_owned()),
        ("▶ ◆ ·", "fires now; its traffic is shown; most rows of a step".to_owned()),
        ("saved", "what graphs won (+) or lost against running without them".to_owned()),
        ("EAGER STORM", format!(" half of the last {RECENT_STEPS} steps or more had no graph, with sizes captured")),
    ];
    let keys = BINDINGS.iter().map(|binding| key(binding.shown, binding.meaning));
    keys.chain(legend.iter().map(|(shown, meaning)| key(shown, meaning))).collect()
}

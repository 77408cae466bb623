//! The top of a candidate: its name, its last step, and whether it runs without graphs just now.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::palette::Palette;
use super::text::{count, counted, cut, fields};
use super::{Column, put, rows_of};
use crate::watch::state::Lane;

/// Draws as many of its three lines as there are: the name, the last step, the steps before it.
pub(super) fn render(frame: &mut Frame<'_>, column: &Column<'_>, area: Rect) {
    let Column { lane, palette, .. } = *column;
    let width = usize::from(area.width);
    let lines = [name(column, width), Line::raw(last_step(lane, width)), recent(lane, palette, width)];
    for (line, row) in lines.into_iter().zip(rows_of(area)) {
        put(frame, line, row);
    }
}

fn name(column: &Column<'_>, width: usize) -> Line<'static> {
    let Column { lane, has_focus, .. } = *column;
    let ladder = match &lane.ceilings[..] {
        [] => "no sizes captured".to_owned(),
        [one] => format!("{} to {}", counted(lane.capture_sizes.len() as u64, "size"), count(one.size.into())),
        several => {
            let tops: Vec<String> =
                several.iter().map(|top| format!("{} to {}", top.phase, count(top.size.into()))).collect();
            tops.join(", ")
        }
    };
    let mark = if has_focus { "▶ " } else { "  " };
    let line = fields([&*format!("{mark}{}", lane.name), &*lane.cudagraph_mode, &*ladder], width);
    Line::styled(line, if has_focus { Palette::strong() } else { Palette::faint() })
}

fn last_step(lane: &Lane, width: usize) -> String {
    let Some(step) = &lane.last else { return cut("no step yet", width) };
    let ran = match (&step.descriptor, &step.fallback) {
        (Some(descriptor), _) => format!("{} {}", descriptor.mode, count(descriptor.tokens.into())),
        (None, cause) => format!("no graph ({})", cause.as_deref().unwrap_or("?")),
    };
    let rows = counted(step.real_rows.into(), "row");
    let padded =
        if step.padded_rows > 0 { format!("{} padded", count(step.padded_rows.into())) } else { String::new() };
    let rank = if lane.ranks.len() > 1 { format!("rank {}", step.rank) } else { String::new() };
    let prefills = match step.prefills.len() {
        0 => String::new(),
        prefills => counted(prefills as u64, "prefill"),
    };
    let took = format!("{:.2} ms", step.cost.step_ns as f64 / 1e6);
    let number = format!("step {}", count(step.step));
    fields([&*format!("{rows} → {ran}"), &*padded, &*prefills, &*took, &*number, &*rank], width)
}

fn recent(lane: &Lane, palette: Palette, width: usize) -> Line<'static> {
    if let Some(missing) = lane.end.as_ref().and_then(|end| end.missing.as_ref()) {
        return Line::styled(cut(missing, width), palette.alarm());
    }
    let (fallbacks, steps) = lane.recent_fallbacks();
    let ended = if lane.end.is_some() { "ended" } else { "" };
    if lane.is_eager_storm() {
        let of = format!("{fallbacks} of {steps} steps eager");
        let line = fields([" EAGER STORM", &*of, ended], width);
        return Line::styled(format!("{line:<width$}"), palette.alarm());
    }
    if lane.capture_sizes.is_empty() {
        return Line::raw(fields(["runs without graphs", ended], width));
    }
    let of = match steps {
        0 => String::new(),
        1 => format!("the only step so far {} a graph", if fallbacks == 0 { "has" } else { "is without" }),
        _ => format!("{fallbacks} of the last {steps} steps without a graph"),
    };
    Line::from(Span::raw(fields([&*of, ended], width)))
}

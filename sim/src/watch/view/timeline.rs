//! The whole run so far: rows a step with the ceiling as a line, and below it, over the same time, the share of steps
//! without a graph, the queue, the KV cache and the context.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::palette::{EXACT, NO_GRAPH, Palette};
use super::text::{clock, count, fields, percent, whole};
use super::{Column, bars, put, rows_of};
use crate::watch::state::{Bin, Ceiling, Lane};

/// Columns left of a chart.
const NAME_COLUMNS: usize = 8;
/// Columns right of the strips, for what their highest character stands for.
const SCALE_COLUMNS: usize = 8;
/// Lines of a chart, at least.
const CHART_ROWS_MIN: u16 = 3;

/// Rows on a scale of powers: what is twice as much is always as much higher.
#[derive(Clone, Copy, Debug)]
struct Scale {
    top: f64,
    lines: f64,
}

/// Draws a heading, the chart, and as many of the strips as there is room for.
pub(super) fn render(frame: &mut Frame<'_>, column: &Column<'_>, area: Rect) {
    let Column { lane, palette, until_ns, .. } = *column;
    let width = usize::from(area.width);
    let mut rows = rows_of(area);
    let Some(heading) = rows.next() else { return };
    // Below a millisecond both ends of the axis would read the same.
    let axis = if until_ns < 1_000_000 { String::new() } else { format!(", 0 to {}", clock(until_ns)) };
    let title = fields([&*format!("rows a step{axis}"), &*ceilings(lane), "· most"], width);
    put(frame, Line::styled(title, Palette::faint()), heading);
    let Some(columns) = width.checked_sub(NAME_COLUMNS + SCALE_COLUMNS).filter(|&columns| columns > 0) else { return };
    let bins = lane.history.columns(columns as u16, until_ns);
    let strips = strips(lane, &bins, palette);
    let height = area.height - 1;
    let strip_rows = height.saturating_sub(CHART_ROWS_MIN).min(strips.len() as u16);
    let chart = chart(lane, &bins, height - strip_rows, palette);
    for (line, row) in chart.into_iter().chain(strips).zip(rows) {
        put(frame, line, row);
    }
}

/// The ceilings in words.
fn ceilings(lane: &Lane) -> String {
    let top = |top: &Ceiling| match &*top.phase {
        "all" => count(top.size.into()),
        phase => format!("{phase} {}", count(top.size.into())),
    };
    match &lane.ceilings[..] {
        [] => "no ceiling".to_owned(),
        ceilings => format!("ceiling {}", ceilings.iter().map(top).collect::<Vec<_>>().join(", ")),
    }
}

impl Scale {
    /// Lines, in parts too, that a number of rows reaches up to.
    fn level(self, rows: f64) -> f64 {
        (rows + 1.0).log2() / (self.top + 1.0).log2() * self.lines
    }

    /// The line that a number of rows lies in, from the lowest, which is 0.
    fn line(self, rows: f64) -> usize {
        (self.level(rows).ceil() as usize).clamp(1, self.lines as usize) - 1
    }
}

fn chart(lane: &Lane, bins: &[Bin], height: u16, palette: Palette) -> Vec<Line<'static>> {
    let tops = lane.ceilings.iter().filter(|top| !(top.of_requests && lane.has_drafts)).map(|top| top.size);
    let most = tops.clone().fold(lane.history.total().rows_max, u32::max).max(1);
    let scale = Scale { top: f64::from(most), lines: f64::from(height) };
    let line = |number: usize| {
        // Of two in the same line the lower one is named: more steps lie above it.
        let ceiling = tops.clone().find(|&rows| scale.line(rows.into()) == number);
        let is_ceiling = ceiling.is_some();
        let name = match (ceiling, number + 1 == usize::from(height)) {
            (Some(rows), _) => count(rows.into()),
            (_, true) => count(most.into()),
            (_, false) if number == 0 && most > 1 => "1".to_owned(),
            _ => String::new(),
        };
        let name = whole(&name, NAME_COLUMNS - 1);
        let mark = if is_ceiling { '┼' } else { '│' };
        let mut spans = vec![Span::styled(format!("{name:>0$}{mark}", NAME_COLUMNS - 1), Palette::faint())];
        spans.extend(bins.iter().map(|bin| {
            let (character, style) = cell(bin, number, scale, is_ceiling, palette);
            Span::styled(character.to_string(), style)
        }));
        Line::from(spans)
    };
    (0..usize::from(height)).rev().map(line).collect()
}

/// One character of the chart: the bar of the mean, the mark of the most, the ceiling, or nothing.
fn cell(bin: &Bin, line: usize, scale: Scale, is_ceiling: bool, palette: Palette) -> (char, Style) {
    let below = line as f64;
    if let (Some(mean), Some(no_graph)) = (bin.mean_rows(), bin.no_graph_share()) {
        let filled = scale.level(mean) - below;
        let without = 2.0 * no_graph >= 1.0;
        let style = if without { palette.no_graph() } else { palette.exact() };
        if filled >= 1.0 {
            return (if without { NO_GRAPH } else { EXACT }, style);
        }
        if filled > 0.0 && !(is_ceiling && filled < 0.5) {
            return (if without { NO_GRAPH } else { bars::height(filled) }, style);
        }
        if scale.line(bin.rows_max.into()) == line {
            return ('·', style);
        }
    }
    if is_ceiling { ('─', palette.line()) } else { (' ', Style::new()) }
}

/// A line of shades or of heights for each thing that goes on beside the rows.
fn strips(lane: &Lane, bins: &[Bin], palette: Palette) -> Vec<Line<'static>> {
    let total = lane.history.total();
    let strip = |name: &str, style: Style, scale: &str, character: &dyn Fn(&Bin) -> char| {
        let name = whole(name, NAME_COLUMNS - 1);
        let scale = whole(scale, SCALE_COLUMNS - 1);
        let drawn: String = bins.iter().map(character).collect();
        Line::from(vec![
            Span::styled(format!("{name:>0$}│", NAME_COLUMNS - 1), Palette::faint()),
            Span::styled(drawn, style),
            Span::styled(format!(" {scale}"), Palette::faint()),
        ])
    };
    let of = |value: u64, most: u64| bars::height(value as f64 / most.max(1) as f64);
    let share = total.no_graph_share().map_or_else(|| "-".to_owned(), percent);
    vec![
        strip("eager", palette.no_graph(), &share, &|bin| bars::shade(bin.no_graph_share().unwrap_or_default())),
        strip("queue", palette.padded(), &count(total.waiting_max), &|bin| of(bin.waiting_max, total.waiting_max)),
        strip("KV", palette.line(), "100 %", &|bin| bars::height(bin.kv_share_max)),
        strip("context", Style::new(), &count(total.context_max), &|bin| of(bin.context_max, total.context_max)),
    ]
}

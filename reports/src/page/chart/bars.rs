//! Bars of parts, one below the other: what a whole is made of.

use std::io;

use plotters::element::Text;

use super::axis::Axis;
use super::legend::{self, Entry};
use super::palette::{INK, MUTED, Shade, part};
use super::panel::{Anchor, style};
use super::{LABEL_PX, Svg, WIDTH, canvas, fitted, text_width};
use crate::text::number;

/// Units of a bar with the room around it.
const BAR: i32 = 30;
/// Units of the names.
const NAMES: i32 = 250;
/// Units between groups of bars.
const BETWEEN: i32 = 10;
/// Units below the bars, for the axis and its name.
const BELOW: i32 = 46;
/// Units right of the longest bar, for its sum.
const SUM: i32 = 80;

/// What the parts are called, and in which unit they are.
#[derive(Clone, Debug)]
pub(in crate::page) struct Stack<'a> {
    /// Name of the axis, with its unit.
    pub(in crate::page) name: &'a str,
    /// Names of the parts, in order.
    pub(in crate::page) parts: &'a [&'a str],
    /// Groups of bars.
    pub(in crate::page) groups: &'a [Vec<Bar>],
    /// What stands in place of a bar without parts: no figure is not a figure of zero.
    pub(in crate::page) absent: &'a str,
}

/// One bar.
#[derive(Clone, Debug)]
pub(in crate::page) struct Bar {
    /// Name beside it.
    pub(in crate::page) name: String,
    /// The parts, by their place in the legend; none where no figure is defined.
    pub(in crate::page) parts: Vec<(usize, f64)>,
}

/// Draws the bars.
///
/// # Errors
/// That of the drawing.
pub(in crate::page) fn stacks(stack: &Stack<'_>) -> io::Result<Svg> {
    let used = |place: usize| {
        let parts = stack.groups.iter().flatten().flat_map(|bar| &bar.parts);
        parts.filter(|(part, _)| *part == place).any(|(_, value)| *value > 0.0)
    };
    let entries: Vec<Entry> = stack
        .parts
        .iter()
        .enumerate()
        .filter(|(place, _)| used(*place))
        .map(|(place, name)| Entry::fill(part(place), name))
        .collect();
    let above = legend::height(&entries) + 6;
    let bars: i32 = stack.groups.iter().map(|group| BAR * i32::try_from(group.len()).unwrap_or(0) + BETWEEN).sum();
    let sum = |bar: &Bar| bar.parts.iter().map(|(_, value)| value.max(0.0)).sum::<f64>();
    let most = stack.groups.iter().flatten().map(sum).fold(0.0, f64::max);
    let axis = Axis::from_zero(stack.name, most, 8);
    let room = f64::from(WIDTH - NAMES - SUM);
    let x = |value: f64| NAMES + (value / axis.range[1] * room).round() as i32;
    canvas(above + bars + BELOW, |area| {
        legend::draw(area, &entries)?;
        let bottom = above + bars;
        for (value, label) in &axis.ticks {
            let points = [(x(*value), above - 4), (x(*value), bottom)];
            area.draw(&line(&points, super::palette::GRID))?;
            area.draw(&Text::new(
                label.clone(),
                (x(*value), bottom + 6),
                style(LABEL_PX, MUTED, false, Anchor::Below),
            ))?;
        }
        let name = (NAMES + room as i32 / 2, bottom + 26);
        area.draw(&Text::new(stack.name.to_owned(), name, style(LABEL_PX, INK, false, Anchor::Below)))?;
        let mut top = above;
        for group in stack.groups {
            for bar in group {
                let middle = top + BAR / 2;
                let label = fitted(&bar.name, LABEL_PX, f64::from(NAMES - 14));
                area.draw(&Text::new(label, (NAMES - 8, middle), style(LABEL_PX, INK, false, Anchor::Left)))?;
                let mut from = 0.0;
                for (place, value) in bar.parts.iter().filter(|(_, value)| *value > 0.0) {
                    let figure = (bar.parts.len() > 1).then_some(*value);
                    segment(area, [x(from), x(from + value)], middle, part(*place), figure)?;
                    from += value;
                }
                let is_absent = bar.parts.is_empty();
                let total = if is_absent { stack.absent.to_owned() } else { number::fixed(from, decimals(from)) };
                let at = (x(from) + 6, middle);
                area.draw(&Text::new(total, at, style(LABEL_PX, INK, !is_absent, Anchor::Right)))?;
                top += BAR;
            }
            top += BETWEEN;
        }
        area.draw(&line(&[(NAMES, above - 4), (NAMES, bottom)], MUTED))
    })
}

fn line(points: &[(i32, i32)], shade: Shade) -> plotters::element::PathElement<(i32, i32)> {
    plotters::element::PathElement::new(points.to_vec(), plotters::style::ShapeStyle::from(shade.rgb()).stroke_width(1))
}

/// One part of a bar, with its figure if there is room for it.
fn segment(
    area: &super::Area<'_>,
    [left, right]: [i32; 2],
    middle: i32,
    fill: Shade,
    figure: Option<f64>,
) -> Result<(), super::DrawError> {
    use plotters::style::Color;
    // A gap of one unit, so that parts of like shades stay apart in print.
    let right = right.max(left + 2) - 1;
    let corners = [(left, middle - BAR / 2 + 4), (right, middle + BAR / 2 - 4)];
    area.draw(&plotters::element::Rectangle::new(corners, fill.rgb().filled()))?;
    let text = figure.map(|value| number::fixed(value, decimals(value))).unwrap_or_default();
    if text.is_empty() || text_width(&text, LABEL_PX) + 8.0 > f64::from(right - left) {
        return Ok(());
    }
    let at = (i32::midpoint(left, right), middle);
    area.draw(&Text::new(text, at, style(LABEL_PX - 1.0, fill.text_on_it(), false, Anchor::Middle)))
}

fn decimals(largest: f64) -> usize {
    match largest {
        x if x >= 1_000.0 => 0,
        x if x >= 10.0 => 1,
        x if x >= 1.0 || x == 0.0 => 2,
        _ => 3,
    }
}

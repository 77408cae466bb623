//! Charts as SVG. A chart is drawn from plain numbers, is the same bytes for the same numbers, and carries no script.
//!
//! Every chart is [`WIDTH`] units wide and scales with the page; where a page is too narrow for its text, its box scrolls.

mod axis;
mod bars;
mod batches;
mod curves;
mod front;
mod ladder;
mod legend;
mod palette;
mod panel;
mod rungs;
mod stairs;
mod timeline;

use std::io;

pub(super) use bars::{Bar, Stack, stacks};
pub(super) use batches::{BatchBar, Batches};
pub(super) use curves::{Curve, curves};
pub(super) use front::{Alternative, front, is_on_front};
pub(super) use ladder::{RungBar, ladder};
pub(super) use palette::style_rules;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
pub(super) use rungs::{CapturedRung, captured_rungs};
pub(super) use stairs::stairs;
pub(super) use timeline::timeline;

/// Units that a chart is wide.
const WIDTH: i32 = 960;

/// Size of labels and legends, units.
const LABEL_PX: f64 = 13.0;

/// A finished drawing. Its text is made here only, of numbers and escaped names.
#[derive(Clone, Debug)]
pub struct Svg {
    /// What stands between `<svg>` and `</svg>`.
    pub(super) content: String,
    /// Units that it is high.
    pub(super) height: i32,
}

/// What a chart is drawn on.
type Area<'a> = DrawingArea<plotters::backend::SVGBackend<'a>, Shift>;

/// Why a drawing failed; a drawing in memory has no reason to.
type DrawError = DrawingAreaErrorKind<io::Error>;

/// Draws on a canvas of that height.
fn canvas(height: i32, draw: impl FnOnce(&Area<'_>) -> Result<(), DrawError>) -> io::Result<Svg> {
    let mut text = String::new();
    let drawn = {
        let area = plotters::backend::SVGBackend::with_string(&mut text, (WIDTH.unsigned_abs(), height.unsigned_abs()))
            .into_drawing_area();
        draw(&area).and_then(|()| area.present())
    };
    drawn.map_err(|error| io::Error::other(error.to_string()))?;
    // The page writes its own `<svg>`, with a name for those who cannot see it.
    let content = text.split_once('>').map_or("", |(_, rest)| rest);
    let content = content.rsplit_once("</svg>").map_or(content, |(content, _)| content);
    Ok(Svg { content: content.trim().to_owned(), height })
}

/// About how wide a text is, units: letters are taken to be a little more than half as wide as high, characters of East
/// Asian scripts as wide as high.
fn text_width(text: &str, px: f64) -> f64 {
    text.chars().map(|c| if c as u32 >= 0x1100 { px } else { 0.55 * px }).sum()
}

/// The text, or its beginning, in that many units.
fn fitted(text: &str, px: f64, room: f64) -> String {
    if text_width(text, px) <= room {
        return text.to_owned();
    }
    let mut head = String::new();
    for c in text.chars() {
        if text_width(&head, px) + 2.0 * px > room {
            break;
        }
        head.push(c);
    }
    head.trim_end().to_owned() + "\u{2026}"
}

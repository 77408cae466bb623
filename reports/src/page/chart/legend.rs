//! What the marks of a chart mean, in one or more lines above it.

use plotters::element::{PathElement, Rectangle, Text};
use plotters::style::{Color, ShapeStyle};

use super::palette::{INK, Shade};
use super::panel::{Anchor, letter_at, style};
use super::{Area, DrawError, LABEL_PX, WIDTH, fitted, text_width};

/// Units of a line of the legend.
const LINE: i32 = 22;
/// Units of a mark.
const MARK: i32 = 26;
/// Most units of a name.
const NAME: f64 = 300.0;

/// One entry.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    mark: Mark,
    name: String,
}

#[derive(Clone, Debug)]
enum Mark {
    Fill(Shade),
    Line(Shade),
    Letter(String, Shade),
}

impl Entry {
    /// A filled box.
    pub(super) fn fill(shade: Shade, name: &str) -> Self {
        Self { mark: Mark::Fill(shade), name: name.to_owned() }
    }

    /// A line, with its dashes.
    pub(super) fn line(shade: Shade, name: &str) -> Self {
        Self { mark: Mark::Line(shade), name: name.to_owned() }
    }

    /// A candidate: its letter on a line of its colour.
    pub(super) fn letter(letter: &str, shade: Shade, name: &str) -> Self {
        Self { mark: Mark::Letter(letter.to_owned(), shade), name: name.to_owned() }
    }

    fn width(&self) -> i32 {
        MARK + 6 + text_width(&fitted(&self.name, LABEL_PX, NAME), LABEL_PX).ceil() as i32 + 16
    }
}

/// Places of the entries, and the units that they are high all together.
fn layout(entries: &[Entry]) -> (Vec<(i32, i32)>, i32) {
    let (mut x, mut y) = (4, 0);
    let mut places = Vec::with_capacity(entries.len());
    for entry in entries {
        if x > 4 && x + entry.width() > WIDTH {
            (x, y) = (4, y + LINE);
        }
        places.push((x, y));
        x += entry.width();
    }
    (places, if entries.is_empty() { 0 } else { y + LINE })
}

/// Units that the legend is high.
pub(super) fn height(entries: &[Entry]) -> i32 {
    layout(entries).1
}

/// Draws the legend at the top of an area.
///
/// # Errors
/// That of the drawing.
pub(super) fn draw(area: &Area<'_>, entries: &[Entry]) -> Result<(), DrawError> {
    let (places, _) = layout(entries);
    for (entry, (x, y)) in entries.iter().zip(places) {
        let middle = y + LINE / 2;
        match &entry.mark {
            Mark::Fill(shade) => {
                area.draw(&Rectangle::new([(x + 8, middle - 6), (x + MARK - 2, middle + 6)], shade.rgb().filled()))?;
            }
            Mark::Line(shade) => line(area, x, middle, *shade)?,
            Mark::Letter(letter, shade) => letter_at(area, (x + MARK - 11, middle), letter, *shade)?,
        }
        let name = fitted(&entry.name, LABEL_PX, NAME);
        area.draw(&Text::new(name, (x + MARK + 4, middle), style(LABEL_PX, INK, false, Anchor::Right)))?;
    }
    Ok(())
}

fn line(area: &Area<'_>, x: i32, middle: i32, shade: Shade) -> Result<(), DrawError> {
    let points = [(x, middle), (x + MARK, middle)];
    area.draw(&PathElement::new(points, ShapeStyle::from(shade.rgb()).stroke_width(2)))
}

//! One coordinate system of a chart, with its axes, and the marks that are put into it.

use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::cartesian::Cartesian2d;
use plotters::element::{Circle, PathElement, Polygon, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontStyle, IntoFont, IntoTextStyle, ShapeStyle, TextStyle};

use super::axis::Axis;
use super::palette::{GRID, INK, MUTED, Shade};
use super::{Area, DrawError, LABEL_PX};

/// Units left of the plotting area, for the labels of the axis.
const LEFT: i32 = 70;
/// Units above it, for the name of the vertical axis.
const TOP: i32 = 28;
/// Units below it, for the labels of the horizontal axis, and its name.
const BOTTOM: i32 = 44;

/// Axes and marks in one part of a chart.
pub(super) struct Panel<'a, 'b> {
    chart: ChartContext<'a, plotters::backend::SVGBackend<'b>, Cartesian2d<Axis, Axis>>,
    area: &'a Area<'b>,
    x: Axis,
    y: Axis,
}

/// Which way a text is laid from its point.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    /// To the right of it, at its height.
    Right,
    /// To the left of it, at its height.
    Left,
    /// In the middle of it.
    Middle,
    /// Below it.
    Below,
}

/// A text style.
pub(super) fn style<'a>(px: f64, shade: Shade, bold: bool, anchor: Anchor) -> TextStyle<'a> {
    let (h, v) = match anchor {
        Anchor::Right => (HPos::Left, VPos::Center),
        Anchor::Left => (HPos::Right, VPos::Center),
        Anchor::Middle => (HPos::Center, VPos::Center),
        Anchor::Below => (HPos::Center, VPos::Top),
    };
    let font = ("sans-serif", px).into_font().style(if bold { FontStyle::Bold } else { FontStyle::Normal });
    font.color(&shade.rgb()).pos(Pos::new(h, v))
}

impl<'a, 'b> Panel<'a, 'b> {
    /// Draws the axes. A horizontal axis without a name takes no room for labels: another panel below has them.
    ///
    /// # Errors
    /// That of the drawing.
    pub(super) fn new(area: &'a Area<'b>, x: Axis, y: Axis) -> Result<Self, DrawError> {
        let labelled = !x.name.is_empty();
        let mut chart = ChartBuilder::on(area)
            .margin_right(20)
            .margin_top(TOP)
            .margin_bottom(if labelled { 0 } else { 6 })
            .x_label_area_size(if labelled { BOTTOM } else { 0 })
            .y_label_area_size(LEFT)
            .build_cartesian_2d(x.clone(), y.clone())?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(GRID.rgb())
            .light_line_style(GRID.rgb().mix(0.0))
            .axis_style(MUTED.rgb())
            .label_style(("sans-serif", LABEL_PX).into_font().color(&MUTED.rgb()))
            .axis_desc_style(("sans-serif", LABEL_PX).into_font().color(&INK.rgb()))
            .x_desc(x.name.clone())
            .draw()?;
        let title = style(LABEL_PX, INK, false, Anchor::Right);
        area.draw(&Text::new(y.name.clone(), (4, TOP / 2), title))?;
        Ok(Self { chart, area, x, y })
    }

    /// The pixels of a pair of values.
    fn pixels(&self, x: f64, y: f64) -> (i32, i32) {
        self.chart.backend_coord(&(self.x.place(x), self.y.place(y)))
    }

    /// The pixels of a pair of places relative to the area of this panel.
    fn at(&self, x: f64, y: f64) -> (i32, i32) {
        let (left, top) = self.area.get_base_pixel();
        let (x, y) = self.pixels(x, y);
        (x - left, y - top)
    }

    /// A filled box between two values of each axis.
    pub(super) fn bar(&mut self, x: [f64; 2], y: [f64; 2], fill: Shade) -> Result<(), DrawError> {
        let (first, second) = (self.at(x[0], y[0]), self.at(x[1], y[1]));
        if first.1 == second.1 || first.0 == second.0 {
            return Ok(());
        }
        self.area.draw(&Rectangle::new([first, second], fill.rgb().filled()))
    }

    /// A line through points, `width` units wide.
    pub(super) fn line(&mut self, points: &[(f64, f64)], stroke: Shade, width: u32) -> Result<(), DrawError> {
        let points: Vec<(i32, i32)> = points.iter().map(|&(x, y)| self.at(x, y)).collect();
        self.area.draw(&PathElement::new(points, ShapeStyle::from(stroke.rgb()).stroke_width(width)))
    }

    /// The area between two lines over the same points.
    pub(super) fn band(&mut self, points: &[(f64, f64, f64)], fill: Shade) -> Result<(), DrawError> {
        let upper = points.iter().map(|&(x, _, high)| self.at(x, high));
        let lower = points.iter().rev().map(|&(x, low, _)| self.at(x, low));
        let outline: Vec<(i32, i32)> = upper.chain(lower).collect();
        self.area.draw(&Polygon::new(outline, fill.rgb().filled()))
    }

    /// A line from the bottom to the top at one value of the horizontal axis.
    pub(super) fn upright(&mut self, x: f64, stroke: Shade, width: u32) -> Result<(), DrawError> {
        let (bottom, top) = (
            self.chart.backend_coord(&(self.x.place(x), self.y.range[0])),
            self.chart.backend_coord(&(self.x.place(x), self.y.range[1])),
        );
        let (left, above) = self.area.get_base_pixel();
        let points = [bottom, top].map(|(x, y)| (x - left, y - above));
        self.area.draw(&PathElement::new(points, ShapeStyle::from(stroke.rgb()).stroke_width(width)))
    }

    /// A line from side to side at one value of the vertical axis.
    pub(super) fn level(&mut self, y: f64, stroke: Shade, width: u32) -> Result<(), DrawError> {
        let (left, above) = self.area.get_base_pixel();
        let ends = [self.x.range[0], self.x.range[1]].map(|x| self.chart.backend_coord(&(x, self.y.place(y))));
        let points = ends.map(|(x, y)| (x - left, y - above));
        self.area.draw(&PathElement::new(points, ShapeStyle::from(stroke.rgb()).stroke_width(width)))
    }

    /// A short line upwards from the bottom, `length` units.
    pub(super) fn tick(&mut self, x: f64, length: i32, stroke: Shade, width: u32) -> Result<(), DrawError> {
        let (left, above) = self.area.get_base_pixel();
        let (x, y) = self.chart.backend_coord(&(self.x.place(x), self.y.range[0]));
        let points = [(x - left, y - above), (x - left, y - above - length)];
        self.area.draw(&PathElement::new(points, ShapeStyle::from(stroke.rgb()).stroke_width(width)))
    }

    /// A letter on a disc.
    pub(super) fn letter(&mut self, x: f64, y: f64, letter: &str, fill: Shade) -> Result<(), DrawError> {
        letter_at(self.area, self.at(x, y), letter, fill)
    }

    /// A letter on a disc, moved by some units.
    pub(super) fn letter_moved(
        &mut self,
        (x, y): (f64, f64),
        moved: (i32, i32),
        letter: &str,
        fill: Shade,
    ) -> Result<(), DrawError> {
        let (left, top) = self.at(x, y);
        letter_at(self.area, (left + moved.0, top + moved.1), letter, fill)
    }

    /// A line from a pair of values to what was moved aside from it, with a dot where it belongs.
    pub(super) fn leader(&mut self, (x, y): (f64, f64), moved: (i32, i32), stroke: Shade) -> Result<(), DrawError> {
        let (left, top) = self.at(x, y);
        let points = [(left, top), (left + moved.0, top + moved.1)];
        self.area.draw(&PathElement::new(points, ShapeStyle::from(stroke.rgb()).stroke_width(1)))?;
        self.dot(x, y, stroke)
    }

    /// Units of a pair of values in this panel.
    pub(super) fn spot(&self, x: f64, y: f64) -> (f64, f64) {
        let (x, y) = self.at(x, y);
        (f64::from(x), f64::from(y))
    }

    /// Whether a disc of that radius around a point lies in the plotting area, units.
    pub(super) fn has_room(&self, x: f64, y: f64, radius: f64) -> bool {
        let (left, top) = self.area.get_base_pixel();
        let end = |place: usize| self.chart.backend_coord(&(self.x.range[place], self.y.range[place]));
        let ((first, bottom), (last, upper)) = (end(0), end(1));
        let across = f64::from(first - left) + radius..=f64::from(last - left) - radius;
        let down = f64::from(upper - top) + radius..=f64::from(bottom - top) - radius;
        across.contains(&x) && down.contains(&y)
    }

    /// A small dot.
    pub(super) fn dot(&mut self, x: f64, y: f64, fill: Shade) -> Result<(), DrawError> {
        self.area.draw(&Circle::new(self.at(x, y), 2, fill.rgb().filled()))
    }

    /// A text beside a pair of values, moved by some units.
    pub(super) fn text(
        &mut self,
        (x, y): (f64, f64),
        moved: (i32, i32),
        text: &str,
        shade: Shade,
        anchor: Anchor,
    ) -> Result<(), DrawError> {
        let (left, top) = self.at(x, y);
        let point = (left + moved.0, top + moved.1);
        self.area.draw(&Text::new(text.to_owned(), point, style(LABEL_PX - 1.0, shade, false, anchor)))
    }

    /// A text beside an upright line, at the upper or the lower end of the panel; left of it where the panel ends.
    pub(super) fn beside(&mut self, x: f64, at_top: bool, text: &str, shade: Shade) -> Result<(), DrawError> {
        let (left, above) = self.area.get_base_pixel();
        let end = self.y.range[usize::from(at_top)];
        let (at, y) = self.chart.backend_coord(&(self.x.place(x), end));
        let (last, _) = self.chart.backend_coord(&(self.x.range[1], end));
        let fits = super::text_width(text, LABEL_PX) + 4.0 < f64::from(last - at);
        let (aside, anchor) = if fits { (4, Anchor::Right) } else { (-4, Anchor::Left) };
        let point = (at - left + aside, y - above + if at_top { 8 } else { -10 });
        self.area.draw(&Text::new(text.to_owned(), point, style(LABEL_PX - 1.0, shade, false, anchor)))
    }

    /// Upright lines after some values, each with its label where that reaches neither another line nor another label.
    pub(super) fn edges(
        &mut self,
        edges: &[f64],
        shade: Shade,
        label: impl Fn(f64) -> String,
    ) -> Result<(), DrawError> {
        let shown: Vec<f64> = edges.iter().map(|edge| edge + 0.5).filter(|edge| self.x.holds(*edge)).collect();
        let left = self.area.get_base_pixel().0;
        let pixel = |place: f64| f64::from(self.chart.backend_coord(&(place, self.y.range[0])).0 - left);
        let at: Vec<f64> = shown.iter().map(|edge| pixel(self.x.place(*edge))).collect();
        let (mut taken, end) = (pixel(self.x.range[0]), pixel(self.x.range[1]));
        let mut labels = Vec::new();
        for (place, (edge, &from)) in shown.iter().zip(&at).enumerate() {
            let text = label(edge - 0.5);
            let width = super::text_width(&text, LABEL_PX) + 10.0;
            if from + width < at.get(place + 1).copied().unwrap_or(end) {
                labels.push((from + 4.0, text, Anchor::Right));
                taken = from + width;
            } else if place + 1 == at.len() && from - width > taken {
                labels.push((from - 4.0, text, Anchor::Left));
            } else {
                taken = from;
            }
        }
        let above = self.area.get_base_pixel().1;
        let top = self.chart.backend_coord(&(self.x.range[0], self.y.range[1])).1 - above;
        for edge in shown {
            self.upright(edge, shade, 2)?;
        }
        labels.into_iter().try_for_each(|(x, text, anchor)| {
            let style = style(LABEL_PX - 1.0, shade, false, anchor);
            self.area.draw(&Text::new(text, (x as i32, top + 8), style))
        })
    }
}

/// A letter on a disc, at a point of an area.
pub(super) fn letter_at(area: &Area<'_>, at: (i32, i32), letter: &str, fill: Shade) -> Result<(), DrawError> {
    area.draw(&Circle::new(at, 9, fill.rgb().filled()))?;
    let style = style(LABEL_PX - 2.0, fill.text_on_it(), true, Anchor::Middle);
    area.draw(&Text::new(letter.to_owned(), at, style.into_text_style(area)))
}

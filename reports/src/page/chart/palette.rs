//! The colours of charts, light and dark.
//!
//! Charts are drawn in the light colours, as presentation attributes. On a dark page the style sheet replaces each of them
//! by attribute; dashes are set the same way, so that lines can be told apart without colour.

use std::fmt::Write as _;

use plotters::style::RGBColor;

/// A colour by its light shade, which names it in the drawing, and the shade on a dark page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::page) struct Shade {
    light: [u8; 3],
    dark: [u8; 3],
    /// Pixels of dash and gap of lines in this colour; empty for a solid line.
    dashes: &'static str,
}

const fn shade(light: [u8; 3], dark: [u8; 3], dashes: &'static str) -> Shade {
    Shade { light, dark, dashes }
}

/// Text and axes.
pub(in crate::page) const INK: Shade = shade([0x1B, 0x1F, 0x24], [0xE6, 0xEA, 0xEF], "");
/// What is secondary.
pub(in crate::page) const MUTED: Shade = shade([0x57, 0x60, 0x6A], [0xA3, 0xAC, 0xB8], "");
/// Lines of the grid.
pub(in crate::page) const GRID: Shade = shade([0xDF, 0xE3, 0xE8], [0x33, 0x3A, 0x44], "");
/// The page itself: text on a filled mark.
pub(in crate::page) const PAPER: Shade = shade([0xFF, 0xFF, 0xFE], [0x15, 0x18, 0x1C], "");
/// Steps that fit a rung.
pub(in crate::page) const EXACT: Shade = shade([0x0B, 0x4F, 0x8A], [0x4F, 0x9F, 0xE0], "");
/// Steps and rows that were padded.
pub(in crate::page) const PADDED: Shade = shade([0x9C, 0xC3, 0xE4], [0x9F, 0xC9, 0xEC], "");
/// From the mean up to the most.
pub(in crate::page) const BAND: Shade = shade([0xB9, 0xD3, 0xEA], [0x2B, 0x4C, 0x69], "");
/// Steps without a graph.
pub(in crate::page) const EAGER: Shade = shade([0xB8, 0x4A, 0x0C], [0xF0, 0x8C, 0x4A], "");
/// Steps without a graph for other causes than their size.
pub(in crate::page) const EAGER_OTHER: Shade = shade([0xE3, 0xB4, 0x90], [0xA6, 0x66, 0x3C], "");
/// Milliseconds won.
pub(in crate::page) const WON: Shade = shade([0x0C, 0x6B, 0x4C], [0x4C, 0xC3, 0x96], "");
/// Milliseconds lost.
pub(in crate::page) const LOST: Shade = shade([0xB0, 0x23, 0x3A], [0xF2, 0x7A, 0x88], "");
/// The ceiling of a ladder, a limit, an SLO.
pub(in crate::page) const LIMIT: Shade = shade([0x8A, 0x10, 0x10], [0xFF, 0x8A, 0x80], "8 4");
/// Edges of a staircase.
pub(in crate::page) const EDGE: Shade = shade([0x6E, 0x55, 0x0A], [0xD9, 0xBC, 0x5A], "2 3");

/// Candidates, in turn.
const SERIES: [Shade; 6] = [
    shade([0x0B, 0x5F, 0xA5], [0x63, 0xAD, 0xF2], ""),
    shade([0xA8, 0x43, 0x0A], [0xF3, 0x97, 0x5B], "9 4"),
    shade([0x0A, 0x73, 0x55], [0x4F, 0xC9, 0xA0], "3 3"),
    shade([0x7E, 0x34, 0x8C], [0xCF, 0x8F, 0xE0], "10 3 2 3"),
    shade([0x63, 0x63, 0x08], [0xC9, 0xC4, 0x55], "14 5"),
    shade([0xA1, 0x22, 0x4C], [0xF2, 0x82, 0xA8], "6 2 2 2 2 2"),
];

/// Parts of a whole, dark to light, so that neighbours differ in print too.
const PARTS: [Shade; 6] = [
    shade([0x12, 0x3F, 0x6B], [0x3D, 0x8A, 0xD2], ""),
    shade([0x7F, 0xAE, 0xD6], [0xB4, 0xD6, 0xF5], ""),
    shade([0x35, 0x79, 0xB5], [0x6A, 0xA9, 0xE3], ""),
    shade([0xC6, 0xDE, 0xF2], [0xDF, 0xEC, 0xF9], ""),
    shade([0x8A, 0x5A, 0x1B], [0xC9, 0x8B, 0x36], ""),
    shade([0xE5, 0xC8, 0x8F], [0xEE, 0xDC, 0xB4], ""),
];

/// The colour of the candidate at a place.
pub(in crate::page) fn series(place: usize) -> Shade {
    SERIES[place % SERIES.len()]
}

/// The colour of the part at a place.
pub(in crate::page) fn part(place: usize) -> Shade {
    PARTS[place % PARTS.len()]
}

impl Shade {
    /// As plotters has colours.
    pub(in crate::page) fn rgb(self) -> RGBColor {
        let [red, green, blue] = self.light;
        RGBColor(red, green, blue)
    }

    /// Text that can be read on a fill of this colour, on a light page.
    pub(in crate::page) fn text_on_it(self) -> Self {
        let [red, green, blue] = self.light.map(f64::from);
        if 0.299 * red + 0.587 * green + 0.114 * blue > 140.0 { INK_ON_LIGHT } else { PAPER_ON_DARK }
    }

    fn hex([red, green, blue]: [u8; 3]) -> String {
        format!("#{red:02X}{green:02X}{blue:02X}")
    }
}

/// Dark text on a light fill, whatever the page.
const INK_ON_LIGHT: Shade = shade([0x1B, 0x1F, 0x25], [0x12, 0x15, 0x19], "");
/// Light text on a dark fill; fills are lighter on a dark page.
const PAPER_ON_DARK: Shade = shade([0xFF, 0xFF, 0xFD], [0x10, 0x13, 0x17], "");

/// Every colour that a chart may use.
fn all() -> impl Iterator<Item = Shade> {
    let roles = [
        INK,
        MUTED,
        GRID,
        PAPER,
        EXACT,
        PADDED,
        BAND,
        EAGER,
        EAGER_OTHER,
        WON,
        LOST,
        LIMIT,
        EDGE,
        INK_ON_LIGHT,
        PAPER_ON_DARK,
    ];
    roles.into_iter().chain(SERIES).chain(PARTS)
}

/// The rules of the style sheet that belong to the colours: dashes and hatches, and the shades of a dark page.
pub(in crate::page) fn style_rules() -> String {
    // Steps without a graph are hatched: in print they are else as dark as exact hits. The page defines the hatch.
    let (light, dark) = (Shade::hex(EAGER.light), Shade::hex(EAGER.dark));
    let mut rules = format!(":root{{--eager:{light}}}.chart rect[fill=\"{light}\"]{{fill:url(#hatch) {light}}}\n");
    for shade in all().filter(|shade| !shade.dashes.is_empty()) {
        let _ = writeln!(
            rules,
            ".chart polyline[stroke=\"{}\"]{{stroke-dasharray:{}}}",
            Shade::hex(shade.light),
            shade.dashes
        );
    }
    let _ = writeln!(rules, "@media screen and (prefers-color-scheme: dark){{\n:root{{--eager:{dark}}}");
    for shade in all() {
        let (light, dark) = (Shade::hex(shade.light), Shade::hex(shade.dark));
        let _ = writeln!(rules, ".chart [fill=\"{light}\"]{{fill:{dark}}}.chart [stroke=\"{light}\"]{{stroke:{dark}}}");
    }
    rules.push_str("}\n");
    rules
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Relative luminance as WCAG 2 defines it.
    fn luminance(colour: [u8; 3]) -> f64 {
        let [red, green, blue] = colour.map(|channel| {
            let share = f64::from(channel) / 255.0;
            if share <= 0.040_45 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
        });
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    fn contrast(one: [u8; 3], other: [u8; 3]) -> f64 {
        let (one, other) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    #[test]
    fn every_colour_names_one_shade() {
        let names: BTreeSet<String> = all().map(|shade| Shade::hex(shade.light)).collect();
        assert_eq!(names.len(), all().count(), "two shades of one light colour could not differ on a dark page");
    }

    #[test]
    fn text_and_lines_stand_out_on_either_page() {
        for shade in [INK, MUTED, LIMIT, EDGE, EAGER, WON, LOST, EXACT].into_iter().chain(SERIES) {
            assert!(contrast(shade.light, PAPER.light) >= 4.5, "{shade:?} on a light page");
            assert!(contrast(shade.dark, PAPER.dark) >= 4.5, "{shade:?} on a dark page");
        }
    }

    #[test]
    fn text_on_a_fill_can_be_read() {
        for shade in [EXACT, PADDED, EAGER].into_iter().chain(SERIES).chain(PARTS) {
            let text = shade.text_on_it();
            assert!(contrast(shade.light, text.light) >= 4.5, "{shade:?} on a light page");
            assert!(contrast(shade.dark, text.dark) >= 4.5, "{shade:?} on a dark page");
        }
    }
}

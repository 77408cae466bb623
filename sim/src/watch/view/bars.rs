//! Bars made of characters, so that they read without colours too.

use ratatui::text::Span;

use super::palette::{EXACT, NO_GRAPH, PADDED, Palette};

/// Blocks from one eighth to all of a character's height.
const EIGHTHS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Characters of a bar for `value` where `most` fills `columns`: none for nothing, and at least one for something.
pub(super) fn length(value: u64, most: u64, columns: usize) -> usize {
    if value == 0 || most == 0 || columns == 0 {
        return 0;
    }
    let exact = (value.min(most) as f64 / most as f64) * columns as f64;
    (exact.round() as usize).clamp(1, columns)
}

/// A bar for steps of a graph: those that it ran as they were, then those that it padded. A part that is not empty has a
/// character if there is one for it.
pub(super) fn graph(exact: u64, padded: u64, most: u64, columns: usize, palette: Palette) -> [Span<'static>; 2] {
    let all = length(exact + padded, most, columns);
    let share = exact as f64 / (exact + padded).max(1) as f64;
    let nearest = (share * all as f64).round() as usize;
    // Each part that is not empty keeps a character.
    let first = if all < 2 { nearest } else { nearest.clamp(usize::from(exact > 0), all - usize::from(padded > 0)) };
    [
        Span::styled(repeated(EXACT, first), palette.exact()),
        Span::styled(repeated(PADDED, all - first), palette.padded()),
    ]
}

/// A bar for steps without a graph.
pub(super) fn no_graph(steps: u64, most: u64, columns: usize, palette: Palette) -> Span<'static> {
    Span::styled(repeated(NO_GRAPH, length(steps, most, columns)), palette.no_graph())
}

/// A character whose height is a share; a blank for nothing, the lowest for anything else.
pub(super) fn height(share: f64) -> char {
    let eighth = (share.clamp(0.0, 1.0) * 8.0).ceil() as usize;
    eighth.checked_sub(1).map_or(' ', |place| EIGHTHS[place])
}

/// A character whose darkness is a share of steps; a blank for nothing, full from three quarters on.
pub(super) fn shade(share: f64) -> char {
    match share {
        share if share <= 0.0 => ' ',
        share if share < 0.25 => '░',
        share if share < 0.5 => '▒',
        share if share < 0.75 => '▓',
        _ => '█',
    }
}

fn repeated(character: char, columns: usize) -> String {
    std::iter::repeat_n(character, columns).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_nothing_has_a_character_and_nothing_has_none() {
        assert_eq!([0, 1, 500, 999, 1_000, 2_000].map(|value| length(value, 1_000, 10)), [0, 1, 5, 10, 10, 10]);
        assert_eq!((length(5, 0, 10), length(5, 10, 0)), (0, 0));
        assert_eq!([0.0, 0.001, 0.5, 1.0, 2.0].map(height), [' ', '▁', '▄', '█', '█']);
        assert_eq!([0.0, 0.1, 0.3, 0.6, 0.75, 1.0].map(shade), [' ', '░', '▒', '▓', '█', '█']);
    }

    #[test]
    fn both_parts_of_a_bar_are_seen() {
        let palette = Palette::plain();
        let bar = |exact, padded, columns| -> String {
            graph(exact, padded, 100, columns, palette).iter().map(|span| span.content.clone()).collect()
        };
        assert_eq!(bar(50, 50, 10), "█████░░░░░");
        assert_eq!(bar(99, 1, 10), "█████████░");
        assert_eq!(bar(1, 99, 10), "█░░░░░░░░░");
        assert_eq!(bar(0, 100, 4), "░░░░");
        assert_eq!(bar(100, 0, 4), "████");
        assert_eq!(
            (bar(1, 2, 10), bar(2, 1, 10)),
            ("░".to_owned(), "█".to_owned()),
            "one character is for the larger part"
        );
        assert_eq!(bar(0, 0, 10), "");
    }
}

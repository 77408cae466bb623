//! Sentences, wrapped.

use std::io::{self, Write};

use super::WIDTH;

/// Writes one paragraph wrapped at [`WIDTH`]; `first` starts its first line, `rest` the others. A word longer than the
/// line stands alone.
pub(super) fn paragraph(sink: &mut impl Write, text: &str, first: &str, rest: &str) -> io::Result<()> {
    let mut line = first.to_owned();
    let mut empty = true;
    for word in plain(text).split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            writeln!(sink, "{line}")?;
            rest.clone_into(&mut line);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    writeln!(sink, "{}", line.trim_end())
}

/// A text out of a file without what could command a terminal: control characters that are no blanks are replaced.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && !c.is_whitespace() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_commands_a_terminal() {
        let mut text = Vec::new();
        paragraph(&mut text, "a\u{1b}[2J\u{7}\u{9b}m\r\n\tb", "", "").expect("a vector takes it all");
        assert_eq!(text, b"a?[2J??m b\n");
    }

    #[test]
    fn lines_stay_within_the_width_unless_one_word_is_longer() {
        let mut text = Vec::new();
        let long = "x".repeat(WIDTH + 5);
        paragraph(&mut text, &format!("{} {long} end", "word ".repeat(60)), "- ", "  ").expect("a vector takes it all");
        let text = String::from_utf8(text).expect("ASCII");
        assert!(text.starts_with("- word word"));
        for line in text.lines().skip(1) {
            assert!(line.starts_with("  "));
            assert!(line.len() <= WIDTH || line.trim() == long, "{line}");
        }
    }
}

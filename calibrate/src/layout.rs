//! Lines of what is shown of a profile: headings, sentences that break at blanks, numbers of a few digits. What a file holds
//! is printed without control characters, which could command a terminal.

use std::io::{self, Write};

use crate::stderr::printable;

/// Columns of whatever is laid out here.
pub(crate) const WIDTH: usize = 80;

pub(crate) fn heading(text: &str, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\n{}", printable(text))
}

/// A sentence below a heading, broken at blanks; what follows its first line stands four columns further in.
pub(crate) fn sentence(text: &str, out: &mut impl Write) -> io::Result<()> {
    broken("  ", 6, text, out)
}

/// A text behind its name, which ends with the blanks in front of the text; what follows its first line stands below it.
pub(crate) fn row(name: &str, text: &str, out: &mut impl Write) -> io::Result<()> {
    broken(name, name.chars().count(), text, out)
}

/// A sentence behind what it is about.
pub(crate) fn item(name: &str, text: &str, out: &mut impl Write) -> io::Result<()> {
    broken(&format!("  {name:<9} "), 6, text, out)
}

fn broken(head: &str, indent: usize, text: &str, out: &mut impl Write) -> io::Result<()> {
    let mut line = printable(head);
    let mut used = line.chars().count();
    let mut is_empty = true;
    for word in printable(text).split_whitespace() {
        let length = word.chars().count();
        if used + 1 + length > WIDTH && !is_empty {
            writeln!(out, "{}", line.trim_end())?;
            line = " ".repeat(indent);
            used = indent;
        }
        is_empty = false;
        line.push_str(word);
        line.push(' ');
        used += length + 1;
    }
    writeln!(out, "{}", line.trim_end())
}

/// A number with three digits or, if it is whole and larger, as it is.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 99.95 || value == 0.0 {
        return format!("{value:.0}");
    }
    let digits = if size >= 9.995 {
        1
    } else if size >= 0.9995 {
        2
    } else if size >= 0.09995 {
        3
    } else {
        4
    };
    format!("{value:.digits$}")
}

/// The same with its sign, whichever it is.
pub(crate) fn signed(value: f64) -> String {
    format!("{}{}", if value < 0.0 { '-' } else { '+' }, number(value.abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn laid_out(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_row_breaks_below_its_text() {
        let text = laid_out(|out| row("model    ", &"word ".repeat(40), out));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("model    word") && lines[1].starts_with("         word"), "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH && line.ends_with("word")), "{text}");
        assert_eq!(text.split_whitespace().filter(|word| *word == "word").count(), 40);
        assert_eq!(laid_out(|out| row("model    ", "", out)), "model\n");
    }

    #[test]
    fn a_word_that_fits_no_line_stays_whole() {
        let long = "x".repeat(2 * WIDTH);
        assert_eq!(laid_out(|out| row("  ", &format!("{long} {long}"), out)), format!("  {long}\n  {long}\n"));
        let exact = "x".repeat(WIDTH - 5);
        assert_eq!(laid_out(|out| row("  ", &format!("a {exact}"), out)), format!("  a {exact}\n"));
        assert_eq!(laid_out(|out| row("  ", &format!("ab {exact}"), out)), format!("  ab\n  {exact}\n"));
    }

    #[test]
    fn what_could_command_a_terminal_is_replaced() {
        let text = laid_out(|out| {
            heading("a\u{1b}[2J", out)?;
            sentence("b\u{1b}]0;title\u{7}\u{9b}c", out)?;
            row("\u{1b}d ", "e\r\nf", out)
        });
        assert_eq!(text, "\na?[2J\n  b?]0;title?¿c\n?d e f\n");
    }
}

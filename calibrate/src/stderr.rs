//! How both binaries say on standard error what is wrong.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::ops::Range;

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme};

/// Columns of a report. Fixed, so that a message reads the same in a terminal, a log and a test.
const WIDTH: usize = 100;

/// Prints a report: the message, the line of the file at fault, the way out.
///
/// In colour only on a terminal, and only where `NO_COLOR` is unset or empty. A standard error that cannot be written is
/// passed over: the exit code still tells.
pub fn report(diagnostic: &dyn Diagnostic) {
    let mut sink = io::stderr().lock();
    let plain = !sink.is_terminal() || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let _ = sink.write_all(render(diagnostic, !plain).as_bytes());
}

/// Prints one line, or several; a standard error that cannot be written is passed over.
pub fn line(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// A report as text, with the codes of a terminal for colours if asked for.
#[must_use]
pub fn render(diagnostic: &dyn Diagnostic, colour: bool) -> String {
    let theme = if colour { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    let handler = GraphicalReportHandler::new_themed(theme).with_width(WIDTH).with_links(false);
    let mut report = String::new();
    match handler.render_report(&mut report, diagnostic) {
        Ok(()) => report,
        Err(_) => format!("error: {diagnostic}\n"),
    }
}

/// The part of `span` that a report can show of `text`: no further than the end of its first line. `None` if that line or
/// one beside it, which the report shows too, is too long for a screen.
///
/// # Panics
/// If the span does not lie on character boundaries inside the text.
#[must_use]
pub fn shown(text: &str, span: &Range<usize>) -> Option<Range<usize>> {
    const LINE_BYTES_MAX: usize = 1000;
    let mut before = text[..span.start].rsplit('\n');
    let head = before.next().unwrap_or_default();
    let mut after = text[span.start..].split('\n');
    let tail = after.next().unwrap_or_default();
    let longest = [head.len() + tail.len()]
        .into_iter()
        .chain([before.next(), after.next()].into_iter().flatten().map(str::len))
        .max()
        .unwrap_or_default();
    (longest <= LINE_BYTES_MAX).then(|| span.start..span.end.min(span.start + tail.len()))
}

/// A text out of a file, fit for a terminal: control characters, which could command it, are replaced by others of the
/// same length, so that places keep their meaning.
#[must_use]
pub fn printable(text: &str) -> String {
    let shown = |c: char| match c {
        '\n' | '\t' | '\r' => c,
        _ if c.is_ascii_control() => '?',
        _ if c.is_control() => '¿',
        _ => c,
    };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_shown_to_the_end_of_its_first_line() {
        let text = "a = 1\nb = [\n  2,\n]\n";
        assert_eq!(shown(text, &(4..5)), Some(4..5));
        assert_eq!(shown(text, &(10..18)), Some(10..11));
        assert_eq!(shown(text, &(19..19)), Some(19..19));
        assert_eq!(shown("", &(0..0)), Some(0..0));
    }

    #[test]
    fn a_place_in_or_beside_an_endless_line_is_not_shown() {
        let text = format!("a = 1\nb = [{}]\nc = 3\nd = 4\n", "7, ".repeat(1000));
        let at = |key: &str| text.find(key).expect("is there");
        assert_eq!(shown(&text, &(at("b")..at("b") + 1)), None);
        assert_eq!(shown(&text, &(0..1)), None, "the line after it");
        assert_eq!(shown(&text, &(at("c")..at("c") + 1)), None, "the line before it");
        assert_eq!(shown(&text, &(at("d")..at("d") + 1)), Some(at("d")..at("d") + 1));
    }

    #[test]
    fn control_characters_are_replaced_in_place() {
        assert_eq!(printable("a\t\u{1b}[2J\u{7f}é\u{9b}m\0\r\n"), "a\t?[2J?é¿m?\r\n");
    }

    #[test]
    fn only_a_terminal_gets_colours_and_every_line_fits() {
        #[derive(Debug, thiserror::Error, Diagnostic)]
        #[error("cannot read {0}")]
        #[diagnostic(help("look"))]
        struct Unreadable(String);
        let error = Unreadable("folder/".repeat(30));
        assert!(render(&error, true).contains("\u{1b}["));
        let plain = render(&error, false);
        assert!(plain.starts_with("  × cannot read folder/") && plain.ends_with("\n  help: look\n"), "{plain}");
        assert!(plain.lines().all(|line| line.chars().count() <= WIDTH) && !plain.contains('\u{1b}'), "{plain}");
    }
}

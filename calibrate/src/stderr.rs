//! How both binaries say on standard error what is wrong.

use std::error::Error;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::ops::Range;

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, SourceCode};

/// Columns of a report. Fixed, so that a message reads the same in a terminal, a log and a test.
const WIDTH: usize = 100;

/// Columns of its sentences with what stands in front of them (`  × `, `  ╰─▶ ` or `  help: `).
const TEXT_WIDTH: usize = WIDTH - 2;

/// Prints a report: the message, the line of the file at fault, the way out.
///
/// In colour only on a terminal, and only where `NO_COLOR` is unset or empty. A standard error that cannot be written is
/// passed over: the exit code still tells.
pub fn report(diagnostic: &dyn Diagnostic) {
    let mut sink = io::stderr().lock();
    let plain = !sink.is_terminal() || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let _ = sink.write_all(render(diagnostic, !plain).as_bytes());
}

/// Prints one line, or several, as [`printable`]; a standard error that cannot be written is passed over.
pub fn line(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{}", printable(&text.to_string()));
}

/// A report as text, with the codes of a terminal for colours if asked for.
#[must_use]
pub fn render(diagnostic: &dyn Diagnostic, colour: bool) -> String {
    let theme = if colour { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    let handler = GraphicalReportHandler::new_themed(theme).with_width(WIDTH).with_wrap_lines(false).with_links(false);
    let mut report = String::new();
    match handler.render_report(&mut report, &Wrapped::new(diagnostic)) {
        Ok(()) => report,
        Err(_) => format!("error: {diagnostic}\n"),
    }
}

/// A report whose sentences are broken into lines already, and at blanks only: miette would break names, such as
/// `h200-llama-3.1-8b`, at their hyphens.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct Wrapped<'a> {
    message: String,
    #[source]
    cause: Option<Box<WrappedCause>>,
    help: Option<String>,
    original: &'a dyn Diagnostic,
}

#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct WrappedCause {
    message: String,
    #[source]
    cause: Option<Box<WrappedCause>>,
}

impl<'a> Wrapped<'a> {
    fn new(original: &'a dyn Diagnostic) -> Self {
        Self {
            message: wrap(&printable(&original.to_string()), TEXT_WIDTH - 4),
            cause: WrappedCause::below(original.source()),
            help: original.help().map(|help| wrap(&printable(&help.to_string()), TEXT_WIDTH - 8)),
            original,
        }
    }
}

impl Diagnostic for Wrapped<'_> {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.original.source_code()
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.original.labels()
    }
}

impl WrappedCause {
    fn below(original: Option<&(dyn Error + 'static)>) -> Option<Box<Self>> {
        let original = original?;
        let message = wrap(&printable(&original.to_string()), TEXT_WIDTH - 6);
        Some(Box::new(Self { message, cause: Self::below(original.source()) }))
    }
}

/// Breaks lines at blanks, after at most `width` characters. Only a word that is longer than a line is broken itself.
fn wrap(text: &str, width: usize) -> String {
    let mut wrapped = String::with_capacity(text.len() + text.len() / width);
    for (number, line) in text.lines().enumerate() {
        if number > 0 {
            wrapped.push('\n');
        }
        let mut used = 0;
        for (place, word) in line.split(' ').enumerate() {
            let length = word.chars().count();
            if length <= width && used + 1 + length > width && place > 0 {
                wrapped.push('\n');
                used = 0;
            } else if place > 0 {
                wrapped.push(' ');
                used += 1;
            }
            for character in word.chars() {
                if used >= width {
                    wrapped.push('\n');
                    used = 0;
                }
                wrapped.push(character);
                used += 1;
            }
        }
    }
    wrapped
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
    fn lines_break_at_blanks_and_names_stay_whole() {
        assert_eq!(wrap("use h200-llama-3.1-8b or a/b", 20), "use\nh200-llama-3.1-8b or\na/b");
        assert_eq!(wrap("one two\n  in three", 8), "one two\n  in\nthree", "given breaks and indents are kept");
        assert_eq!(wrap("see abcdefghijk", 8), "see abcd\nefghijk", "nothing else fits a word longer than a line");
        assert_eq!(wrap("", 8), "");
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
        let hostile = render(&Unreadable("\u{1b}[2J".to_owned()), false);
        assert_eq!(hostile, "  × cannot read ?[2J\n  help: look\n", "names of files are not trusted either");
    }
}

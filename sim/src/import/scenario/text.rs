//! Lines of a scenario with the comments that say where each is from.

use std::fmt::{Display, Write as _};

use calibrate::stderr::printable;

/// Columns of a comment.
const WIDTH: usize = 118;

/// A scenario as it grows.
#[derive(Debug, Default)]
pub(super) struct Text(String);

impl Text {
    /// A comment, broken at blanks; nothing in it ends a line early.
    pub(super) fn comment(&mut self, indent: usize, sentence: &str) {
        let room = WIDTH - 2 - indent;
        let mut line = String::new();
        for word in printable(sentence).split_whitespace() {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
                self.comment_line(indent, &line);
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        self.comment_line(indent, &line);
    }

    fn comment_line(&mut self, indent: usize, line: &str) {
        self.0 += format!("# {:indent$}{line}", "").trim_end();
        self.0.push('\n');
    }

    /// A key with its value, and where it is from.
    pub(super) fn key(&mut self, key: &str, value: impl Display, from: impl Display) {
        let from = one_line(&from.to_string());
        let comment = if from.is_empty() { String::new() } else { format!("  # {from}") };
        writeln!(self.0, "{key} = {value}{comment}").expect("writing to a string cannot fail");
    }

    /// A string as TOML writes it.
    pub(super) fn string(value: &str) -> String {
        toml::Value::String(value.to_owned()).to_string()
    }

    /// A line as it is.
    pub(super) fn line(&mut self, line: impl Display) {
        writeln!(self.0, "{line}").expect("writing to a string cannot fail");
    }

    pub(super) fn finish(self) -> String {
        self.0
    }
}

/// A text of which nothing ends a line early, nor commands a terminal.
#[must_use]
pub fn one_line(text: &str) -> String {
    printable(text).replace(['\n', '\r', '\t'], "?")
}

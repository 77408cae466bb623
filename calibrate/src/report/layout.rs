//! Lines of a report: headings, sentences that break at blanks, numbers of a few digits.

use std::io::{self, Write};

use super::WIDTH;

pub(super) fn heading(text: &str, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\n{text}")
}

/// A sentence below a heading, broken at blanks; what follows its first line stands four columns further in.
pub(super) fn sentence(text: &str, out: &mut impl Write) -> io::Result<()> {
    broken("  ", text, out)
}

/// A sentence behind what it is about.
pub(super) fn item(name: &str, text: &str, out: &mut impl Write) -> io::Result<()> {
    broken(&format!("  {name:<9} "), text, out)
}

fn broken(head: &str, text: &str, out: &mut impl Write) -> io::Result<()> {
    let mut line = head.to_owned();
    let mut used = head.chars().count();
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if used + 1 + length > WIDTH && used > 6 {
            writeln!(out, "{}", line.trim_end())?;
            "      ".clone_into(&mut line);
            used = 6;
        }
        line.push_str(word);
        line.push(' ');
        used += length + 1;
    }
    writeln!(out, "{}", line.trim_end())
}

/// A number with three digits or, if it is whole and larger, as it is.
pub(super) fn number(value: f64) -> String {
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
pub(super) fn signed(value: f64) -> String {
    format!("{}{}", if value < 0.0 { '-' } else { '+' }, number(value.abs()))
}

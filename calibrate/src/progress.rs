//! How far a calibration is, on standard error: a line that is rewritten on a terminal, a line for each part elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// A terminal's line is rewritten no more often than this.
const REFRESH: Duration = Duration::from_millis(100);
/// Width of the bar.
const BAR: usize = 20;
/// Columns that are written to, so that no line wraps.
const COLUMNS: usize = 79;

/// Who is told, and how.
#[derive(Debug)]
pub(crate) struct Display {
    style: Style,
    parts: usize,
    done: usize,
    title: &'static str,
    written: Option<Instant>,
}

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// One line, rewritten.
    Bar,
    /// A line when a part is done.
    Lines,
    /// Nothing.
    Silent,
}

impl Display {
    /// For so many parts; nothing at all if that is asked for.
    pub(crate) fn new(parts: usize, is_silent: bool) -> Self {
        let style = match (is_silent, io::stderr().is_terminal()) {
            (true, _) => Style::Silent,
            (false, true) => Style::Bar,
            (false, false) => Style::Lines,
        };
        Self { style, parts, done: 0, title: "", written: None }
    }

    /// A part begins.
    pub(crate) fn begin(&mut self, title: &'static str) {
        self.title = title;
        self.written = None;
        self.at(0.0, None);
    }

    /// The part is so far, from 0 to 1, and will probably go on for as long as is said.
    pub(crate) fn at(&mut self, share: f64, left: Option<Duration>) {
        let is_due = self.written.is_none_or(|written| written.elapsed() >= REFRESH);
        if self.style != Style::Bar || !is_due {
            return;
        }
        self.written = Some(Instant::now());
        rewrite(&bar_line(self.done, self.parts, self.title, share, left));
    }

    /// The part is done, with what is to be said of it.
    pub(crate) fn end(&mut self, said: &str) {
        self.done += 1;
        let line = format!("[{}/{}] {}: {said}", self.done, self.parts, self.title);
        match self.style {
            Style::Silent => {}
            Style::Lines => tell(&line),
            Style::Bar => {
                rewrite("");
                tell(&line);
            }
        }
    }

    /// What went wrong with the part for once; said even where no progress is shown.
    pub(crate) fn note(&mut self, said: &str) {
        self.clear();
        tell(&format!("{}: {said}", self.title));
    }

    /// Takes an unfinished line away, before something else is written.
    pub(crate) fn clear(&mut self) {
        if self.style == Style::Bar {
            rewrite("");
        }
    }
}

/// The line of a terminal.
fn bar_line(done: usize, parts: usize, title: &str, share: f64, left: Option<Duration>) -> String {
    let filled = (share.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    let bar: String = (0..BAR).map(|place| if place < filled { '#' } else { '.' }).collect();
    let left = left.map_or_else(String::new, |left| format!("  {} s left", left.as_secs() + 1));
    let line = format!("[{}/{parts}] {bar} {title}{left}", done + 1);
    line.chars().take(COLUMNS).collect()
}

/// A standard error that cannot be written is passed over.
fn rewrite(line: &str) {
    let mut sink = io::stderr().lock();
    let _ = write!(sink, "\r{line:<COLUMNS$}\r{line}");
    let _ = sink.flush();
}

fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_never_wider_than_a_small_terminal() {
        let line = bar_line(1, 9, "copies within the device", 0.25, Some(Duration::from_secs(3)));
        assert_eq!(line, "[2/9] #####............... copies within the device  4 s left");
        for share in [f64::NAN, -1.0, 0.0, 0.999, 7.0] {
            let line = bar_line(0, 9, &"long ".repeat(40), share, None);
            assert_eq!(line.chars().count(), COLUMNS, "{share}");
        }
    }
}

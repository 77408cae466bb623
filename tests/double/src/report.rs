//! What the double has to say when the process ends: every breach of a rule, every leak.
//!
//! One line each in the file that `RUNGWISE_DOUBLE_REPORT` names: `violation: ...`, `leak: ...` and `note: ...`, then
//! `calls: N` and `clock: N ns`, the host's virtual clock at the end. A line is written as soon as it is known, so that a crash loses none.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

/// The report of one process.
#[derive(Debug, Default)]
pub(crate) struct Report {
    file: Option<File>,
    calls: u64,
    lines: Vec<String>,
}

impl Report {
    /// Appends to `path`, where one is given: the children of a process report to the same file.
    pub(crate) fn to(path: Option<&Path>) -> Self {
        let file = path.map(|path| {
            let opened = OpenOptions::new().create(true).append(true).open(path);
            opened.unwrap_or_else(|error| panic!("driver double: cannot write {}: {error}", path.display()))
        });
        Self { file, ..Self::default() }
    }

    /// The file, where one is given.
    pub(crate) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    pub(crate) fn count_call(&mut self) {
        self.calls += 1;
    }

    pub(crate) fn violation(&mut self, text: &str) {
        self.line(format!("violation: {text}"));
    }

    pub(crate) fn leak(&mut self, text: &str) {
        self.line(format!("leak: {text}"));
    }

    pub(crate) fn note(&mut self, text: &str) {
        let line = format!("note: {text}");
        if !self.lines.contains(&line) {
            self.line(line);
        }
    }

    /// The last lines.
    pub(crate) fn close(&mut self, host_ns: u64) {
        let calls = self.calls;
        self.line(format!("calls: {calls}"));
        self.line(format!("clock: {host_ns} ns"));
    }

    /// Every line so far.
    #[cfg(test)]
    pub(crate) fn lines(&self) -> &[String] {
        &self.lines
    }

    fn line(&mut self, line: String) {
        if let Some(file) = &mut self.file {
            // One write a line: lines of several processes do not mix.
            let _ = file.write_all(format!("{line}\n").as_bytes());
        }
        self.lines.push(line);
    }
}

//! `--out`: run.json, requests.csv and steps.jsonl, each whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Seek};
use std::path::{Path, PathBuf};

use reports::{AtomicFile, OutputError, RunReport};

use super::super::failure::Failure;
use super::jobs::JobResult;
use super::logs::Logs;

/// A folder that can be written.
#[derive(Debug)]
pub(super) struct OutputFolder {
    path: PathBuf,
    steps: bool,
}

impl OutputFolder {
    /// Makes the folder if it is missing and makes sure, before any long work, that the results can be written there.
    ///
    /// # Errors
    /// If the folder cannot be made or written.
    pub(super) fn open(path: &Path, steps: bool) -> Result<Self, Failure> {
        fs::create_dir_all(path).map_err(|error| OutputError::Create { path: path.to_owned(), error })?;
        let folder = Self { path: path.to_owned(), steps };
        for name in folder.names() {
            drop(AtomicFile::create(path.join(name))?);
        }
        Ok(folder)
    }

    fn names(&self) -> &[&'static str] {
        if self.steps { &["run.json", "requests.csv", "steps.jsonl"] } else { &["run.json", "requests.csv"] }
    }

    /// What the runs must know.
    #[must_use]
    pub(super) fn logs(&self) -> Logs<'_> {
        Logs::new(&self.path, self.steps)
    }

    /// Writes all results: the logs of the runs in order, then run.json, whose presence says that the rest is there.
    ///
    /// # Errors
    /// If a file cannot be written; it is then not there, or as it was before.
    pub(super) fn write(&self, report: &RunReport, results: Vec<JobResult>) -> Result<(), Failure> {
        let (requests, steps): (Vec<_>, Vec<_>) =
            results.into_iter().map(|result| (result.requests, result.steps)).unzip();
        AtomicFile::write(self.path.join("requests.csv"), |sink| join(requests, 1, sink))?;
        if self.steps {
            AtomicFile::write(self.path.join("steps.jsonl"), |sink| join(steps, 0, sink))?;
        }
        AtomicFile::write(self.path.join("run.json"), |sink| reports::json::write(report, sink))?;
        Ok(())
    }
}

/// Appends the parts; of all but the first, the leading `header_lines` are left out.
fn join(parts: Vec<Option<File>>, header_lines: usize, sink: &mut impl io::Write) -> io::Result<()> {
    for (index, mut part) in parts.into_iter().flatten().enumerate() {
        part.rewind()?;
        let mut part = BufReader::new(part);
        let mut header = Vec::new();
        for _ in 0..if index == 0 { 0 } else { header_lines } {
            part.read_until(b'\n', &mut header)?;
        }
        io::copy(&mut part, sink)?;
    }
    Ok(())
}

//! `--out`: run.json, requests.csv and steps.jsonl, each whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Seek, Write};
use std::path::{Path, PathBuf};

use reports::{AtomicFile, OutputError, RunReport};

use super::super::failure::Failure;
use super::jobs::JobResult;
use super::logs::Logs;

/// A folder that can be written. Folders made for it go away again unless something is written there.
#[derive(Debug)]
pub(super) struct OutputFolder {
    path: PathBuf,
    steps: bool,
    /// The folders that were missing, outermost first.
    made: Vec<PathBuf>,
}

impl OutputFolder {
    /// Makes the folder if it is missing and makes sure, before any long work, that the results can be written there.
    ///
    /// # Errors
    /// If the folder cannot be made or written.
    pub(super) fn open(path: &Path, steps: bool) -> Result<Self, Failure> {
        let mut made: Vec<PathBuf> = path
            .ancestors()
            .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists())
            .map(Path::to_owned)
            .collect();
        made.reverse();
        let folder = Self { path: path.to_owned(), steps, made };
        fs::create_dir_all(path).map_err(|error| OutputError::Create { path: path.to_owned(), error })?;
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

    /// Writes all results. No file of an earlier run is touched before all are written out; run.json, whose presence says
    /// that the rest is there, comes last.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(super) fn write(&self, report: &RunReport, results: Vec<JobResult>) -> Result<(), Failure> {
        let (requests, steps): (Vec<_>, Vec<_>) =
            results.into_iter().map(|result| (result.requests, result.steps)).unzip();
        let mut files = vec![self.file("requests.csv", |sink| join(requests, 1, sink))?];
        if self.steps {
            files.push(self.file("steps.jsonl", |sink| join(steps, 0, sink))?);
        }
        files.push(self.file("run.json", |sink| reports::json::write(report, sink))?);
        for file in files {
            file.finish()?;
        }
        Ok(())
    }

    /// A file written out under its temporary name.
    fn file(
        &self,
        name: &str,
        fill: impl FnOnce(&mut AtomicFile) -> io::Result<()>,
    ) -> Result<AtomicFile, OutputError> {
        let path = self.path.join(name);
        let mut file = AtomicFile::create(&path)?;
        match fill(&mut file).and_then(|()| file.flush()) {
            Ok(()) => Ok(file),
            Err(error) => Err(OutputError::Write { path, error }),
        }
    }
}

impl Drop for OutputFolder {
    fn drop(&mut self) {
        for folder in self.made.iter().rev() {
            // A folder with results in it stays: only an empty one can be removed.
            if fs::remove_dir(folder).is_err() {
                break;
            }
        }
    }
}

/// Appends the parts; of all but the first, the leading `header_lines` are left out.
fn join(parts: Vec<Option<File>>, header_lines: usize, sink: &mut impl Write) -> io::Result<()> {
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

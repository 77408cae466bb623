//! `--out`: the files of a run, each whole or not at all.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use reports::{AtomicFile, OutputError, RunReport, Warning};

use super::super::failure::Failure;
use super::comparison::Comparison;
use super::logs::Logs;
use super::spool::{Extent, Spool};

/// What is always written; run.json, whose presence says that the rest is there, comes last.
const FILES: [&str; 5] = ["requests.csv", "figures.csv", "history.json", "profile.toml", "run.json"];

/// A folder that can be written. Folders made for it go away again unless something is written there.
#[derive(Debug)]
pub(super) struct OutputFolder {
    path: PathBuf,
    logs: Logs,
    _made: MadeFolders,
}

/// Takes folders away again unless something was written there.
#[derive(Debug)]
struct MadeFolders {
    /// The folders that were missing, outermost first.
    folders: Vec<PathBuf>,
}

impl OutputFolder {
    /// Makes the folder if it is missing and makes sure, before any long work, that the results can be written there.
    ///
    /// # Errors
    /// If the folder cannot be made or written.
    pub(super) fn open(path: &Path, steps: bool) -> Result<Self, Failure> {
        let mut missing: Vec<PathBuf> = path
            .ancestors()
            .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists())
            .map(Path::to_owned)
            .collect();
        missing.reverse();
        let made = MadeFolders { folders: missing };
        fs::create_dir_all(path).map_err(|error| OutputError::Create { path: path.to_owned(), error })?;
        for name in FILES.into_iter().chain(steps.then_some("steps.jsonl")) {
            drop(AtomicFile::create(path.join(name))?);
        }
        Ok(Self { path: path.to_owned(), logs: Logs::create(path, steps)?, _made: made })
    }

    /// A step log of an earlier run that this run leaves in place: it belongs to none of the new files.
    pub(super) fn stale_steps(&self) -> Option<Warning> {
        let path = self.path.join("steps.jsonl");
        (self.logs.steps.is_none() && path.exists()).then(|| {
            let problem = "is of an earlier run and stays as it is: it does not belong to the new run.json";
            Warning::general("stale_steps", format!("{} {problem}", path.display()))
        })
    }

    /// Where the runs log.
    pub(super) fn logs(&self) -> &Logs {
        &self.logs
    }

    /// Writes all results. No file of an earlier run is touched before all are written out; run.json, whose presence says
    /// that the rest is there, comes last.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(super) fn write(&self, report: &RunReport, compared: &Comparison<'_>) -> Result<(), Failure> {
        let results = &compared.results;
        let history = compared.history().expect("runs that log collect it");
        let mut files = vec![
            self.file("requests.csv", |sink| {
                join(&self.logs.requests, results.iter().map(|result| &result.requests), sink)
            })?,
            self.file("figures.csv", |sink| {
                reports::rows::seeds(
                    compared.by_candidate.iter().flat_map(|runs| compared.seeds.iter().copied().zip(runs)),
                    sink,
                )
            })?,
            self.file("history.json", |sink| reports::json::write_line(&history, sink))?,
            self.file("profile.toml", |sink| sink.write_all(compared.inputs.profile.to_toml().as_bytes()))?,
        ];
        if let Some(steps) = &self.logs.steps {
            files.push(self.file("steps.jsonl", |sink| join(steps, results.iter().map(|result| &result.steps), sink))?);
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

impl Drop for MadeFolders {
    fn drop(&mut self) {
        for folder in self.folders.iter().rev() {
            // A folder with results in it stays: only an empty one can be removed.
            if fs::remove_dir(folder).is_err() {
                break;
            }
        }
    }
}

/// Appends the logs in the order given.
fn join<'a>(spool: &Spool, logs: impl Iterator<Item = &'a Vec<Extent>>, sink: &mut impl Write) -> io::Result<()> {
    logs.into_iter().try_for_each(|log| spool.copy(log, sink))
}

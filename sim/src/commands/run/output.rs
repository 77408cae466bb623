//! `--out`: the files of a run, each whole or not at all.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use reports::{AtomicFile, OutputError, RunReport, Warning};

use super::super::failure::Failure;
use super::comparison::Comparison;
use super::logs::{Logs, TableLogs};
use super::spool::{Extent, Spool};
use crate::parquet::Parquet;

/// What is always written; run.json, whose presence says that the rest is there, comes last.
pub(in crate::commands) const FILES: [&str; 5] =
    ["requests.csv", "figures.csv", "history.json", "profile.toml", "run.json"];

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

/// What `--out` may write into a folder.
pub(super) fn results(folder: &Path) -> impl Iterator<Item = PathBuf> {
    FILES.into_iter().chain(["steps.jsonl"]).map(|name| folder.join(name))
}

impl OutputFolder {
    /// Makes the folder if it is missing and makes sure, before any long work, that the results can be written there.
    ///
    /// # Errors
    /// If the folder cannot be made or written.
    pub(super) fn open(path: &Path, steps: bool, parquet: Option<Parquet>) -> Result<Self, Failure> {
        let mut missing: Vec<PathBuf> = path
            .ancestors()
            .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists())
            .map(Path::to_owned)
            .collect();
        missing.reverse();
        let made = MadeFolders { folders: missing };
        fs::create_dir_all(path).map_err(|error| OutputError::Create { path: path.to_owned(), error })?;
        for name in FILES.into_iter().chain(optional(steps, parquet.is_some())) {
            drop(AtomicFile::create(path.join(name))?);
        }
        Ok(Self { path: path.to_owned(), logs: Logs::create(path, steps, parquet)?, _made: made })
    }

    /// Logs and tables of an earlier run that this run leaves in place: they belong to none of the new files.
    pub(super) fn stale(&self) -> Vec<Warning> {
        let written: Vec<&str> = optional(self.logs.steps.is_some(), self.logs.tables.is_some()).collect();
        let left = optional(true, true).filter(|name| !written.contains(name)).map(|name| self.path.join(name));
        let stale = left.filter(|path| path.exists()).map(|path| {
            let code = if path.ends_with("steps.jsonl") { "stale_steps" } else { "stale_table" };
            let problem = "is of an earlier run and stays as it is: it does not belong to the new run.json";
            Warning::general(code, format!("{} {problem}", path.display()))
        });
        stale.collect()
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
        // Tables take the processor, texts the disk.
        let tables = || self.logs.tables.as_ref().map_or(Ok(Vec::new()), |logs| self.tables(logs, report, compared));
        let (texts, tables) = rayon::join(|| self.texts(compared), tables);
        let mut files = texts?;
        files.extend(tables?);
        files.push(self.file("run.json", |sink| reports::json::write(report, sink))?);
        for file in files {
            file.finish()?;
        }
        Ok(())
    }

    /// Everything but run.json and the tables.
    fn texts(&self, compared: &Comparison<'_>) -> Result<Vec<AtomicFile>, OutputError> {
        let results = &compared.results;
        let history = compared.history().expect("runs that log collect it");
        let mut files = vec![
            self.file("requests.csv", |sink| {
                join(&self.logs.requests, results.iter().map(|result| &result.requests.text), sink)
            })?,
            self.file("figures.csv", |sink| reports::rows::seeds(compared.by_seed(), sink))?,
            self.file("history.json", |sink| reports::json::write_line(&history, sink))?,
            self.file("profile.toml", |sink| sink.write_all(compared.inputs.profile.to_toml().as_bytes()))?,
        ];
        if let Some(steps) = &self.logs.steps {
            files.push(
                self.file("steps.jsonl", |sink| join(steps, results.iter().map(|result| &result.steps.text), sink))?,
            );
        }
        Ok(files)
    }

    /// The Parquet tables.
    fn tables(
        &self,
        logs: &TableLogs,
        report: &RunReport,
        compared: &Comparison<'_>,
    ) -> Result<Vec<AtomicFile>, OutputError> {
        let (scenario, profile, parquet) = (&report.scenario, &report.profile, logs.parquet);
        let about = [
            ("version", &*report.version),
            ("scenario", &scenario.name),
            ("scenario_sha256", &scenario.sha256),
            ("profile", &profile.name),
            ("profile_sha256", &profile.sha256),
        ];
        let results = &compared.results;
        let mut files = vec![
            self.file("requests.parquet", |sink| {
                let mut rows = results.iter().map(|result| &result.requests.rows);
                parquet
                    .requests(&about, sink, |take| rows.try_for_each(|log| logs.requests.each_block(log, &mut *take)))
            })?,
            self.file("rungs.parquet", |sink| parquet.rungs(&about, sink, compared.by_seed()))?,
            self.file("figures.parquet", |sink| parquet.figures(&about, sink, compared.by_seed()))?,
        ];
        if let Some(steps) = &logs.steps {
            files.push(self.file("steps.parquet", |sink| {
                let mut rows = results.iter().map(|result| &result.steps.rows);
                parquet.steps(&about, sink, |take| rows.try_for_each(|log| steps.each_block(log, &mut *take)))
            })?);
        }
        Ok(files)
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

/// The files that are written if asked for.
fn optional(steps: bool, parquet: bool) -> impl Iterator<Item = &'static str> {
    let tables = ["requests.parquet", "rungs.parquet", "figures.parquet"].into_iter().filter(move |_| parquet);
    let steps_table = (steps && parquet).then_some("steps.parquet");
    steps.then_some("steps.jsonl").into_iter().chain(tables).chain(steps_table)
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

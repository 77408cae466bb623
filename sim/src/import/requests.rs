//! Requests as sources tell them: a trace that the simulator plays, or one written from what it does not read by itself.

use std::io::Write;
use std::path::{Path, PathBuf};

use reports::AtomicFile;

use super::error::ImportError;

/// Requests for a scenario.
#[derive(Debug)]
pub struct Requests {
    /// What they were read from.
    pub what: &'static str,
    /// When they arrive.
    pub arrivals: Arriving,
    /// How long they are.
    pub lengths: Long,
    /// The trace that gives either or both.
    pub trace: Option<TraceFile>,
    /// How many there are.
    pub count: u64,
    /// The most tokens of one, prompt and output.
    pub longest_tokens: u64,
    /// What the source does not tell, and what was left out, in sentences.
    pub unresolved: Vec<String>,
    /// What the source measured, in sentences.
    pub measured: Vec<String>,
}

/// When requests arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arriving {
    /// As the trace says.
    Trace,
    /// At a rate, with gaps of this burstiness.
    Rate {
        /// Requests per second.
        rate: f64,
        /// Shape of the gaps.
        burstiness: f64,
    },
    /// Each when another is done.
    Closed {
        /// How many at once.
        concurrency: u32,
    },
    /// Nothing says so.
    Unknown,
}

/// How long requests are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Long {
    /// As the trace says.
    Trace,
    /// All alike, in tokens.
    Fixed {
        /// Prompt.
        prompt: u32,
        /// Output.
        output: u32,
    },
}

/// A trace file and the keys that say how to read it.
#[derive(Debug)]
pub struct TraceFile {
    /// Where it is.
    pub place: TracePlace,
    /// Keys with their values as a scenario writes them.
    pub keys: Vec<(&'static str, String)>,
}

/// Where a trace is.
#[derive(Debug)]
pub enum TracePlace {
    /// In a file of the user's.
    At(PathBuf),
    /// In one that this import writes beside the scenario.
    Beside(Beside),
}

/// A trace that is being written beside the scenario: rows of arrival, prompt and output under a header.
#[derive(Debug)]
pub struct Beside(AtomicFile);

/// Where files beside the scenario go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folder {
    /// The scenario; `None` where it goes to standard output.
    pub scenario: Option<PathBuf>,
    /// Whether files that exist are replaced.
    pub force: bool,
}

impl Folder {
    /// A file beside the scenario, by what it holds: `mine.requests.csv` beside `mine.toml`.
    #[must_use]
    pub fn file(&self, what: &str) -> Option<PathBuf> {
        let scenario = self.scenario.as_deref()?;
        let stem = scenario.file_stem()?.to_string_lossy().into_owned();
        Some(scenario.with_file_name(format!("{stem}.{what}.csv")))
    }

    /// Begins a file beside the scenario.
    ///
    /// # Errors
    /// If there is no scenario file to put it beside, if it is there already, or if it cannot be written.
    pub fn create(&self, what: &'static str) -> Result<AtomicFile, ImportError> {
        let path = self.file(what).ok_or(ImportError::NeedsOut { what })?;
        if path.exists() && !self.force {
            return Err(ImportError::Exists { path: path.display().to_string() });
        }
        Ok(AtomicFile::create(path)?)
    }
}

impl Beside {
    /// Begins a trace with this header.
    ///
    /// # Errors
    /// As [`Folder::create`].
    pub fn create(folder: &Folder, header: &str) -> Result<Self, ImportError> {
        let mut beside = Self(folder.create("requests")?);
        beside.row(header)?;
        Ok(beside)
    }

    /// Writes a row.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn row(&mut self, row: &str) -> Result<(), ImportError> {
        let path = self.path().to_owned();
        let failed = |error| ImportError::Output(reports::OutputError::Write { path, error });
        writeln!(self.0, "{row}").map_err(failed)
    }

    /// The path that it will have.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// The file, for whoever puts it into place.
    #[must_use]
    pub fn into_file(self) -> AtomicFile {
        self.0
    }
}

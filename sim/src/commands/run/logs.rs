//! The logs of all runs until the last has finished.

use std::io;
use std::path::{Path, PathBuf};

use reports::OutputError;

use super::super::failure::Failure;
use super::spool::Spool;

/// The logs of all runs until the last has finished.
#[derive(Debug)]
pub(in crate::commands) struct Logs {
    folder: PathBuf,
    /// Rows of requests.csv.
    pub(super) requests: Spool,
    /// Lines of steps.jsonl, if steps are logged.
    pub(super) steps: Option<Spool>,
}

impl Logs {
    /// Opens the spools in a folder that can be written.
    ///
    /// # Errors
    /// If it cannot.
    pub(super) fn create(folder: &Path, steps: bool) -> Result<Self, Failure> {
        let spool = || Spool::create(folder).map_err(|error| OutputError::Create { path: folder.to_owned(), error });
        Ok(Self { folder: folder.to_owned(), requests: spool()?, steps: steps.then(spool).transpose()? })
    }

    /// The failure of a log that could not be written.
    pub(super) fn unwritable(&self, error: io::Error) -> Failure {
        OutputError::Write { path: self.folder.clone(), error }.into()
    }
}

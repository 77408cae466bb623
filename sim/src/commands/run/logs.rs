//! Where the runs keep their logs until all have finished.

use std::fs::File;
use std::io;
use std::path::Path;

use reports::OutputError;

use super::super::failure::Failure;

/// Where the runs keep their logs until all have finished.
#[derive(Clone, Copy, Debug)]
pub(super) struct Logs<'a> {
    folder: &'a Path,
    /// Whether steps are logged.
    pub steps: bool,
}

impl<'a> Logs<'a> {
    /// Logs beside the results in `folder`.
    #[must_use]
    pub(super) fn new(folder: &'a Path, steps: bool) -> Self {
        Self { folder, steps }
    }

    /// A nameless file for one run's part of a log: it vanishes with the process, whatever happens.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub(super) fn part(&self) -> Result<File, Failure> {
        tempfile::tempfile_in(self.folder).map_err(|error| self.unwritable(error))
    }

    /// The failure of a log that could not be written.
    #[must_use]
    pub(super) fn unwritable(&self, error: io::Error) -> Failure {
        OutputError::Write { path: self.folder.to_owned(), error }.into()
    }
}

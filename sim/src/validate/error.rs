//! What can be wrong with the files of a measured run.

use miette::Diagnostic;

use crate::file_error::FileError;
use crate::fit::FitError;
use crate::server::{ServerError, SetupError};

/// Why a run cannot be validated. Every message names the file, and the line where there is one.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum ValidateError {
    /// A file, or the folder, cannot be used.
    #[error(transparent)]
    #[diagnostic(transparent)]
    File(#[from] FileError),
    /// The engine would not start with the settings of the run.
    #[error("{run}: the engine would not start with the settings of this run: {source}")]
    #[diagnostic(help("compare the run's meta.json with what the engine allows"))]
    Setup {
        /// The run.
        run: String,
        /// Why.
        source: SetupError,
    },
    /// A kernel table cannot be used.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Table(#[from] FitError),
    /// The simulation stopped.
    #[error(transparent)]
    Server(#[from] ServerError),
}

impl ValidateError {
    /// About a whole file.
    pub(super) fn file(file: &str, problem: impl Into<String>, help: impl Into<String>) -> Self {
        FileError::file(file, problem, help).into()
    }

    /// About a line of a file.
    pub(super) fn line(file: &str, line: u64, problem: impl Into<String>, help: impl Into<String>) -> Self {
        FileError::line(file, line, problem, help).into()
    }
}

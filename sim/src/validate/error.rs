//! What can be wrong with the files of a measured run.

use std::io;

use miette::Diagnostic;

use crate::fit::FitError;
use crate::server::{ServerError, SetupError};

/// Why a run cannot be validated. Every message names the file, and the line where there is one.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum ValidateError {
    /// A file or the folder cannot be read.
    #[error("cannot read {file}: {source}")]
    #[diagnostic(help("check the path and its permissions"))]
    Read {
        /// The file.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// A file, or the folder, cannot be used as a whole.
    #[error("{file}: {problem}")]
    File {
        /// The file.
        file: String,
        /// What is wrong with it.
        problem: String,
        /// What to do.
        #[help]
        help: String,
    },
    /// A line cannot be used.
    #[error("{file}:{line}: {problem}")]
    Line {
        /// The file.
        file: String,
        /// Line number, from 1.
        line: u64,
        /// The key or column, and what was expected there.
        problem: String,
        /// What to do.
        #[help]
        help: String,
    },
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
        Self::File { file: file.to_owned(), problem: problem.into(), help: help.into() }
    }

    /// About a line of a file.
    pub(super) fn line(file: &str, line: u64, problem: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Line { file: file.to_owned(), line, problem: problem.into(), help: help.into() }
    }
}

//! What can be wrong with a table or a log that costs are to be fitted to.

use calibrate::profile::ProfileError;
use calibrate::served_model::ModelError;
use miette::Diagnostic;

use crate::file_error::FileError;

/// Why no profile came of the files. Every message names the file, and the line and the column where there are any.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum FitError {
    /// A file cannot be used.
    #[error(transparent)]
    #[diagnostic(transparent)]
    File(#[from] FileError),
    /// The files together do not make a profile.
    #[error("{problem}")]
    Together {
        /// What is missing, or does not fit.
        problem: String,
        /// What to do.
        #[help]
        help: String,
    },
    /// The model is not known.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Model(#[from] ModelError),
    /// What came of the files is no profile: figures that no machine has, for instance.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Profile(#[from] ProfileError),
}

impl FitError {
    /// About a whole file.
    pub(super) fn file(file: &str, problem: impl Into<String>, help: impl Into<String>) -> Self {
        FileError::file(file, problem, help).into()
    }

    /// About a line of a file.
    pub(super) fn line(file: &str, line: u64, problem: impl Into<String>, help: impl Into<String>) -> Self {
        FileError::line(file, line, problem, help).into()
    }

    /// About all files.
    pub(crate) fn together(problem: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Together { problem: problem.into(), help: help.into() }
    }
}

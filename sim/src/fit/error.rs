//! What can be wrong with a table or a log that costs are to be fitted to.

use std::io;

use calibrate::profile::ProfileError;
use calibrate::served_model::ModelError;
use miette::Diagnostic;

/// Why no profile came of the files. Every message names the file, and the line and the column where there are any.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum FitError {
    /// The file cannot be read.
    #[error("cannot read {file}: {source}")]
    #[diagnostic(help("check the path and its permissions"))]
    Open {
        /// The file.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// The file as a whole cannot be used.
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
    /// A line of it cannot be used.
    #[error("{file}:{line}: {problem}")]
    Line {
        /// The file.
        file: String,
        /// Line number, from 1.
        line: u64,
        /// The column, and what was expected there.
        problem: String,
        /// What to do.
        #[help]
        help: String,
    },
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
        Self::File { file: file.to_owned(), problem: problem.into(), help: help.into() }
    }

    /// About a line of a file.
    pub(super) fn line(file: &str, line: u64, problem: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Line { file: file.to_owned(), line, problem: problem.into(), help: help.into() }
    }

    /// About all files.
    pub(crate) fn together(problem: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Together { problem: problem.into(), help: help.into() }
    }
}

//! What can be wrong with a file of measurements, whoever reads it: a table, a log, a part of a measured run.

use std::io;

use miette::Diagnostic;

/// Why a file cannot be used. Every message names the file, and the line where there is one.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read {file}: {source}")]
    #[diagnostic(help("check the path and its permissions"))]
    Open {
        /// The file, or the folder.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// As a whole it cannot be used.
    #[error("{file}: {problem}")]
    File {
        /// The file, or the folder.
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
        /// The key or column, and what was expected there.
        problem: String,
        /// What to do.
        #[help]
        help: String,
    },
}

impl FileError {
    /// About a file that cannot be read.
    #[must_use]
    pub fn open(file: impl Into<String>, source: io::Error) -> Self {
        Self::Open { file: file.into(), source }
    }

    /// About a whole file.
    #[must_use]
    pub fn file(file: &str, problem: impl Into<String>, help: impl Into<String>) -> Self {
        Self::File { file: file.to_owned(), problem: problem.into(), help: help.into() }
    }

    /// About a line of a file.
    #[must_use]
    pub fn line(file: &str, line: u64, problem: impl Into<String>, help: impl Into<String>) -> Self {
        Self::Line { file: file.to_owned(), line, problem: problem.into(), help: help.into() }
    }
}

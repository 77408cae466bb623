//! A result that cannot be read.

use std::fmt;
use std::io;
use std::path::Path;

use calibrate::stderr::printable;
use miette::Diagnostic;

/// What is wrong with a file of results, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ResultError {
    message: String,
    help: String,
}

impl Diagnostic for ResultError {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(&self.help))
    }
}

impl ResultError {
    /// A fault, and the way out.
    pub(super) fn new(message: impl AsRef<str>, help: impl AsRef<str>) -> Self {
        Self { message: printable(message.as_ref()), help: printable(help.as_ref()) }
    }

    /// A file that the system does not give.
    pub(super) fn unreadable(path: &Path, error: &io::Error) -> Self {
        let help = "give a folder that `sim run --out` wrote, a profile (.toml), or a proposal (.json)";
        Self::new(format!("cannot read {}: {error}", path.display()), help)
    }

    /// A file that was cut off, edited, or is of another version.
    pub(super) fn broken(path: &Path, line: u64, problem: &str, again: &str) -> Self {
        Self::new(
            format!("{}:{line}: {problem}", path.display()),
            format!("the file was cut off or edited, or another version wrote it; {again}"),
        )
    }
}

impl From<reports::CompareError> for ResultError {
    fn from(error: reports::CompareError) -> Self {
        Self::new(error.message, error.help)
    }
}

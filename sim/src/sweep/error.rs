//! What is wrong with a sweep that was asked for, or with a folder that holds one.

use miette::Diagnostic;
use reports::OutputError;

/// A sweep that cannot be: a wrong key, value, sample or shard.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{message}")]
pub struct VaryError {
    message: String,
    #[help]
    help: Option<String>,
}

/// A folder that does not hold what it should.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{message}")]
pub struct FolderError {
    message: String,
    #[help]
    help: Option<String>,
}

impl VaryError {
    /// What is wrong, and the way out.
    pub(super) fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: Some(help.into()) }
    }
}

impl FolderError {
    /// What is wrong, and the way out.
    pub(super) fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: Some(help.into()) }
    }
}

/// Why a folder of a sweep could not be used.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum StoreError {
    /// It holds something else, or is in use.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Folder(#[from] FolderError),
    /// It cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
}

//! What a command can fail with, what is said about it, and the exit code it ends with.

use std::io;

use calibrate::exit::Exit;
use calibrate::profile::ProfileError;
use miette::Diagnostic;
use reports::OutputError;

use crate::engine::error::EngineError;
use crate::fit;
use crate::import::error::ImportError;
use crate::scenario::ScenarioError;
use crate::server::ServerError;
use crate::sweep::{FolderError, StoreError, VaryError};
use crate::traffic::TrafficError;
use crate::validate::ValidateError;
use crate::watch::recording::RecordingError;
use crate::watch::terminal::ScreenError;

/// Why a command ended without an answer.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum Failure {
    /// The command line cannot be read.
    #[error(transparent)]
    Arguments(#[from] clap::Error),
    /// The command line asks for something that cannot be.
    #[error("{message}")]
    Usage {
        /// What is wrong.
        message: String,
        /// What to do.
        #[help]
        help: Option<String>,
    },
    /// The scenario cannot be used.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Scenario(#[from] ScenarioError),
    /// The engine refuses the flags.
    #[error("the engine would not start with these flags")]
    Engine(#[from] EngineError),
    /// The cost profile cannot be used.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Profile(#[from] ProfileError),
    /// The traffic cannot be read.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Traffic(#[from] TrafficError),
    /// There is no scenario to make of what was given.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Import(ImportError),
    /// The tables or logs give no profile.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Fit(#[from] fit::FitError),
    /// The sweep that was asked for cannot be.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Vary(#[from] VaryError),
    /// A point of a sweep cannot be run.
    #[error("{message}")]
    Point {
        /// Which, and what is wrong with it.
        message: String,
        /// What to do.
        #[help]
        help: Option<String>,
    },
    /// A folder does not hold the sweep that it should.
    #[error(transparent)]
    #[diagnostic(transparent)]
    SweepFolder(#[from] FolderError),
    /// A result cannot be read back.
    #[cfg(feature = "pages")]
    #[error(transparent)]
    #[diagnostic(transparent)]
    Result(#[from] super::report::error::ResultError),
    /// A candidate regressed; the comparison is written.
    #[cfg(feature = "pages")]
    #[error("regression: {0}")]
    Regression(String),
    /// A measured run cannot be validated.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Validate(ValidateError),
    /// Predictions miss their targets; the comparison is written.
    #[error("missed: {0}")]
    Missed(String),
    /// A result file cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// Standard output cannot be written.
    #[error("cannot write to standard output: {0}")]
    Stdout(io::Error),
    /// There is no terminal to draw on.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Screen(#[from] ScreenError),
    /// A recorded run cannot be shown.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Recording(#[from] RecordingError),
    /// There is no proposal.
    #[error("{message}")]
    NoProposal {
        /// Why.
        message: String,
        /// What to do.
        #[help]
        help: Option<String>,
    },
    /// The user ended it; what was known by then is written.
    #[error("interrupted: {0}")]
    Interrupted(&'static str),
    /// A law was broken.
    #[error("{message}")]
    #[diagnostic(help("please report it with the scenario and the seed"))]
    Law {
        /// Which.
        message: String,
    },
}

impl Failure {
    /// Says on standard error what went wrong, and answers the exit code. A closed pipe is not an error: the reader of
    /// standard output had enough.
    #[must_use]
    pub fn report(&self) -> Exit {
        match self {
            Self::Arguments(message) => {
                // Standard error may be closed, which must not fail the process in another way.
                let _ = message.print();
            }
            Self::Stdout(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            other => calibrate::stderr::report(other),
        }
        self.exit()
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Stdout(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::Ok,
            Self::Stdout(_) | Self::Output(_) | Self::Screen(ScreenError::Io(_)) => Exit::Unexpected,
            Self::Arguments(_) | Self::Usage { .. } | Self::Vary(_) | Self::Screen(_) => Exit::Usage,
            Self::Scenario(_)
            | Self::Engine(_)
            | Self::Profile(_)
            | Self::Traffic(_)
            | Self::Import(_)
            | Self::Fit(_)
            | Self::Point { .. }
            | Self::NoProposal { .. }
            | Self::Recording(_)
            | Self::SweepFolder(_)
            | Self::Validate(_) => Exit::BadInput,
            #[cfg(feature = "pages")]
            Self::Result(_) => Exit::BadInput,
            #[cfg(feature = "pages")]
            Self::Regression(_) => Exit::Regression,
            Self::Missed(_) => Exit::Regression,
            Self::Interrupted(_) => Exit::Interrupted,
            Self::Law { .. } => Exit::LawBroken,
        }
    }
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::Output(error) => Self::Output(error),
            ImportError::Trace(error) => Self::Traffic(error),
            ImportError::NeedsOut { .. } | ImportError::Exists { .. } => {
                Self::Usage { help: Diagnostic::help(&error).map(|help| help.to_string()), message: error.to_string() }
            }
            error => Self::Import(error),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Folder(error) => Self::SweepFolder(error),
            StoreError::Output(error) => Self::Output(error),
        }
    }
}

impl From<ValidateError> for Failure {
    fn from(error: ValidateError) -> Self {
        match error {
            ValidateError::Server(error) => error.into(),
            other => Self::Validate(other),
        }
    }
}

impl From<ServerError> for Failure {
    fn from(error: ServerError) -> Self {
        match error {
            ServerError::Traffic(error) => Self::Traffic(error),
            ServerError::Output(error) => Self::Stdout(error),
            ServerError::TooManyRequests => Self::Usage {
                message: error.to_string(),
                help: Some("give --requests N, or traffic.requests in the scenario".to_owned()),
            },
            ServerError::NoProgress { .. } => Self::Law { message: error.to_string() },
        }
    }
}

//! What is wrong with a scenario, and where.

use std::io;

use miette::{Diagnostic, NamedSource, SourceSpan};

use super::Span;

/// A scenario that cannot be used.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum ScenarioError {
    /// The file cannot be read.
    #[error("cannot read the scenario {file}")]
    #[diagnostic(help("give the path of a .toml file"))]
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file cannot be a scenario.
    #[error("{file} is larger than 16 MiB")]
    #[diagnostic(help("give the path of a scenario; traces and histograms are files of their own"))]
    TooLarge {
        /// The file.
        file: String,
    },
    /// The text is wrong at one place.
    #[error(transparent)]
    #[diagnostic(transparent)]
    Rejected(Box<Rejection>),
}

/// One fault and its place in the text.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{message}")]
pub struct Rejection {
    message: String,
    #[source_code]
    source_code: NamedSource<String>,
    #[label]
    span: SourceSpan,
    #[help]
    help: Option<String>,
}

impl ScenarioError {
    pub(super) fn rejected(text: &str, file: &str, span: Span, message: String, help: String) -> Self {
        Self::Rejected(Box::new(Rejection {
            message,
            source_code: NamedSource::new(file, text.to_owned()),
            span: span.into(),
            help: Some(help).filter(|help| !help.is_empty()),
        }))
    }
}

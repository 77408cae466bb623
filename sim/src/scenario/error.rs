//! What is wrong with a scenario, and where.

use std::fmt;
use std::io;

use calibrate::stderr::{printable, shown};
use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode};

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
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Rejection {
    message: String,
    source_code: NamedSource<String>,
    /// `None` if the line is too long to be shown; the message then names the place.
    span: Option<Span>,
    help: String,
}

impl Diagnostic for Rejection {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        if self.help.is_empty() { None } else { Some(Box::new(&self.help)) }
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&self.source_code)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let span = self.span.clone()?;
        Some(Box::new(std::iter::once(LabeledSpan::new_with_span(None, span))))
    }
}

impl ScenarioError {
    /// A fault at `span` of the text, with a way out unless that is empty.
    pub(super) fn rejected(text: &str, file: &str, span: &Span, message: String, help: String) -> Self {
        // The TOML reader counts bytes: its places need not lie on characters.
        let start = text.floor_char_boundary(span.start);
        let span = start..text.ceil_char_boundary(span.end.max(start));
        let shown = shown(text, &span);
        let message = match shown {
            Some(_) => message,
            None => format!("{file}:{}: {message}", line(text, span.start)),
        };
        let message = printable(&message);
        Self::Rejected(Box::new(Rejection {
            message,
            source_code: NamedSource::new(file, printable(text)),
            span: shown,
            help,
        }))
    }
}

/// The number, from 1, of the line at `offset`.
pub(super) fn line(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}

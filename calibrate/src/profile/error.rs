//! What can be wrong with a profile, with the place in the file and a way out.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode};

use crate::spelling::closest;
use crate::stderr::{printable, shown};

/// Why a profile could not be read or written.
///
/// Also a [`miette::Diagnostic`], so that a binary can print the faulty line of the file.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The file could not be read.
    #[error("cannot read the profile {path}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The file is too large to be a profile.
    #[error("cannot read the profile {path}: expected at most {limit} bytes", path = path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The most bytes that are read.
        limit: u64,
    },
    /// The file was read, but its content is not a valid profile.
    #[error(transparent)]
    Invalid(#[from] Box<Fault>),
    /// No built-in profile has this name.
    #[error("no built-in profile is called `{name}`")]
    UnknownBuiltin {
        /// The name asked for.
        name: String,
    },
    /// What was to be written could not be read again; nothing is written.
    #[error("no profile that could be read again came out of this: {problem}")]
    Unreadable {
        /// The file that was to be written.
        path: PathBuf,
        /// What a reader would say.
        problem: String,
    },
    /// The file could not be written; nothing of it is left behind.
    #[error("cannot write the profile {path}", path = path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

impl ProfileError {
    /// What to do about it.
    pub fn advice(&self) -> String {
        match self {
            Self::Read { .. } => "check the path and its permissions, or name a built-in profile".into(),
            Self::TooLarge { .. } => "check that the path names a cost profile".into(),
            Self::Invalid(fault) => fault.help.clone(),
            Self::UnknownBuiltin { name } => {
                let list = super::BUILTIN.join(", ");
                match closest(name, super::BUILTIN) {
                    Some(close) => format!("did you mean {close}? (the built-in profiles are {list})"),
                    None => format!("use one of {list}"),
                }
            }
            Self::Unreadable { .. } => "please report this with the command line".into(),
            Self::Write { .. } => "check that the folder exists and can be written, or choose another path".into(),
        }
    }

    /// The faulty place of the file's text, where the error has one.
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            Self::Invalid(fault) => Some(fault),
            _ => None,
        }
    }
}

impl Diagnostic for ProfileError {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(self.advice()))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.fault().map(|fault| &fault.source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let fault = self.fault()?;
        // Without a label no line is printed; the message names line and column all the same.
        let label = LabeledSpan::new_with_span(None, shown(fault.text(), &fault.span)?);
        Some(Box::new(std::iter::once(label)))
    }
}

/// One fault of a profile's text: which key, where, what is wrong, what to do.
#[derive(Debug)]
pub struct Fault {
    source: NamedSource<String>,
    span: Range<usize>,
    key: String,
    problem: String,
    help: String,
}

impl Fault {
    /// The file's (or built-in's) name.
    pub fn origin(&self) -> &str {
        self.source.name()
    }

    /// The whole text of the file.
    pub fn text(&self) -> &str {
        self.source.inner()
    }

    /// The faulty bytes of [`Fault::text`].
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// The key at fault, from the top of the file: `machine.dense.table.rows[5]`.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What is wrong and what was expected.
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// What to do about it.
    pub fn help(&self) -> &str {
        &self.help
    }

    /// Line and column of the fault, both from 1; columns count characters.
    pub fn line_column(&self) -> (usize, usize) {
        let before = &self.text()[..self.span.start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = self.line_column();
        write!(f, "{}:{line}:{column}: ", self.origin())?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.problem)
    }
}

impl std::error::Error for Fault {}

/// The text being read: makes faults that point into it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin<'a> {
    pub(super) name: &'a str,
    pub(super) text: &'a str,
}

impl Origin<'_> {
    /// A fault at `span`, which is pulled into the text and onto character boundaries.
    pub(super) fn fault(
        self,
        key: impl Into<String>,
        span: Range<usize>,
        problem: impl Into<String>,
        help: impl Into<String>,
    ) -> ProfileError {
        let start = self.text.floor_char_boundary(span.start);
        let end = self.text.ceil_char_boundary(span.end.max(start));
        ProfileError::Invalid(Box::new(Fault {
            source: NamedSource::new(printable(self.name), printable(self.text)),
            span: start..end,
            key: printable(&key.into()),
            problem: printable(&problem.into()),
            help: help.into(),
        }))
    }

    /// A fault that the TOML reader found: syntax, an unknown or missing key, a wrong type.
    pub(super) fn unreadable(self, error: &toml::de::Error) -> ProfileError {
        let span = error.span().unwrap_or(0..0);
        let message = error.message().trim_end();
        let help = if message.starts_with("unknown field") {
            "remove the key or correct its spelling"
        } else if message.starts_with("missing field") {
            "add the key; `calibrate show --toml textbook` prints a whole profile to compare with"
        } else if message.starts_with("invalid type") || message.starts_with("unknown variant") {
            "write a value of the expected kind, without quotes around numbers"
        } else {
            "correct the TOML; `calibrate show --toml textbook` prints a whole profile to compare with"
        };
        let key =
            if message.starts_with("missing field") { self.table_before(span.end) } else { self.key_at(span.start) };
        let problem = message.replace('\n', "; ").replace("expected f64", "expected a number");
        self.fault(key, span, problem, help)
    }

    /// The span of the first header of `table` or of one inside it; the start of the text if there is none.
    pub(super) fn table_span(self, table: &str) -> Range<usize> {
        let mut offset = 0;
        for line in self.text.split_inclusive('\n') {
            let header = line.trim_start().strip_prefix('[').and_then(|rest| rest.strip_prefix(table));
            if header.is_some_and(|rest| rest.starts_with([']', '.'])) {
                return offset..offset + line.trim_end().len();
            }
            offset += line.len();
        }
        0..0
    }

    /// The dotted key of the line at `offset`.
    fn key_at(self, offset: usize) -> String {
        let offset = self.text.floor_char_boundary(offset);
        let start = self.text[..offset].rfind('\n').map_or(0, |newline| newline + 1);
        let line = self.text[start..].lines().next().unwrap_or_default().trim();
        let table = self.table_before(offset);
        match line.split_once('=') {
            _ if line.starts_with('[') => line.trim_matches(['[', ']']).to_owned(),
            Some((key, _)) if table.is_empty() => key.trim().to_owned(),
            Some((key, _)) => format!("{table}.{}", key.trim()),
            None => table,
        }
    }

    /// The table that the text at `offset` belongs to; empty for the top of the file.
    fn table_before(self, offset: usize) -> String {
        let offset = self.text.floor_char_boundary(offset);
        let header = self.text[..offset].lines().rev().map(str::trim).find(|line| {
            line.starts_with('[') && line.ends_with(']') && line.contains(|c: char| c.is_ascii_lowercase())
        });
        header.map_or_else(String::new, |line| line.trim_matches(['[', ']']).to_owned())
    }
}

//! Why a recorded run cannot be shown.

use std::io;
use std::path::PathBuf;

use calibrate::stderr::printable;
use miette::Diagnostic;

/// Why a recorded run cannot be shown.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum RecordingError {
    /// A file could not be read.
    #[error("cannot read {path}", path = path.display())]
    #[diagnostic(help("check the path and its permissions"))]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// There is no step log.
    #[error("{path} {problem}", path = path.display())]
    NoLog {
        /// Where one should be.
        path: PathBuf,
        /// What there is.
        problem: &'static str,
        /// What to do.
        #[help]
        help: &'static str,
    },
    /// A line is not what it must be.
    #[error("{path}, line {line}: {problem}", path = path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it, and what was expected.
        problem: String,
        /// What to do.
        #[help]
        help: &'static str,
    },
    /// The log has no such candidate or seed.
    #[error("{path} has no steps of {wanted}", path = path.display())]
    Missing {
        /// The log.
        path: PathBuf,
        /// What was asked for.
        wanted: String,
        /// What there is.
        #[help]
        help: String,
    },
}

/// What a JSON reader says, in words for whoever reads the file: names of types are the program's own.
pub(super) fn object_expected(error: &serde_json::Error) -> String {
    let said = printable(&error.to_string());
    match (said.split_once(", expected struct "), said.rsplit_once(" at line ")) {
        (Some((found, _)), Some((_, place))) => {
            let found = if found.starts_with("invalid length") { "found an array" } else { found };
            format!("{found}, expected an object at line {place}")
        }
        _ => said,
    }
}

/// What a step log is.
pub(super) const WHOLE: &str =
    "give the steps.jsonl that `sim run SCENARIO --out DIR --steps` writes, whole and unchanged";
/// What its neighbours are.
pub(super) const TOGETHER: &str =
    "keep the files that one `sim run --out DIR` writes together and unchanged, or watch a copy of steps.jsonl alone";

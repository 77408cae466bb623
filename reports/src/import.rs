//! The result of `sim import`: what was read, what the scenario's traffic is, and what to know about it.

use serde::{Deserialize, Serialize};

use crate::{Name, Warning};

/// Everything `sim import` says, as one JSON document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImportReport {
    /// Version of Rungwise that imported.
    pub version: String,
    /// The file that the scenario was written to; null where none was asked for.
    pub written: Option<String>,
    /// The file that rows of its traffic were written to; null where it needs none.
    pub beside: Option<String>,
    /// The engine of the scenario: `vllm` or `sglang`.
    pub engine: Name,
    /// The files that were read, in the order given.
    pub sources: Vec<ImportSource>,
    /// Lines that were read, by kind.
    pub lines: Vec<ImportLines>,
    /// What the traffic of the scenario is made of.
    pub traffic: ImportTraffic,
    /// What was not read, what was assumed and what is not told.
    pub warnings: Vec<Warning>,
    /// The scenario, as TOML.
    pub scenario: String,
}

/// A file that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportSource {
    /// The file, as it was named.
    pub file: String,
    /// SHA-256 of its bytes as they were, lower-case hexadecimal.
    pub sha256: String,
    /// Its bytes as they were.
    pub bytes: u64,
    /// What it holds and how it is packed, in words.
    pub what: String,
    /// Its lines or rows; 0 where it was read as a whole.
    pub lines: u64,
    /// Of these, those with bytes that are not UTF-8.
    pub not_utf8: u64,
    /// Of these, those of which only the first MiB was read.
    pub cut: u64,
    /// Why reading ended before its end; null where it did not.
    pub ended_early: Option<String>,
}

/// Lines of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportLines {
    /// What they are, in words.
    pub kind: String,
    /// How many.
    pub count: u64,
}

/// The traffic of the scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportTraffic {
    /// `steps` or `requests`.
    pub unit: Name,
    /// What told of them, in words.
    pub from: String,
    /// How many.
    pub count: u64,
    /// Different shapes of steps; null of requests.
    pub shapes: Option<u64>,
    /// Steps whose requests or tokens are assumed; null of requests.
    pub assumed: Option<u64>,
    /// What stands in the scenario for every answer to repeat; null where nothing does.
    pub caution: Option<String>,
}

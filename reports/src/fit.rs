//! The result of `sim fit`: what came of tables and logs, and how far it may be off.

use serde::{Deserialize, Serialize};

use crate::{Name, ProfileReport, Warning};

/// Everything `sim fit` says, as one JSON document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FitReport {
    /// Version of Rungwise that fitted.
    pub version: String,
    /// The profile, with the provenance of each group.
    pub profile: ProfileReport,
    /// The file that it was written to; null where none was asked for.
    pub written: Option<String>,
    /// The profile whose engine half was fitted; null where tables made a new profile.
    pub onto: Option<String>,
    /// The files that were read, in the order given.
    pub sources: Vec<FitSource>,
    /// Errors at sizes that were left out of a table and read from their neighbours.
    pub held_out: Vec<FitHeldOut>,
    /// Figures that logs, or steps without a graph, decide or bound.
    pub figures: Vec<FitFigure>,
    /// Errors of predicted step times, of steps that no figure was fitted to.
    pub errors: Vec<FitError>,
    /// Steps far from all others of their kind; they count, and move no median.
    pub outliers: Vec<FitOutlier>,
    /// What else the files say, and what they cannot say.
    pub notes: Vec<String>,
    /// What to know before trusting the figures.
    pub warnings: Vec<Warning>,
}

/// A file that was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FitSource {
    /// The file, as it was named.
    pub file: String,
    /// SHA-256 of its bytes, lower-case hexadecimal.
    pub sha256: String,
    /// What it holds, in words.
    pub what: String,
    /// Rows or lines read.
    pub read: u64,
    /// Of those, the ones that figures rest on.
    pub used: u64,
    /// Why the others were left out.
    pub left_out: Vec<FitLeftOut>,
}

/// Rows or lines that no figure rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FitLeftOut {
    /// How many.
    pub count: u64,
    /// Why.
    pub why: String,
}

/// Errors at sizes left out of one table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FitHeldOut {
    /// The group of the table.
    pub group: String,
    /// Sizes left out, one after the other.
    pub sizes: u32,
    /// Median of the errors, percent.
    pub median_percent: f64,
    /// The largest, percent.
    pub worst_percent: f64,
    /// Where the largest is, rows.
    pub worst_at: f64,
}

/// A figure of the profile that logs decide or bound.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FitFigure {
    /// Group and key in the profile: `engine.dispatch.compiled_us`.
    pub figure: String,
    /// Its unit.
    pub unit: Name,
    /// In the profile given.
    pub before: Option<f64>,
    /// In the profile fitted.
    pub after: Option<f64>,
    /// `fitted`, `upper_bound` or `kept`.
    pub verdict: Name,
    /// Low end of its 95 % interval; null of what is not fitted, and of what a table has too few sizes of.
    pub low: Option<f64>,
    /// High end of its 95 % interval, or the upper bound; null of what is kept.
    pub high: Option<f64>,
    /// Steps or lines that it rests on.
    pub samples: u64,
    /// Why it could be fitted, or could not.
    pub why: String,
}

/// Errors of predicted step times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FitError {
    /// Which steps: `all`, or how they ran.
    pub steps: String,
    /// How many.
    pub count: u64,
    /// Median error of the profile given, percent.
    pub before_median_percent: f64,
    /// 95th percentile of its errors, percent.
    pub before_p95_percent: f64,
    /// Median error of the profile fitted, percent.
    pub after_median_percent: f64,
    /// 95th percentile of its errors, percent.
    pub after_p95_percent: f64,
}

/// A step far from all others of its kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FitOutlier {
    /// File and line.
    pub place: String,
    /// How it ran.
    pub execution: Name,
    /// Rows that ran.
    pub rows: u32,
    /// What it took, ms.
    pub ms: f64,
    /// What the others of its kind take in the median, ms.
    pub others_ms: f64,
}

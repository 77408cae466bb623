//! `--compare`: two folders, seed by seed.

use std::io::Write;

use reports::page::{self, Document};
use reports::{ComparisonReport, Warning, text};

use super::error::ResultError;
use super::folder::RunFolder;
use super::{Arguments, ReportFormat, deliver, write_document};
use crate::commands::failure::Failure;

/// Compares, writes the answer, and fails if a threshold was passed.
pub(super) fn execute(arguments: &Arguments, format: ReportFormat, out: &mut impl Write) -> Result<(), Failure> {
    let [baseline, candidate] = &arguments.inputs[..] else { unreachable!("two inputs, checked before") };
    let (baseline, candidate) = (RunFolder::open(baseline)?, RunFolder::open(candidate)?);
    let names: Vec<(String, String)> = arguments.candidates.iter().map(|given| names(given, &baseline)).collect();
    let report = ComparisonReport::between(&baseline.by_seed()?, &candidate.by_seed()?, &names, &arguments.fail_if)
        .map_err(ResultError::from)?;
    crate::commands::warn(&report.warnings);
    crate::commands::warn(&unproven(&report));
    let file = arguments.out.as_deref();
    match format {
        ReportFormat::Text => deliver(file, out, |mut sink| text::comparison(&report, &mut sink))?,
        ReportFormat::Json => deliver(file, out, |mut sink| reports::json::write(&report, &mut sink))?,
        ReportFormat::Html | ReportFormat::Markdown => {
            write_document(&Document::of(vec![page::comparison(&report)]), format, file, out)?;
        }
    }
    let regressed: Vec<String> = report
        .regressions()
        .map(|passed| format!("{} of `{}` ({})", passed.figure, passed.candidate, passed.threshold))
        .collect();
    if regressed.is_empty() { Ok(()) } else { Err(Failure::Regression(regressed.join(", "))) }
}

/// `NAME=OTHER`, or a name that both have. A name may hold `=` itself: what the baseline has, counts.
fn names(given: &str, baseline: &RunFolder) -> (String, String) {
    let known = |name: &str| baseline.report.candidates.iter().any(|candidate| candidate.name == name);
    if known(given) {
        return (given.to_owned(), given.to_owned());
    }
    let cuts = given.match_indices('=').map(|(at, _)| (&given[..at], &given[at + 1..]));
    let (one, other) =
        cuts.clone().find(|(one, _)| known(one)).or_else(|| cuts.clone().next()).unwrap_or((given, given));
    (one.to_owned(), other.to_owned())
}

/// Thresholds that the mean passes, and the seeds do not prove.
fn unproven(report: &ComparisonReport) -> Vec<Warning> {
    let passed = report.thresholds.iter().filter(|threshold| threshold.outcome == "unproven");
    passed
        .map(|threshold| {
            let message = format!(
                "{} is worse by more than --fail-if {} in the mean, but {} seeds do not tell the two apart; more seeds may",
                threshold.figure,
                threshold.threshold,
                report.seeds.len()
            );
            Warning::about(threshold.candidate.clone(), "unproven_regression", message)
        })
        .collect()
}

//! `--compare`: two folders, seed by seed.

use std::io::Write;

use reports::page::{self, Document};
use reports::{ComparisonReport, Warning, text};

use super::error::ResultError;
use super::folder::RunFolder;
use super::{Arguments, ReportFormat, deliver, write_document};
use crate::commands::failure::Failure;

/// Compares, writes the answer, and fails if a limit was exceeded.
pub(super) fn execute(arguments: &Arguments, format: ReportFormat, out: &mut impl Write) -> Result<(), Failure> {
    let [baseline, candidate] = &arguments.inputs[..] else { unreachable!("two inputs, checked before") };
    let (baseline, candidate) = (RunFolder::open(baseline)?, RunFolder::open(candidate)?);
    let names: Vec<(String, String)> = arguments.candidates.iter().map(|given| names(given, &baseline)).collect();
    let mut report = ComparisonReport::between(&baseline.by_seed()?, &candidate.by_seed()?, &names, &arguments.fail_if)
        .map_err(ResultError::from)?;
    report.warnings.extend(other_traffic(&baseline, &candidate, &report)?);
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

/// Where the scenarios differ, whether their requests do, by what both runs wrote of them.
///
/// # Errors
/// Other prompts: the two are not of the same traffic, and their differences would say nothing.
fn other_traffic(
    baseline: &RunFolder,
    candidate: &RunFolder,
    report: &ComparisonReport,
) -> Result<Option<Warning>, ResultError> {
    let pair = match &report.pairs[..] {
        [pair, ..] if report.baseline.scenario.sha256 != report.candidate.scenario.sha256 => pair,
        _ => return Ok(None),
    };
    let offered =
        (baseline.offered(&pair.baseline, &report.seeds)?, candidate.offered(&pair.candidate, &report.seeds)?);
    let (Some(one), Some(other)) = offered else { return Ok(None) };
    if one.prompts != other.prompts {
        return Err(ResultError::new(
            format!(
                "the runs are not of the same traffic: {} and {} were sent other prompts",
                baseline.name(),
                candidate.name()
            ),
            "run both with the same [traffic] of the scenario and the same seeds",
        ));
    }
    let differ: Vec<&str> = [("arrivals", one.arrivals != other.arrivals), ("outputs", one.outputs != other.outputs)]
        .into_iter()
        .filter_map(|(what, differ)| differ.then_some(what))
        .collect();
    let message = format!(
        "the prompts are the same, the {} are not: another rate or other lengths; or clients that wait for their answers, or \
         requests cut at another max_model_len",
        differ.join(" and the ")
    );
    Ok((!differ.is_empty()).then(|| Warning::general("other_traffic", message)))
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

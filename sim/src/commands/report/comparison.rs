//! `--compare`: two folders, seed by seed.

use std::collections::BTreeMap;
use std::io::Write;

use reports::page::{self, Document};
use reports::{ComparisonReport, Warning, text};

use super::error::ResultError;
use super::folder::RunFolder;
use super::requests::Offered;
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
    let left_out = left_out(arguments, &report)?;
    crate::commands::warn(&report.warnings);
    crate::commands::warn(left_out.as_slice());
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

/// Whether the requests of every pair are the same, by what both runs wrote of them. Equal scenarios prove nothing: a trace
/// that they name is a file of its own.
///
/// # Errors
/// Other prompts: the two are not of the same traffic, and their differences would say nothing.
fn other_traffic(
    baseline: &RunFolder,
    candidate: &RunFolder,
    report: &ComparisonReport,
) -> Result<Option<Warning>, ResultError> {
    let (Some(one), Some(other)) = (baseline.offered(&report.seeds)?, candidate.offered(&report.seeds)?) else {
        let message = "a folder is without requests.csv: whether both were sent the same requests was not checked";
        return Ok(Some(Warning::general("unchecked_traffic", message)));
    };
    let (mut arrivals_differ, mut outputs_differ) = (false, false);
    for pair in &report.pairs {
        let (one, other) = (of(&one, &pair.baseline), of(&other, &pair.candidate));
        let sent = |request: &Offered| (request.key, request.prompt);
        if !one.iter().map(sent).eq(other.iter().map(sent)) {
            return Err(ResultError::new(
                format!(
                    "the runs are not of the same traffic: {} and {} were sent other prompts (candidates `{}` and `{}`)",
                    baseline.name(),
                    candidate.name(),
                    pair.baseline,
                    pair.candidate
                ),
                "run both with the same [traffic] of the scenario, the same trace file and the same seeds",
            ));
        }
        let mut requests = one.iter().zip(other);
        arrivals_differ |= requests.clone().any(|(a, b)| a.arrival_s.to_bits() != b.arrival_s.to_bits());
        outputs_differ |= requests.any(|(a, b)| a.output != b.output);
    }
    let differ: Vec<&str> = [("arrivals", arrivals_differ), ("outputs", outputs_differ)]
        .into_iter()
        .filter_map(|(what, differ)| differ.then_some(what))
        .collect();
    let message = format!(
        "the prompts are the same, the {} are not: another rate, other lengths or another trace; or clients that wait for \
         their answers, or requests cut at another max_model_len",
        differ.join(" and the ")
    );
    Ok((!differ.is_empty()).then(|| Warning::general("other_traffic", message)))
}

fn of<'a>(offered: &'a BTreeMap<String, Vec<Offered>>, candidate: &str) -> &'a [Offered] {
    offered.get(candidate).map_or(&[], Vec::as_slice)
}

/// Candidates of the baseline that nothing is compared with: one that is gone must not pass for one that is no worse.
///
/// # Errors
/// There are some, and limits that were to hold for them.
fn left_out(arguments: &Arguments, report: &ComparisonReport) -> Result<Option<Warning>, ResultError> {
    if report.only_in_baseline.is_empty() {
        return Ok(None);
    }
    let names: Vec<String> = report.only_in_baseline.iter().map(|name| format!("`{name}`")).collect();
    let message = format!(
        "{} has no candidate named {}, which {} has",
        report.candidate.folder,
        names.join(", "),
        report.baseline.folder
    );
    if arguments.fail_if.is_empty() {
        return Ok(Some(Warning::general("not_compared", message + ": not compared")));
    }
    Err(ResultError::new(
        message + ": no limit of --fail-if can be judged for it",
        "name the pairs that the limits are for: --candidate NAME, or --candidate NAME=OTHER",
    ))
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

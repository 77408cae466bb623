//! The report beside a step log: whether both are of the same run, as far as the files say, and what the report adds.

use std::fs;
use std::path::{Path, PathBuf};

use calibrate::stderr::printable;
use reports::{CandidateReport, Figure, RunReport};

use super::error::{RecordingError, TOGETHER, object_expected};
use super::requests::RequestSections;
use super::sections::{Section, StepSections};
use crate::watch::state::WarmUpCut;

/// The report in a folder, if there is one.
///
/// # Errors
/// If it cannot be read, or is none.
pub(super) fn report_in(folder: &Path) -> Result<Option<RunReport>, RecordingError> {
    let Some(path) = neighbour(folder, "run.json")? else { return Ok(None) };
    let text = fs::read(&path).map_err(|source| RecordingError::Read { path: path.clone(), source })?;
    // An array could be taken for the fields of an object, in their order.
    let is_object = text.iter().find(|byte| !byte.is_ascii_whitespace()).is_none_or(|&byte| byte == b'{');
    let refuse = |line, problem: &str| {
        let problem = format!("expected the report of a run: {problem}");
        Err(RecordingError::Line { path: path.clone(), line, problem, help: TOGETHER })
    };
    if !is_object {
        return refuse(1, "a JSON object");
    }
    match serde_json::from_slice(&text) {
        Ok(report) => Ok(Some(report)),
        Err(error) => refuse(error.line() as u64, &object_expected(&error)),
    }
}

/// A file of that name, if there is one.
///
/// # Errors
/// If it is no regular file: to read another one could take forever.
pub(super) fn neighbour(folder: &Path, name: &str) -> Result<Option<PathBuf>, RecordingError> {
    let path = folder.join(name);
    match fs::metadata(&path) {
        Ok(metadata) if metadata.is_file() => Ok(Some(path)),
        Ok(_) => Err(RecordingError::NoLog { path, problem: "is no regular file", help: TOGETHER }),
        Err(_) => Ok(None),
    }
}

/// What keeps a log and its neighbours from being of one run; `None` if nothing does.
pub(super) fn difference(
    steps: &StepSections,
    report: &RunReport,
    requests: Option<&RequestSections>,
) -> Option<String> {
    let log = printable(&steps.path.display().to_string());
    if !steps.sections.iter().all(|section| is_of(section, report)) || has_more_steps(&steps.sections, report) {
        return Some(format!("run.json beside {log} is of another run: its requests are not shown"));
    }
    if let Some(known) = missing(&steps.sections, report) {
        return Some(format!("{known}: the log ends before, or is of another run; requests are not shown"));
    }
    let (requests, offered) = (requests?, report.scenario.requests?);
    let short = report.candidates.iter().find_map(|candidate| {
        let rows = requests.rows(&candidate.name, report.seed);
        (rows != offered).then(|| (printable(&candidate.name), rows))
    });
    short.map(|(candidate, rows)| {
        format!("requests.csv has {rows} requests of {candidate}, run.json {offered}: requests are not shown")
    })
}

/// Whether the header of a section is of the run of a report.
fn is_of(section: &Section, report: &RunReport) -> bool {
    let header = &section.header;
    let mut seeds = report.seeds.iter().flatten().chain([&report.seed]);
    report.scenario.sha256 == header.scenario_sha256
        && (report.profile.sha256.is_empty() || report.profile.sha256 == header.profile_sha256)
        && seeds.any(|&seed| seed == header.seed)
        && report.candidates.iter().any(|candidate| candidate.name == header.candidate)
}

fn has_more_steps(sections: &[Section], report: &RunReport) -> bool {
    let more =
        |candidate| steps_reported(candidate, report).is_some_and(|steps| steps_logged(sections, candidate) > steps);
    report.candidates.iter().any(more)
}

/// What the report knows and the log lacks, in words. A log that breaks off within a line says so by itself.
fn missing(sections: &[Section], report: &RunReport) -> Option<String> {
    if sections.iter().any(|section| section.missing().is_some()) {
        return None;
    }
    let candidates = |has_steps: &dyn Fn(&CandidateReport) -> bool| {
        let count = report.candidates.iter().filter(|candidate| has_steps(candidate)).count();
        format!("{count} candidate{}", if count == 1 { "" } else { "s" })
    };
    let reported: Option<u64> = report.candidates.iter().map(|candidate| steps_reported(candidate, report)).sum();
    let logged: u64 = sections.iter().map(Section::steps).sum();
    let is_logged =
        |candidate: &CandidateReport| sections.iter().any(|section| section.header.candidate == candidate.name);
    let all = report.candidates.iter().all(is_logged);
    match reported {
        Some(reported) if reported > logged => Some(format!(
            "run.json has {}, {reported} steps, the log {}, {logged} steps",
            candidates(&|_| true),
            candidates(&is_logged)
        )),
        _ if !all => Some(format!("run.json has {}, the log {}", candidates(&|_| true), candidates(&is_logged))),
        _ => None,
    }
}

/// Steps of a candidate with all seeds, those before the warm-up cut included; `None` if the report does not say.
fn steps_reported(candidate: &CandidateReport, report: &RunReport) -> Option<u64> {
    let seeds = report.seeds.as_ref().map_or(1, Vec::len) as f64;
    let steps = candidate.steps.mean()? + candidate.cold_start.steps.mean()?;
    Some((steps * seeds).round() as u64)
}

fn steps_logged(sections: &[Section], candidate: &CandidateReport) -> u64 {
    sections.iter().filter(|section| section.header.candidate == candidate.name).map(Section::steps).sum()
}

/// What the figures of a report leave out at the start, where that is the same for all candidates and seeds.
pub(super) fn warm_up(report: &RunReport) -> Option<WarmUpCut> {
    let common = |figure: fn(&CandidateReport) -> &Figure| {
        let mut values = report.candidates.iter().map(|candidate| settled(figure(candidate)));
        let first = values.next().flatten()?;
        values.all(|value| value == Some(first)).then_some(first)
    };
    let cuts = report.candidates.iter().any(|candidate| candidate.cold_start.until_s.mean().is_some_and(|at| at > 0.0));
    cuts.then(|| WarmUpCut {
        requests: common(|candidate| &candidate.cold_start.requests).map(|requests| requests as u64),
        until_ns: common(|candidate| &candidate.cold_start.until_s).map(|until_s| (until_s * 1e9).round() as u64),
    })
}

/// A figure that is the same with every seed.
fn settled(figure: &Figure) -> Option<f64> {
    match figure {
        Figure::Interval(interval) => (interval.low.to_bits() == interval.high.to_bits()).then_some(interval.mean),
        other => other.mean(),
    }
}

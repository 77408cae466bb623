//! The page of one run, in the order in which it is read: the answer, what it rests on, how far to trust it, how to repeat it.

mod batches;
mod candidates;
mod cost;
mod front;
mod ladders;
mod latency;
mod origin;
mod timeline;
mod verdict;

use std::io;

pub(super) use candidates::all_figures;
pub(super) use front::charts as front_charts;
pub(super) use origin::{groups, provenance};

use super::document::{Block, Part, Section};
use super::{CandidateLatencies, Staircase};
use crate::text::{self, number};
use crate::{CandidateReport, HistoryReport, RunReport};

/// Candidates of which charts of their own are drawn; of more, the first.
const DRAWN_MOST: usize = 8;

/// A run with what was found beside it.
#[derive(Clone, Debug)]
pub struct RunPage<'a> {
    /// The folder, as it was named.
    pub folder: String,
    /// Its run.json.
    pub report: &'a RunReport,
    /// Its history.json; `Err` says why it is missing, and what would make it.
    pub history: Result<HistoryReport, String>,
    /// The latencies of its requests.csv, in the order of the report's candidates.
    pub latencies: Result<Vec<CandidateLatencies>, String>,
    /// The staircase of its profile.toml; `Ok(None)` of a profile that has none.
    pub staircase: Result<Option<Staircase>, String>,
}

impl RunPage<'_> {
    /// The run as a part of a page.
    ///
    /// # Errors
    /// That of a drawing, which has no reason to fail.
    pub fn part(&self) -> io::Result<Part> {
        let sections = vec![
            candidates::section(self.report),
            ladders::section(self.report)?,
            batches::section(self)?,
            timeline::section(self)?,
            latency::section(self)?,
            front::section(self.report)?,
            cost::section(self.report)?,
            cost::memory(self.report)?,
            provenance(&self.report.profile),
            Section::brief("Warnings", vec![Block::Warnings(self.report.warnings.clone())]),
            origin::reproduce(self),
        ];
        Ok(Part {
            title: self.report.scenario.name.clone(),
            verdict: verdict::verdict(self.report),
            facts: self.facts(),
            sections,
        })
    }

    fn facts(&self) -> Vec<(String, String)> {
        let report = self.report;
        let seeds = match &report.seeds {
            Some(seeds) => format!("{} seeds: {}", seeds.len(), list(seeds)),
            None => format!("one seed, {}: no figure has an interval", report.seed),
        };
        let requests = report.scenario.requests.map(number::requests);
        let traffic =
            requests.into_iter().chain([seeds, text::slo_line(&report.scenario)]).collect::<Vec<_>>().join("; ");
        let profile = &report.profile;
        let costs = [Some(&profile.name), profile.device.as_ref(), profile.model.as_ref()];
        let costs = costs.into_iter().flatten().map(String::as_str).collect::<Vec<_>>().join(", ");
        let warnings = match report.warnings.len() {
            0 => "none".to_owned(),
            count => format!("{count}; read them before you act"),
        };
        [
            ("Engine", text::engine_line(&report.engine)),
            ("Traffic", traffic),
            ("Costs", format!("profile {costs}")),
            ("Warnings", warnings),
        ]
        .map(|(name, text)| (name.to_owned(), text))
        .into()
    }
}

/// Numbers with commas, the middle of many left out.
fn list(numbers: &[u64]) -> String {
    let words: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    match &words[..] {
        [first, second, .., last] if words.len() > 12 => format!("{first}, {second} \u{2026} {last}"),
        _ => words.join(", "),
    }
}

/// Candidates with charts of their own, each with its place.
fn drawn(report: &RunReport) -> impl Iterator<Item = (usize, &CandidateReport)> {
    report.candidates.iter().enumerate().take(DRAWN_MOST)
}

/// What is said below the charts of the first candidates where there are more.
fn others(report: &RunReport) -> Option<Block> {
    let more = report.candidates.len().checked_sub(DRAWN_MOST).filter(|more| *more > 0)?;
    Some(Block::Text(format!(
        "Charts of their own are drawn of the first {DRAWN_MOST} candidates; the figures of the other {more} are in the \
         tables of \u{201c}Candidates side by side\u{201d}. `sim report` draws them of a run made with --candidate."
    )))
}

/// A candidate's letter and name.
fn named(place: usize, candidate: &CandidateReport) -> String {
    format!("{} {}", super::letter(place), candidate.name)
}

//! A folder that `sim run --out` wrote, read back.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use calibrate::profile::Profile;
use reports::page::{CandidateLatencies, Part, RunPage, Staircase};
use reports::{CandidateHistory, FIGURES, HistoryReport, RunBySeed, RunReport, SeedFigures};
use serde::de::DeserializeOwned;

use super::error::ResultError;
use super::requests::{Expected, Offered, ROUNDING};
use super::{requests, staircase};
use crate::commands::failure::Failure;
use crate::record;

/// What to do about a file that is not as it was written.
const AGAIN: &str = "run it again with --out";

/// Files that were not written together.
const MIXED: &str = "files of two runs are mixed";

/// A folder with its run.json.
#[derive(Debug)]
pub(super) struct RunFolder {
    path: PathBuf,
    /// What the run came to.
    pub(super) report: RunReport,
}

impl RunFolder {
    /// Reads run.json, whose presence says that the run was finished.
    ///
    /// # Errors
    /// There is none, or it is no report of a run.
    pub(super) fn open(path: &Path) -> Result<Self, ResultError> {
        let run = path.join("run.json");
        if !run.exists() {
            let help = if path.join("manifest.json").exists() {
                "this is the folder of a sweep; `sim report` takes folders of `sim run --out`"
            } else {
                "expected a folder that `sim run --out` wrote"
            };
            return Err(ResultError::new(format!("{} holds no run.json", path.display()), help));
        }
        let report: RunReport = json(&run)?;
        if report.candidates.is_empty() {
            return Err(ResultError::broken(&run, 1, "it holds no candidate", AGAIN));
        }
        if report.seeds.as_ref().is_some_and(Vec::is_empty) {
            return Err(ResultError::broken(&run, 1, "it holds no seed", AGAIN));
        }
        Ok(Self { path: path.to_owned(), report })
    }

    /// The folder, as it was named.
    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// The run as a part of a page.
    ///
    /// # Errors
    /// A file beside run.json is broken or belongs to another run. A missing one is said on the page.
    pub(super) fn part(&self) -> Result<Part, Failure> {
        let page = RunPage {
            folder: self.name(),
            report: &self.report,
            history: self.history()?.ok_or_else(|| missing("history.json")),
            latencies: self.latencies()?.ok_or_else(|| missing("requests.csv")),
            staircase: self.staircase()?,
        };
        page.part().map_err(Failure::Stdout)
    }

    /// The run with its figures seed by seed.
    ///
    /// # Errors
    /// figures.csv is missing or broken.
    pub(super) fn by_seed(&self) -> Result<RunBySeed<'_>, ResultError> {
        let path = self.path.join("figures.csv");
        let file = File::open(&path).map_err(|error| {
            ResultError::new(
                format!("cannot read {}: {error}", path.display()),
                "it holds the figures seed by seed; `sim run --out` of this version writes it",
            )
        })?;
        let figures = SeedFigures::read(BufReader::new(file))
            .map_err(|error| ResultError::broken(&path, error.line, &error.problem, AGAIN))?;
        self.same_figures(&figures)
            .map_err(|problem| ResultError::broken(&path, 1, &format!("{MIXED}: {problem}"), AGAIN))?;
        Ok(RunBySeed { folder: self.name(), report: &self.report, figures })
    }

    /// The requests that each candidate was offered with some seeds; `None` without requests.csv.
    ///
    /// # Errors
    /// requests.csv is broken.
    pub(super) fn offered(&self, seeds: &[u64]) -> Result<Option<BTreeMap<String, Vec<Offered>>>, ResultError> {
        let Some(path) = self.existing("requests.csv") else { return Ok(None) };
        let file = File::open(&path).map_err(|error| ResultError::unreadable(&path, &error))?;
        requests::offered(BufReader::new(file), self.expected(), seeds)
            .map(Some)
            .map_err(|fault| ResultError::broken(&path, fault.line, &fault.problem, AGAIN))
    }

    fn history(&self) -> Result<Option<HistoryReport>, ResultError> {
        let Some(path) = self.existing("history.json") else { return Ok(None) };
        let history: HistoryReport = json(&path)?;
        for of_one in &history.candidates {
            self.known(&path, 1, &of_one.candidate)?;
            self.same_steps(of_one).map_err(|problem| ResultError::broken(&path, 1, &problem, AGAIN))?;
        }
        if history.candidates.len() != self.report.candidates.len() {
            let counts = (history.candidates.len(), self.report.candidates.len());
            let problem = format!("{MIXED}: it holds {} candidates, run.json {}", counts.0, counts.1);
            return Err(ResultError::broken(&path, 1, &problem, AGAIN));
        }
        Ok(Some(history))
    }

    /// Whether a history is that of the run, as far as its numbers tell.
    fn same_steps(&self, history: &CandidateHistory) -> Result<(), String> {
        let bins = &history.timeline.bins;
        let sum = |mut counts: &mut dyn Iterator<Item = u64>| Iterator::try_fold(&mut counts, 0, u64::checked_add);
        let steps = sum(&mut history.batches.iter().map(|batch| batch.steps));
        let all = [
            sum(&mut history.batches.iter().map(|batch| batch.padded_rows)),
            sum(&mut bins.iter().map(|bin| bin.steps)),
            sum(&mut bins.iter().map(|bin| bin.preempted)),
        ];
        let (Some(steps), [Some(_), Some(_), Some(_)]) = (steps, all) else {
            return Err("its counts are larger than any run's".to_owned());
        };
        let (name, seeds) = (&history.candidate, self.seeds());
        if history.seeds != seeds.len() as u64 || history.timeline.seed != seeds[0] {
            let (count, first) = (history.seeds, history.timeline.seed);
            return Err(format!(
                "{MIXED}: candidate `{name}` has {count} seeds from {first} on here, {} from {} on in run.json",
                seeds.len(),
                seeds[0]
            ));
        }
        let mean = self.report.candidates.iter().find(|one| one.name == *name).and_then(|one| one.steps.mean());
        let expected = mean.map(|mean| mean * seeds.len() as f64);
        match expected.filter(|expected| (expected - steps as f64).abs() > 0.5) {
            Some(expected) => {
                Err(format!("{MIXED}: candidate `{name}` has {steps} steps here, {expected:.0} in run.json"))
            }
            None => Ok(()),
        }
    }

    /// Whether figures of single seeds have the means of run.json.
    fn same_figures(&self, rows: &[SeedFigures]) -> Result<(), String> {
        let seeds = self.seeds();
        for candidate in &self.report.candidates {
            let name = &candidate.name;
            let of_one: Vec<&SeedFigures> = rows.iter().filter(|row| row.candidate == *name).collect();
            if of_one.len() != seeds.len() || of_one.iter().any(|row| !seeds.contains(&row.seed)) {
                return Err(format!("its seeds of candidate `{name}` are not those of run.json"));
            }
            for (place, spec) in FIGURES.iter().enumerate() {
                let Some(expected) = (spec.get)(candidate).mean() else { continue };
                let values: Vec<f64> = of_one.iter().filter_map(|row| row.figures[place]).collect();
                let mean = values.iter().sum::<f64>() / seeds.len() as f64;
                let size = values.iter().fold(expected.abs(), |most, value| most.max(value.abs()));
                if values.len() != seeds.len() || (mean - expected).abs() > ROUNDING * size {
                    return Err(format!("{} of candidate `{name}` is {expected} in run.json, not here", spec.name));
                }
            }
        }
        let known = |row: &SeedFigures| self.report.candidates.iter().any(|one| one.name == row.candidate);
        rows.iter()
            .find(|row| !known(row))
            .map_or(Ok(()), |row| Err(format!("candidate `{}` is not one of run.json", row.candidate)))
    }

    fn seeds(&self) -> &[u64] {
        self.report.seeds.as_deref().unwrap_or(std::slice::from_ref(&self.report.seed))
    }

    fn expected(&self) -> Expected<'_> {
        let seeds = self.seeds();
        let rows = self.report.scenario.requests.map(|requests| requests.saturating_mul(seeds.len() as u64));
        Expected { candidates: &self.report.candidates, seeds, rows }
    }

    fn latencies(&self) -> Result<Option<Vec<CandidateLatencies>>, ResultError> {
        let Some(path) = self.existing("requests.csv") else { return Ok(None) };
        let file = File::open(&path).map_err(|error| ResultError::unreadable(&path, &error))?;
        requests::latencies(BufReader::new(file), self.expected())
            .map(Some)
            .map_err(|fault| ResultError::broken(&path, fault.line, &fault.problem, AGAIN))
    }

    /// The staircase of the profile that priced the run; `Ok(Err)` says that the profile is missing.
    fn staircase(&self) -> Result<Result<Option<Staircase>, String>, Failure> {
        let Some(path) = self.existing("profile.toml") else { return Ok(Err(missing("profile.toml"))) };
        let text = super::read(&path)?;
        let expected = &self.report.profile.sha256;
        if !expected.is_empty() && *expected != record::sha256(text.as_bytes()) {
            let problem = format!("it is not the profile that priced the run (SHA-256 {expected})");
            return Err(ResultError::broken(&path, 1, &problem, AGAIN).into());
        }
        Ok(Ok(staircase::of(&Profile::load(&path)?)))
    }

    fn existing(&self, name: &str) -> Option<PathBuf> {
        Some(self.path.join(name)).filter(|path| path.exists())
    }

    fn known(&self, path: &Path, line: u64, candidate: &str) -> Result<(), ResultError> {
        if self.report.candidates.iter().any(|known| known.name == candidate) {
            return Ok(());
        }
        let problem = format!("candidate `{candidate}` is not one of run.json: {MIXED}");
        Err(ResultError::broken(path, line, &problem, AGAIN))
    }
}

fn json<T: DeserializeOwned>(path: &Path) -> Result<T, ResultError> {
    let text = super::read(path)?;
    serde_json::from_str(&text)
        .map_err(|error| ResultError::broken(path, error.line() as u64, &error.to_string(), AGAIN))
}

fn missing(name: &str) -> String {
    format!("{name} is not in the folder; `sim run --out DIR` writes it")
}

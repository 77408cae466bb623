//! A folder that `sim run --out` wrote, read back.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use calibrate::profile::Profile;
use reports::page::{CandidateLatencies, Part, RunPage, Staircase};
use reports::{HistoryReport, RunBySeed, RunReport, SeedFigures};
use serde::de::DeserializeOwned;

use super::error::ResultError;
use super::requests::Offered;
use super::{requests, staircase};
use crate::commands::failure::Failure;
use crate::record;

/// What to do about a file that is not as it was written.
const AGAIN: &str = "run it again with --out";

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
        Ok(RunBySeed { folder: self.name(), report: &self.report, figures })
    }

    /// The requests that each candidate was offered with some seeds; `None` without requests.csv.
    ///
    /// # Errors
    /// requests.csv is broken.
    pub(super) fn offered(&self, seeds: &[u64]) -> Result<Option<BTreeMap<String, Vec<Offered>>>, ResultError> {
        let Some(path) = self.existing("requests.csv") else { return Ok(None) };
        let file = File::open(&path).map_err(|error| ResultError::unreadable(&path, &error))?;
        requests::offered(BufReader::new(file), seeds)
            .map(Some)
            .map_err(|fault| ResultError::broken(&path, fault.line, &fault.problem, AGAIN))
    }

    fn history(&self) -> Result<Option<HistoryReport>, ResultError> {
        let Some(path) = self.existing("history.json") else { return Ok(None) };
        let history: HistoryReport = json(&path)?;
        for of_one in &history.candidates {
            self.known(&path, 1, &of_one.candidate)?;
        }
        Ok(Some(history))
    }

    fn latencies(&self) -> Result<Option<Vec<CandidateLatencies>>, ResultError> {
        let Some(path) = self.existing("requests.csv") else { return Ok(None) };
        let file = File::open(&path).map_err(|error| ResultError::unreadable(&path, &error))?;
        let seeds = self.report.seeds.as_ref().map_or(1, |seeds| seeds.len() as u64);
        let rows = self.report.scenario.requests.map(|requests| requests * seeds);
        requests::latencies(BufReader::new(file), &self.report.candidates, rows)
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
        let problem = format!("candidate `{candidate}` is not one of run.json: files of two runs are mixed");
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

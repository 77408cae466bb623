//! A measured run as it lies in a folder: what ran, what each request saw, what the server counted.

pub mod meta;
pub mod requests;
pub mod series;
pub mod text;

pub use meta::{Meta, SchedulerConfig};
pub use requests::{MeasuredRequest, read_requests};
pub use series::{MeasuredTick, read_series};
pub use text::{Text, WHOLE, fault_of_json};

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::ValidateError;
use crate::file_error::FileError;

const BEGIN: &str = "vllm_run_";
const META: &str = "_meta.json";
const REQUESTS: &str = "_requests.jsonl";
const SERIES: &str = "_timeseries.csv";

/// The files of one run. Any of them may be missing, but not all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFiles {
    /// What stands between `vllm_run_` and `_meta.json`; kernel tables are filed under such a name too.
    pub name: String,
    /// `vllm_run_NAME_meta.json`.
    pub meta: Option<PathBuf>,
    /// `vllm_run_NAME_requests.jsonl`.
    pub requests: Option<PathBuf>,
    /// `vllm_run_NAME_timeseries.csv`.
    pub series: Option<PathBuf>,
}

impl RunFiles {
    /// Every run of a folder, by name.
    ///
    /// # Errors
    /// The folder cannot be read, or holds no run.
    pub fn find(folder: &Path) -> Result<Vec<Self>, ValidateError> {
        let shown = folder.display().to_string();
        let unreadable = |source| FileError::open(&shown, source);
        let mut runs: BTreeMap<String, Self> = BTreeMap::new();
        for entry in fs::read_dir(folder).map_err(unreadable)? {
            let file = entry.map_err(unreadable)?.file_name();
            let Some(filed) = file.to_str().and_then(|file| file.strip_prefix(BEGIN)) else { continue };
            let parts = [META, REQUESTS, SERIES];
            let Some((name, end)) = parts.iter().find_map(|end| Some((filed.strip_suffix(end)?, *end))) else {
                continue;
            };
            let run = runs.entry(name.to_owned()).or_insert_with(|| Self::nothing(name));
            let part = match end {
                META => &mut run.meta,
                REQUESTS => &mut run.requests,
                _ => &mut run.series,
            };
            *part = Some(folder.join(&file));
        }
        if runs.is_empty() {
            let help =
                "a run is vllm_run_NAME_meta.json, vllm_run_NAME_requests.jsonl and vllm_run_NAME_timeseries.csv";
            return Err(ValidateError::file(&shown, "no run in this folder", help));
        }
        Ok(runs.into_values().collect())
    }

    fn nothing(name: &str) -> Self {
        Self { name: name.to_owned(), meta: None, requests: None, series: None }
    }

    /// The file that says what ran.
    ///
    /// # Errors
    /// It is not there.
    pub fn meta(&self) -> Result<&Path, ValidateError> {
        self.meta.as_deref().ok_or_else(|| self.missing(META, "results without the meta.json that says what ran"))
    }

    /// Requests and series; `None` where the run has neither.
    ///
    /// # Errors
    /// One of them is there without the other.
    pub fn results(&self) -> Result<Option<(&Path, &Path)>, ValidateError> {
        match (self.requests.as_deref(), self.series.as_deref()) {
            (None, None) => Ok(None),
            (Some(requests), Some(series)) => Ok(Some((requests, series))),
            (Some(_), None) => Err(self.missing(SERIES, "not there, but the requests of this run are")),
            (None, Some(_)) => Err(self.missing(REQUESTS, "not there, but the series of this run is")),
        }
    }

    /// About a file that should lie beside the others.
    fn missing(&self, end: &str, problem: &str) -> ValidateError {
        let there = [&self.meta, &self.requests, &self.series].into_iter().flatten().next();
        let file = format!("{BEGIN}{}{end}", self.name);
        let path = there.map_or_else(|| PathBuf::from(&file), |there| there.with_file_name(&file));
        ValidateError::file(&path.display().to_string(), problem, "put the file beside the others of the run")
    }
}

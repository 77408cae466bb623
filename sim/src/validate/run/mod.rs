//! A measured run as it lies in a folder: what ran, what each request saw, what the server counted.

pub mod meta;
pub mod requests;
pub mod series;
pub mod text;

pub use meta::{Meta, SchedulerConfig};
pub use requests::{MeasuredRequest, read_requests};
pub use series::{MeasuredTick, read_series};
pub use text::{Text, WHOLE, fault_of_json};

use std::fs;
use std::path::{Path, PathBuf};

use super::ValidateError;

const BEGIN: &str = "vllm_run_";
const META: &str = "_meta.json";

/// The files of one run. Those of its results may be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFiles {
    /// What stands between `vllm_run_` and `_meta.json`; the kernel tables of the same card, model and ranks have it too.
    pub name: String,
    /// `vllm_run_NAME_meta.json`.
    pub meta: PathBuf,
    /// `vllm_run_NAME_requests.jsonl`.
    pub requests: Option<PathBuf>,
    /// `vllm_run_NAME_timeseries.csv`.
    pub series: Option<PathBuf>,
}

impl RunFiles {
    /// Every run of a folder, by name.
    ///
    /// # Errors
    /// The folder cannot be read, holds no run, or holds results without their `meta.json`.
    pub fn find(folder: &Path) -> Result<Vec<Self>, ValidateError> {
        let shown = folder.display().to_string();
        let unreadable = |source| ValidateError::Read { file: shown.clone(), source };
        let mut names = Vec::new();
        for entry in fs::read_dir(folder).map_err(unreadable)? {
            let name = entry.map_err(unreadable)?.file_name();
            names.extend(name.to_str().and_then(|name| name.strip_prefix(BEGIN)).map(str::to_owned));
        }
        let is_there = |name: &str, end: &str| names.iter().any(|found| found.strip_suffix(end) == Some(name));
        let path = |name: &str, end: &str| folder.join(format!("{BEGIN}{name}{end}"));
        let result = |name: &str, end: &str| is_there(name, end).then(|| path(name, end));
        let mut runs: Vec<Self> = names
            .iter()
            .filter_map(|name| name.strip_suffix(META))
            .map(|name| Self {
                name: name.to_owned(),
                meta: path(name, META),
                requests: result(name, "_requests.jsonl"),
                series: result(name, "_timeseries.csv"),
            })
            .collect();
        runs.sort_by(|a, b| a.name.cmp(&b.name));
        let results = |name: &&String| name.ends_with("_requests.jsonl") || name.ends_with("_timeseries.csv");
        let has_meta =
            |name: &str| runs.iter().any(|run| name.strip_prefix(&run.name).is_some_and(|end| end.starts_with('_')));
        if let Some(alone) = names.iter().filter(results).find(|name| !has_meta(name)) {
            let file = path(alone, "").display().to_string();
            let help = "put the vllm_run_NAME_meta.json of the run beside it";
            return Err(ValidateError::file(&file, "results without the meta.json that says what ran", help));
        }
        if runs.is_empty() {
            let help =
                "a run is vllm_run_NAME_meta.json, vllm_run_NAME_requests.jsonl and vllm_run_NAME_timeseries.csv";
            return Err(ValidateError::file(&shown, "no run in this folder", help));
        }
        Ok(runs)
    }
}

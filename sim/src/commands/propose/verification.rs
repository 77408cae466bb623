//! `--kit`: what an operator needs to confirm the advice on the real machine.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use calibrate::profile::Profile;
use reports::{AtomicFile, CandidateReport, FIGURES, OutputError};

use super::super::failure::Failure;
use super::kv_tokens_before_graphs;
use crate::engine::options::EngineOptions;
use crate::flags::Target;
use crate::kit::{Kit, Predicted, Set, kit};
use crate::scenario::Scenario;

/// Figures that the engines' own benchmark clients give under the same name, and those that the servers log.
const FIGURES_TO_CONFIRM: [&str; 12] = [
    "request_goodput",
    "request_throughput",
    "output_throughput",
    "mean_ttft_ms",
    "median_ttft_ms",
    "p99_ttft_ms",
    "mean_tpot_ms",
    "median_tpot_ms",
    "p99_tpot_ms",
    "graph_memory_bytes",
    "kv_tokens",
    "startup.capture_s",
];

/// A folder for the kit, and what the kit is about.
#[derive(Debug)]
pub(super) struct Verification {
    folder: PathBuf,
    target: Target,
}

impl Verification {
    /// Makes the folder if it is missing and sees that there can be a kit, before any long work.
    ///
    /// # Errors
    /// A folder that cannot be written, and traffic or a target without a kit.
    pub(super) fn open(
        folder: &Path,
        scenario: &Scenario,
        current: &EngineOptions,
        profile: &Profile,
        targets: &[Target],
    ) -> Result<Self, Failure> {
        let target = targets.first().copied().unwrap_or(Target::of(current));
        let verification = Self { folder: folder.to_owned(), target };
        verification.kit(scenario, &[set("current", current, profile, None)], scenario.traffic.seed)?;
        fs::create_dir_all(folder).map_err(|error| OutputError::Create { path: folder.to_owned(), error })?;
        drop(AtomicFile::create(folder.join("README.md"))?);
        Ok(verification)
    }

    /// Writes the kit, README.md last: where it is, the rest is there.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(super) fn write(
        &self,
        scenario: &Scenario,
        profile: &Profile,
        servers: &[(&str, &EngineOptions, &CandidateReport)],
        seed: u64,
    ) -> Result<(), Failure> {
        let sets: Vec<Set> =
            servers.iter().map(|(name, options, figures)| set(name, options, profile, Some(figures))).collect();
        let kit = self.kit(scenario, &sets, seed)?;
        for file in kit.files.iter().rev() {
            let path = self.folder.join(&file.name);
            let mut sink = AtomicFile::create(&path)?;
            sink.write_all(file.text.as_bytes()).map_err(|error| OutputError::Write { path, error })?;
            sink.finish()?;
        }
        Ok(())
    }

    fn kit(&self, scenario: &Scenario, sets: &[Set], seed: u64) -> Result<Kit, Failure> {
        kit(scenario, sets, self.target, &[seed]).map_err(|fault| Failure::Usage {
            message: format!("--kit: {fault}"),
            help: Some("leave --kit out, or give another --engine-version first".to_owned()),
        })
    }
}

fn set(name: &str, options: &EngineOptions, profile: &Profile, figures: Option<&CandidateReport>) -> Set {
    let predicted = figures.map_or(Vec::new(), |figures| {
        let named = FIGURES_TO_CONFIRM.iter().filter_map(|name| FIGURES.iter().find(|spec| spec.name == *name));
        let predicted = named.filter_map(|spec| {
            let value = (spec.get)(figures).mean()?;
            Some(Predicted { figure: spec.name.to_owned(), unit: spec.unit.to_owned(), value })
        });
        predicted.collect()
    });
    let kv_tokens = kv_tokens_before_graphs(options, profile);
    Set { name: name.to_owned(), options: options.clone(), kv_tokens, predicted }
}

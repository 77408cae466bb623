//! `--trace`: every run as a process of one trace file.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use reports::{AtomicFile, OutputError, StartupCandidate, TraceHeader, TraceLog};

use super::super::failure::Failure;
use super::super::inputs::Inputs;
use super::job::{Job, JobResult};
use super::spool::{Spool, SpoolWriter};
use crate::record::{self, TraceLogger};
use crate::server::Setup;

/// A trace that is being written. All runs share a clock that begins with the longest start-up.
#[derive(Debug)]
pub(super) struct Trace {
    path: PathBuf,
    spool: Spool,
    /// By candidate.
    startups: Vec<StartupCandidate>,
    serving_from_ns: u64,
}

impl Trace {
    /// Makes sure, before any long work, that the file can be written.
    ///
    /// # Errors
    /// If it cannot.
    pub(super) fn open(path: &Path, inputs: &Inputs, setups: &[Setup]) -> Result<Self, Failure> {
        drop(AtomicFile::create(path)?);
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let spool = Spool::create(folder).map_err(|error| OutputError::Create { path: path.to_owned(), error })?;
        let startups: Vec<StartupCandidate> = inputs
            .scenario
            .candidates
            .iter()
            .zip(setups)
            .map(|(candidate, setup)| record::startup(&candidate.name, setup, &inputs.profile))
            .collect();
        let longest_s = startups.iter().map(|startup| startup.startup_s).fold(0.0, f64::max);
        Ok(Self { path: path.to_owned(), spool, startups, serving_from_ns: (longest_s * 1e9).round() as u64 })
    }

    /// The logger of one run.
    ///
    /// # Errors
    /// If the spool cannot be written.
    pub(super) fn logger<'a>(
        &'a self,
        job: &Job,
        setup: &'a Setup,
    ) -> Result<TraceLogger<'a, SpoolWriter<'a>>, Failure> {
        let startup = &self.startups[job.candidate];
        let name = format!("{}, seed {}", startup.name, job.seed);
        let (_, ranks) = setup.options.ranks();
        let log = TraceLog::new(self.spool.log(), (job.number, &name), ranks, startup, self.serving_from_ns)
            .map_err(|error| self.unwritable(error))?;
        Ok(TraceLogger::new(log, setup))
    }

    /// The failure of a trace that could not be written.
    pub(super) fn unwritable(&self, error: std::io::Error) -> Failure {
        OutputError::Write { path: self.path.clone(), error }.into()
    }

    /// Writes the file, run by run.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn write(
        &self,
        inputs: &Inputs,
        command: Vec<String>,
        results: &[JobResult],
    ) -> Result<(), OutputError> {
        let scenario = record::scenario(&inputs.scenario, None);
        let header = TraceHeader {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            scenario: scenario.name,
            scenario_sha256: scenario.sha256,
            profile: inputs.profile_name.clone(),
            command,
            serving_from_ns: self.serving_from_ns,
        };
        AtomicFile::write(&self.path, |sink| {
            reports::trace::begin(&header, sink)?;
            results.iter().try_for_each(|result| self.spool.copy(&result.trace, sink))?;
            reports::trace::end(sink)?;
            sink.flush()
        })
    }
}

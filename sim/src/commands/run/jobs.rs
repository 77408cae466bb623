//! Every candidate with every seed, in parallel, results in order.

use std::fs::File;
use std::io::{BufWriter, Write};

use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

use super::super::failure::Failure;
use super::super::inputs::Inputs;
use super::logs::Logs;
use crate::metrics::{Metrics, Summary};
use crate::record::{RequestLogger, StepLogger};
use crate::server::{Replica, RunEnd, Setup};

/// One run: a candidate, by index, with one seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    /// Index of the candidate in the scenario.
    pub candidate: usize,
    /// Seed of the traffic.
    pub seed: u64,
}

/// What one run came to.
#[derive(Debug)]
pub(super) struct JobResult {
    /// The run.
    pub job: Job,
    /// Its figures.
    pub summary: Summary,
    /// How it ended.
    pub end: RunEnd,
    /// Its rows of requests.csv, if asked for.
    pub requests: Option<File>,
    /// Its lines of steps.jsonl, if asked for.
    pub steps: Option<File>,
}

/// What all runs share.
#[derive(Debug)]
pub(super) struct Jobs<'a> {
    /// Scenario and profile.
    pub inputs: &'a Inputs,
    /// The candidates, ready.
    pub setups: &'a [Setup],
    /// Which logs are kept, and where.
    pub logs: Option<Logs<'a>>,
}

impl Jobs<'_> {
    /// Runs every candidate with every seed; the results come candidate by candidate, seeds in order.
    ///
    /// # Errors
    /// The failure of the first run, in that order, that fails.
    pub(super) fn run(&self, seeds: &[u64]) -> Result<Vec<JobResult>, Failure> {
        let jobs: Vec<Job> = (0..self.setups.len())
            .flat_map(|candidate| seeds.iter().map(move |&seed| Job { candidate, seed }))
            .collect();
        let results: Vec<Result<JobResult, Failure>> = jobs.par_iter().map(|&job| self.run_one(job)).collect();
        results.into_iter().collect()
    }

    fn run_one(&self, job: Job) -> Result<JobResult, Failure> {
        let Job { candidate, seed } = job;
        let scenario = &self.inputs.scenario;
        let (name, setup) = (&scenario.candidates[candidate].name, &self.setups[candidate]);
        let traffic = scenario.traffic.open(seed)?;
        let asynchronous = setup.options.scheduler.async_scheduling;
        let metrics = Metrics::new(scenario.slo, scenario.warm_up, &setup.cost, asynchronous);

        let unwritable = |logs: &Logs<'_>, source| logs.unwritable(source);
        let mut requests = None;
        let mut steps = None;
        if let Some(logs) = &self.logs {
            let file = logs.part()?;
            let logger = RequestLogger::new(BufWriter::new(file), name, seed, scenario.slo);
            requests = Some(logger.map_err(|source| unwritable(logs, source))?);
            if logs.steps {
                let header = crate::record::step_header(
                    scenario,
                    &self.inputs.profile,
                    &self.inputs.profile_name,
                    seed,
                    name,
                    setup,
                );
                let logger = StepLogger::new(BufWriter::new(logs.part()?), &header, setup);
                steps = Some(logger.map_err(|source| unwritable(logs, source))?);
            }
        }

        let mut observers = (metrics, (requests, steps));
        let end = Replica::new(setup.scheduler(), &setup.graphs, &setup.cost).serve(traffic, &mut observers).map_err(
            |error| match (error, &self.logs) {
                (crate::server::ServerError::Output(source), Some(logs)) => unwritable(logs, source),
                (error, _) => error.into(),
            },
        )?;
        let (metrics, (requests, steps)) = observers;
        let finished = |file: Option<std::io::Result<BufWriter<File>>>| -> Result<Option<File>, Failure> {
            let Some(logs) = &self.logs else { return Ok(None) };
            let whole = |mut sink: BufWriter<File>| {
                sink.flush()?;
                sink.into_inner().map_err(std::io::IntoInnerError::into_error)
            };
            file.map(|sink| sink.and_then(whole)).transpose().map_err(|source| unwritable(logs, source))
        };
        Ok(JobResult {
            job,
            summary: metrics.finish(),
            end,
            requests: finished(requests.map(RequestLogger::finish))?,
            steps: finished(steps.map(StepLogger::finish))?,
        })
    }
}

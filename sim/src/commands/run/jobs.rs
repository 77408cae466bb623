//! Every candidate with every seed, in parallel, results in order.

use std::io;

use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

use super::super::failure::Failure;
use super::super::inputs::Inputs;
use super::recording::Recording;
use super::spool::{Extent, SpoolWriter};
use crate::engine::scheduler::Stepping;
use crate::metrics::{History, HistoryRecorder, Metrics, Summary};
use crate::record::{RequestLogger, StepLogger, TraceLogger};
use crate::server::{Replica, RunEnd, ServerError, Setup};

/// One run: a candidate, by index, with one seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    /// Index of the candidate in the scenario.
    pub candidate: usize,
    /// Seed of the traffic.
    pub seed: u64,
    /// The candidate's first run.
    pub first_seed: bool,
    /// Its place among all runs, from 1.
    pub number: u64,
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
    /// What charts draw of it, if results are kept.
    pub history: Option<History>,
    /// Where its events of the trace lie; empty if not asked for.
    pub trace: Vec<Extent>,
    /// Where its rows of requests.csv lie; empty if not asked for.
    pub requests: Vec<Extent>,
    /// Where its lines of steps.jsonl lie; empty if not asked for.
    pub steps: Vec<Extent>,
}

/// What all runs share.
#[derive(Debug)]
pub(super) struct Jobs<'a> {
    /// Scenario and profile.
    pub inputs: &'a Inputs,
    /// The candidates, ready.
    pub setups: &'a [Setup],
    /// What is kept of the runs beside their figures.
    pub recording: Recording<'a>,
}

/// A log of requests and a log of steps, as far as they were asked for.
type Loggers<'a> = (Option<RequestLogger<SpoolWriter<'a>>>, Option<StepLogger<'a, SpoolWriter<'a>>>);

impl Jobs<'_> {
    /// Runs every candidate with every seed; the results come candidate by candidate, seeds in order.
    ///
    /// # Errors
    /// The failure of the first run, in that order, that fails.
    pub(super) fn run(&self, seeds: &[u64]) -> Result<Vec<JobResult>, Failure> {
        let jobs: Vec<Job> = (0..self.setups.len())
            .flat_map(|candidate| seeds.iter().enumerate().map(move |(run, &seed)| (candidate, run, seed)))
            .zip(1..)
            .map(|((candidate, run, seed), number)| Job { candidate, seed, first_seed: run == 0, number })
            .collect();
        let results: Vec<Result<JobResult, Failure>> = jobs.par_iter().map(|&job| self.run_one(job)).collect();
        results.into_iter().collect()
    }

    fn run_one(&self, job: Job) -> Result<JobResult, Failure> {
        let scenario = &self.inputs.scenario;
        let setup = &self.setups[job.candidate];
        let traffic = scenario.traffic.open(job.seed)?;
        let metrics = Metrics::new(scenario.slo, scenario.warm_up, &setup.cost, &setup.options);

        let (requests, steps) = self.loggers(job)?;
        let trace = self.recording.trace.map(|trace| trace.logger(&job, setup)).transpose()?;
        let mut observers = (metrics, ((self.history(job), trace), (requests, steps)));
        let end = Replica::new(setup.schedulers(Stepping::Fast), &setup.graphs, &setup.cost)
            .serve(traffic, &mut observers)
            .map_err(|error| self.failure(error))?;
        let (metrics, ((history, trace), (requests, steps))) = observers;
        let unwritable = |error| self.failure(ServerError::Output(error));
        let finished = |log: Option<io::Result<SpoolWriter<'_>>>| {
            log.map_or(Ok(Vec::new()), |log| log.and_then(SpoolWriter::finish).map_err(unwritable))
        };
        Ok(JobResult {
            job,
            summary: metrics.finish(),
            end,
            history: history.map(HistoryRecorder::finish),
            trace: finished(trace.map(TraceLogger::finish))?,
            requests: finished(requests.map(RequestLogger::finish))?,
            steps: finished(steps.map(StepLogger::finish))?,
        })
    }

    /// The history, if results are kept. The timeline is that of a candidate's first seed.
    fn history(&self, job: Job) -> Option<HistoryRecorder<'_>> {
        self.recording.logs?;
        let setup = &self.setups[job.candidate];
        let (warm_up, asynchronous) = (self.inputs.scenario.warm_up, setup.options.asynchronous());
        Some(HistoryRecorder::new(warm_up, &setup.graphs, &setup.cost, asynchronous, job.first_seed))
    }

    /// The logs that were asked for. Only the first run of all writes the header of requests.csv.
    fn loggers(&self, job: Job) -> Result<Loggers<'_>, Failure> {
        let Some(logs) = self.recording.logs else { return Ok((None, None)) };
        let Job { candidate, seed, number, .. } = job;
        let scenario = &self.inputs.scenario;
        let (name, setup) = (&scenario.candidates[candidate].name, &self.setups[candidate]);
        let requests = RequestLogger::new(logs.requests.log(), name, seed, scenario.slo, number == 1)
            .map_err(|error| logs.unwritable(error))?;
        let Some(spool) = &logs.steps else { return Ok((Some(requests), None)) };
        let (profile, profile_name) = (&self.inputs.profile, &self.inputs.profile_name);
        let header = crate::record::step_header(scenario, profile, profile_name, seed, name, setup);
        let steps = StepLogger::new(spool.log(), &header, setup).map_err(|error| logs.unwritable(error))?;
        Ok((Some(requests), Some(steps)))
    }

    /// What an observer cannot write is a log.
    fn failure(&self, error: ServerError) -> Failure {
        match error {
            ServerError::Output(error) => self.recording.unwritable(error),
            error => error.into(),
        }
    }
}

//! Every candidate with every seed, in parallel, results in order.

use std::io;

use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use reports::{RequestLog, StepLog};

use super::super::failure::Failure;
use super::super::inputs::Inputs;
use super::job::{Job, JobResult};
use super::logs::Logged;
use super::recording::Recording;
use super::spool::SpoolWriter;
use super::watched::closed;
use crate::engine::scheduler::Stepping;
use crate::metrics::{HistoryRecorder, Metrics};
use crate::parquet::RowLog;
use crate::record::{RequestLogger, StepLogger};
use crate::server::{Replica, ServerError, Setup};
use crate::watch::live::LiveObserver;

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

/// One log as text, and as rows of a table if asked for.
type TextAndRows<'a, L> = (L, Option<RowLog<SpoolWriter<'a>>>);

/// A log of requests and a log of steps, as far as they were asked for.
type Loggers<'a> = (
    Option<RequestLogger<TextAndRows<'a, RequestLog<SpoolWriter<'a>>>>>,
    Option<StepLogger<'a, TextAndRows<'a, StepLog<SpoolWriter<'a>>>>>,
);

impl Jobs<'_> {
    /// Runs every candidate with every seed; the results come candidate by candidate, seeds in order.
    ///
    /// # Errors
    /// The failure of the first run, in that order, that fails.
    pub(super) fn run(&self, seeds: &[u64]) -> Result<Vec<JobResult>, Failure> {
        self.run_all(&self.all(seeds))
    }

    /// All runs: candidate by candidate, seeds in order.
    pub(super) fn all(&self, seeds: &[u64]) -> Vec<Job> {
        (0..self.setups.len())
            .flat_map(|candidate| seeds.iter().enumerate().map(move |(run, &seed)| (candidate, run, seed)))
            .zip(1..)
            .map(|((candidate, run, seed), number)| Job { candidate, seed, first_seed: run == 0, number })
            .collect()
    }

    /// Runs these in parallel; the results come in the same order.
    ///
    /// # Errors
    /// The failure of the first run, in that order, that fails.
    pub(super) fn run_all(&self, jobs: &[Job]) -> Result<Vec<JobResult>, Failure> {
        let results: Vec<Result<JobResult, Failure>> = jobs.par_iter().map(|&job| self.run_one(job, None)).collect();
        results.into_iter().collect()
    }

    /// Runs one, for a view to follow if there is one.
    ///
    /// # Errors
    /// If the run fails, or its view is closed before it has ended.
    pub(super) fn run_one(&self, job: Job, view: Option<LiveObserver<'_>>) -> Result<JobResult, Failure> {
        let scenario = &self.inputs.scenario;
        let setup = &self.setups[job.candidate];
        let traffic = scenario.traffic.open(job.seed)?;
        let metrics = Metrics::new(scenario.slo, scenario.warm_up, &setup.cost, &setup.options);

        let (requests, steps) = self.loggers(job)?;
        let trace = self.recording.trace.map(|trace| trace.logger(&job, setup)).transpose()?;
        let mut observers = ((metrics, view), ((self.history(job), trace), (requests, steps)));
        let end = Replica::new(setup.schedulers(Stepping::Fast), &setup.graphs, &setup.cost)
            .serve(traffic, &mut observers)
            .map_err(|error| self.failure(error))?;
        let ((metrics, view), ((history, trace), (requests, steps))) = observers;
        view.map_or(Ok(()), LiveObserver::finish).map_err(|_| closed())?;
        let trace = trace.map_or(Ok(Vec::new()), |log| log.finish()?.finish());
        let requests = requests.map(RequestLogger::into_log).map(|(text, rows)| Logged::finish(text.finish()?, rows));
        let steps = steps.map(StepLogger::into_log).map(|(text, rows)| Logged::finish(text.finish()?, rows));
        let unwritable = |error| self.failure(ServerError::Output(error));
        let finished =
            |log: Option<io::Result<Logged>>| log.transpose().map(Option::unwrap_or_default).map_err(unwritable);
        Ok(JobResult {
            job,
            summary: metrics.finish(),
            end,
            history: history.map(HistoryRecorder::finish),
            trace: trace.map_err(unwritable)?,
            requests: finished(requests)?,
            steps: finished(steps)?,
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
        let unwritable = |error| logs.unwritable(error);
        let tables = logs.tables.as_ref();

        let spool = logs.requests.log();
        let text = if number == 1 { RequestLog::new(spool).map_err(unwritable)? } else { RequestLog::continued(spool) };
        let rows = tables.map(|tables| tables.parquet.log(tables.requests.log(), name, seed));
        let requests = RequestLogger::new((text, rows), name, seed, scenario.slo);

        let Some(spool) = &logs.steps else { return Ok((Some(requests), None)) };
        let (profile, profile_name) = (&self.inputs.profile, &self.inputs.profile_name);
        let header = crate::record::step_header(scenario, profile, profile_name, seed, name, setup);
        let mut text = StepLog::new(spool.log());
        text.header(&header).map_err(unwritable)?;
        let rows = tables.and_then(|tables| Some(tables.parquet.log(tables.steps.as_ref()?.log(), name, seed)));
        Ok((Some(requests), Some(StepLogger::new((text, rows), setup))))
    }

    /// What an observer cannot write is a log. A log that is interrupted goes on by itself; a view that is gone does not.
    fn failure(&self, error: ServerError) -> Failure {
        match error {
            ServerError::Output(error) if error.kind() == io::ErrorKind::Interrupted => closed(),
            ServerError::Output(error) => self.recording.unwritable(error),
            error => error.into(),
        }
    }
}

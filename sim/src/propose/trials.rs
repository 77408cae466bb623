//! Servers simulated on the scenario's traffic: the same requests for each, seed by seed.

use std::sync::atomic::{AtomicU64, Ordering};

use calibrate::profile::Profile;
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use reports::CandidateReport;

use super::error::ProposeError;
use super::histogram;
use super::shapes::{ShapeHistogram, ShapeRecorder};
use super::stop::Stop;
use crate::engine::options::EngineOptions;
use crate::engine::scheduler::Stepping;
use crate::metrics::{Metrics, Summary};
use crate::observe::Observer;
use crate::record;
use crate::scenario::{Slo, WarmUp};
use crate::server::{Replica, RunEnd, Setup};
use crate::traffic::{Traffic, TrafficKind};

/// What every trial shares.
#[derive(Debug)]
pub struct Trials<'a> {
    /// The requests.
    pub traffic: &'a Traffic,
    /// What a good request meets.
    pub slo: Slo,
    /// What is left out at the start.
    pub warm_up: WarmUp,
    /// What steps cost.
    pub profile: &'a Profile,
    /// Whether to begin no other run.
    pub stop: &'a Stop,
    runs: AtomicU64,
}

/// One server on several seeds.
#[derive(Debug)]
pub struct Trial {
    /// The figures of each seed, in order.
    pub runs: Vec<CandidateReport>,
}

impl<'a> Trials<'a> {
    /// Trials on this traffic, priced with this profile.
    #[must_use]
    pub fn new(traffic: &'a Traffic, slo: Slo, warm_up: WarmUp, profile: &'a Profile, stop: &'a Stop) -> Self {
        Self { traffic, slo, warm_up, profile, stop, runs: AtomicU64::new(0) }
    }

    /// Runs begun so far.
    pub fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }

    /// Starts a server with these options and runs it on every seed, in parallel; `None` if the search was ended before the
    /// last seed.
    ///
    /// # Errors
    /// If the engine refuses the options, and what a run can fail with.
    pub fn run(&self, options: &EngineOptions, name: &str, seeds: &[u64]) -> Result<Option<Trial>, ProposeError> {
        let setup = Setup::prepare(options, self.profile)?;
        self.run_setup(&setup, name, seeds)
    }

    /// The same of a server that is ready.
    ///
    /// # Errors
    /// What a run can fail with.
    pub fn run_setup(&self, setup: &Setup, name: &str, seeds: &[u64]) -> Result<Option<Trial>, ProposeError> {
        if let TrafficKind::Steps(steps) = &self.traffic.kind {
            return Ok(Some(Trial { runs: vec![histogram::figures(steps, setup, name)] }));
        }
        let run_one = |&seed: &u64| -> Result<Option<CandidateReport>, ProposeError> {
            if self.stop.is_asked() {
                return Ok(None);
            }
            let mut metrics = self.metrics(setup);
            self.serve(setup, seed, &mut metrics)?;
            Ok(Some(record::candidate(name, setup, &metrics.finish())))
        };
        let runs: Vec<Option<CandidateReport>> = seeds.par_iter().map(run_one).collect::<Result<_, _>>()?;
        Ok(runs.into_iter().collect::<Option<_>>().map(|runs| Trial { runs }))
    }

    /// The steps that a server takes on every seed, by shape; `None` if the search was ended before the last seed.
    ///
    /// # Errors
    /// As [`Trials::run`].
    pub fn shapes(&self, options: &EngineOptions, seeds: &[u64]) -> Result<Option<ShapeHistogram>, ProposeError> {
        let setup = Setup::prepare(options, self.profile)?;
        if let TrafficKind::Steps(steps) = &self.traffic.kind {
            return Ok(Some(histogram::shapes(steps, &setup)));
        }
        let run_one = |&seed: &u64| -> Result<Option<ShapeHistogram>, ProposeError> {
            if self.stop.is_asked() {
                return Ok(None);
            }
            let mut shapes = ShapeRecorder::new(&setup.graphs, &setup.cost, setup.options.decode_tokens());
            self.serve(&setup, seed, &mut shapes)?;
            Ok(Some(shapes.finish()))
        };
        let runs: Vec<Option<ShapeHistogram>> = seeds.par_iter().map(run_one).collect::<Result<_, _>>()?;
        let runs: Option<Vec<ShapeHistogram>> = runs.into_iter().collect();
        Ok(runs.map(|runs| ShapeHistogram::sum(&runs)))
    }

    /// One run with all that its metrics say.
    ///
    /// # Errors
    /// What a run can fail with.
    pub fn observe(&self, setup: &Setup, seed: u64) -> Result<(Summary, RunEnd), ProposeError> {
        let mut metrics = self.metrics(setup);
        let end = self.serve(setup, seed, &mut metrics)?;
        Ok((metrics.finish(), end))
    }

    fn metrics<'s>(&self, setup: &'s Setup) -> Metrics<'s> {
        Metrics::new(self.slo, self.warm_up, &setup.cost, &setup.options)
    }

    fn serve(&self, setup: &Setup, seed: u64, observer: &mut impl Observer) -> Result<RunEnd, ProposeError> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        let traffic = self.traffic.open(seed)?;
        Ok(Replica::new(setup.schedulers(Stepping::Fast), &setup.graphs, &setup.cost).serve(traffic, observer)?)
    }
}

//! `calibrate replay`: the steps of a recorded run on a GPU, and how well their predicted costs agree with it.
//!
//! `log` reads the steps, `sample` chooses the shapes to run, [`crate::probe::steps`] times them, `report` compares.

mod agreement;
mod log;
mod report;
mod sample;

use std::path::Path;

use kernels::geometry::ModelGeometry;
use kernels::units::Bytes;

pub use agreement::{Agreement, Pair, kendall_tau};
pub use log::{Candidate, Group, LeftOut, LineError, LogError, Predicted, StepLog};
pub use report::{NotReplayed, ReplayedOn, Report};
pub use sample::{Sample, Use};

use crate::measure::TooNoisy;
use crate::model::{Limits, Model};
use crate::probe::steps::Fit;
use crate::probe::{Bench, ProbeError, steps};

/// A log, and what of it is run.
#[derive(Debug)]
pub struct Replay<'a> {
    path: &'a Path,
    log: &'a StepLog,
    sample: Sample,
    limits: Limits,
    not_replayed: Vec<NotReplayed>,
}

impl<'a> Replay<'a> {
    /// Chooses at most about `most` shapes that a model of this geometry can run in so much free memory.
    ///
    /// # Errors
    /// Nothing fits.
    pub fn plan(
        path: &'a Path,
        log: &'a StepLog,
        most: usize,
        geometry: &ModelGeometry,
        free: Bytes,
    ) -> Result<Self, ProbeError> {
        let sample = Sample::of(log, most);
        let nothing = || ProbeError::Memory { what: "the model", needs: geometry.weights_bytes(), free };
        let fit = Fit::of(&sample.shapes, geometry, free).ok_or_else(nothing)?;
        let (sample, went) = sample.retain(&fit.fits);
        let reason = format!("too large: up to {} of cache, and there is room for {}", fit.cache_asked, fit.cache_room);
        let mut not_replayed = Vec::new();
        for (number, candidate) in log.candidates.iter().enumerate() {
            let mut add = |steps, reason| {
                not_replayed.push(NotReplayed { candidate: candidate.name.clone(), steps, reason });
            };
            if let Some(steps) = went.get(&number) {
                add(*steps, reason.clone());
            }
            for (why, steps) in &candidate.left_out {
                add(*steps as f64, why.reason().to_owned());
            }
        }
        Ok(Self { path, log, sample, limits: fit.limits, not_replayed })
    }

    /// What a model has to be loaded for.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Runs the shapes and compares; with what disturbed the measurements beyond their limits.
    ///
    /// # Errors
    /// The device fails.
    pub fn run(
        self,
        bench: &Bench<'_>,
        model: &mut Model,
        on: ReplayedOn,
    ) -> Result<(Report, Vec<(String, TooNoisy)>), ProbeError> {
        let totals = report::totals(self.log, &self.sample);
        let probed = steps::run(bench, model, &self.sample.shapes, &totals)?;
        let warnings = probed.disturbances.iter().map(|(what, disturbance)| format!("{what}: {disturbance}")).collect();
        let log = (&*self.path.to_string_lossy(), self.log);
        let (sample, times, campaigns) = (&self.sample, &probed.result, probed.campaigns);
        let report = Report::new(log, sample, times, campaigns, self.not_replayed, warnings, on);
        Ok((report, probed.disturbances))
    }
}

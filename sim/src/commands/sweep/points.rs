//! The points of a sweep, run in parallel and put in order.

use rayon::iter::{IndexedParallelIterator, IntoParallelRefIterator, ParallelIterator};
use reports::SweepPoint;

use super::super::failure::Failure;
use super::super::run::comparison::Comparison;
use super::super::run::recording::Recording;
use super::plan::Plan;
use super::progress::Progress;
use crate::sweep::SweepFolder;
use crate::warnings;

/// The points that run here.
#[derive(Debug)]
pub(super) struct Points<'a> {
    /// What they are.
    pub(super) plan: &'a Plan,
}

impl Points<'_> {
    /// Runs all points; they come in order.
    ///
    /// # Errors
    /// The failure of a point; points that have not begun by then are left out.
    pub(super) fn run(&self) -> Result<Vec<SweepPoint>, Failure> {
        let progress = Progress::new(self.plan.numbers.len(), 0);
        self.plan
            .numbers
            .par_iter()
            .with_max_len(1)
            .map(|&point| self.run_one(point).inspect(|_| progress.done()))
            .collect()
    }

    /// Runs the points that the folder does not hold yet, and keeps each there.
    ///
    /// # Errors
    /// The failure of a point, or of keeping one; points that have not begun by then are left out.
    pub(super) fn run_into(&self, folder: &SweepFolder) -> Result<(), Failure> {
        let mut pending = Vec::new();
        for &point in &self.plan.numbers {
            if !folder.has(point)? {
                pending.push(point);
            }
        }
        let progress = Progress::new(self.plan.numbers.len(), self.plan.numbers.len() - pending.len());
        pending.par_iter().with_max_len(1).try_for_each(|&point| {
            folder.keep(&self.run_one(point)?)?;
            progress.done();
            Ok(())
        })
    }

    fn run_one(&self, point: u64) -> Result<SweepPoint, Failure> {
        let manifest = &self.plan.manifest;
        let (inputs, setups) = self.plan.prepare(point)?;
        let before = warnings::before_run(&inputs.scenario, &inputs.profile, &setups);
        let compared = Comparison::run(&inputs, &setups, &manifest.seeds, Recording::default())
            .map_err(|failure| self.plan.at(point, failure))?;
        let mut report = compared.report(before);
        // The text of a point is in no file; that of the scenario is.
        report.scenario.sha256.clone_from(&manifest.scenario.sha256);
        Ok(SweepPoint::new(point, self.plan.settings(point), report, &compared.by_candidate))
    }
}

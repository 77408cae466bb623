//! Several seeds of one candidate as one record.

use thiserror::Error;

use crate::{ArtifactReport, CandidateReport, FIGURES, Figure, RungReport};

/// Runs that cannot be put together.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SeedsError {
    /// There was nothing to put together.
    #[error("no runs to put together: run at least one seed")]
    Empty,
    /// The runs are not of one candidate: a ladder does not depend on the seed.
    #[error("runs of different candidates cannot be put together: `{first}` and `{other}` (seed {index} of the list)")]
    Different {
        /// Name in the first run.
        first: String,
        /// Name in the run that differs.
        other: String,
        /// Position of that run, from 0.
        index: usize,
    },
}

impl CandidateReport {
    /// One record over several seeds of one candidate: every figure becomes an interval. One run is returned as it is.
    ///
    /// # Errors
    /// [`SeedsError`] if there is no run, or if name, ladder, rungs or artifacts differ between runs.
    pub fn over_seeds(runs: &[Self]) -> Result<Self, SeedsError> {
        let first = runs.first().ok_or(SeedsError::Empty)?;
        if let Some(index) = runs.iter().position(|run| !run.same_candidate(first)) {
            return Err(SeedsError::Different { first: first.name.clone(), other: runs[index].name.clone(), index });
        }
        let mut whole = first.clone();
        for spec in FIGURES {
            *(spec.get_mut)(&mut whole) = over(runs, spec.get);
        }
        for (index, rung) in whole.rungs.iter_mut().enumerate() {
            rung.steps = over(runs, |run| &run.rungs[index].steps);
            rung.exact_steps = over(runs, |run| &run.rungs[index].exact_steps);
            rung.real_rows = over(runs, |run| &run.rungs[index].real_rows);
            rung.padded_rows = over(runs, |run| &run.rungs[index].padded_rows);
            rung.saved_ms = over(runs, |run| &run.rungs[index].saved_ms);
        }
        for (position, rate) in whole.per_position_acceptance_rates.iter_mut().enumerate() {
            *rate = over(runs, |run| run.per_position_acceptance_rates.get(position).unwrap_or(&Figure::Undefined));
        }
        for (index, artifact) in whole.artifacts.iter_mut().enumerate() {
            artifact.steps = over(runs, |run| &run.artifacts[index].steps);
            artifact.first_use_s = over(runs, |run| &run.artifacts[index].first_use_s);
        }
        Ok(whole)
    }

    fn same_candidate(&self, other: &Self) -> bool {
        let rung = |rung: &RungReport| (rung.mode.clone(), rung.phase.clone(), rung.size);
        let artifact = |artifact: &ArtifactReport| artifact.artifact.clone();
        self.name == other.name
            && self.capture_sizes == other.capture_sizes
            && self.cudagraph_mode == other.cudagraph_mode
            && self.rungs.iter().map(rung).eq(other.rungs.iter().map(rung))
            && self.artifacts.iter().map(artifact).eq(other.artifacts.iter().map(artifact))
    }
}

fn over(runs: &[CandidateReport], get: impl Fn(&CandidateReport) -> &Figure) -> Figure {
    let figures: Vec<Figure> = runs.iter().map(|run| *get(run)).collect();
    Figure::over_seeds(&figures)
}

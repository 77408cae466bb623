//! Two candidates compared seed by seed on the same traffic.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Better, CandidateReport, FIGURES, FigureSpec, Interval};

/// Paired differences between two candidates.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairReport {
    /// The candidate that is subtracted.
    pub baseline: String,
    /// The candidate compared with it.
    pub candidate: String,
    /// Candidate minus baseline by figure name. Figures undefined in some seed, and those without a better side, are
    /// left out.
    pub differences: BTreeMap<String, Difference>,
}

/// The difference in one figure: mean over the seeds of (candidate − baseline), with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// Mean difference, in the figure's unit.
    pub mean: f64,
    /// Lower end of the interval, in the figure's unit.
    pub low: f64,
    /// Upper end of the interval, in the figure's unit.
    pub high: f64,
    /// What the interval allows one to say.
    pub verdict: Verdict,
}

/// The verdict on one difference at 95 % confidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The candidate is better than the baseline.
    Better,
    /// The candidate is worse than the baseline.
    Worse,
    /// Every seed gave the two exactly the same figure.
    Equal,
    /// The interval holds zero: these seeds do not tell the two apart.
    NotDistinguishable,
}

impl PairReport {
    /// Compares two candidates figure by figure; entry k of both slices is seed k, run on the same traffic.
    /// With fewer than two seeds there is nothing to compare and `differences` stays empty.
    #[must_use]
    pub fn between(baseline: &[CandidateReport], candidate: &[CandidateReport]) -> Self {
        let name = |runs: &[CandidateReport]| runs.first().map(|run| run.name.clone()).unwrap_or_default();
        let differences = FIGURES
            .iter()
            .filter_map(|spec| Some((spec.name.to_owned(), difference(spec, baseline, candidate)?)))
            .collect();
        Self { baseline: name(baseline), candidate: name(candidate), differences }
    }
}

fn difference(spec: &FigureSpec, baseline: &[CandidateReport], candidate: &[CandidateReport]) -> Option<Difference> {
    if spec.better == Better::Neither || baseline.len() != candidate.len() {
        return None;
    }
    let of_seeds =
        |runs: &[CandidateReport]| runs.iter().map(|run| (spec.get)(run).mean()).collect::<Option<Vec<f64>>>();
    Difference::paired(spec.better, &of_seeds(baseline)?, &of_seeds(candidate)?)
}

impl Difference {
    /// The difference of a figure between runs of the same seeds, entry by entry, which is better where `better` says;
    /// `None` for fewer than two seeds, and where a number is not finite.
    #[must_use]
    pub fn paired(better: Better, baseline: &[f64], candidate: &[f64]) -> Option<Self> {
        let samples: Vec<f64> =
            baseline.iter().zip(candidate).map(|(baseline, candidate)| candidate - baseline).collect();
        let Interval { mean, low, high } = Interval::of(&samples)?;
        let verdict = if samples.iter().all(|sample| *sample == 0.0) {
            Verdict::Equal
        } else if low <= 0.0 && high >= 0.0 {
            Verdict::NotDistinguishable
        } else if (mean > 0.0) == (better == Better::Higher) {
            Verdict::Better
        } else {
            Verdict::Worse
        };
        Some(Self { mean, low, high, verdict })
    }

    /// The difference of a figure with nothing random about it: an interval without width. `None` where it is not finite.
    #[must_use]
    pub fn exact(better: Better, baseline: f64, candidate: f64) -> Option<Self> {
        let mean = candidate - baseline;
        let verdict = match (mean == 0.0, (mean > 0.0) == (better == Better::Higher)) {
            (true, _) => Verdict::Equal,
            (false, true) => Verdict::Better,
            (false, false) => Verdict::Worse,
        };
        mean.is_finite().then_some(Self { mean, low: mean, high: mean, verdict })
    }
}

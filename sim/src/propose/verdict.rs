//! Which of two servers is better, and what is said about it.

use reports::{Better, CandidateReport, Difference, Verdict};

use super::objective::{Objective, Quantity};

/// A gain below this share is not worth a restart, whatever the interval says.
pub const GAIN_MIN: f64 = 0.005;
/// The same where there is one run only, and so no interval.
const GAIN_MIN_OF_ONE: f64 = 0.01;

/// One server against another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// Better in a quantity by this share; whatever comes before it in the objective's order does not tell them apart.
    Better(Quantity, f64),
    /// Worse, likewise.
    Worse(Quantity, f64),
    /// No quantity tells them apart.
    Alike,
}

impl Outcome {
    /// Compares runs of the same seeds, the quantities in the objective's order.
    #[must_use]
    pub fn of(objective: Objective, baseline: &[CandidateReport], candidate: &[CandidateReport]) -> Self {
        objective
            .order()
            .into_iter()
            .find_map(|quantity| told_apart(quantity, baseline, candidate))
            .unwrap_or(Self::Alike)
    }

    /// The word for it in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Better(..) => "better",
            Self::Worse(..) => "worse",
            Self::Alike => "not_distinguishable",
        }
    }
}

fn told_apart(quantity: Quantity, baseline: &[CandidateReport], candidate: &[CandidateReport]) -> Option<Outcome> {
    let (before, after) = (quantity.mean(baseline)?, quantity.mean(candidate)?);
    let loss = quantity.loss(before, after);
    let is_seen = match difference(quantity, baseline, candidate) {
        Some(difference) => matches!(difference.verdict, Verdict::Better | Verdict::Worse) && loss.abs() >= GAIN_MIN,
        None => loss.abs() >= GAIN_MIN_OF_ONE,
    };
    is_seen.then(|| if loss < 0.0 { Outcome::Better(quantity, -loss) } else { Outcome::Worse(quantity, loss) })
}

/// The paired difference in a quantity; `None` where it is undefined or for a single run.
#[must_use]
pub fn difference(
    quantity: Quantity,
    baseline: &[CandidateReport],
    candidate: &[CandidateReport],
) -> Option<Difference> {
    let better = if quantity.is_gain() { Better::Higher } else { Better::Lower };
    Difference::paired(better, &quantity.of_all(baseline)?, &quantity.of_all(candidate)?)
}

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
    /// Compares runs of the same seeds, the quantities in the objective's order. A quantity that does not tell them apart
    /// leaves it to the next one, unless that speaks against what this one makes likely: then they count as alike.
    #[must_use]
    pub fn of(objective: Objective, baseline: &[CandidateReport], candidate: &[CandidateReport]) -> Self {
        let mut likely_loss = 0.0_f64;
        for quantity in objective.order() {
            let (Some(before), Some(after)) = (quantity.mean(baseline), quantity.mean(candidate)) else { continue };
            let loss = quantity.loss(before, after);
            if is_seen(quantity, baseline, candidate, loss) {
                let speaks_against = likely_loss.abs() >= GAIN_MIN && likely_loss.signum() != loss.signum();
                return match speaks_against {
                    true => Self::Alike,
                    false if loss < 0.0 => Self::Better(quantity, -loss),
                    false => Self::Worse(quantity, loss),
                };
            }
            if likely_loss.abs() < GAIN_MIN {
                likely_loss = loss;
            }
        }
        Self::Alike
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

/// Every quantity that tells two servers apart, in the objective's order, with the share by which the candidate is worse;
/// negative where it is better.
#[must_use]
pub fn losses(
    objective: Objective,
    baseline: &[CandidateReport],
    candidate: &[CandidateReport],
) -> Vec<(Quantity, f64)> {
    let loss = |quantity: Quantity| {
        let loss = quantity.loss(quantity.mean(baseline)?, quantity.mean(candidate)?);
        is_seen(quantity, baseline, candidate, loss).then_some((quantity, loss))
    };
    objective.order().into_iter().filter_map(loss).collect()
}

/// Whether runs tell two servers apart that differ by this share.
fn is_seen(quantity: Quantity, baseline: &[CandidateReport], candidate: &[CandidateReport], loss: f64) -> bool {
    match difference(quantity, baseline, candidate) {
        Some(difference) => matches!(difference.verdict, Verdict::Better | Verdict::Worse) && loss.abs() >= GAIN_MIN,
        None => loss.abs() >= GAIN_MIN_OF_ONE,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(goodput: [f64; 4], p99_tpot_ms: [f64; 4]) -> Vec<CandidateReport> {
        let run = |(goodput, p99_tpot_ms): (f64, f64)| CandidateReport {
            request_goodput: goodput.into(),
            p99_tpot_ms: p99_tpot_ms.into(),
            ..CandidateReport::default()
        };
        goodput.into_iter().zip(p99_tpot_ms).map(run).collect()
    }

    fn outcome(baseline: &[CandidateReport], candidate: &[CandidateReport]) -> Outcome {
        Outcome::of(Objective::Goodput, baseline, candidate)
    }

    #[test]
    fn the_next_quantity_decides_where_the_first_cannot_tell() {
        let baseline = runs([5.0, 6.0, 5.5, 5.2], [40.0, 41.0, 42.0, 40.0]);
        let faster = runs([5.01, 5.99, 5.5, 5.2], [38.0, 39.1, 40.0, 37.9]);
        assert!(matches!(outcome(&baseline, &faster), Outcome::Better(Quantity::P99Tpot, _)));
        assert!(matches!(outcome(&faster, &baseline), Outcome::Worse(Quantity::P99Tpot, _)));
        assert_eq!(outcome(&baseline, &baseline), Outcome::Alike);
    }

    #[test]
    fn it_does_not_decide_against_a_likely_gain() {
        let baseline = runs([5.0, 6.0, 5.5, 5.2], [40.0, 41.0, 42.0, 40.0]);
        let likely = runs([7.0, 5.9, 6.9, 5.1], [42.0, 43.1, 44.0, 42.1]);
        assert_eq!(outcome(&baseline, &likely), Outcome::Alike, "goodput up by a seventh, not yet told apart");
        assert_eq!(outcome(&likely, &baseline), Outcome::Alike);
    }
}

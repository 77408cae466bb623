//! What became of drafts.

use crate::engine::step::StepOutcome;

/// Drafts of a run, summed over verifications: requests whose drafts a step looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DraftTotals {
    /// Verifications. Drafts that nobody made are left out.
    pub verifications: u64,
    /// Drafts verified.
    pub drafts: u64,
    /// Drafts accepted.
    pub accepted: u64,
    /// Verifications that accepted more drafts than the index.
    pub reached: Vec<u64>,
    /// Requests in steps that the output before had finished already.
    pub late: u64,
}

impl DraftTotals {
    /// Adds the output of one step.
    #[inline]
    pub fn record(&mut self, outcome: &StepOutcome) {
        self.late += outcome.late.len() as u64;
        for verified in outcome.verified.iter().filter(|verified| !verified.placeholders) {
            self.verifications += 1;
            self.drafts += u64::from(verified.drafts);
            self.accepted += u64::from(verified.accepted);
            let positions = verified.accepted as usize;
            if self.reached.len() < positions {
                self.reached.resize(positions, 0);
            }
            self.reached[..positions].iter_mut().for_each(|count| *count += 1);
        }
    }

    /// Accepted drafts / drafts; `None` without any.
    #[must_use]
    pub fn acceptance_rate(&self) -> Option<f64> {
        (self.drafts > 0).then(|| self.accepted as f64 / self.drafts as f64)
    }

    /// Tokens that one verification yields, mean; `None` without any.
    #[must_use]
    pub fn acceptance_length(&self) -> Option<f64> {
        (self.verifications > 0).then(|| 1.0 + self.accepted as f64 / self.verifications as f64)
    }

    /// For each of `positions` positions, the share of verifications that accepted drafts up to there; `None` without any.
    pub fn rates(&self, positions: u32) -> impl Iterator<Item = Option<f64>> {
        let reached = |position: u32| self.reached.get(position as usize).copied().unwrap_or(0);
        (0..positions)
            .map(move |position| (self.verifications > 0).then(|| reached(position) as f64 / self.verifications as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::request::RequestId;
    use crate::engine::step::Verified;

    #[test]
    fn rates_are_shares_of_verifications() {
        let verified = |drafts, accepted, placeholders| Verified { id: RequestId(0), drafts, accepted, placeholders };
        let mut totals = DraftTotals::default();
        totals.record(&StepOutcome {
            verified: vec![verified(3, 2, false), verified(3, 0, false), verified(3, 0, true)],
            late: vec![RequestId(4)],
            ..StepOutcome::default()
        });
        totals.record(&StepOutcome { verified: vec![verified(2, 1, false)], ..StepOutcome::default() });
        assert_eq!((totals.verifications, totals.drafts, totals.accepted, totals.late), (3, 8, 3, 1));
        assert_eq!(totals.acceptance_rate(), Some(3.0 / 8.0));
        assert_eq!(totals.acceptance_length(), Some(2.0));
        assert_eq!(totals.rates(3).collect::<Vec<_>>(), [Some(2.0 / 3.0), Some(1.0 / 3.0), Some(0.0)]);
        assert_eq!(DraftTotals::default().rates(1).collect::<Vec<_>>(), [None]);
    }
}

//! A draw among a few choices by their shares.

/// How far from 1 a sum of shares may lie to count as the whole.
pub const SHARES_GRAIN: f64 = 1e-6;

/// Shares of numbered choices, validated: none is negative, some is positive, and together they are at most the whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Shares {
    /// Where each choice ends on the way from 0 to 1.
    upper: Vec<f64>,
}

impl Shares {
    /// Choices with these shares; what they leave of the whole belongs to none.
    #[must_use]
    pub fn new(shares: &[f64]) -> Self {
        let mut total = 0.0;
        let add = |share: &f64| {
            total += share;
            total
        };
        let mut upper: Vec<f64> = shares.iter().map(add).collect();
        if total > 1.0 - SHARES_GRAIN {
            // The last choice that is ever made ends the whole, whatever the sum lost to rounding.
            let last = shares.iter().rposition(|&share| share > 0.0).expect("some share is positive");
            upper[last..].fill(1.0);
        }
        Self { upper }
    }

    /// Choices of equal shares.
    #[must_use]
    pub fn even(count: u32) -> Self {
        Self::new(&vec![f64::from(count).recip(); count as usize])
    }

    /// Shares that fall as `1 / rank^exponent`, the first choice being the largest.
    #[must_use]
    pub fn zipf(count: u32, exponent: f64) -> Self {
        let weights: Vec<f64> = (1..=count).map(|rank| f64::from(rank).powf(-exponent)).collect();
        let total: f64 = weights.iter().sum();
        Self::new(&weights.iter().map(|weight| weight / total).collect::<Vec<_>>())
    }

    /// How many choices there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.upper.len()
    }

    /// Whether there is nothing to choose from.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.upper.is_empty()
    }

    /// The choice on which a ticket from 0 to below 1 falls; `None` beyond all of them.
    pub(super) fn pick(&self, ticket: f64) -> Option<usize> {
        let choice = self.upper.partition_point(|&end| end <= ticket);
        (choice < self.upper.len()).then_some(choice)
    }

    /// Whether two tickets can fall on different sides.
    pub(super) fn draws(&self) -> bool {
        let starts = [0.0].into_iter().chain(self.upper.iter().copied());
        let taken = starts.zip(&self.upper).filter(|(start, end)| start < *end).count();
        let rest = usize::from(self.upper.last().is_none_or(|&end| end < 1.0));
        taken + rest > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_fall_by_share_and_the_rest_on_nobody() {
        let shares = Shares::new(&[0.25, 0.0, 0.5]);
        let picks = [0.0, 0.24, 0.25, 0.74, 0.75, 0.99].map(|ticket| shares.pick(ticket));
        assert_eq!(picks, [Some(0), Some(0), Some(2), Some(2), None, None]);
        assert!(shares.draws());
    }

    #[test]
    fn a_whole_leaves_nothing_to_rounding() {
        let largest = 1.0 - f64::EPSILON / 2.0;
        for count in 1..200 {
            assert_eq!(Shares::even(count).pick(largest), Some(count as usize - 1));
        }
        assert_eq!(Shares::new(&[0.3, 0.7 - 1e-9, 0.0]).pick(largest), Some(1));
        assert!(!Shares::new(&[1.0, 0.0]).draws() && !Shares::even(1).draws() && Shares::even(2).draws());
        assert!(Shares::new(&[0.5]).draws());
    }

    #[test]
    fn zipf_shares_fall_with_the_rank() {
        let shares = Shares::zipf(3, 1.0);
        // 1, 1/2 and 1/3 out of 11/6.
        let ends = [6.0 / 11.0, 9.0 / 11.0, 1.0];
        assert!(shares.upper.iter().zip(ends).all(|(end, expected)| (end - expected).abs() < 1e-12), "{shares:?}");
        assert_eq!(Shares::zipf(4, 0.0), Shares::even(4));
    }
}

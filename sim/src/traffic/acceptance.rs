//! How many drafts the model accepts.

use super::random::{Streams, split_mix64};
use crate::engine::request::{RequestId, Slot};

/// How the accepted drafts of a verification are found, validated.
#[derive(Clone, Debug, PartialEq)]
pub enum Acceptance {
    /// The probability that at least `i + 1` drafts are accepted, for each `i` from zero: at most 1, never rising; zero
    /// behind the last.
    Rates(Vec<f64>),
    /// Recorded counts, drawn in order by the verifications of the whole server, from the first again after the last.
    Cycle(Vec<u32>),
}

impl Acceptance {
    /// Whether another seed gives other counts.
    pub(super) fn draws(&self) -> bool {
        match self {
            Self::Rates(rates) => rates.iter().any(|&rate| rate > 0.0 && rate < 1.0),
            Self::Cycle(_) => false,
        }
    }

    /// The counts of one run.
    #[must_use]
    pub fn open(&self, seed: u64) -> AcceptanceSource {
        AcceptanceSource {
            acceptance: self.clone(),
            seed: Streams::new(seed).key("acceptance"),
            live: Vec::new(),
            drawn: 0,
        }
    }
}

/// Gives accepted counts, one verification after the other.
///
/// With rates, the `n`-th verification of a request draws by seed, request and `n` alone: a candidate that schedules
/// otherwise meets the same luck.
#[derive(Clone, Debug)]
pub struct AcceptanceSource {
    acceptance: Acceptance,
    seed: u64,
    /// By slot: who holds it, and its verifications so far.
    live: Vec<(RequestId, u32)>,
    /// Draws from the cycle so far.
    drawn: usize,
}

impl AcceptanceSource {
    /// How many of `drafts` drafts the next verification of a request accepts.
    pub fn accepted(&mut self, id: RequestId, slot: Slot, drafts: u32) -> u32 {
        match &self.acceptance {
            Acceptance::Rates(rates) => {
                let slot = slot.0 as usize;
                if slot >= self.live.len() {
                    self.live.resize(slot + 1, (id, 0));
                }
                let (holder, verifications) = &mut self.live[slot];
                if *holder != id {
                    (*holder, *verifications) = (id, 0);
                }
                let ticket = ticket(self.seed, id, *verifications);
                *verifications += 1;
                let reached = rates.iter().take(drafts as usize).take_while(|&&rate| ticket < rate);
                reached.count() as u32
            }
            Acceptance::Cycle(counts) => {
                let count = counts[self.drawn % counts.len()];
                self.drawn += 1;
                count.min(drafts)
            }
        }
    }
}

/// A number from 0 to below 1 for one verification of one request.
fn ticket(seed: u64, id: RequestId, verification: u32) -> f64 {
    let mut state = seed ^ (u64::from(id.0) << 32 | u64::from(verification));
    // Twice mixed: neighbouring counters differ in few bits, and so do the states that they start from.
    let mut mixed = split_mix64(&mut state);
    (split_mix64(&mut mixed) >> 11) as f64 * (-53_f64).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: [f64; 3] = [0.8, 0.5, 0.1];

    fn rates() -> AcceptanceSource {
        Acceptance::Rates(RATES.to_vec()).open(7)
    }

    #[test]
    fn each_position_is_accepted_at_its_rate() {
        let mut source = rates();
        let draws: Vec<u32> = (0..200_000).map(|n| source.accepted(RequestId(n % 100), Slot(n % 100), 5)).collect();
        for (position, rate) in RATES.into_iter().chain([0.0]).enumerate() {
            let found = draws.iter().filter(|&&count| count as usize > position).count() as f64 / draws.len() as f64;
            assert!((found - rate).abs() < 0.005, "{found} at position {position}");
        }
    }

    #[test]
    fn a_request_meets_the_same_luck_in_any_order_and_any_slot() {
        let (mut one, mut other) = (rates(), rates());
        let mut first = Vec::new();
        for n in 0..40 {
            for id in 0..3 {
                first.push((id, n, one.accepted(RequestId(id), Slot(id), 3)));
            }
        }
        let mut second = Vec::new();
        for id in [2, 0, 1] {
            second.extend((0..40).map(|n| (id, n, other.accepted(RequestId(id), Slot(7), 3))));
        }
        first.sort_unstable();
        second.sort_unstable();
        assert_eq!(first, second);
        assert!(first.iter().any(|&(_, _, count)| count == 0) && first.iter().any(|&(_, _, count)| count > 1));
    }

    #[test]
    fn fewer_drafts_cap_what_more_would_have_reached() {
        let (mut three, mut one) = (rates(), rates());
        for _ in 0..200 {
            let reached = three.accepted(RequestId(4), Slot(0), 3);
            assert_eq!(one.accepted(RequestId(4), Slot(0), 1), reached.min(1));
        }
    }

    #[test]
    fn a_cycle_goes_round_over_all_requests() {
        let mut source = Acceptance::Cycle(vec![2, 0, 5]).open(7);
        let counts = [0, 1, 0, 2, 0].map(|id| source.accepted(RequestId(id), Slot(0), 3));
        assert_eq!(counts, [2, 0, 3, 2, 0]);
    }

    #[test]
    fn seeds_give_other_luck() {
        let draw = |seed| {
            let mut source = Acceptance::Rates(RATES.to_vec()).open(seed);
            (0..64).map(|_| source.accepted(RequestId(0), Slot(0), 3)).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert!(Acceptance::Rates(RATES.to_vec()).draws());
        assert!(!Acceptance::Rates(vec![1.0, 0.0]).draws() && !Acceptance::Cycle(vec![1, 2]).draws());
    }
}

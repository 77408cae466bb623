//! How latencies are distributed, in memory that does not grow with the number of requests.

/// Bins for each doubling: a bin is about 1.1 % wide.
const BINS_A_DOUBLING: f64 = 64.0;
/// Doublings of a millisecond that the first bin lies at: about a microsecond.
const FIRST_DOUBLING: f64 = -10.0;
/// Number of bins: up to twelve days.
const BINS: usize = 40 * BINS_A_DOUBLING as usize;

/// Latencies of one kind, counted.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyCounts {
    bins: Vec<u64>,
    total: u64,
}

/// The latencies of one candidate's requests, over all seeds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CandidateLatencies {
    /// Name of the candidate.
    pub candidate: String,
    /// Time to first token.
    pub ttft: LatencyCounts,
    /// Time per output token after the first.
    pub tpot: LatencyCounts,
    /// End-to-end latency.
    pub e2el: LatencyCounts,
}

impl Default for LatencyCounts {
    fn default() -> Self {
        Self { bins: vec![0; BINS], total: 0 }
    }
}

impl LatencyCounts {
    /// Counts one latency, ms. What is shorter than a microsecond counts as one.
    pub fn add(&mut self, ms: f64) {
        let place = (ms.max(f64::MIN_POSITIVE).log2() - FIRST_DOUBLING) * BINS_A_DOUBLING;
        self.bins[(place.max(0.0) as usize).min(BINS - 1)] += 1;
        self.total += 1;
    }

    /// Latencies counted.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Latencies in ms with the share that took no longer, ascending: one pair for each bin that holds any, at its upper end.
    pub(super) fn shares(&self) -> Vec<(f64, f64)> {
        let mut sum = 0;
        let mut shares = Vec::new();
        for (place, count) in self.bins.iter().enumerate().filter(|(_, count)| **count > 0) {
            sum += count;
            shares.push((upper_end(place), sum as f64 / self.total as f64));
        }
        shares
    }
}

fn upper_end(place: usize) -> f64 {
    2_f64.powf((place + 1) as f64 / BINS_A_DOUBLING + FIRST_DOUBLING)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_sorting_to_a_bin() {
        let mut counts = LatencyCounts::default();
        let mut all: Vec<f64> = (0..1_000).map(|n| 0.5 + f64::from(n * n % 7_919) * 1.7).collect();
        for ms in &all {
            counts.add(*ms);
        }
        all.sort_by(f64::total_cmp);
        for share in [0.01, 0.5, 0.9, 0.99, 1.0] {
            let exact = all[((share * 1_000.0_f64).ceil() as usize).max(1) - 1];
            let shares = counts.shares();
            let (found, _) = shares.into_iter().find(|(_, sum)| *sum >= share - 1e-12).expect("counted");
            assert!(found >= exact && found <= exact * 1.0112, "{share}: {found} for {exact}");
        }
        assert_eq!(counts.total(), 1_000);
    }

    #[test]
    fn no_latency_falls_out() {
        let mut counts = LatencyCounts::default();
        for ms in [0.0, -1.0, 1e-300, 1e300, f64::INFINITY, f64::NAN] {
            counts.add(ms);
        }
        assert_eq!(counts.total(), 6);
        assert_eq!(counts.shares().last().map(|(_, share)| *share), Some(1.0));
        assert!(LatencyCounts::default().shares().is_empty());
    }
}

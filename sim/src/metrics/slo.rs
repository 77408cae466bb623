//! Service-level objectives and how many requests met them.

use crate::time::SimDuration;

/// The objectives of a run; an absent one always holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slo {
    /// Time to first token.
    pub ttft: Option<SimDuration>,
    /// Time per output token after the first.
    pub tpot: Option<SimDuration>,
    /// End-to-end latency.
    pub e2el: Option<SimDuration>,
}

/// How many finished requests met each objective.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attainment {
    /// Requests that met the objective for time to first token.
    pub ttft: u64,
    /// Requests that met the objective for time per output token.
    pub tpot: u64,
    /// Requests that met the objective for end-to-end latency.
    pub e2el: u64,
    /// Requests that met all of them.
    pub all: u64,
}

impl Slo {
    /// Whether any objective is set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.ttft.is_some() || self.tpot.is_some() || self.e2el.is_some()
    }

    /// Judges one request, limits included; `tpot` is zero for a request of one token.
    #[must_use]
    pub fn is_met(&self, ttft: SimDuration, tpot: SimDuration, e2el: SimDuration) -> bool {
        met(self.ttft, ttft) && met(self.tpot, tpot) && met(self.e2el, e2el)
    }
}

impl Attainment {
    /// Counts one finished request.
    pub fn record(&mut self, slo: &Slo, ttft: SimDuration, tpot: SimDuration, e2el: SimDuration) {
        self.ttft += u64::from(met(slo.ttft, ttft));
        self.tpot += u64::from(met(slo.tpot, tpot));
        self.e2el += u64::from(met(slo.e2el, e2el));
        self.all += u64::from(slo.is_met(ttft, tpot, e2el));
    }
}

fn met(limit: Option<SimDuration>, value: SimDuration) -> bool {
    limit.is_none_or(|limit| value <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_inclusive_and_all_must_hold() {
        let slo = Slo { ttft: Some(SimDuration(10)), tpot: Some(SimDuration(5)), e2el: None };
        assert!(slo.is_met(SimDuration(10), SimDuration(5), SimDuration(u64::MAX)));
        assert!(!slo.is_met(SimDuration(11), SimDuration(5), SimDuration(0)));
        assert!(!slo.is_met(SimDuration(10), SimDuration(6), SimDuration(0)));
        let mut attainment = Attainment::default();
        attainment.record(&slo, SimDuration(11), SimDuration(5), SimDuration(0));
        assert_eq!(attainment, Attainment { ttft: 0, tpot: 1, e2el: 1, all: 0 });
    }
}

//! How many requests met the service-level objectives.

use crate::scenario::Slo;
use crate::time::SimDuration;

/// How many finished requests met each objective; an absent objective always holds.
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

impl Attainment {
    /// Counts one finished request and says whether it met all objectives, limits included; `tpot` is zero for a request
    /// of one token, as in `vllm bench serve`.
    pub fn record(&mut self, slo: &Slo, ttft: SimDuration, tpot: SimDuration, e2el: SimDuration) -> bool {
        let met = [(slo.ttft, ttft), (slo.tpot, tpot), (slo.e2el, e2el)]
            .map(|(limit, value)| limit.is_none_or(|limit| value <= limit));
        self.ttft += u64::from(met[0]);
        self.tpot += u64::from(met[1]);
        self.e2el += u64::from(met[2]);
        let good = met == [true; 3];
        self.all += u64::from(good);
        good
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_inclusive_and_all_must_hold() {
        let slo = Slo { ttft: Some(SimDuration(10)), tpot: Some(SimDuration(5)), e2el: None };
        let mut attainment = Attainment::default();
        assert!(attainment.record(&slo, SimDuration(10), SimDuration(5), SimDuration(u64::MAX)));
        assert!(!attainment.record(&slo, SimDuration(11), SimDuration(5), SimDuration(0)));
        assert!(!attainment.record(&slo, SimDuration(10), SimDuration(6), SimDuration(0)));
        assert_eq!(attainment, Attainment { ttft: 2, tpot: 2, e2el: 3, all: 1 });
    }
}

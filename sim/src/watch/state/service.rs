//! How the requests of one candidate fared so far.

use reports::{RequestRecord, SloReport};

/// Requests, counted by what became of them. Nothing is left out: a warm-up cut is for reports.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Service {
    /// Requests that finished.
    pub finished: u64,
    /// Requests that the engine refused.
    pub refused: u64,
    /// Requests of which the log says whether they met every objective.
    pub judged: u64,
    /// Those of them that did.
    pub good: u64,
    /// Finished requests that met the objective for the time to first token.
    pub ttft_met: u64,
    /// The same for the time per output token; a request of one token meets it.
    pub tpot_met: u64,
    /// The same for the whole latency.
    pub e2el_met: u64,
}

impl Service {
    /// Counts one request.
    pub fn add(&mut self, request: &RequestRecord, slo: Option<&SloReport>) {
        if let Some(good) = request.good {
            self.judged += 1;
            self.good += u64::from(good);
        }
        if request.outcome != "finished" {
            self.refused += 1;
            return;
        }
        self.finished += 1;
        let met = |limit: Option<f64>, value: Option<f64>| {
            u64::from(limit.is_some_and(|limit| value.unwrap_or_default() <= limit))
        };
        if let Some(slo) = slo {
            self.ttft_met += met(slo.ttft_ms, request.ttft_ms);
            self.tpot_met += met(slo.tpot_ms, request.tpot_ms);
            self.e2el_met += met(slo.e2el_ms, request.e2el_ms);
        }
    }

    /// Requests that met every objective, per second until now; `None` where none finished or was judged, or no time has
    /// passed.
    #[must_use]
    pub fn goodput(&self, clock_ns: u64) -> Option<f64> {
        (self.judged > 0 && self.finished > 0 && clock_ns > 0).then(|| self.good as f64 / (clock_ns as f64 / 1e9))
    }

    /// Share of the finished requests of which `met` met an objective.
    #[must_use]
    pub fn share(&self, met: u64) -> Option<f64> {
        (self.finished > 0).then(|| met as f64 / self.finished as f64)
    }
}

//! What a view is told: the records of a step log and of a request log, whoever makes them.

use reports::{RequestRecord, StepRecord};

/// One thing that happened to one candidate.
#[derive(Clone, Debug, PartialEq)]
pub enum Fact {
    /// The output of a step was applied.
    Step(Box<StepRecord>),
    /// A request finished or was refused.
    Request(RequestRecord),
}

impl Fact {
    /// When, on the simulated clock: a step at its end, a request at its last token or, if it was refused, when it came.
    #[must_use]
    pub fn at_ns(&self) -> u64 {
        match self {
            Self::Step(step) => step.end_ns,
            Self::Request(request) => request_ns(request),
        }
    }
}

/// When a request got its last token, or was refused, in nanoseconds.
#[must_use]
pub fn request_ns(request: &RequestRecord) -> u64 {
    let latency_ns = request.e2el_ms.map_or(0, |ms| (ms * 1e6).round() as u64);
    ((request.arrival_s * 1e9).round() as u64).saturating_add(latency_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_told_when_its_last_token_came() {
        let mut request = RequestRecord {
            candidate: "one".to_owned(),
            seed: 7,
            id: 0,
            arrival_s: 904.123_456_789,
            prompt_tokens: 9,
            output_tokens: 3,
            outcome: "finished".to_owned(),
            ttft_ms: Some(20.0),
            tpot_ms: Some(11.0),
            e2el_ms: Some(42.000_001),
            preemptions: 0,
            good: None,
        };
        assert_eq!(Fact::Request(request.clone()).at_ns(), 904_165_456_790);
        request.e2el_ms = None;
        assert_eq!(Fact::Request(request).at_ns(), 904_123_456_789);
    }
}

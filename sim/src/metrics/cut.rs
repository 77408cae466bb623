//! The warm-up cut: where the figures of a run start.

use crate::engine::request::RequestId;
use crate::scenario::WarmUp;
use crate::time::SimTime;

/// Keeps what happened from the cut on. A cut by requests falls on the arrival of the first request that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    warm_up: WarmUp,
    from: Option<SimTime>,
    requests_before: u64,
}

impl Cut {
    /// The cut that a scenario asks for.
    #[must_use]
    pub fn new(warm_up: WarmUp) -> Self {
        let from = match warm_up {
            WarmUp::None => Some(SimTime::ZERO),
            WarmUp::Time(span) => Some(SimTime::ZERO + span),
            WarmUp::Requests(_) => None,
        };
        Self { warm_up, from, requests_before: 0 }
    }

    /// A request was sent: the cut may fall on it. Whether the request counts.
    pub fn request_sent(&mut self, id: RequestId, at: SimTime) -> bool {
        if let (WarmUp::Requests(count), None) = (self.warm_up, self.from)
            && u64::from(id.0) >= count
        {
            self.from = Some(at);
        }
        let counts = self.keeps_request(id, at);
        self.requests_before += u64::from(!counts);
        counts
    }

    /// Requests sent so far that do not count.
    #[must_use]
    pub fn requests_before(&self) -> u64 {
        self.requests_before
    }

    /// Whether a step scheduled at `at` counts.
    #[inline]
    #[must_use]
    pub fn keeps_step(&self, at: SimTime) -> bool {
        self.from.is_some_and(|from| at >= from)
    }

    /// Whether a request counts; many may be sent at the instant of the cut, so a cut by requests goes by number.
    #[must_use]
    pub fn keeps_request(&self, id: RequestId, sent: SimTime) -> bool {
        match self.warm_up {
            WarmUp::Requests(count) => u64::from(id.0) >= count,
            WarmUp::None | WarmUp::Time(_) => self.keeps_step(sent),
        }
    }

    /// Where the cut fell; `None` as long as no request counts.
    #[must_use]
    pub fn from(&self) -> Option<SimTime> {
        self.from
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::SimDuration;

    #[test]
    fn a_cut_by_time_is_inclusive() {
        let cut = Cut::new(WarmUp::Time(SimDuration(10)));
        assert!(!cut.keeps_step(SimTime(9)) && !cut.keeps_request(RequestId(5), SimTime(9)));
        assert!(cut.keeps_step(SimTime(10)) && cut.keeps_request(RequestId(0), SimTime(10)));
    }

    #[test]
    fn a_cut_by_requests_falls_on_the_first_that_counts() {
        let mut cut = Cut::new(WarmUp::Requests(2));
        cut.request_sent(RequestId(1), SimTime(5));
        assert!(!cut.keeps_step(SimTime(5)));
        cut.request_sent(RequestId(2), SimTime(5));
        cut.request_sent(RequestId(3), SimTime(9));
        assert_eq!(cut.from(), Some(SimTime(5)));
        assert_eq!(cut.requests_before(), 1);
        assert!(cut.keeps_step(SimTime(5)));
        assert!(!cut.keeps_request(RequestId(1), SimTime(5)), "sent at the same instant, but before");
        assert!(cut.keeps_request(RequestId(2), SimTime(5)));
    }
}

//! Requests, one at a time.

use super::{Request, SkippedRows, Traffic, TrafficError};
use crate::time::SimTime;

/// A stream of requests in order of arrival. It holds one row at a time, whatever the length of a trace (unless that
/// has to be sorted), and ends after its first error.
#[derive(Debug)]
pub struct RequestStream {}

impl RequestStream {
    pub(super) fn open(_traffic: &Traffic, _seed: u64) -> Result<Self, TrafficError> {
        Err(TrafficError::StepsOnly)
    }

    /// The number of clients of a closed loop; `None` for traffic whose arrivals do not wait for the server.
    #[must_use]
    pub fn concurrency(&self) -> Option<u32> {
        None
    }

    /// The next request of a closed loop, sent at `arrival`: at time zero for each client's first one, at a completion
    /// for every other. Open-loop traffic keeps its own arrival times.
    pub fn next_at(&mut self, _arrival: SimTime) -> Option<Result<Request, TrafficError>> {
        None
    }

    /// Trace rows left out so far; complete once the stream has ended.
    #[must_use]
    pub fn skipped_rows(&self) -> SkippedRows {
        SkippedRows::default()
    }
}

impl Iterator for RequestStream {
    type Item = Result<Request, TrafficError>;

    /// The next request. In a closed loop its arrival is zero: use [`RequestStream::next_at`] there.
    fn next(&mut self) -> Option<Self::Item> {
        self.next_at(SimTime::ZERO)
    }
}

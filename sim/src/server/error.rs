//! What can stop a run.

use crate::time::SimTime;
use crate::traffic::TrafficError;

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The traffic could not be read on.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// An observer could not write.
    #[error("writing the run's output failed")]
    Output(#[from] std::io::Error),
    /// More requests than there are numbers for them.
    #[error("the traffic holds more than {} requests", u32::MAX)]
    TooManyRequests,
    /// A law was broken: there is work, nothing is in flight, and the scheduler hands out nothing.
    #[error("the scheduler made no progress at {at} with {waiting} requests waiting: this is a bug in Rungwise")]
    NoProgress {
        /// The simulated time.
        at: SimTime,
        /// Requests in the waiting queue.
        waiting: u32,
    },
}

//! What keeps a server from starting, and what can stop a run.

use crate::cost::memory::NoKvMemory;
use crate::engine::error::EngineError;
use crate::engine::sglang;
use crate::engine::vllm::memory::PoolTooSmall;
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

/// Why a server would not start with a candidate.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The engine refuses the options.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// SGLang refuses them, or finds no memory for the KV pool.
    #[error(transparent)]
    Sglang(#[from] sglang::error::EngineError),
    /// No memory for the KV pool.
    #[error(transparent)]
    NoKvMemory(#[from] NoKvMemory),
    /// The KV pool cannot hold one request of the longest length.
    #[error(transparent)]
    PoolTooSmall(#[from] PoolTooSmall),
}

impl SetupError {
    /// What to do about it, where the message does not say so itself.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::Engine(_) | Self::Sglang(_) | Self::PoolTooSmall(_) => String::new(),
            Self::NoKvMemory(_) => "raise gpu_memory_utilization, lower max_num_batched_tokens or capture fewer and \
                 smaller graphs, or give num_gpu_blocks_override"
                .to_owned(),
        }
    }
}

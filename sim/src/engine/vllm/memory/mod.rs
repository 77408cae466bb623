//! KV memory of one server: the pool of blocks, whether it is large enough for the server to start, and the estimate of
//! graph memory that is taken off it.

pub mod estimate;
mod pool;
mod prefix_cache;
mod startup;

pub use pool::{BlockPool, Held, Hit};
pub use startup::{PoolTooSmall, check_pool};

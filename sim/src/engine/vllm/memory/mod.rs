//! KV memory of one server: the pool of blocks, and whether it is large enough for the server to start.

mod pool;
mod prefix_cache;
mod startup;

pub use pool::{BlockPool, Held, Hit};
pub use startup::{PoolTooSmall, check_pool};

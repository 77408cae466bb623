//! Device memory: what captured graphs hold, what the engine expects them to hold, and what is left for the KV pool.

mod estimate;
mod graphs;
mod kv;

pub use estimate::estimate;
pub use graphs::{CaptureMemory, GraphMemory, captures};
pub use kv::{GraphReserve, KvBlocks, KvOrigin, KvPool, NoKvMemory, activation_bytes};

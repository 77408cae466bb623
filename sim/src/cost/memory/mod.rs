//! Device memory: what captured graphs hold, what the engine expects them to hold, and what is left for the KV pool.

mod estimate;
mod graphs;
mod kv;
mod sglang;

pub use estimate::estimate;
pub use graphs::{CaptureMemory, GraphMemory, captures, share_executables};
pub use kv::{GraphReserve, KvBlocks, KvOrigin, KvPool, NoKvMemory, activation_bytes};
pub use sglang::StaticShare;

//! Real data in: what engines print, read back.
//!
//! ```text
//! log ─► line (prefix, colours, carriage returns off) ─► vllm | sglang (one module a kind of line)
//! ```

pub mod line;
pub mod sglang;
pub mod vllm;

//! vLLM 0.31.0 and 0.33.0.

pub mod memory;
pub mod options;
pub mod scheduler;

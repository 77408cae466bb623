//! vLLM 0.31.0 and 0.33.0.

pub mod config;
pub mod dispatch;
mod drafting;
pub mod error;
pub mod ladder;
pub mod memory;
pub mod modes;
pub mod options;
pub mod plan;
pub mod scheduler;
pub mod splitting;
pub mod warning;

//! The engines: what they capture, whom they schedule, and which graph each step runs.
//!
//! This module holds the words that every engine shares; the rules live in the folder of each engine.

pub mod error;
mod lockstep;
pub mod options;
pub mod plan;
pub mod refusal;
pub mod request;
pub mod scheduler;
pub mod sglang;
pub mod shape;
mod slab;
pub mod step;
pub mod vllm;

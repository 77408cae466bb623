//! vLLM 0.31.0, 0.33.0 and main.
//!
//! "Specification section N" in these rooms is the project's own description of what the engine does, written from reading
//! and running it; the golden vectors of `tests/golden` pin it, and the conformance suite holds this code to them. Its
//! sections: 1 modes, 2 ladder, 3 runner V1's keys and dispatch, 4 what that runner feeds it, 5 mode resolution, 6 runner
//! V2's descriptors and dispatch, 7 levels and eager, 8 splitting and graph counts, 9 memory, 11 scheduler.

pub mod attention;
pub mod breakable;
pub mod compile_ranges;
pub mod config;
pub mod decoder_replay;
pub mod device_defaults;
pub mod dispatch;
mod drafting;
pub mod encoder;
pub mod error;
pub mod grids;
pub mod ladder;
pub mod memory;
pub mod modes;
pub mod options;
pub mod other_graphs;
pub mod plan;
pub mod runner;
pub mod scheduler;
pub mod separate;
pub mod splitting;
pub mod warning;

//! SGLang 0.5.23.
//!
//! "SGLang specification section N" in these rooms is the project's own description of what the engine does, written
//! from reading and running it; the golden vectors of `tests/golden/sglang` pin what was run, and the conformance suite
//! holds this code to them. Its sections: 1 settings and precedence, 2 default maxima, 3 default lists, 4 from list to
//! captured sizes, 5 dispatch, 6 backends, 7 deduplication, 9 memory, 10 scheduler.
//!
//! Decode sizes are **requests**, prefill sizes are **tokens** of the whole step.

pub mod dedup;
pub mod defaults;
pub mod dispatch;
pub mod error;
pub mod ladder;
mod limits;
pub mod memory;
pub mod options;
pub mod pages;
pub mod plan;
pub mod removed_flags;
pub mod scheduler;
pub mod settings;
pub mod warning;

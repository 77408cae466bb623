//! Real data in: what engines print, read back and made a scenario.
//!
//! ```text
//! input ─► kind ─► log: parts ─► line ─► vllm | sglang (one module a kind of line) ─► found ─► steps ────► scenario
//!              └─► prometheus | bench | servegen | traffic::trace ───────────────┘ └─► requests ─┘
//! ```

pub mod bench;
pub mod error;
pub mod found;
pub mod input;
pub mod kind;
pub mod line;
pub mod log;
pub mod parts;
pub mod prometheus;
pub mod python;
pub mod read;
pub mod requests;
pub mod scenario;
pub mod servegen;
pub mod settings;
pub mod sglang;
pub mod steps;
pub mod vllm;

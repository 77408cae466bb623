//! From the simulator's types to the records of [`reports`].

mod candidate;
mod context;
pub mod explain;
pub mod fit;
mod history;
mod ladder;
mod logs;
mod price;
mod recorders;
mod startup;
mod step;
mod trace;

pub use candidate::candidate;
pub use context::{engine, group, hexadecimal, profile, scenario, sha256, slo};
pub use history::history;
pub use ladder::{ladder, ladders};
pub use logs::{RequestLogger, StepLogger};
pub use price::price;
pub use recorders::{RequestRecorder, StepRecorder};
pub use startup::{startup, startup_profile};
pub use step::{artifact, cost_terms, descriptor, request, step, step_header};
pub use trace::TraceLogger;

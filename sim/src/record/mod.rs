//! From the simulator's types to the records of [`reports`]: the only place that knows both.

mod candidate;
mod context;
mod logs;
mod price;
mod step;

pub use candidate::candidate;
pub use context::{engine, profile, scenario, slo};
pub use logs::{RequestLogger, StepLogger};
pub use price::price;
pub use step::{artifact, cost_terms, descriptor, request, step, step_header};

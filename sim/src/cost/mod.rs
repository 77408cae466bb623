//! What a step costs: the profile's curves turned into nanoseconds, term by term.
//!
//! ```text
//! device = dense(rows) + head(requests) + attention(prefills, decodes, padded requests)
//! host   = step overhead + per-request overhead + launch + padding bookkeeping
//! ```
//!
//! Floats live in here only: every term is rounded to a nanosecond once, and sums are sums of rounded terms.

pub mod memory;
pub mod model;
pub mod planned_launch;
pub mod startup;
pub mod step;

pub use model::{CostModel, EagerPeriod, EngineSide};
pub use planned_launch::PlannedLaunch;
pub use step::{CostGroup, CostGroups, Execution, StepCost, StepWork};

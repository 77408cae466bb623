//! What a step costs: the profile's curves turned into nanoseconds, term by term.
//!
//! ```text
//! device = dense(rows) + head(requests) + attention(prefills, decodes, padded requests) + gap(rows)
//! host   = step overhead + per-request overhead + launch + updates + padding bookkeeping
//!
//! launch = operations x (launch + framework)                            without a graph
//!        = replay, its nodes included                                   FULL
//!        = pieces x replay + nodes + attention launches x (launch + framework)   PIECEWISE
//! gap     = what a step takes longer on the device than as one graph: launched one by one, or in pieces; 0 under FULL
//! updates = executables updated x (update + its share of the nodes)     deduplicated graphs of another size
//! ```
//!
//! The attention between two pieces is launched as the engine launches a step without a graph: by the compiled model in
//! vLLM, operation by operation in SGLang, whose breakable graphs are PIECEWISE here. What rebuilds attention metadata
//! for the real requests of such a step is part of the padding bookkeeping.
//!
//! The dense table is that of one graph. A measured profile has the gaps beside it, those of calibrate's own launches, as
//! the other device times are those of its own kernels; they do not follow the operations that `[engine.ops]` counts, which
//! are host time. A profile without them prices none.
//!
//! Floats live in here only: every term is rounded to a nanosecond once, and sums are sums of rounded terms.

pub mod beats;
pub mod memory;
pub mod model;
pub mod planned_launch;
pub mod startup;
pub mod step;

pub use beats::BeatPrices;
pub use model::{CostModel, EagerPeriod, EagerTimes, EngineSide};
pub use planned_launch::PlannedLaunch;
pub use step::{CostGroup, CostGroups, Execution, StepCost, StepTimes, StepWork};

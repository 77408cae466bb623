//! From a step's shape to its graph: the dispatchers of both model runners.

pub mod agreement;
pub mod explain;
pub mod lora;
mod rungs;
pub mod v1;
pub mod v2;

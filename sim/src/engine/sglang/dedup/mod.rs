//! Executables shared by graphs of one structure: `SGLANG_ENABLE_CUDA_GRAPH_DEDUP` (SGLang specification section 7).
//!
//! An executable stands for one graph of its group at a time. Replaying another one costs an update first, so a change of
//! size costs one update per segment, and the same size again costs none.

mod registry;
mod shared;
mod signature;

pub use registry::{Registered, Registry, Sealed};
pub use shared::{SegmentLikeness, SharedExecutables};
pub use signature::{Graph, KernelNode, LaunchAttributes, Node, NotAcyclic, Signature};

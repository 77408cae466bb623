//! The agreement of ranks under runner V2 (specification section 6).

use crate::engine::shape::{Descriptor, RuntimeMode};
use crate::engine::vllm::dispatch::explain::NoTrace;
use crate::engine::vllm::dispatch::v2::{CudaGraphManager, Query};

/// What every rank runs, in the order of the ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// What each rank would have run by itself.
    pub local: Vec<Descriptor>,
    /// What each rank runs; `None` if no rank has work.
    pub synced: Option<Vec<Descriptor>>,
}

/// The agreement of all ranks on their steps, each with the number of microbatches that the ranks agreed on.
///
/// If any rank has no graph, none has, and nobody pads. Else each dispatches the largest token count with its own
/// requests, the common uniform length if there is one, and the longest query if every rank has one. A rank without work
/// has no graph either, which is why the engine runs a dummy batch there.
#[must_use]
pub fn agree(graphs: &CudaGraphManager, steps: &[Query]) -> Agreement {
    let local: Vec<Descriptor> = steps.iter().map(|step| graphs.dispatch(step, &mut NoTrace)).collect();
    if steps.iter().all(|step| step.tokens == 0) {
        return Agreement { local, synced: None };
    }
    if local.iter().any(|graph| graph.mode == RuntimeMode::None) {
        return Agreement { local, synced: Some(steps.iter().map(|step| graphs.eager(step)).collect()) };
    }
    let tokens = steps.iter().map(|step| step.tokens).max().unwrap_or(0);
    let first_uniform = steps.first().and_then(|step| step.uniform);
    let uniform = first_uniform.filter(|&length| length > 0 && steps.iter().all(|step| step.uniform == Some(length)));
    let longest: Option<Vec<u32>> = steps.iter().map(|step| step.max_query).collect();
    let max_query = longest.and_then(|lengths| lengths.into_iter().max());
    let agreed = |step: &Query| graphs.dispatch(&Query { tokens, uniform, max_query, ..*step }, &mut NoTrace);
    Agreement { local, synced: Some(steps.iter().map(agreed).collect()) }
}

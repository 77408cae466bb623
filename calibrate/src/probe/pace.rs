//! The work by which a machine's pace is taken: always the same, so short that every round of a campaign has room for it.

use kernels::launch::{Launch, Null};

use super::cold_cache::ColdCache;
use super::copy_sizes;
use super::error::ProbeError;
use super::graph_of::graph_of;
use crate::device::{Executable, Session};

/// Empty kernels of the graph: with so many, what a pair of events cannot resolve is no hundredth of its time.
const NODES: u32 = 32;
/// Launches whose host time is taken together.
pub(super) const LAUNCHES: usize = 16;

/// What is run to tell how fast the machine is.
#[derive(Debug)]
pub(crate) struct PaceWork {
    pub(super) null: Launch,
    pub(super) graph: Executable,
    /// A copy that the device's cache does not hold: that empties it, and shows what the memory does.
    pub(super) copy: ColdCache,
}

impl PaceWork {
    /// Makes the graph, and takes memory for the copy.
    ///
    /// # Errors
    /// The device fails, or has not the memory.
    pub(crate) fn new(session: &mut Session) -> Result<Self, ProbeError> {
        let null = Null {}.alone()?;
        // A kernel must have run before it is captured.
        session.launch(&null)?;
        let graph = graph_of(session, &null, NODES)?;
        Ok(Self { null, graph, copy: ColdCache::new(session, copy_sizes::pace_bytes(0))? })
    }
}

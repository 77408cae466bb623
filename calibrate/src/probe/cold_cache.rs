//! What empties the device's cache between repetitions of work so small that it would find its data there, which a step,
//! having read all weights since, never does.

use std::rc::Rc;

use kernels::launch::{Copy, Launch};
use kernels::units::Bytes;

use super::bench::Bench;
use super::error::ProbeError;
use crate::device::{Arena, Attribute};

/// Bytes of the copy, read and written, as a multiple of the cache.
const TIMES: u64 = 2;
/// Blocks of the copy, per multiprocessor.
const BLOCKS_PER_SM: u32 = 8;
/// Bytes of a vector.
const VECTOR_BYTES: u64 = 16;

/// A copy larger than the cache.
#[derive(Debug)]
pub(super) struct ColdCache {
    /// To be launched before whatever is to find the cache cold.
    pub(super) launch: Launch,
    _memory: Rc<Arena>,
}

impl ColdCache {
    /// Takes memory of twice the cache.
    pub(super) fn new(bench: &Bench<'_>) -> Result<Self, ProbeError> {
        let card = bench.on(|session| *session.card());
        let cache = u64::try_from(card.attribute(Attribute::CacheBytes)?).unwrap_or(0);
        let half = (TIMES * cache / 2).next_multiple_of(VECTOR_BYTES).max(VECTOR_BYTES);
        bench.require("emptying the cache between repetitions", Bytes(2 * half).0)?;
        let blocks = card.attribute(Attribute::Multiprocessors)?.unsigned_abs().max(1) * BLOCKS_PER_SM;
        let memory = bench.on(|session| session.arena());
        let (from, to) = (memory.allocate(half)?, memory.allocate(half)?);
        bench.on(|session| {
            session.fill(from, 0, half)?;
            session.synchronize()
        })?;
        let launch = Copy { to, from, vectors: half / VECTOR_BYTES }.by(blocks)?;
        Ok(Self { launch, _memory: memory })
    }
}

//! What empties the device's cache between repetitions of work so small that it would find its data there, which a step,
//! having read all weights since, never does.

use std::rc::Rc;

use kernels::launch::{Copy, Launch};
use kernels::units::Bytes;

use super::error::ProbeError;
use crate::device::{Arena, Attribute, Session};

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
    /// Takes memory of twice the cache, or so many bytes if that is more.
    ///
    /// # Errors
    /// There is not so much, or the device fails.
    pub(super) fn new(session: &mut Session, bytes_least: u64) -> Result<Self, ProbeError> {
        let half = half_bytes(session, bytes_least)?;
        let (needs, free) = (Bytes(2 * half), session.memory()?.0);
        if needs > free {
            return Err(ProbeError::Memory { what: "emptying the cache between repetitions", needs, free });
        }
        let blocks = session.card().attribute(Attribute::Multiprocessors)?.unsigned_abs().max(1) * BLOCKS_PER_SM;
        let memory = session.arena();
        let (from, to) = (memory.allocate(half)?, memory.allocate(half)?);
        session.fill(from, 0, half)?;
        session.synchronize()?;
        let launch = Copy { to, from, vectors: half / VECTOR_BYTES }.by(blocks)?;
        Ok(Self { launch, _memory: memory })
    }
}

/// Bytes that are read, and bytes that are written.
fn half_bytes(session: &Session, bytes_least: u64) -> Result<u64, ProbeError> {
    let cache = u64::try_from(session.card().attribute(Attribute::CacheBytes)?).unwrap_or(0);
    Ok((TIMES * cache).max(bytes_least).div_ceil(2).next_multiple_of(VECTOR_BYTES).max(VECTOR_BYTES))
}

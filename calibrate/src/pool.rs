//! The private memory pool of captured graphs, by the rules of PyTorch's caching allocator.
//!
//! Engines capture their graphs into one pool: what a graph's launches use is allocated from it and freed to it on the host
//! while the graph is captured, so that the next graph lies over the same memory. What the pool takes from the device is
//! never given back while a graph lives. The rules decide how much that is: `c10/cuda/CUDACachingAllocator.cpp` of PyTorch
//! (`round_size`, `get_allocation_size`, `get_free_block`, `should_split`, `free_block`), without its options
//! (`max_split_size`, `roundup_power2_divisions`, expandable segments), which are off by default.

use std::collections::{BTreeMap, BTreeSet};

use kernels::launch::Address;

/// Sizes are rounded up to this.
const GRAIN_BYTES: u64 = 512;
/// The largest size of the small half.
const SMALL_BYTES: u64 = 1 << 20;
/// Segment of the small half.
const SMALL_SEGMENT_BYTES: u64 = 2 << 20;
/// From this size on a segment is of the size asked for, rounded.
const OWN_SEGMENT_BYTES: u64 = 10 << 20;
/// Segment of the large half, below that.
const LARGE_SEGMENT_BYTES: u64 = 20 << 20;
/// What segments of their own are rounded up to.
const SEGMENT_GRAIN_BYTES: u64 = 2 << 20;

/// Where a pool takes segments from.
pub trait SegmentSource {
    /// Why there is none.
    type Error;

    /// A segment of `bytes`, which stays as long as the source; aligned to [`GRAIN_BYTES`](self) at least.
    ///
    /// # Errors
    /// There is not that much memory.
    fn segment(&mut self, bytes: u64) -> Result<Address, Self::Error>;
}

/// What is freed was not allocated, or was freed already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pool has no allocation at {:#x}", .0.0)]
pub struct NotAllocated(pub Address);

/// A pool over a source of segments.
#[derive(Debug)]
pub struct Pool<S> {
    source: S,
    /// Every block, free or not, by address.
    blocks: BTreeMap<u64, Block>,
    /// The free blocks of each half, by size, then address: the first that is large enough fits best.
    free: [BTreeSet<(u64, u64)>; 2],
    segments: Vec<Segment>,
    live_bytes: u64,
    peak_bytes: u64,
}

/// A segment as it came from the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where it begins.
    pub address: Address,
    /// Its size.
    pub bytes: u64,
}

/// A piece of a segment.
#[derive(Clone, Copy, Debug)]
struct Block {
    bytes: u64,
    segment: usize,
    half: Half,
    is_free: bool,
}

/// Small and large allocations never share a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    Small,
    Large,
}

impl Half {
    fn of(bytes: u64) -> Self {
        if bytes <= SMALL_BYTES { Self::Small } else { Self::Large }
    }

    /// The segment taken for an allocation that no free block holds.
    fn segment_bytes(self, bytes: u64) -> u64 {
        match self {
            Self::Small => SMALL_SEGMENT_BYTES,
            Self::Large if bytes < OWN_SEGMENT_BYTES => LARGE_SEGMENT_BYTES,
            Self::Large => bytes.next_multiple_of(SEGMENT_GRAIN_BYTES),
        }
    }

    /// Whether a rest of this size is worth a block of its own.
    fn splits_off(self, rest_bytes: u64) -> bool {
        match self {
            Self::Small => rest_bytes >= GRAIN_BYTES,
            Self::Large => rest_bytes > SMALL_BYTES,
        }
    }
}

/// The size that an allocation of `bytes` takes at least.
fn rounded(bytes: u64) -> u64 {
    bytes.max(GRAIN_BYTES).next_multiple_of(GRAIN_BYTES)
}

impl<S: SegmentSource> Pool<S> {
    /// An empty pool.
    pub fn new(source: S) -> Self {
        Self {
            source,
            blocks: BTreeMap::new(),
            free: [BTreeSet::new(), BTreeSet::new()],
            segments: Vec::new(),
            live_bytes: 0,
            peak_bytes: 0,
        }
    }

    /// Memory of at least `bytes`: of the smallest free block that holds them, else of a new segment.
    ///
    /// # Errors
    /// The source has no segment.
    pub fn allocate(&mut self, bytes: u64) -> Result<Address, S::Error> {
        let bytes = rounded(bytes);
        let half = Half::of(bytes);
        let found = self.free[half as usize].range((bytes, 0)..).next().map(|&(_, address)| address);
        let address = match found {
            Some(address) => address,
            None => self.grow(half, half.segment_bytes(bytes))?,
        };
        self.take(address, bytes);
        Ok(Address(address))
    }

    /// Frees an allocation; free neighbours of its segment become one block with it.
    ///
    /// # Errors
    /// There is no such allocation.
    pub fn free(&mut self, address: Address) -> Result<(), NotAllocated> {
        let block = self.blocks.get(&address.0).filter(|block| !block.is_free);
        let mut block = *block.ok_or(NotAllocated(address))?;
        self.live_bytes -= block.bytes;
        block.is_free = true;
        let mut start = address.0;
        let is_joined = |other: &Block| other.is_free && other.segment == block.segment;
        let after = self.blocks.range(start + 1..).next().map(|(&at, &other)| (at, other));
        if let Some((at, other)) = after.filter(|(_, other)| is_joined(other)) {
            self.forget(at, other);
            block.bytes += other.bytes;
        }
        let before = self.blocks.range(..start).next_back().map(|(&at, &other)| (at, other));
        if let Some((at, other)) = before.filter(|(_, other)| is_joined(other)) {
            self.forget(at, other);
            self.blocks.remove(&start);
            block.bytes += other.bytes;
            start = at;
        }
        self.insert(start, block);
        Ok(())
    }

    /// Where segments come from.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// The segments, in the order in which they were taken.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Bytes taken from the source; never less than before.
    pub fn reserved_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Bytes of what is allocated now, rounded as they are.
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// The most bytes that were allocated at a time since [`Pool::restart_peak`].
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// From now on the peak is counted anew.
    pub fn restart_peak(&mut self) {
        self.peak_bytes = self.live_bytes;
    }

    /// Takes a segment and makes it one free block.
    fn grow(&mut self, half: Half, bytes: u64) -> Result<u64, S::Error> {
        let address = self.source.segment(bytes)?;
        self.segments.push(Segment { address, bytes });
        let segment = self.segments.len() - 1;
        self.insert(address.0, Block { bytes, segment, half, is_free: true });
        Ok(address.0)
    }

    /// Allocates the beginning of a free block, and all of it where the rest is not worth a block.
    fn take(&mut self, address: u64, bytes: u64) {
        let block = self.blocks[&address];
        self.forget(address, block);
        let rest = block.bytes - bytes;
        let bytes = if block.half.splits_off(rest) {
            self.insert(address + bytes, Block { bytes: rest, ..block });
            bytes
        } else {
            block.bytes
        };
        self.insert(address, Block { bytes, is_free: false, ..block });
        self.live_bytes += bytes;
        self.peak_bytes = self.peak_bytes.max(self.live_bytes);
    }

    fn insert(&mut self, address: u64, block: Block) {
        if block.is_free {
            self.free[block.half as usize].insert((block.bytes, address));
        }
        self.blocks.insert(address, block);
    }

    fn forget(&mut self, address: u64, block: Block) {
        self.free[block.half as usize].remove(&(block.bytes, address));
        self.blocks.remove(&address);
    }
}

#[cfg(test)]
mod tests;

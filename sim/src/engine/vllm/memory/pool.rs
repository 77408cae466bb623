//! The pool of KV blocks. Without the prefix cache it only counts: no rule then asks which block a request holds.

use super::prefix_cache::{Contents, PrefixCache};
use crate::engine::request::NewRequest;

/// One engine's KV blocks. Held and free blocks add up to [`usable`](Self::usable) at all times (law 5); free ones may
/// still hold tokens that the prefix cache knows.
#[derive(Clone, Debug)]
pub struct BlockPool {
    block_size: u32,
    usable: u32,
    free: u32,
    cache: Option<PrefixCache>,
    /// The blocks of the last [`Hit`].
    found: Vec<u32>,
}

/// The blocks that one request holds. Only the pool changes it, so that the counts cannot drift apart.
#[derive(Clone, Debug)]
pub struct Held {
    blocks: u32,
    capacity_tokens: u32,
    /// Known tokens at which the next block is full and can be registered; beyond all requests without the prefix cache.
    next_full_tokens: u32,
    cached: Option<Box<CachedHead>>,
}

/// What the prefix cache knows of one request.
#[derive(Clone, Debug)]
struct CachedHead {
    contents: Contents,
    /// The registered blocks that the request holds: its first ones, in order.
    registered: Vec<u32>,
}

/// The head of a waiting request that the prefix cache holds already. Good until the pool changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hit {
    blocks: u32,
    /// Those that nobody holds: they count as free until the request takes them.
    evictable: u32,
}

impl BlockPool {
    /// A pool of `num_gpu_blocks` blocks of `block_size` tokens. One of them is the null block, which no request can
    /// ever use (specification section 11).
    ///
    /// # Panics
    /// If `block_size` is 0, which no validated option is.
    #[must_use]
    pub fn new(num_gpu_blocks: u32, block_size: u32, prefix_caching: bool) -> Self {
        assert!(block_size > 0, "block_size is at least 1");
        let usable = num_gpu_blocks.saturating_sub(1);
        let cache = prefix_caching.then(PrefixCache::new);
        Self { block_size, usable, free: usable, cache, found: Vec::new() }
    }

    /// Tokens per block.
    #[must_use]
    pub fn block_size(&self) -> u32 {
        self.block_size
    }

    /// Blocks that requests can hold, all together.
    #[must_use]
    pub fn usable(&self) -> u32 {
        self.usable
    }

    /// Blocks that no request holds, those that the prefix cache would give up included.
    #[must_use]
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Blocks that no request holds but whose tokens the prefix cache still knows.
    #[must_use]
    pub fn cached(&self) -> u32 {
        self.cache.as_ref().map_or(0, PrefixCache::evictable_blocks)
    }

    /// Blocks that the keys and values of `tokens` tokens fill, the last one perhaps in part.
    #[must_use]
    pub fn blocks_for(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.block_size)
    }

    /// What a request holds that has just arrived: nothing.
    #[must_use]
    pub fn nothing_for(&self, request: &NewRequest) -> Held {
        let Some(_) = &self.cache else { return Held::default() };
        let head = CachedHead { contents: Contents::of(request), registered: Vec::new() };
        Held { next_full_tokens: self.block_size, cached: Some(Box::new(head)), ..Held::default() }
    }

    /// The longest head of a request, in whole blocks and at most `most_tokens` tokens, that the prefix cache holds. The
    /// request holds nothing. `without_last` gives the last block of it up.
    #[must_use]
    pub fn find(&mut self, held: &Held, most_tokens: u32, without_last: bool) -> Hit {
        let (Some(cache), Some(head)) = (&self.cache, &held.cached) else { return Hit::default() };
        self.found.clear();
        let mut evictable = cache.find(&head.contents, self.block_size, most_tokens / self.block_size, &mut self.found);
        if without_last && let Some(last) = self.found.pop() {
            evictable -= u32::from(cache.is_evictable(last));
        }
        Hit { blocks: self.found.len() as u32, evictable }
    }

    /// Tokens of a hit.
    #[must_use]
    pub fn hit_tokens(&self, hit: Hit) -> u32 {
        hit.blocks * self.block_size
    }

    /// Takes the blocks of the last hit and as many new ones as it takes to hold `tokens` tokens. `false`, and nothing
    /// changes, unless `room_tokens` tokens would fit too, with `keep_free` blocks left over.
    #[must_use]
    pub fn admit(&mut self, held: &mut Held, hit: Hit, tokens: u32, room_tokens: u32, keep_free: u32) -> bool {
        let needed = self.blocks_for(tokens.max(room_tokens)).saturating_sub(hit.blocks);
        if needed.saturating_add(hit.evictable).saturating_add(keep_free) > self.free {
            return false;
        }
        if let (Some(cache), Some(head)) = (&mut self.cache, &mut held.cached) {
            self.found.iter().for_each(|&block| cache.hold(block));
            head.registered.extend_from_slice(&self.found);
            self.free -= hit.evictable;
            held.blocks = hit.blocks;
            held.next_full_tokens = (hit.blocks + 1) * self.block_size;
        }
        let taken = self.take(held, tokens);
        debug_assert!(taken, "there is room");
        taken
    }

    /// Takes the blocks that `held` lacks to hold `tokens` tokens. `false`, and nothing changes, if too few are free.
    #[inline]
    #[must_use]
    pub fn grow(&mut self, held: &mut Held, tokens: u32) -> bool {
        tokens <= held.capacity_tokens || self.take(held, tokens)
    }

    /// Takes so many blocks for requests that will say later what they hold ([`hold_for`](Self::hold_for)). There are as
    /// many, and there is no prefix cache.
    #[inline]
    pub fn take_unnamed(&mut self, blocks: u32) {
        debug_assert!(blocks <= self.free && self.cache.is_none());
        self.free -= blocks;
    }

    /// Says what a request holds of the blocks taken for it: those of `tokens` tokens.
    #[inline]
    pub fn hold_for(&self, held: &mut Held, tokens: u32) {
        held.blocks = self.blocks_for(tokens);
        held.capacity_tokens = held.blocks.saturating_mul(self.block_size);
    }

    /// Whether full blocks can be found again.
    #[inline]
    #[must_use]
    pub fn has_cache(&self) -> bool {
        self.cache.is_some()
    }

    /// Blocks that `held` lacks to hold `tokens` tokens.
    #[must_use]
    pub fn missing(&self, held: &Held, tokens: u32) -> u32 {
        self.blocks_for(tokens).saturating_sub(held.blocks)
    }

    fn take(&mut self, held: &mut Held, tokens: u32) -> bool {
        let blocks = self.blocks_for(tokens);
        let missing = blocks - held.blocks;
        if missing > self.free {
            return false;
        }
        if let Some(cache) = &mut self.cache {
            // Blocks that hold nothing known go first.
            let unregistered = self.free - cache.evictable_blocks();
            (unregistered..missing).for_each(|_| cache.evict());
        }
        self.free -= missing;
        held.blocks = blocks;
        held.capacity_tokens = blocks.saturating_mul(self.block_size);
        true
    }

    /// Registers the blocks that the first `known_tokens` tokens of a request fill. Without the prefix cache nothing
    /// happens.
    #[inline]
    pub fn register(&mut self, held: &mut Held, known_tokens: u32) {
        if known_tokens >= held.next_full_tokens {
            self.register_full(held, known_tokens);
        }
    }

    fn register_full(&mut self, held: &mut Held, known_tokens: u32) {
        let (Some(cache), Some(head)) = (&mut self.cache, &mut held.cached) else { return };
        let full = known_tokens / self.block_size;
        debug_assert!(full <= held.blocks, "only blocks that are held are filled");
        for block in head.registered.len() as u32..full {
            head.registered.push(cache.register(&head.contents, block, self.block_size));
        }
        held.next_full_tokens = (full + 1).saturating_mul(self.block_size);
    }

    /// Takes back all blocks of a preempted request: it will look for them when it comes again.
    pub fn release_for_later(&mut self, held: &mut Held) {
        if let (Some(cache), Some(head)) = (&mut self.cache, &held.cached) {
            cache.list_all(&head.contents, &head.registered, self.block_size);
        }
        self.release(held);
    }

    /// Takes back all blocks that a request holds, its last one first: so a head outlives the tail that needs it.
    pub fn release(&mut self, held: &mut Held) {
        let mut freed = held.blocks;
        if let (Some(cache), Some(head)) = (&mut self.cache, &mut held.cached) {
            freed -= head.registered.len() as u32;
            freed += head.registered.drain(..).rev().map(|block| u32::from(cache.let_go(block))).sum::<u32>();
            held.next_full_tokens = self.block_size;
        }
        self.free += freed;
        (held.blocks, held.capacity_tokens) = (0, 0);
    }
}

impl Default for Held {
    /// Nothing, of a request that the prefix cache does not know.
    fn default() -> Self {
        Self { blocks: 0, capacity_tokens: 0, next_full_tokens: u32::MAX, cached: None }
    }
}

impl Held {
    /// Blocks held.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.blocks
    }
}

#[cfg(test)]
impl Held {
    /// Blocks that these requests hold, each counted once.
    pub(crate) fn distinct_blocks<'a>(all: impl Iterator<Item = &'a Held>) -> u32 {
        let mut registered = std::collections::BTreeSet::<u32>::new();
        let mut others = 0;
        for held in all {
            let cached = held.cached.as_ref().map_or(&[][..], |head| &head.registered);
            others += held.blocks - cached.len() as u32;
            registered.extend(cached.iter().copied());
        }
        others + registered.len() as u32
    }
}

#[cfg(test)]
mod tests;

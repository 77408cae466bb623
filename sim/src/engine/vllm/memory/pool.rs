//! The pool of KV blocks, by counts: without the prefix cache no rule asks which block a request holds.

/// One engine's KV blocks. Held and free blocks add up to [`usable`](Self::usable) at all times (law 5).
#[derive(Clone, Debug)]
pub struct BlockPool {
    block_size: u32,
    usable: u32,
    free: u32,
}

/// The blocks that one request holds. Only the pool changes it, so that the counts cannot drift apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    blocks: u32,
    capacity_tokens: u32,
}

impl BlockPool {
    /// A pool of `num_gpu_blocks` blocks of `block_size` tokens. One of them is the null block, which no request can
    /// ever use (specification section 11).
    ///
    /// # Panics
    /// If `block_size` is 0, which no validated option is.
    #[must_use]
    pub fn new(num_gpu_blocks: u32, block_size: u32) -> Self {
        assert!(block_size > 0, "block_size is at least 1");
        let usable = num_gpu_blocks.saturating_sub(1);
        Self { block_size, usable, free: usable }
    }

    /// Blocks that requests can hold, all together.
    #[must_use]
    pub fn usable(&self) -> u32 {
        self.usable
    }

    /// Blocks that no request holds.
    #[must_use]
    pub fn free(&self) -> u32 {
        self.free
    }

    /// Blocks that the keys and values of `tokens` tokens fill, the last one perhaps in part.
    #[must_use]
    pub fn blocks_for(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.block_size)
    }

    /// Whether `tokens` tokens of a request that holds nothing fit, with `keep_free` blocks left over.
    #[must_use]
    pub fn has_room(&self, tokens: u32, keep_free: u32) -> bool {
        self.blocks_for(tokens).saturating_add(keep_free) <= self.free
    }

    /// Takes the blocks that `held` lacks to hold `tokens` tokens. `false`, and nothing changes, if that would leave
    /// fewer than `keep_free` blocks; a request that lacks none always succeeds.
    #[inline]
    #[must_use]
    pub fn grow(&mut self, held: &mut Held, tokens: u32, keep_free: u32) -> bool {
        tokens <= held.capacity_tokens || self.take(held, tokens, keep_free)
    }

    fn take(&mut self, held: &mut Held, tokens: u32, keep_free: u32) -> bool {
        let blocks = self.blocks_for(tokens);
        let missing = blocks - held.blocks;
        if missing.saturating_add(keep_free) > self.free {
            return false;
        }
        self.free -= missing;
        *held = Held { blocks, capacity_tokens: blocks.saturating_mul(self.block_size) };
        true
    }

    /// Takes back all blocks that a request holds.
    pub fn release(&mut self, held: &mut Held) {
        self.free += held.blocks;
        *held = Held::default();
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
mod tests {
    use super::*;

    #[test]
    fn the_null_block_is_never_usable() {
        assert_eq!(BlockPool::new(10, 16).usable(), 9);
        assert_eq!(BlockPool::new(0, 16).usable(), 0);
    }

    #[test]
    fn a_request_takes_a_block_only_when_it_crosses_its_end() {
        let mut pool = BlockPool::new(4, 16);
        let mut held = Held::default();
        for (tokens, free) in [(1, 2), (16, 2), (17, 1), (32, 1), (33, 0), (48, 0)] {
            assert!(pool.grow(&mut held, tokens, 0));
            assert_eq!((pool.free(), held.blocks() + pool.free()), (free, 3), "at {tokens} tokens");
        }
        assert!(!pool.grow(&mut held, 49, 0));
        assert_eq!(held.blocks(), 3, "a refused growth changes nothing");
        pool.release(&mut held);
        assert_eq!((pool.free(), held), (3, Held::default()));
    }

    #[test]
    fn blocks_kept_free_are_not_taken() {
        let mut pool = BlockPool::new(6, 16);
        let mut held = Held::default();
        assert!(!pool.has_room(64, 2) && pool.has_room(48, 2));
        assert!(!pool.grow(&mut held, 64, 2));
        assert!(pool.grow(&mut held, 48, 2));
        assert!(!pool.has_room(1, u32::MAX));
        assert!(pool.grow(&mut held, 48, u32::MAX), "nothing is taken, so nothing has to stay");
    }
}

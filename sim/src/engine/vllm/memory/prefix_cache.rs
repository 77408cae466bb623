//! The prefix cache: which full KV blocks hold known tokens, who uses them, and which one is given up next
//! (specification section 11).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::engine::request::{Adapter, NewRequest, RequestId, SharedPrefix};

/// No block: the end of a list.
const NONE: u32 = u32::MAX;

/// What a full block holds. Equal keys are equal tokens, from the start of the request on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// Block number `block` of a prompt head that several requests may have. An adapter changes the keys and values of
    /// all tokens, so requests share only under the same one (not in the specification; read in vLLM's block hash).
    Shared { content: u64, adapter: Option<Adapter>, block: u32 },
    /// Block number `block` of one request, which finds it again after a preemption: nobody else ever does.
    Own { request: RequestId, block: u32 },
}

/// What the blocks of one request hold.
#[derive(Clone, Debug)]
pub(super) struct Contents {
    request: RequestId,
    adapter: Option<Adapter>,
    shared: SharedPrefix,
    prompt_tokens: u32,
}

/// A registered block, as far as all of them are looked at: small, because evictions go from one end of the pool to the
/// other.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// Requests that hold it; with none it can be evicted.
    holders: u32,
    /// It is found under its key. A request's own blocks are from its first preemption on.
    is_listed: bool,
    /// Its neighbours among the evictable blocks.
    order: Links,
}

/// A block that is found under its key.
#[derive(Clone, Copy, Debug)]
struct Listed {
    key: Key,
    /// Its neighbours among the blocks of the same key.
    twins: Links,
}

/// A block's neighbours in a list.
#[derive(Clone, Copy, Debug)]
struct Links {
    before: u32,
    after: u32,
}

/// Neither.
const UNLINKED: Links = Links { before: NONE, after: NONE };

/// Both ends of a list.
#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    last: u32,
}

/// The registered blocks of a pool, by a number that is free again after eviction.
///
/// Blocks without a key need no identity: the engine reuses them before any registered one, and they are all alike.
#[derive(Clone, Debug)]
pub(super) struct PrefixCache {
    blocks: Vec<Block>,
    /// By the same number; what is there of a block that is not listed means nothing.
    listed: Vec<Listed>,
    vacant: Vec<u32>,
    /// The blocks of each key, oldest registration first: the first one is hit.
    by_key: HashMap<Key, Ends, BuildHasherDefault<KeyHasher>>,
    /// Blocks that nobody holds, the next victim first.
    evictable: Ends,
    evictable_blocks: u32,
}

impl Contents {
    pub(super) fn of(request: &NewRequest) -> Self {
        Self {
            request: request.id,
            adapter: request.adapter,
            shared: request.shared.clone(),
            prompt_tokens: request.prompt_tokens,
        }
    }

    /// The key of block number `block`, whose last token is the one before `end_tokens`.
    fn key(&self, block: u32, end_tokens: u32) -> Key {
        let segments = self.shared.segments();
        let segment = segments.get(segments.partition_point(|segment| segment.end_tokens < end_tokens));
        match segment.filter(|_| end_tokens <= self.prompt_tokens) {
            Some(segment) => Key::Shared { content: segment.content, adapter: self.adapter, block },
            None => Key::Own { request: self.request, block },
        }
    }
}

impl PrefixCache {
    pub(super) fn new() -> Self {
        Self {
            blocks: Vec::new(),
            listed: Vec::new(),
            vacant: Vec::new(),
            by_key: HashMap::default(),
            evictable: Ends { first: NONE, last: NONE },
            evictable_blocks: 0,
        }
    }

    /// Registered blocks that nobody holds.
    pub(super) fn evictable_blocks(&self) -> u32 {
        self.evictable_blocks
    }

    /// Appends to `found` the registered blocks that hold the head of `contents`, at most `most` of them, and says how
    /// many of them nobody holds.
    pub(super) fn find(&self, contents: &Contents, block_size: u32, most: u32, found: &mut Vec<u32>) -> u32 {
        let mut evictable = 0;
        for block in 0..most {
            let Some(ends) = self.by_key.get(&contents.key(block, (block + 1) * block_size)) else { break };
            evictable += u32::from(self.blocks[ends.first as usize].holders == 0);
            found.push(ends.first);
        }
        evictable
    }

    /// Whether nobody holds a block.
    pub(super) fn is_evictable(&self, block: u32) -> bool {
        self.blocks[block as usize].holders == 0
    }

    /// One more request holds a block.
    pub(super) fn hold(&mut self, block: u32) {
        if self.is_evictable(block) {
            let Links { before, after } = self.blocks[block as usize].order;
            match before {
                NONE => self.evictable.first = after,
                _ => self.blocks[before as usize].order.after = after,
            }
            match after {
                NONE => self.evictable.last = before,
                _ => self.blocks[after as usize].order.before = before,
            }
            self.evictable_blocks -= 1;
        }
        self.blocks[block as usize].holders += 1;
    }

    /// One request less holds a block. `true` if it was the last: the block can be evicted now, after all others.
    pub(super) fn let_go(&mut self, block: u32) -> bool {
        let entry = &mut self.blocks[block as usize];
        entry.holders -= 1;
        if entry.holders > 0 {
            return false;
        }
        entry.order = Links { before: self.evictable.last, after: NONE };
        match self.evictable.last {
            NONE => self.evictable.first = block,
            last => self.blocks[last as usize].order.after = block,
        }
        self.evictable.last = block;
        self.evictable_blocks += 1;
        true
    }

    /// Registers block number `block` of a request, which holds it. Other blocks may hold the same tokens.
    pub(super) fn register(&mut self, contents: &Contents, block: u32, block_size: u32) -> u32 {
        let number = self.vacant.pop().unwrap_or(self.blocks.len() as u32);
        let entry = Block { holders: 1, is_listed: false, order: UNLINKED };
        match self.blocks.get_mut(number as usize) {
            Some(place) => *place = entry,
            None => self.blocks.push(entry),
        }
        let key = contents.key(block, (block + 1) * block_size);
        if matches!(key, Key::Shared { .. }) {
            self.list(number, key);
        }
        number
    }

    /// From now on the registered blocks of a request, its first ones in order, are found.
    pub(super) fn list_all(&mut self, contents: &Contents, registered: &[u32], block_size: u32) {
        for (block, &number) in (0..).zip(registered) {
            if !self.blocks[number as usize].is_listed {
                self.list(number, contents.key(block, (block + 1) * block_size));
            }
        }
    }

    /// Makes a block one that is found, as the latest of its key.
    fn list(&mut self, number: u32, key: Key) {
        let ends = self.by_key.entry(key).or_insert(Ends { first: number, last: NONE });
        let before = std::mem::replace(&mut ends.last, number);
        if before != NONE {
            self.listed[before as usize].twins.after = number;
        }
        if self.listed.len() < self.blocks.len() {
            self.listed.resize(self.blocks.len(), Listed { key, twins: UNLINKED });
        }
        self.listed[number as usize] = Listed { key, twins: Links { before, after: NONE } };
        self.blocks[number as usize].is_listed = true;
    }

    /// Forgets the evictable block that was let go first.
    ///
    /// # Panics
    /// If every registered block is held.
    pub(super) fn evict(&mut self) {
        let block = self.evictable.first;
        assert_ne!(block, NONE, "the pool evicts only what it counts as evictable");
        let Block { is_listed, order: Links { after, .. }, .. } = self.blocks[block as usize];
        self.evictable.first = after;
        match after {
            NONE => self.evictable.last = NONE,
            _ => self.blocks[after as usize].order.before = NONE,
        }
        self.evictable_blocks -= 1;
        if is_listed {
            self.unlist(block);
        }
        self.vacant.push(block);
    }

    fn unlist(&mut self, block: u32) {
        let Listed { key, twins: Links { before, after } } = self.listed[block as usize];
        if (before, after) == (NONE, NONE) {
            self.by_key.remove(&key);
            return;
        }
        let ends = self.by_key.get_mut(&key).expect("a listed block is found under its key");
        match before {
            NONE => ends.first = after,
            _ => self.listed[before as usize].twins.after = after,
        }
        match after {
            NONE => ends.last = before,
            _ => self.listed[after as usize].twins.before = before,
        }
    }
}

/// Keys are a few integers that no adversary chooses, so a multiplication per word spreads them well enough.
#[derive(Clone, Copy, Debug, Default)]
struct KeyHasher(u64);

impl KeyHasher {
    /// An odd number without a pattern: the golden ratio as a fraction of 2^64.
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
}

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        // The table takes its slot from the low bits and its tag from the high ones; both should have seen every bit.
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(29) ^ word).wrapping_mul(Self::FACTOR);
    }

    fn write_isize(&mut self, word: isize) {
        self.write_u64(word as u64);
    }
}

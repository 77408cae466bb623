use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::engine::request::{Adapter, RequestId, Segment, SharedPrefix};

#[test]
fn the_null_block_is_never_usable() {
    assert_eq!(BlockPool::new(10, 16, false).usable(), 9);
    assert_eq!(BlockPool::new(0, 16, true).usable(), 0);
}

#[test]
fn a_request_takes_a_block_only_when_it_crosses_its_end() {
    let mut pool = BlockPool::new(4, 16, false);
    let mut held = Held::default();
    for (tokens, free) in [(1, 2), (16, 2), (17, 1), (32, 1), (33, 0), (48, 0)] {
        assert!(pool.grow(&mut held, tokens));
        assert_eq!((pool.free(), held.blocks() + pool.free()), (free, 3), "at {tokens} tokens");
    }
    assert!(!pool.grow(&mut held, 49));
    assert_eq!(held.blocks(), 3, "a refused growth changes nothing");
    pool.release(&mut held);
    assert_eq!((pool.free(), held.blocks()), (3, 0));
}

#[test]
fn blocks_kept_free_are_not_taken() {
    let mut pool = BlockPool::new(6, 16, false);
    let mut held = Held::default();
    let none = Hit::default();
    assert!(!pool.admit(&mut held, none, 64, 0, 2));
    assert!(!pool.admit(&mut held, none, 1, 64, 2), "the room is asked for, not taken");
    assert!(!pool.admit(&mut held, none, 1, 0, u32::MAX));
    assert_eq!(held.blocks(), 0);
    assert!(pool.admit(&mut held, none, 1, 48, 2));
    assert_eq!((held.blocks(), pool.free()), (1, 4));
}

/// Block size of the tests on content, in tokens.
const BLOCK: u32 = 4;

/// A request of `prompt_tokens` tokens whose head is made of `segments`: `(content, end in tokens)`.
fn sharing(id: u32, prompt_tokens: u32, segments: &[(u64, u32)]) -> NewRequest {
    let segments: Vec<_> = segments.iter().map(|&(content, end_tokens)| Segment { content, end_tokens }).collect();
    NewRequest { shared: SharedPrefix::new(&segments), ..NewRequest::plain(RequestId(id), prompt_tokens, 1) }
}

/// Admits a request with all its prompt computed and registered at once.
fn serve(pool: &mut BlockPool, request: &NewRequest) -> Held {
    let mut held = pool.nothing_for(request);
    let hit = pool.find(&held, request.prompt_tokens - 1, false);
    assert!(pool.admit(&mut held, hit, request.prompt_tokens, 0, 0));
    pool.register(&mut held, request.prompt_tokens);
    held
}

fn hit_tokens(pool: &mut BlockPool, request: &NewRequest) -> u32 {
    let held = pool.nothing_for(request);
    let hit = pool.find(&held, request.prompt_tokens - 1, false);
    pool.hit_tokens(hit)
}

#[test]
fn blocks_are_shared_as_far_as_their_last_token_is() {
    let mut pool = BlockPool::new(100, BLOCK, true);
    serve(&mut pool, &sharing(0, 40, &[(1, 10), (2, 22)]));
    assert_eq!(hit_tokens(&mut pool, &sharing(1, 40, &[(1, 10), (2, 22)])), 20, "the block of token 22 is its own");
    assert_eq!(hit_tokens(&mut pool, &sharing(2, 40, &[(1, 10), (3, 22)])), 8, "token 12 is another's");
    assert_eq!(hit_tokens(&mut pool, &sharing(3, 40, &[(4, 10), (2, 22)])), 0, "a head is known only as a whole");
    assert_eq!(hit_tokens(&mut pool, &sharing(4, 8, &[(1, 10)])), 4, "the last token is always computed");
    assert_eq!(hit_tokens(&mut pool, &NewRequest::plain(RequestId(5), 40, 1)), 0);
    let with_adapter = NewRequest { adapter: Some(Adapter(0)), ..sharing(6, 40, &[(1, 10)]) };
    assert_eq!(hit_tokens(&mut pool, &with_adapter), 0);
}

#[test]
fn a_hit_takes_free_blocks_only_where_nobody_holds_them() {
    let mut pool = BlockPool::new(11, BLOCK, true);
    let request = |id| sharing(id, 16, &[(1, 12)]);
    let mut first = serve(&mut pool, &request(0));
    let mut second = serve(&mut pool, &request(1));
    assert_eq!((pool.free(), pool.cached()), (5, 0), "three blocks are shared");
    pool.release(&mut first);
    assert_eq!((pool.free(), pool.cached()), (6, 1));
    pool.release(&mut second);
    assert_eq!((pool.free(), pool.cached()), (10, 5));
    let third = serve(&mut pool, &request(2));
    assert_eq!((third.blocks(), pool.free(), pool.cached()), (4, 6, 2));
}

#[test]
fn the_block_let_go_first_is_evicted_first_and_a_tail_before_its_head() {
    let mut pool = BlockPool::new(7, BLOCK, true);
    let (first, second) = (sharing(0, 8, &[(1, 8)]), sharing(1, 9, &[(2, 8)]));
    let mut held = [serve(&mut pool, &first), serve(&mut pool, &second)];
    for held in &mut held {
        pool.release(held);
    }
    assert_eq!((pool.free(), pool.cached()), (6, 4));
    // Two blocks hold nothing known and go first; the third is the tail of the first request.
    let mut third = serve(&mut pool, &NewRequest::plain(RequestId(2), 12, 1));
    let longer = |content| sharing(3, 20, &[(content, 8)]);
    assert_eq!((hit_tokens(&mut pool, &longer(1)), hit_tokens(&mut pool, &longer(2))), (4, 8));
    assert!(pool.grow(&mut third, 16));
    assert_eq!((hit_tokens(&mut pool, &longer(1)), hit_tokens(&mut pool, &longer(2))), (0, 8));
}

#[test]
fn a_drafter_of_hidden_states_recomputes_the_last_block_of_a_hit() {
    let mut pool = BlockPool::new(11, BLOCK, true);
    let mut held = serve(&mut pool, &sharing(0, 16, &[(1, 12)]));
    pool.release(&mut held);
    let held = pool.nothing_for(&sharing(1, 16, &[(1, 12)]));
    assert_eq!(pool.find(&held, 15, true), Hit { blocks: 2, evictable: 2 });
    assert_eq!(pool.find(&held, 3, true), Hit::default());
}

/// The pool as the engine has it: one free list of numbered blocks, a name on each full one.
struct Plain {
    free: VecDeque<usize>,
    /// By block: the tokens from the start of the request to the end of the block.
    name: Vec<Option<Vec<u64>>>,
    holders: Vec<u32>,
    /// Named blocks, oldest name first.
    named: Vec<usize>,
}

impl Plain {
    fn new(usable: usize) -> Self {
        let (name, holders) = (vec![None; usable], vec![0; usable]);
        Self { free: (0..usable).collect(), name, holders, named: Vec::new() }
    }

    fn find(&self, tokens: &[u64], most_tokens: usize) -> Vec<usize> {
        let name = |block: usize| &tokens[..(block + 1) * BLOCK as usize];
        (0..most_tokens / BLOCK as usize)
            .map_while(|block| {
                self.named.iter().copied().find(|&number| self.name[number].as_deref() == Some(name(block)))
            })
            .collect()
    }

    fn hold(&mut self, block: usize) {
        self.free.retain(|&free| free != block);
        self.holders[block] += 1;
    }

    fn take(&mut self) -> usize {
        let block = self.free.pop_front().expect("a free block");
        self.name[block] = None;
        self.named.retain(|&named| named != block);
        self.holders[block] = 1;
        block
    }

    fn register(&mut self, held: &[usize], tokens: &[u64], known: usize) {
        for block in 0..known / BLOCK as usize {
            if self.name[held[block]].is_none() {
                self.name[held[block]] = Some(tokens[..(block + 1) * BLOCK as usize].to_vec());
                self.named.push(held[block]);
            }
        }
    }

    fn release(&mut self, held: &mut Vec<usize>) {
        for block in held.drain(..).rev() {
            self.holders[block] -= 1;
            match (self.holders[block], &self.name[block]) {
                (0, None) => self.free.push_front(block),
                (0, Some(_)) => self.free.push_back(block),
                _ => {}
            }
        }
    }
}

/// A request of the random walk, in both pools.
struct Walker {
    request: NewRequest,
    tokens: Vec<u64>,
    held: Held,
    plain: Vec<usize>,
    computed: u32,
}

impl Walker {
    /// A request whose head follows a tree of contents: `branch[n]` is the way taken where segment `n` begins.
    fn new(pool: &BlockPool, id: u32, prompt_tokens: u32, branch: &[u8], adapter: Option<u32>) -> Self {
        let mut content = 1;
        let mut segments = Vec::new();
        for (depth, &way) in branch.iter().enumerate() {
            content = content * 4 + u64::from(way);
            segments.push((content, (7 * (depth as u32 + 1)).min(prompt_tokens)));
            if segments.last().is_some_and(|&(_, end)| end == prompt_tokens) {
                break;
            }
        }
        let request = NewRequest { adapter: adapter.map(Adapter), ..sharing(id, prompt_tokens, &segments) };
        let token = |place: u32| match segments.iter().find(|&&(_, end)| place < end) {
            Some(&(content, _)) => content << 32 | u64::from(place),
            None => 1 << 63 | u64::from(id) << 32 | u64::from(place),
        };
        let salt = adapter.map_or(0, |adapter| u64::from(adapter + 1) << 56);
        let tokens = (0..200).map(|place| token(place) ^ salt).collect();
        Self { held: pool.nothing_for(&request), request, tokens, plain: Vec::new(), computed: 0 }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Random admissions, growths and releases, in the pool and in the engine's own form of it.
    #[test]
    fn the_pool_agrees_with_a_plain_free_list(
        usable in 4u32..24,
        requests in prop::collection::vec(
            (1u32..40, prop::collection::vec(0u8..2, 0..4), prop::option::weighted(0.3, 0u32..2)), 2..8),
        moves in prop::collection::vec((any::<prop::sample::Index>(), 0u8..4, 1u32..9, 0u32..3), 1..120),
    ) {
        let mut pool = BlockPool::new(usable + 1, BLOCK, true);
        let mut plain = Plain::new(usable as usize);
        let mut walkers: Vec<Walker> = requests
            .iter()
            .enumerate()
            .map(|(id, (prompt, branch, adapter))| Walker::new(&pool, id as u32, *prompt, branch, *adapter))
            .collect();
        for (index, what, tokens, keep_free) in moves {
            let walker = index.get_mut(&mut walkers);
            if walker.plain.is_empty() {
                let known = walker.request.prompt_tokens;
                let hit = pool.find(&walker.held, known - 1, false);
                let found = plain.find(&walker.tokens, known as usize - 1);
                let evictable = found.iter().filter(|&&block| plain.holders[block] == 0).count() as u32;
                prop_assert_eq!(hit, Hit { blocks: found.len() as u32, evictable });
                let total = (pool.hit_tokens(hit) + tokens).min(known);
                let needed = total.div_ceil(BLOCK) - hit.blocks;
                let fits = needed + evictable + keep_free <= plain.free.len() as u32;
                prop_assert_eq!(pool.admit(&mut walker.held, hit, total, 0, keep_free), fits);
                if fits {
                    for &block in &found {
                        plain.hold(block);
                    }
                    walker.plain = found;
                    walker.plain.extend((0..needed).map(|_| plain.take()));
                    walker.computed = total;
                }
            } else if what > 0 {
                let total = (walker.computed + tokens).min(200);
                let needed = total.div_ceil(BLOCK) - walker.plain.len() as u32;
                let fits = needed <= plain.free.len() as u32;
                prop_assert_eq!(pool.grow(&mut walker.held, total), fits);
                if fits {
                    walker.plain.extend((0..needed).map(|_| plain.take()));
                    walker.computed = total;
                }
            } else {
                pool.release_for_later(&mut walker.held);
                plain.release(&mut walker.plain);
                walker.computed = 0;
            }
            pool.register(&mut walker.held, walker.computed);
            plain.register(&walker.plain, &walker.tokens, walker.computed as usize);
            prop_assert_eq!(walker.held.blocks() as usize, walker.plain.len());
            prop_assert_eq!(pool.free() as usize, plain.free.len());
            let cached = plain.free.iter().filter(|&&block| plain.name[block].is_some()).count();
            prop_assert_eq!(pool.cached() as usize, cached);
            let held = plain.holders.iter().filter(|&&holders| holders > 0).count() as u32;
            prop_assert_eq!(held + pool.free(), pool.usable(), "law 5");
            prop_assert_eq!(Held::distinct_blocks(walkers.iter().map(|walker| &walker.held)), held);
        }
    }
}

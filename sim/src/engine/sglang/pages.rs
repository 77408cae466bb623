//! The KV pool in pages, with the prefix cache.
//!
//! The engine keeps prefixes in a radix tree over tokens, which its specification does not pin. This is a plain model of
//! it: a node holds whole pages of one segment of a [`SharedPrefix`], or of what only one request has; a prompt hits the
//! nodes of its segments from the root on, up to its own end of each. Where a hit or an insertion ends within a node, the
//! node is split there, so that a request stands on exactly the pages it hit. Nodes that no running request stands on are
//! evicted as a whole, least recently used first, leaves before what they grew from. It differs from the engine's tree in
//! one way: requests that nobody told to share a prefix never do.

use std::collections::{BTreeSet, HashMap};

use crate::engine::request::{RequestId, SharedPrefix};

/// The node that every prefix starts from.
const ROOT: u32 = 0;

/// One server's KV pages. Free, cached and owned pages add up to [`usable`](Self::usable) at all times (law 5).
#[derive(Clone, Debug)]
pub struct PagePool {
    page_size: u32,
    usable: u32,
    /// Pages that hold nothing.
    free: u32,
    /// Pages in the cache.
    cached: u32,
    /// Cached pages that no request stands on.
    evictable: u32,
    /// Pages that requests have for themselves.
    owned: u32,
    /// Prefixes are cached.
    caching: bool,
    nodes: Vec<Node>,
    vacant: Vec<u32>,
    children: HashMap<(u32, Key), u32>,
    /// Nodes that can be evicted next, by last use.
    leaves: BTreeSet<(u64, u32)>,
    clock: u64,
}

/// Pages of one stretch of a prompt behind those of its parent.
#[derive(Clone, Debug)]
struct Node {
    parent: u32,
    key: Key,
    pages: u32,
    children: u32,
    /// Requests that stand on this node or on one that grew from it.
    locks: u32,
    last_use: u64,
}

/// What a stretch holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// A shared segment, by its content.
    Shared(u64),
    /// What only this request has.
    Own(RequestId),
}

/// The pages that one request holds. Only the pool changes it, so that the counts cannot drift apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The deepest cached node it stands on.
    node: u32,
    /// Pages of its prefix in the cache.
    cached: u32,
    /// Pages of its own.
    own: u32,
}

/// A cached prefix. It holds until the pool changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hit {
    /// The deepest node that is hit.
    node: u32,
    /// Pages of that node that are hit, if not all.
    part: Option<u32>,
    pages: u32,
}

/// A request's stretches from the start of its prompt: key, and the page behind its last whole one.
fn stretches(id: RequestId, shared: &SharedPrefix, page_size: u32) -> impl Iterator<Item = (Key, u32)> + '_ {
    let segments =
        shared.segments().iter().map(move |segment| (Key::Shared(segment.content), segment.end_tokens / page_size));
    segments.chain([(Key::Own(id), u32::MAX)])
}

impl PagePool {
    /// An empty pool of `pages` pages of `page_size` tokens.
    ///
    /// # Panics
    /// If `page_size` is 0, which no validated option is.
    #[must_use]
    pub fn new(pages: u32, page_size: u32, caching: bool) -> Self {
        assert!(page_size > 0, "page_size is at least 1");
        let root = Node { parent: ROOT, key: Key::Shared(0), pages: 0, children: 0, locks: 1, last_use: 0 };
        Self {
            page_size,
            usable: pages,
            free: pages,
            cached: 0,
            evictable: 0,
            owned: 0,
            caching,
            nodes: vec![root],
            vacant: Vec::new(),
            children: HashMap::new(),
            leaves: BTreeSet::new(),
            clock: 0,
        }
    }

    /// Pages of the pool.
    #[must_use]
    pub fn usable(&self) -> u32 {
        self.usable
    }

    /// Pages that a request can have: free ones, and cached ones that nobody stands on.
    #[must_use]
    pub fn available(&self) -> u32 {
        self.free + self.evictable
    }

    /// The same in tokens.
    #[must_use]
    pub fn available_tokens(&self) -> i64 {
        i64::from(self.available()) * i64::from(self.page_size)
    }

    /// Tokens per page.
    #[must_use]
    pub fn page_size(&self) -> u32 {
        self.page_size
    }

    /// Pages that a request lacks to hold `tokens` tokens.
    #[must_use]
    pub fn missing(&self, held: &Held, tokens: u32) -> u32 {
        tokens.div_ceil(self.page_size).saturating_sub(held.pages())
    }

    /// Takes the pages that `held` lacks to hold `tokens` tokens, from the cache if need be. `false`, and nothing
    /// changes, if there are not enough.
    #[must_use]
    pub fn grow(&mut self, held: &mut Held, tokens: u32) -> bool {
        let missing = self.missing(held, tokens);
        if missing > self.available() {
            return false;
        }
        self.take_unnamed(missing);
        held.own += missing;
        true
    }

    /// Takes so many pages, from the cache if need be, for requests that will say later what they hold
    /// ([`hold_for`](Self::hold_for)). There are as many.
    ///
    /// All at once take what they would one by one: nodes go in the same order until enough pages are free.
    #[inline]
    pub fn take_unnamed(&mut self, pages: u32) {
        self.evict_for(pages);
        self.free -= pages;
        self.owned += pages;
        self.check_law_5();
    }

    /// Says what a request holds of the pages taken for it: those of `tokens` tokens.
    pub fn hold_for(&self, held: &mut Held, tokens: u32) {
        held.own = tokens.div_ceil(self.page_size) - held.cached;
    }

    /// The cached pages that a prompt of `tokens` tokens starts with. Its last token is always computed.
    #[must_use]
    pub fn lookup(&self, id: RequestId, shared: &SharedPrefix, tokens: u32) -> Hit {
        let most = tokens.saturating_sub(1) / self.page_size;
        let mut hit = Hit::default();
        if !self.caching {
            return hit;
        }
        for (key, end) in stretches(id, shared, self.page_size) {
            let end = end.min(most);
            while hit.pages < end {
                let Some(&node) = self.children.get(&(hit.node, key)) else { return hit };
                let (pages, left) = (self.nodes[node as usize].pages, end - hit.pages);
                let part = (left < pages).then_some(left);
                hit = Hit { node, part, pages: hit.pages + part.unwrap_or(pages) };
                if part.is_some() {
                    return hit;
                }
            }
        }
        hit
    }

    /// Makes a request that holds nothing stand on a hit, which [`lookup`](Self::lookup) has just found.
    pub fn enter(&mut self, held: &mut Held, hit: Hit) {
        debug_assert_eq!(*held, Held::default(), "it holds nothing");
        let node = match hit.part {
            Some(pages) => self.split(hit.node, pages),
            None => hit.node,
        };
        self.lock(node);
        *held = Held { node, cached: hit.pages, own: 0 };
    }

    /// Puts the whole pages of a request's first `tokens` tokens into the cache, where it keeps standing on them. Pages
    /// that the cache holds already are given back.
    pub fn cache(&mut self, held: &mut Held, id: RequestId, shared: &SharedPrefix, tokens: u32) {
        let whole = (tokens / self.page_size).min(held.pages());
        if !self.caching || whole <= held.cached {
            return;
        }
        let (mut node, mut pages, mut given) = (ROOT, 0, 0);
        for (key, end) in stretches(id, shared, self.page_size) {
            let end = end.min(whole);
            while pages < end {
                let wanted = end - pages;
                if let Some(&child) = self.children.get(&(node, key)) {
                    let present = self.nodes[child as usize].pages;
                    node = if wanted < present { self.split(child, wanted) } else { child };
                    pages += wanted.min(present);
                } else {
                    node = self.insert(node, key, wanted);
                    pages = end;
                    given += wanted;
                }
            }
        }
        self.lock(node);
        self.unlock(held.node);
        let moved = whole - held.cached;
        debug_assert!(given <= moved, "the cache has what it stands on");
        self.owned -= moved;
        self.free += moved - given;
        *held = Held { node, cached: whole, own: held.own - moved };
        self.check_law_5();
    }

    /// Takes back what a request holds; its cached pages stay in the cache.
    pub fn release(&mut self, held: &mut Held) {
        self.unlock(held.node);
        self.owned -= held.own;
        self.free += held.own;
        *held = Held::default();
        self.check_law_5();
    }

    /// Every page is free, cached or some request's own (law 5).
    fn check_law_5(&self) {
        debug_assert_eq!(
            u64::from(self.free) + u64::from(self.cached) + u64::from(self.owned),
            u64::from(self.usable),
            "pages do not add up"
        );
        debug_assert!(self.evictable <= self.cached, "only cached pages can be evicted");
    }

    fn place(&mut self, node: Node) -> u32 {
        if let Some(vacant) = self.vacant.pop() {
            self.nodes[vacant as usize] = node;
            return vacant;
        }
        self.nodes.push(node);
        (self.nodes.len() - 1) as u32
    }

    /// Adds a child of `pages` pages, on which nobody stands yet.
    fn insert(&mut self, parent: u32, key: Key, pages: u32) -> u32 {
        let child = self.place(Node { parent, key, pages, children: 0, locks: 0, last_use: self.clock });
        self.children.insert((parent, key), child);
        self.set_leaf(parent, false);
        self.nodes[parent as usize].children += 1;
        self.set_leaf(child, true);
        self.cached += pages;
        self.evictable += pages;
        child
    }

    /// Cuts a node behind its first `pages` pages; the node of those. Whoever stands on the node stands on both.
    fn split(&mut self, node: u32, pages: u32) -> u32 {
        let lower = &mut self.nodes[node as usize];
        debug_assert!(0 < pages && pages < lower.pages, "both parts hold pages");
        lower.pages -= pages;
        let upper = Node { pages, children: 1, ..lower.clone() };
        let Node { parent, key, .. } = upper;
        let upper = self.place(upper);
        self.nodes[node as usize].parent = upper;
        self.children.insert((parent, key), upper);
        self.children.insert((upper, key), node);
        upper
    }

    /// Locks a node and all it grew from, and counts that as use.
    fn lock(&mut self, mut node: u32) {
        self.clock += 1;
        while node != ROOT {
            self.set_leaf(node, false);
            let entry = &mut self.nodes[node as usize];
            if entry.locks == 0 {
                self.evictable -= entry.pages;
            }
            entry.locks += 1;
            entry.last_use = self.clock;
            node = entry.parent;
        }
    }

    fn unlock(&mut self, mut node: u32) {
        while node != ROOT {
            let entry = &mut self.nodes[node as usize];
            entry.locks -= 1;
            if entry.locks == 0 {
                self.evictable += entry.pages;
            }
            let parent = entry.parent;
            self.set_leaf(node, true);
            node = parent;
        }
    }

    /// Notes whether a node is the next to go; it is not while somebody stands on it or something grew from it.
    fn set_leaf(&mut self, node: u32, leaf: bool) {
        let entry = &self.nodes[node as usize];
        if leaf && node != ROOT && entry.locks == 0 && entry.children == 0 {
            self.leaves.insert((entry.last_use, node));
        } else {
            self.leaves.remove(&(entry.last_use, node));
        }
    }

    /// Evicts nodes until `pages` pages are free.
    #[inline]
    fn evict_for(&mut self, pages: u32) {
        while self.free < pages {
            let (_, node) = self.leaves.pop_first().expect("there are evictable pages, so there is a leaf");
            let Node { parent, key, pages: freed, .. } = self.nodes[node as usize];
            self.children.remove(&(parent, key));
            self.vacant.push(node);
            self.free += freed;
            self.cached -= freed;
            self.evictable -= freed;
            self.nodes[parent as usize].children -= 1;
            self.set_leaf(parent, true);
        }
    }
}

impl Held {
    /// Pages held, shared ones included.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.cached + self.own
    }
}

impl Hit {
    /// Cached pages.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.pages
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::engine::request::Segment;

    fn shared(ends: &[(u64, u32)]) -> SharedPrefix {
        let segments: Vec<Segment> =
            ends.iter().map(|&(content, end_tokens)| Segment { content, end_tokens }).collect();
        SharedPrefix::new(&segments)
    }

    /// Computes a whole prompt and leaves it in the cache.
    fn serve(pool: &mut PagePool, id: u32, prefix: &SharedPrefix, tokens: u32) -> u32 {
        let mut held = Held::default();
        let hit = pool.lookup(RequestId(id), prefix, tokens);
        pool.enter(&mut held, hit);
        assert!(pool.grow(&mut held, tokens), "the pool has room");
        pool.cache(&mut held, RequestId(id), prefix, tokens);
        pool.release(&mut held);
        hit.pages()
    }

    #[test]
    fn prompts_share_the_whole_pages_of_common_segments() {
        let mut pool = PagePool::new(100, 16, true);
        assert_eq!(serve(&mut pool, 0, &shared(&[(1, 100), (2, 300)]), 320), 0);
        assert_eq!(serve(&mut pool, 1, &shared(&[(1, 100), (3, 300)]), 320), 6, "100 tokens are 6 whole pages");
        assert_eq!(serve(&mut pool, 2, &shared(&[(1, 100), (2, 300)]), 400), 18);
        assert_eq!(serve(&mut pool, 3, &shared(&[(4, 100)]), 200), 0);
        assert_eq!(pool.available(), pool.usable());
    }

    #[test]
    fn pages_taken_at_once_are_those_taken_one_by_one() {
        let mut pool = PagePool::new(60, 4, true);
        for (id, content) in [(0, 1), (1, 2), (2, 1), (3, 3)] {
            serve(&mut pool, id, &shared(&[(content, 20), (content + 10, 30 + id)]), 40 + 3 * id);
        }
        let state = |pool: &PagePool| {
            let leaves: Vec<(u64, u32)> = pool.leaves.iter().copied().collect();
            (pool.free, pool.cached, pool.evictable, pool.owned, pool.vacant.clone(), leaves)
        };
        assert!(pool.free < pool.available(), "some have to be evicted");
        for pages in 0..=pool.available() {
            let (mut at_once, mut one_by_one) = (pool.clone(), pool.clone());
            at_once.take_unnamed(pages);
            let mut held = vec![Held::default(); pages as usize];
            assert!(held.iter_mut().all(|held| one_by_one.grow(held, 1)));
            assert_eq!(state(&at_once), state(&one_by_one), "{pages} pages");
            for held in &mut held {
                let mut named = Held::default();
                at_once.hold_for(&mut named, 1);
                assert_eq!(named, *held);
            }
        }
    }

    #[test]
    fn the_last_token_is_computed_even_if_all_of_it_is_cached() {
        let mut pool = PagePool::new(100, 16, true);
        let prefix = shared(&[(1, 64)]);
        serve(&mut pool, 0, &prefix, 64);
        assert_eq!(serve(&mut pool, 1, &prefix, 64), 3);
    }

    #[test]
    fn a_hit_ends_where_the_prompt_or_its_shared_part_ends() {
        let mut pool = PagePool::new(100, 1, true);
        serve(&mut pool, 0, &shared(&[(1, 60)]), 61);
        let hit = |pool: &PagePool, end, tokens| pool.lookup(RequestId(9), &shared(&[(1, end)]), tokens).pages();
        assert_eq!([hit(&pool, 60, 61), hit(&pool, 20, 20), hit(&pool, 20, 50)], [60, 19, 20]);
        let mut held = Held::default();
        let hit = pool.lookup(RequestId(1), &shared(&[(1, 20)]), 21);
        pool.enter(&mut held, hit);
        assert_eq!((hit.pages(), pool.available()), (20, 80), "nobody stands on the other 40");
        assert!(pool.grow(&mut held, 100), "so they can be evicted");
        assert_eq!(pool.lookup(RequestId(2), &shared(&[(1, 60)]), 61).pages(), 20);
    }

    #[test]
    fn the_least_recently_used_leaf_goes_first_and_nobody_loses_what_it_stands_on() {
        let mut pool = PagePool::new(10, 1, true);
        let (old, new) = (shared(&[(1, 4)]), shared(&[(2, 4)]));
        serve(&mut pool, 0, &old, 5);
        serve(&mut pool, 1, &new, 5);
        assert_eq!((pool.free, pool.available()), (0, 10));
        serve(&mut pool, 2, &old, 5);
        let mut held = Held::default();
        let hit = pool.lookup(RequestId(3), &old, 6);
        pool.enter(&mut held, hit);
        assert_eq!((hit.pages(), pool.available()), (4, 6));
        assert!(pool.grow(&mut held, 9));
        assert_eq!(pool.lookup(RequestId(4), &new, 5).pages(), 0, "the colder prefix went");
        assert!(!pool.grow(&mut held, 11) && pool.grow(&mut held, 10));
        pool.release(&mut held);
        assert_eq!(pool.lookup(RequestId(4), &old, 5).pages(), 4);
    }

    #[test]
    fn without_the_cache_nothing_stays() {
        let mut pool = PagePool::new(10, 1, false);
        let prefix = shared(&[(1, 4)]);
        serve(&mut pool, 0, &prefix, 5);
        assert_eq!((pool.free, serve(&mut pool, 1, &prefix, 5)), (10, 0));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Enter { prefix: u8, end: u32, tokens: u32 },
        Grow { who: usize, tokens: u32 },
        Cache { who: usize },
        Release { who: usize },
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0_u8..4, 1_u32..40, 1_u32..40).prop_map(|(prefix, end, tokens)| Step::Enter { prefix, end, tokens }),
            (0_usize..6, 1_u32..40).prop_map(|(who, tokens)| Step::Grow { who, tokens }),
            (0_usize..6).prop_map(|who| Step::Cache { who }),
            (0_usize..6).prop_map(|who| Step::Release { who }),
        ]
    }

    /// All counts from the nodes and holders themselves.
    fn recount(pool: &PagePool, holders: &[(RequestId, SharedPrefix, Held)]) -> Result<(), TestCaseError> {
        let live: Vec<u32> = pool.children.values().copied().collect();
        let of = |node: u32| &pool.nodes[node as usize];
        let cached: u32 = live.iter().map(|&node| of(node).pages).sum();
        let own: u32 = holders.iter().map(|(_, _, held)| held.own).sum();
        prop_assert_eq!(pool.free + cached + own, pool.usable, "law 5");
        for &node in &live {
            let stands = |held: &Held| {
                let mut at = held.node;
                while at != ROOT && at != node {
                    at = of(at).parent;
                }
                at == node
            };
            let locks = holders.iter().filter(|(_, _, held)| stands(held)).count() as u32;
            let children = live.iter().filter(|&&child| of(child).parent == node).count() as u32;
            prop_assert_eq!((of(node).locks, of(node).children), (locks, children));
            let leaf = pool.leaves.contains(&(of(node).last_use, node));
            prop_assert_eq!(leaf, locks == 0 && children == 0);
            prop_assert!(of(node).pages > 0);
        }
        for (_, _, held) in holders {
            let (mut at, mut pages) = (held.node, 0);
            while at != ROOT {
                (pages, at) = (pages + of(at).pages, of(at).parent);
            }
            prop_assert_eq!(held.cached, pages, "a request stands on what it hit and no more");
        }
        prop_assert_eq!((pool.cached, pool.owned), (cached, own));
        let evictable: u32 = live.iter().filter(|&&node| of(node).locks == 0).map(|&node| of(node).pages).sum();
        prop_assert_eq!((pool.evictable, pool.leaves.len() <= live.len()), (evictable, true));
        Ok(())
    }

    use proptest::test_runner::TestCaseError;

    /// The segments of a prompt that shares no more than `end` tokens, as short prompts do.
    fn cut(segments: &[(u64, u32)], end: u32) -> SharedPrefix {
        let starts = [0].into_iter().chain(segments.iter().map(|&(_, end_tokens)| end_tokens));
        let within = segments.iter().zip(starts).filter(|&(_, start)| start < end);
        let cut: Vec<(u64, u32)> = within.map(|(&(content, own), _)| (content, own.min(end))).collect();
        shared(&cut)
    }

    proptest! {
        #[test]
        fn pages_add_up_after_every_step(
            page_size in 1_u32..5,
            pages in 1_u32..60,
            steps in prop::collection::vec(step(), 1..60),
        ) {
            let mut pool = PagePool::new(pages, page_size, true);
            let prefixes = [vec![], vec![(1, 7)], vec![(1, 7), (2, 20)], vec![(1, 7), (3, 30)]];
            let mut holders: Vec<(RequestId, SharedPrefix, Held)> = Vec::new();
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Enter { prefix, end, tokens } => {
                        let id = RequestId(number as u32);
                        let prefix = cut(&prefixes[prefix as usize], end);
                        let mut held = Held::default();
                        let hit = pool.lookup(id, &prefix, tokens);
                        prop_assert!(hit.pages() * page_size < tokens);
                        let end = prefix.segments().last().map_or(0, |segment| segment.end_tokens);
                        prop_assert!(hit.pages() * page_size <= end, "nothing else of it can be cached");
                        pool.enter(&mut held, hit);
                        holders.push((id, prefix, held));
                    }
                    Step::Grow { who, tokens } => if let Some((_, _, held)) = holders.get_mut(who) {
                        let (before, available) = (held.pages(), pool.available());
                        let missing = pool.missing(held, tokens);
                        prop_assert_eq!(pool.grow(held, tokens), missing <= available);
                        prop_assert!(held.pages() == before || held.pages() == tokens.div_ceil(page_size));
                    },
                    Step::Cache { who } => if let Some((id, prefix, held)) = holders.get_mut(who) {
                        let before = held.pages();
                        pool.cache(held, *id, prefix, before * page_size);
                        prop_assert_eq!(held.pages(), before);
                    },
                    Step::Release { who } => if who < holders.len() {
                        pool.release(&mut holders.remove(who).2);
                    },
                }
                recount(&pool, &holders)?;
            }
        }
    }
}

//! Which prompts begin alike.

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

use super::random::{Streams, fnv1a64};
use super::shares::Shares;
use crate::engine::request::Segment;

/// Groups of requests whose prompts begin alike; what their shares leave of the whole shares nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct PrefixGroups {
    /// The groups.
    pub groups: Vec<PrefixGroup>,
    /// Share of requests in each.
    pub shares: Shares,
}

/// One group: a tree of prefixes, such as system prompts with tenants below each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixGroup {
    /// From the start of the prompt on; never empty.
    pub levels: Vec<PrefixLevel>,
}

/// One level of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixLevel {
    /// Its tokens, behind those of the level above; at least 1.
    pub tokens: u32,
    /// How many there are below each of the level above, all equally likely; at least 1.
    pub count: u32,
}

impl PrefixGroups {
    /// Whether another seed gives other prefixes.
    pub(super) fn draws(&self) -> bool {
        let mut levels = self.groups.iter().flat_map(|group| &group.levels);
        self.shares.draws() || levels.any(|level| level.count > 1)
    }
}

/// Gives prefixes, one request after the other.
pub(super) struct PrefixSampler {
    groups: PrefixGroups,
    random: Xoshiro256PlusPlus,
}

impl PrefixSampler {
    pub(super) fn start(groups: PrefixGroups, streams: Streams) -> Self {
        Self { groups, random: streams.stream("prefixes") }
    }

    /// The segments of the next request. A prompt that ends inside a prefix has as much of it as it holds.
    pub(super) fn next(&mut self, prompt_tokens: u32) -> Vec<Segment> {
        let Some(group) = self.groups.shares.pick(self.random.random()) else { return Vec::new() };
        let mut path = vec![group as u32];
        let mut end_tokens = 0;
        let mut segments = Vec::new();
        for level in &self.groups.groups[group].levels {
            path.push(self.random.random_range(0..level.count));
            if end_tokens < prompt_tokens {
                end_tokens = prompt_tokens.min(end_tokens.saturating_add(level.tokens));
                segments.push(Segment { content: content(&path), end_tokens });
            }
        }
        segments
    }
}

/// Names what a path through the tree leads to.
fn content(path: &[u32]) -> u64 {
    fnv1a64(path.iter().flat_map(|step| step.to_le_bytes()))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn tree(shares: &[f64]) -> PrefixGroups {
        let level = |tokens, count| PrefixLevel { tokens, count };
        let groups =
            vec![PrefixGroup { levels: vec![level(100, 2), level(50, 3)] }, PrefixGroup { levels: vec![level(10, 1)] }];
        PrefixGroups { groups, shares: Shares::new(shares) }
    }

    fn draw(groups: &PrefixGroups, prompt_tokens: u32, count: usize) -> Vec<Vec<Segment>> {
        let mut sampler = PrefixSampler::start(groups.clone(), Streams::new(7));
        (0..count).map(|_| sampler.next(prompt_tokens)).collect()
    }

    #[test]
    fn a_tree_has_as_many_contents_as_leaves_and_each_below_one_parent() {
        let drawn = draw(&tree(&[0.6, 0.3]), 1000, 20_000);
        let mut parents: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for segments in drawn.iter().filter(|segments| segments.len() == 2) {
            assert_eq!([segments[0].end_tokens, segments[1].end_tokens], [100, 150]);
            parents.entry(segments[0].content).or_default().insert(segments[1].content);
        }
        assert_eq!(parents.values().map(BTreeSet::len).collect::<Vec<_>>(), [3, 3]);
        let leaves: BTreeSet<u64> = parents.values().flatten().copied().collect();
        assert_eq!(leaves.len(), 6, "no two parents have a child in common");
        for (length, share) in [(2, 0.6), (1, 0.3), (0, 0.1)] {
            let found = drawn.iter().filter(|segments| segments.len() == length).count() as f64 / 20_000.0;
            assert!((found - share).abs() < 0.01, "{length}: {found}");
        }
    }

    #[test]
    fn short_prompts_have_what_they_hold_of_the_same_prefixes() {
        let groups = tree(&[1.0]);
        let (long, short, shorter) = (draw(&groups, 150, 50), draw(&groups, 120, 50), draw(&groups, 100, 50));
        for ((long, short), shorter) in long.iter().zip(&short).zip(&shorter) {
            assert_eq!([short[0], short[1]], [long[0], Segment { end_tokens: 120, ..long[1] }]);
            assert_eq!(shorter[..], long[..1]);
        }
        assert_eq!(draw(&groups, 1, 1)[0][0].end_tokens, 1);
    }
}

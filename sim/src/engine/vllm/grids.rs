//! The grids of vLLM main, which keeps token counts of prefill graphs and request counts of decode graphs apart
//! (specification section 6b).

use std::collections::BTreeSet;

/// One uniform decode graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DecodeShape {
    /// Tokens per request.
    pub query_len: u32,
    /// Requests.
    pub requests: u32,
}

/// The widest batch that decodes with one query length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryLimit {
    /// Tokens per request, at least 1.
    pub query_len: u32,
    /// Most requests of such a batch.
    pub requests_max: u32,
}

/// Token counts of prefill graphs up to `limit`; with `dense_head` every count up to 32 below it.
#[must_use]
pub fn prefill(limit: u32, dense_head: bool) -> Vec<u32> {
    let mut grid: BTreeSet<u32> =
        walk(limit, |tokens| tokens.min((tokens / 4.0).max(8.0)).min(0.07 * tokens.max(4096.0)));
    if dense_head {
        grid.extend(1..limit.min(33));
    }
    grid.into_iter().collect()
}

/// Request counts of uniform decode graphs up to `limit`.
#[must_use]
pub fn decode(limit: u32) -> Vec<u32> {
    walk(limit, |requests| 0.65 * requests.powf(2.0 / 3.0)).into_iter().collect()
}

/// Token counts of the decode graphs of adaptive verification up to `limit`; with `dense_head` every count up to 32.
#[must_use]
pub fn varlen_decode(limit: u32, dense_head: bool) -> Vec<u32> {
    let mut grid: BTreeSet<u32> = if dense_head { (1..=32).collect() } else { BTreeSet::from([1, 2, 4]) };
    let doublings = (3..10).map(|bit| 1_u32 << bit);
    grid.extend(doublings.flat_map(|low| (0..=4).map(move |quarter| low + quarter * (low / 4))));
    grid.extend((1024..4096).step_by(128));
    grid.extend((4096..limit.max(4096)).step_by(256));
    grid.retain(|&tokens| tokens < limit);
    grid.extend((limit > 0).then_some(limit));
    grid.into_iter().collect()
}

/// The uniform decode graphs for a list of request counts: per query length as far as its batches and `tokens_max` go,
/// the first count beyond captured at that limit. Ascending by query length, then requests.
#[must_use]
pub fn decode_shapes(requests: &[u32], lengths: &[QueryLimit], tokens_max: u32) -> Vec<DecodeShape> {
    let counts: BTreeSet<u32> = requests.iter().copied().collect();
    let mut shapes = BTreeSet::new();
    for &QueryLimit { query_len, requests_max } in lengths {
        let limit = requests_max.min(tokens_max.checked_div(query_len).unwrap_or(0));
        if limit < 1 {
            continue;
        }
        let reachable = counts.range(..limit).chain(counts.range(limit..).take(1));
        shapes.extend(reachable.map(|&count| DecodeShape { query_len, requests: count.min(limit) }));
    }
    shapes.into_iter().collect()
}

/// The most tokens of a uniform decode graph: the widest graph on record, within the decode budget if there is one.
#[must_use]
pub fn decode_max_tokens(widest: u32, budget: Option<u32>) -> u32 {
    // A budget of 0 counts as none, as in the engine.
    widest.min(budget.filter(|&budget| budget > 0).unwrap_or(widest))
}

/// From 1 in strides of the largest power of two that `stride` allows, each size a multiple of its stride, up to `limit`
/// and with it.
fn walk(limit: u32, stride: impl Fn(f64) -> f64) -> BTreeSet<u32> {
    let mut sizes = BTreeSet::new();
    let mut size = 1_u64;
    while size < u64::from(limit) {
        sizes.insert(size as u32);
        // IEEE doubles, as in the engine: the grids hang on how they round.
        let stride = 1_u64 << stride(size as f64).max(1.0).log2().floor() as u32;
        size = (size / stride + 1) * stride;
    }
    sizes.extend((limit > 0).then_some(limit));
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_have_the_sizes_their_documentation_gives() {
        assert_eq!(decode(1024).len(), 64);
        assert_eq!(prefill(8192, false).len(), 54);
        assert_eq!(decode(13), [1, 2, 3, 4, 5, 6, 8, 10, 12, 13]);
        assert_eq!(prefill(64, false), [1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64]);
        assert_eq!(prefill(9, true), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(varlen_decode(18, false), [1, 2, 4, 8, 10, 12, 14, 16, 18]);
        for empty in [decode(0), prefill(0, true), varlen_decode(0, true)] {
            assert!(empty.is_empty());
        }
    }

    #[test]
    fn the_first_count_beyond_a_limit_is_captured_at_it() {
        let shapes = |requests: &[u32], limits: &[(u32, u32)], tokens_max| -> Vec<(u32, u32)> {
            let limits: Vec<QueryLimit> =
                limits.iter().map(|&(query_len, requests_max)| QueryLimit { query_len, requests_max }).collect();
            let shapes = decode_shapes(requests, &limits, tokens_max);
            shapes.iter().map(|shape| (shape.requests, shape.query_len)).collect()
        };
        assert_eq!(shapes(&[8, 1, 4, 16], &[(1, 6)], 100), [(1, 1), (4, 1), (6, 1)]);
        assert_eq!(shapes(&[1, 4, 8], &[(5, 64), (2, 8)], 21), [(1, 2), (4, 2), (8, 2), (1, 5), (4, 5)]);
        assert_eq!(shapes(&[1, 4], &[(30, 64), (0, 5)], 21), []);
    }

    #[test]
    fn no_limit_makes_a_grid_that_does_not_end() {
        assert!(prefill(u32::MAX, true).len() < 1_000);
        assert!(decode(u32::MAX).len() < 100_000);
    }
}

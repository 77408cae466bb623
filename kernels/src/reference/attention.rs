//! Attention over the paged cache, one query head at a time.

use crate::bf16::Bf16;

/// Heads of one layer under grouped-query attention: query head h reads key head `h * kv / query`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// Query heads.
    pub query: usize,
    /// Key (and value) heads.
    pub kv: usize,
    /// Elements of a head.
    pub size: usize,
}

impl Heads {
    /// Elements of a row of queries, keys and values.
    pub fn qkv_width(self) -> usize {
        (self.query + 2 * self.kv) * self.size
    }

    /// Elements of a row of queries, or of attention's output.
    pub fn query_width(self) -> usize {
        self.query * self.size
    }

    /// Elements of a row of keys, or of values.
    pub fn kv_width(self) -> usize {
        self.kv * self.size
    }
}

/// The paged cache of one layer, as [`KvWrite`](crate::launch::KvWrite) lays it out:
/// `[block, 2 (keys, values), block_size, kv_heads, head_size]`.
#[derive(Clone, Debug, PartialEq)]
pub struct PagedCache<T> {
    /// Its elements.
    pub elements: Vec<T>,
    /// Heads of the layer.
    pub heads: Heads,
    /// Tokens of a block.
    pub block_size: usize,
}

impl<T: Copy> PagedCache<T> {
    /// `blocks` blocks of `value`.
    pub fn filled(value: T, blocks: usize, heads: Heads, block_size: usize) -> Self {
        Self { elements: vec![value; blocks * 2 * block_size * heads.kv_width()], heads, block_size }
    }

    /// Where the keys (`part` 0) or values (`part` 1) of the token in `slot` begin.
    fn start(&self, slot: usize, part: usize) -> usize {
        let (block, offset) = (slot / self.block_size, slot % self.block_size);
        ((block * 2 + part) * self.block_size + offset) * self.heads.kv_width()
    }

    /// Keys of the token in `slot`.
    pub fn keys(&self, slot: usize) -> &[T] {
        &self.elements[self.start(slot, 0)..][..self.heads.kv_width()]
    }

    /// Values of the token in `slot`.
    pub fn values(&self, slot: usize) -> &[T] {
        &self.elements[self.start(slot, 1)..][..self.heads.kv_width()]
    }

    /// Writes each row's keys and values into its slot; nothing for a negative one.
    pub fn write(&mut self, qkv: &[T], slots: &[i32]) {
        let (width, query) = (self.heads.kv_width(), self.heads.query_width());
        for (row, slot) in qkv.chunks_exact(self.heads.qkv_width()).zip(slots) {
            let Ok(slot) = usize::try_from(*slot) else { continue };
            let (keys, values) = (self.start(slot, 0), self.start(slot, 1));
            self.elements[keys..][..width].copy_from_slice(&row[query..][..width]);
            self.elements[values..][..width].copy_from_slice(&row[query + width..][..width]);
        }
    }
}

impl PagedCache<Bf16> {
    /// The same cache as f64.
    pub fn to_f64(&self) -> PagedCache<f64> {
        PagedCache { elements: crate::bf16::to_f64s(&self.elements), heads: self.heads, block_size: self.block_size }
    }
}

/// Attention of one row: its query heads (a row of queries, keys and values, or its beginning) over the first `context`
/// tokens of the request whose cache blocks are `blocks`. Zeros if there are none.
pub fn attention(cache: &PagedCache<f64>, query: &[f64], blocks: &[i32], context: usize, scale: f64) -> Vec<f64> {
    let heads = cache.heads;
    let slot = |token: usize| {
        let block = usize::try_from(blocks[token / cache.block_size]).expect("blocks of a context are in the table");
        block * cache.block_size + token % cache.block_size
    };
    let mut out = vec![0.0; heads.query_width()];
    for (head, out) in out.chunks_exact_mut(heads.size).enumerate() {
        let query = &query[head * heads.size..][..heads.size];
        let kv = head * heads.kv / heads.query * heads.size;
        let score = |token| {
            let key = &cache.keys(slot(token))[kv..][..heads.size];
            query.iter().zip(key).map(|(query, key)| query * key).sum::<f64>() * scale
        };
        let scores: Vec<f64> = (0..context).map(score).collect();
        let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = scores.iter().map(|score| (score - largest).exp()).collect();
        let total: f64 = weights.iter().sum();
        for (token, weight) in weights.iter().enumerate() {
            let value = &cache.values(slot(token))[kv..][..heads.size];
            out.iter_mut().zip(value).for_each(|(out, value)| *out += weight / total * value);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADS: Heads = Heads { query: 2, kv: 1, size: 2 };

    #[test]
    fn the_cache_is_laid_out_as_documented() {
        let mut cache = PagedCache::filled(0, 2, HEADS, 2);
        // Rows of queries (4), keys (2) and values (2), into slot 3 (block 1, offset 1), nowhere, and slot 0.
        let qkv: Vec<i32> = (0..24).collect();
        cache.write(&qkv, &[3, -1, 0]);
        assert_eq!(cache.elements, [20, 21, 0, 0, 22, 23, 0, 0, 0, 0, 4, 5, 0, 0, 6, 7]);
        assert_eq!((cache.keys(3), cache.values(3)), (&[4, 5][..], &[6, 7][..]));
    }

    #[test]
    fn attention_by_hand() {
        let mut cache = PagedCache::filled(f64::NAN, 3, HEADS, 1);
        let row = |key: [f64; 2], value: [f64; 2]| [[0.0; 2], [0.0; 2], key, value].concat();
        cache.write(&row([1.0, 0.0], [1.0, 2.0]), &[2]);
        cache.write(&row([0.0, 1.0], [3.0, 4.0]), &[0]);
        // The first head scores ln 3 and 0, so weights 3/4 and 1/4; the second scores both alike.
        let query = [3.0_f64.ln(), 0.0, 0.0, 0.0];
        let out = attention(&cache, &query, &[2, 0], 2, 1.0);
        for (got, want) in out.iter().zip([1.5, 2.5, 2.0, 3.0]) {
            assert!((got - want).abs() < 1e-12, "{got} is not {want}");
        }
        assert_eq!(attention(&cache, &query, &[2, 0], 0, 1.0), [0.0; 4]);
        assert_eq!(attention(&cache, &query, &[2, 0], 1, 1.0), [1.0, 2.0, 1.0, 2.0]);
    }
}

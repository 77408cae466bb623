//! Cases of attention over the paged cache.

use super::compare::{close, equal};
use super::{Bench, CheckError, Tolerance, int};
use crate::bf16::{self, Bf16};
use crate::launch::{Address, DecodeAttention, DecodeAttentionMerge, DecodeSplits, PrefillAttention};
use crate::machine::Machine;
use crate::random::Random;
use crate::reference::{self, Heads, PagedCache};
use crate::units::{Requests, Rows};

/// A cache whose blocks lie in random order, with the contexts of some requests in it. Everything else in it is NaN, also
/// the rest of a context's last block: what lies behind a context must not reach a result, not even times zero.
struct Paged {
    cache: PagedCache<Bf16>,
    /// `[requests, blocks_per_request]`; entries behind a context name a block that is NaN throughout.
    block_table: Vec<i32>,
    blocks_per_request: usize,
}

impl Paged {
    fn new(
        contexts: &[usize],
        blocks_per_request: usize,
        heads: Heads,
        block_size: usize,
        random: &mut Random,
    ) -> Self {
        let blocks: usize = contexts.iter().map(|context| context.div_ceil(block_size)).sum();
        let mut cache = PagedCache::filled(Bf16::NAN, blocks + 1, heads, block_size);
        let mut order = random.order(blocks as u32 + 1).into_iter().map(|block| int(block as usize));
        let nan_block = order.next().expect("there is one block more than the contexts need");
        let mut block_table = vec![nan_block; contexts.len() * blocks_per_request];
        for (request, context) in contexts.iter().enumerate() {
            for token in 0..*context {
                let entry = &mut block_table[request * blocks_per_request + token / block_size];
                if token % block_size == 0 {
                    *entry = order.next().expect("the contexts have that many blocks");
                }
                let slot = *entry * int(block_size) + int(token % block_size);
                cache.write(&random.bf16s(heads.qkv_width(), 1.0), &[slot]);
            }
        }
        Self { cache, block_table, blocks_per_request }
    }

    fn row_of(&self, request: usize) -> &[i32] {
        &self.block_table[request * self.blocks_per_request..][..self.blocks_per_request]
    }
}

fn scale(heads: Heads) -> f32 {
    1.0 / (heads.size as f32).sqrt()
}

/// Queries long enough that a few tokens carry most of the weight.
const QUERY_SCALE: f64 = 3.0;

#[derive(Clone, Debug)]
pub(super) struct DecodeAttentionCase {
    pub(super) contexts: Vec<usize>,
    pub(super) heads: Heads,
    pub(super) block_size: usize,
    pub(super) blocks_per_request: usize,
    pub(super) splits: u32,
}

impl DecodeAttentionCase {
    pub(super) fn run<M: Machine>(
        &self,
        bench: &mut Bench<M>,
        random: &mut Random,
    ) -> Result<(), CheckError<M::Error>> {
        let &Self { ref contexts, heads, block_size, blocks_per_request, splits } = self;
        let paged = Paged::new(contexts, blocks_per_request, heads, block_size, random);
        let qkv = random.bf16s(contexts.len() * heads.qkv_width(), QUERY_SCALE);
        let requests = Requests(contexts.len() as u32);
        let context_lens: Vec<i32> = contexts.iter().map(|context| int(*context)).collect();
        let out = bench.output("out", contexts.len() * heads.query_width() * 2)?;
        let splits = DecodeSplits::exactly(splits);
        let partial = match splits.partial_bytes(requests, heads.query as u32, heads.size as u32) {
            0 => Address::NONE,
            bytes => bench.output("partial", bytes as usize)?,
        };
        let decode = DecodeAttention {
            out,
            partial,
            qkv: bench.input("qkv", &qkv)?,
            cache: bench.input("cache", &paged.cache.elements)?,
            block_table: bench.indices("block_table", &paged.block_table)?,
            context_lens: bench.indices("context_lens", &context_lens)?,
            query_heads: int(heads.query),
            kv_heads: int(heads.kv),
            head_size: int(heads.size),
            block_size: int(block_size),
            blocks_per_request: int(blocks_per_request),
            splits: splits.count().cast_signed(),
            scale: scale(heads),
        };
        bench.launch(decode.over(requests))?;
        if splits != DecodeSplits::WHOLE {
            let DecodeAttention { out, partial, query_heads, head_size, splits, .. } = decode;
            let merge = DecodeAttentionMerge { out, partial, query_heads, head_size, splits };
            bench.launch(merge.over(requests))?;
        }
        let (cache, queries) = (paged.cache.to_f64(), bf16::to_f64s(&qkv));
        let mut want = Vec::new();
        for (request, context) in contexts.iter().enumerate() {
            let query = &queries[request * heads.qkv_width()..];
            want.extend(reference::attention(&cache, query, paged.row_of(request), *context, scale(heads).into()));
        }
        let margin = close("out", &bench.numbers(out)?, &want, heads.size, Tolerance::ROUNDED_TWICE)?;
        bench.passed(margin);
        Ok(())
    }
}

#[derive(Clone, Debug)]
pub(super) struct PrefillAttentionCase {
    /// New tokens of each request, and its whole context with them.
    pub(super) chunks: Vec<(usize, usize)>,
    /// Rows behind the last chunk, which no request owns.
    pub(super) padded_rows: usize,
    pub(super) heads: Heads,
    pub(super) block_size: usize,
}

impl PrefillAttentionCase {
    pub(super) fn run<M: Machine>(
        &self,
        bench: &mut Bench<M>,
        random: &mut Random,
    ) -> Result<(), CheckError<M::Error>> {
        let &Self { ref chunks, padded_rows, heads, block_size } = self;
        let contexts: Vec<usize> = chunks.iter().map(|(_, context)| *context).collect();
        let blocks_per_request = contexts.iter().map(|context| context.div_ceil(block_size)).max().unwrap_or(0) + 1;
        let paged = Paged::new(&contexts, blocks_per_request, heads, block_size, random);
        let mut query_starts = vec![0];
        for (chunk, _) in chunks {
            query_starts.push(query_starts[query_starts.len() - 1] + int(*chunk));
        }
        let own_rows: usize = chunks.iter().map(|(chunk, _)| chunk).sum();
        let rows = own_rows + padded_rows;
        let qkv = random.bf16s(rows * heads.qkv_width(), QUERY_SCALE);
        let context_lens: Vec<i32> = contexts.iter().map(|context| int(*context)).collect();
        let out = bench.output("out", rows * heads.query_width() * 2)?;
        let prefill = PrefillAttention {
            out,
            qkv: bench.input("qkv", &qkv)?,
            cache: bench.input("cache", &paged.cache.elements)?,
            block_table: bench.indices("block_table", &paged.block_table)?,
            query_starts: bench.indices("query_starts", &query_starts)?,
            context_lens: bench.indices("context_lens", &context_lens)?,
            query_heads: int(heads.query),
            kv_heads: int(heads.kv),
            head_size: int(heads.size),
            block_size: int(block_size),
            blocks_per_request: int(blocks_per_request),
            scale: scale(heads),
        };
        let longest = chunks.iter().map(|(chunk, _)| *chunk).max().unwrap_or(0);
        bench.launch(prefill.over(Requests(chunks.len() as u32), Rows(longest as u32)))?;
        let (cache, queries) = (paged.cache.to_f64(), bf16::to_f64s(&qkv));
        let mut want = Vec::new();
        let mut row = 0;
        for (request, (chunk, context)) in chunks.iter().enumerate() {
            for place in 0..*chunk {
                let (query, seen) = (&queries[row * heads.qkv_width()..], context - chunk + place + 1);
                want.extend(reference::attention(&cache, query, paged.row_of(request), seen, scale(heads).into()));
                row += 1;
            }
        }
        let got = bench.numbers(out)?;
        let (own, padded) = got.split_at(own_rows * heads.query_width());
        let margin = close("out", own, &want, heads.size, Tolerance::ROUNDED_TWICE)?;
        bench.passed(margin);
        equal("rows that no request owns", padded, &vec![Bf16(0xffff); padded.len()])?;
        Ok(())
    }
}

//! Geometry of attention, and into how many ranges decode attention cuts the contexts.

use super::Launch;
use super::kernel::{DecodeAttention, DecodeAttentionMerge, Kernel, PrefillAttention};
use super::shape::{ShapeError, launch, size_of};
use crate::units::{Requests, Rows};

/// Threads of an attention block: 4 warps.
const ATTENTION_THREADS: u32 = 128;
/// Tokens of keys and values that a block has in shared memory at once: two stages of 64.
const STAGED_TOKENS: u32 = 2 * 64;
/// Rows of a chunk that a prefill block takes.
const CHUNK_TILE_ROWS: u64 = 64;
/// Most query heads of one key head.
const MOST_GROUP: u64 = 16;
/// Blocks per multiprocessor that hide each other's latency (GPU specification section 3c).
const BLOCKS_PER_SM: u64 = 2;
/// Most ranges that a context is cut into: beyond, joining them costs more than the blocks gain.
const MOST_SPLITS: u64 = 32;

/// Ranges that decode attention cuts each context into.
///
/// The number depends on what a captured graph holds fixed, its requests and the width of its block table, never on the
/// contexts of a step: a graph replays with the grid that it was captured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeSplits(u32);

impl DecodeSplits {
    /// One range: contexts stay whole and nothing is joined.
    pub const WHOLE: Self = Self(1);

    /// As many as give each of `sm_count` multiprocessors two blocks, but at most one per cache block of the table's
    /// width, and at most 32.
    pub fn choose(requests: Requests, kv_heads: u32, blocks_per_request: u32, sm_count: u32) -> Self {
        let blocks = (u64::from(requests.0) * u64::from(kv_heads)).max(1);
        let wanted = (BLOCKS_PER_SM * u64::from(sm_count)).div_ceil(blocks);
        Self(wanted.min(MOST_SPLITS).min(blocks_per_request.into()).max(1) as u32)
    }

    /// Exactly so many, at least 1.
    pub fn exactly(splits: u32) -> Self {
        Self(splits.max(1))
    }

    /// How many.
    pub fn count(self) -> u32 {
        self.0
    }

    /// Bytes of [`DecodeAttention::partial`]: per range of each query head its maximum, its sum and its weighted values
    /// in f32; nothing when contexts stay whole.
    pub fn partial_bytes(self, requests: Requests, query_heads: u32, head_size: u32) -> u64 {
        if self == Self::WHOLE {
            return 0;
        }
        size_of([requests.0, query_heads, self.0, head_size.saturating_add(2), 4])
    }
}

/// Dynamic shared memory of an attention block: keys and values of the staged tokens, bf16; the table at the top of
/// `attention.cu`.
pub(super) fn shared_bytes(head_size: i32) -> u32 {
    STAGED_TOKENS * 2 * head_size.unsigned_abs() * 2
}

impl DecodeAttention {
    /// Attends for `requests` requests of one new token each.
    ///
    /// # Errors
    /// No requests, heads that do not group or more than 16 query heads to a key head, a head size other than 64 and
    /// 128, an empty block or table, no ranges or more than blocks, or a missing operand.
    pub fn over(self, requests: Requests) -> Result<Launch, ShapeError> {
        let kernel = Kernel::DecodeAttention;
        kernel.vectors([("out", self.out), ("qkv", self.qkv), ("cache", self.cache)])?;
        kernel.words([("block_table", self.block_table), ("context_lens", self.context_lens)])?;
        let (query, kv) = kernel.heads(self.query_heads, self.kv_heads, self.head_size)?;
        if query / kv > MOST_GROUP {
            return Err(kernel.refuse("query_heads", query, format!("at most {MOST_GROUP} times kv_heads = {kv}")));
        }
        kernel.positive("block_size", self.block_size)?;
        let table = kernel.positive("blocks_per_request", self.blocks_per_request)?;
        let splits = kernel.within("splits", self.splits, 1..=table.cast_signed())?;
        if splits > 1 {
            kernel.vectors([("partial", self.partial)])?;
        }
        kernel.finite("scale", self.scale)?;
        let grid = [kernel.positive("requests", requests.0)?, kv, splits];
        launch(self, grid, ATTENTION_THREADS, shared_bytes(self.head_size))
    }
}

impl DecodeAttentionMerge {
    /// Joins the ranges of `requests` requests.
    ///
    /// # Errors
    /// No requests or heads, a head size other than 64 and 128, fewer than 2 ranges, or a missing operand.
    pub fn over(self, requests: Requests) -> Result<Launch, ShapeError> {
        let kernel = Kernel::DecodeAttentionMerge;
        kernel.vectors([("out", self.out), ("partial", self.partial)])?;
        let heads = kernel.positive("query_heads", self.query_heads)?;
        let head_size = kernel.head_size(self.head_size)?;
        kernel.within("splits", self.splits, 2..=i64::from(i32::MAX))?;
        launch(self, [kernel.positive("requests", requests.0)?, heads, 1], head_size as u32, 0)
    }
}

impl PrefillAttention {
    /// Attends for the chunks of `requests` requests, the longest of them `longest_chunk` rows.
    ///
    /// # Errors
    /// No requests or rows, heads that do not group, a head size other than 64 and 128, an empty block or table, or a
    /// missing operand.
    pub fn over(self, requests: Requests, longest_chunk: Rows) -> Result<Launch, ShapeError> {
        let kernel = Kernel::PrefillAttention;
        kernel.vectors([("out", self.out), ("qkv", self.qkv), ("cache", self.cache)])?;
        kernel.words([
            ("block_table", self.block_table),
            ("query_starts", self.query_starts),
            ("context_lens", self.context_lens),
        ])?;
        let (query, _) = kernel.heads(self.query_heads, self.kv_heads, self.head_size)?;
        kernel.positive("block_size", self.block_size)?;
        kernel.positive("blocks_per_request", self.blocks_per_request)?;
        kernel.finite("scale", self.scale)?;
        let tiles = kernel.positive("longest_chunk", longest_chunk.0)?.div_ceil(CHUNK_TILE_ROWS);
        let grid = [tiles, query, kernel.positive("requests", requests.0)?];
        launch(self, grid, ATTENTION_THREADS, shared_bytes(self.head_size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::Address;

    const AT: Address = Address(0x1000);

    fn decode() -> DecodeAttention {
        DecodeAttention {
            out: AT,
            partial: AT,
            qkv: AT,
            cache: AT,
            block_table: AT,
            context_lens: AT,
            query_heads: 32,
            kv_heads: 8,
            head_size: 128,
            block_size: 16,
            blocks_per_request: 64,
            splits: 3,
            scale: 0.088,
        }
    }

    #[test]
    fn decode_attention_has_a_block_per_request_key_head_and_range() {
        let launch = decode().over(Requests(5)).unwrap();
        assert_eq!((launch.grid, launch.block, launch.shared_bytes), ([5, 8, 3], [128, 1, 1], 65_536));
        let merge = DecodeAttentionMerge { out: AT, partial: AT, query_heads: 32, head_size: 64, splits: 3 };
        let launch = merge.over(Requests(5)).unwrap();
        assert_eq!((launch.grid, launch.block), ([5, 32, 1], [64, 1, 1]));
    }

    #[test]
    fn prefill_attention_has_a_block_per_64_rows() {
        let prefill = PrefillAttention {
            out: AT,
            qkv: AT,
            cache: AT,
            block_table: AT,
            query_starts: AT,
            context_lens: AT,
            query_heads: 32,
            kv_heads: 8,
            head_size: 128,
            block_size: 16,
            blocks_per_request: 64,
            scale: 0.088,
        };
        let launch = PrefillAttention { head_size: 64, ..prefill }.over(Requests(3), Rows(64)).unwrap();
        assert_eq!((launch.grid, launch.shared_bytes), ([1, 32, 3], 32_768));
        assert_eq!(prefill.over(Requests(3), Rows(65)).unwrap().grid, [2, 32, 3]);
        assert_eq!(
            prefill.over(Requests(70_000), Rows(1)).unwrap_err().to_string(),
            "prefill_attention_bf16: grid.z = 70000: expected 1 to 65535 blocks"
        );
    }

    #[test]
    fn splits_fill_the_device() {
        let choose = |requests, kv_heads, table| DecodeSplits::choose(Requests(requests), kv_heads, table, 132).count();
        // 264 blocks wanted: 1 x 8 give them with 33 ranges (32 at most), 8 x 8 with 5, 32 x 8 with 2, 33 x 8 with 1.
        assert_eq!([1, 8, 32, 33, 256].map(|requests| choose(requests, 8, 2_048)), [32, 5, 2, 1, 1]);
        // A table of 4 blocks has no more than 4 ranges, whatever the device would like.
        assert_eq!(choose(1, 8, 4), 4);
        assert_eq!(choose(1, 8, 0), 1);
        assert_eq!(choose(0, 0, 2_048), 32);
    }

    #[test]
    fn partial_results_by_hand() {
        // 5 requests x 32 heads x 3 ranges x (128 + 2) values of 4 bytes.
        assert_eq!(DecodeSplits::exactly(3).partial_bytes(Requests(5), 32, 128), 249_600);
        assert_eq!(DecodeSplits::WHOLE.partial_bytes(Requests(5), 32, 128), 0);
    }

    #[test]
    fn what_attention_does_not_take_is_refused_by_name() {
        let refused = |given: DecodeAttention| given.over(Requests(1)).unwrap_err().to_string();
        assert_eq!(
            refused(DecodeAttention { query_heads: 136, ..decode() }),
            "decode_attention_bf16: query_heads = 136: expected at most 16 times kv_heads = 8"
        );
        assert_eq!(
            refused(DecodeAttention { head_size: 80, ..decode() }),
            "decode_attention_bf16: head_size = 80: expected 64 or 128"
        );
        assert_eq!(
            refused(DecodeAttention { splits: 65, ..decode() }),
            "decode_attention_bf16: splits = 65: expected 1 to 64"
        );
        assert_eq!(
            refused(DecodeAttention { partial: Address::NONE, ..decode() }),
            "decode_attention_bf16: partial = 0x0: expected an address, a multiple of 16"
        );
        assert!(DecodeAttention { partial: Address::NONE, splits: 1, ..decode() }.over(Requests(1)).is_ok());
        let merge = DecodeAttentionMerge { out: AT, partial: AT, query_heads: 32, head_size: 64, splits: 1 };
        assert_eq!(
            merge.over(Requests(1)).unwrap_err().to_string(),
            "decode_attention_merge_bf16: splits = 1: expected 2 to 2147483647"
        );
    }
}

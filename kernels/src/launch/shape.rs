//! What the kernels do not take, said before the driver would: [`ShapeError`].

use std::fmt::Display;
use std::ops::RangeInclusive;

use super::Launch;
use super::argument::{Address, Arguments};
use super::kernel::Kernel;

/// Alignment of operands that kernels move as vectors of 16 bytes.
const VECTOR_BYTES: u64 = 16;
/// Alignment of operands that kernels read as single words of 4 bytes.
const WORD_BYTES: u64 = 4;
/// Most blocks along x, y and z of any device since compute capability 3.0 (CUDA C++ Programming Guide, "Technical
/// Specifications per Compute Capability").
const MOST_BLOCKS: [u64; 3] = [(1 << 31) - 1, 65_535, 65_535];

/// A shape or an operand that a kernel does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kernel}: {key} = {value}: expected {expected}")]
pub struct ShapeError {
    /// Symbol of the kernel.
    pub kernel: &'static str,
    /// The argument or dimension at fault.
    pub key: &'static str,
    /// Its value.
    pub value: String,
    /// What would have been accepted.
    pub expected: String,
}

impl Kernel {
    pub(super) fn refuse(self, key: &'static str, value: impl Display, expected: impl Into<String>) -> ShapeError {
        ShapeError { kernel: self.symbol(), key, value: value.to_string(), expected: expected.into() }
    }

    /// `value`, if it lies in `range`.
    pub(super) fn within(
        self,
        key: &'static str,
        value: impl Into<i64>,
        range: RangeInclusive<i64>,
    ) -> Result<u64, ShapeError> {
        let value = value.into();
        if !range.contains(&value) {
            return Err(self.refuse(key, value, format!("{} to {}", range.start(), range.end())));
        }
        Ok(value.unsigned_abs())
    }

    /// `value`, if it is at least 1 and fits the kernel's `int`.
    pub(super) fn positive(self, key: &'static str, value: impl Into<i64>) -> Result<u64, ShapeError> {
        self.within(key, value, 1..=i64::from(i32::MAX))
    }

    /// Width of rows that are moved in vectors: a positive multiple of 8 elements.
    pub(super) fn vector_width(self, key: &'static str, value: impl Into<i64> + Copy) -> Result<u64, ShapeError> {
        let width = self.positive(key, value)?;
        if !width.is_multiple_of(8) {
            return Err(self.refuse(key, width, "a multiple of 8"));
        }
        Ok(width)
    }

    /// A head size that the kernels are made for.
    pub(super) fn head_size(self, head_size: i32) -> Result<u64, ShapeError> {
        match head_size {
            64 | 128 => Ok(head_size.unsigned_abs().into()),
            other => Err(self.refuse("head_size", other, "64 or 128")),
        }
    }

    /// Head counts of grouped-query attention, together with the head size.
    pub(super) fn heads(self, query_heads: i32, kv_heads: i32, head_size: i32) -> Result<(u64, u64), ShapeError> {
        self.head_size(head_size)?;
        let (query, kv) = (self.positive("query_heads", query_heads)?, self.positive("kv_heads", kv_heads)?);
        if !query.is_multiple_of(kv) {
            return Err(self.refuse("query_heads", query, format!("a multiple of kv_heads = {kv}")));
        }
        Ok((query, kv))
    }

    /// A factor or a term that must be an ordinary number, zero or more.
    pub(super) fn finite(self, key: &'static str, value: f32) -> Result<(), ShapeError> {
        if !(value.is_finite() && value >= 0.0) {
            return Err(self.refuse(key, value, "a finite number, at least 0"));
        }
        Ok(())
    }

    /// Operands that are moved in vectors: there, and aligned to 16 bytes.
    pub(super) fn vectors<const N: usize>(self, operands: [(&'static str, Address); N]) -> Result<(), ShapeError> {
        operands.into_iter().try_for_each(|(key, address)| self.aligned(key, address, VECTOR_BYTES))
    }

    /// Operands that are read word by word: there, and aligned to 4 bytes.
    pub(super) fn words<const N: usize>(self, operands: [(&'static str, Address); N]) -> Result<(), ShapeError> {
        operands.into_iter().try_for_each(|(key, address)| self.aligned(key, address, WORD_BYTES))
    }

    pub(super) fn aligned(self, key: &'static str, address: Address, to: u64) -> Result<(), ShapeError> {
        if address == Address::NONE || !address.0.is_multiple_of(to) {
            return Err(self.refuse(key, format_args!("{:#x}", address.0), format!("an address, a multiple of {to}")));
        }
        Ok(())
    }
}

/// The launch of `arguments` over a grid that any device takes.
pub(super) fn launch(
    arguments: impl Into<(Kernel, Arguments)>,
    grid: [u64; 3],
    threads: u32,
    shared_bytes: u32,
) -> Result<Launch, ShapeError> {
    let (kernel, arguments) = arguments.into();
    for (axis, (blocks, most)) in ["grid.x", "grid.y", "grid.z"].into_iter().zip(grid.into_iter().zip(MOST_BLOCKS)) {
        if blocks == 0 || blocks > most {
            return Err(kernel.refuse(axis, blocks, format!("1 to {most} blocks")));
        }
    }
    let grid = grid.map(|blocks| blocks as u32);
    Ok(Launch { kernel, grid, block: [threads, 1, 1], shared_bytes, arguments })
}

/// The product of the factors; the largest number there is if it is beyond: no device has that much.
pub(super) fn size_of<const N: usize>(factors: [u32; N]) -> u64 {
    factors.into_iter().fold(1, |size, factor| size.saturating_mul(factor.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::{
        Argmax, Clocks, Copy, DecodeAttention, DecodeAttentionMerge, DecodeSplits, Embed, Gate, HeadNorm, KvWrite,
        PrefillAttention, Product, ProductPlan, RmsNorm, Rotary, SiluMul, Tile, Workspace,
    };
    use crate::random::Random;
    use crate::units::{Requests, Rows};

    /// Numbers at the edges of what kernels take, and beyond.
    struct Extremes(Random);

    impl Extremes {
        fn one_of<T: std::marker::Copy, const N: usize>(&mut self, values: [T; N]) -> T {
            values[self.0.below(N as u32) as usize]
        }
        fn int(&mut self) -> i32 {
            self.one_of([i32::MIN, -1, 0, 1, 2, 8, 16, 64, 64, 128, 128, 4_096, 65_536, i32::MAX - 7, i32::MAX])
        }
        fn count(&mut self) -> u32 {
            self.one_of([0, 1, 1, 8, 64, 128, 65_535, 65_536, i32::MAX.unsigned_abs(), u32::MAX - 7, u32::MAX])
        }
        fn float(&mut self) -> f32 {
            self.one_of([0.0, 1.0, 1e-5, -1.0, f32::NAN, f32::INFINITY, f32::MAX])
        }
        fn address(&mut self) -> Address {
            self.one_of([0x1000, 0x1000, 0x1000, 0x1000, 0x1000, 0, 4, 8, 1, u64::MAX, u64::MAX - 15].map(Address))
        }
        fn head_size(&mut self) -> i32 {
            self.one_of([64, 128, 64, 128, 0, 96, i32::MIN])
        }
    }

    /// One launch of each kernel, most of them refused.
    fn launches(any: &mut Extremes) -> Vec<Result<Launch, ShapeError>> {
        let (rows, requests, chunk) = (Rows(any.count()), Requests(any.count()), Rows(any.count()));
        let (query_heads, kv_heads, head_size) = (any.int(), any.int(), any.head_size());
        let [out, input, weight, table, ids, qkv, cache] = std::array::from_fn(|_| any.address());
        let (hidden, block_size, blocks_per_request, splits) = (any.int(), any.int(), any.int(), any.int());
        let (epsilon, scale) = (any.float(), any.float());
        let (partial, block_table, context_lens, query_starts) = (out, ids, ids, table);
        let product =
            Product { out, input, weight, bias: any.address(), rows, outputs: any.count(), inputs: any.count() };
        let tile = any.one_of(Tile::ALL);
        let plans = [
            ProductPlan::choose(&product, any.count()),
            ProductPlan::exactly(&product, tile, any.count()),
            ProductPlan { tile, splits: any.count() },
        ];
        let workspace = Workspace { partial: any.address(), arrivals: any.address() };
        let chosen = DecodeSplits::choose(requests, any.count(), any.count(), any.count());
        let _ = chosen.partial_bytes(requests, any.count(), any.count());
        for plan in plans {
            let _ = (plan.partial_bytes(&product), plan.arrivals_bytes(&product));
        }
        let decode = DecodeAttention {
            out,
            partial,
            qkv,
            cache,
            block_table,
            context_lens,
            query_heads,
            kv_heads,
            head_size,
            block_size,
            blocks_per_request,
            splits,
            scale,
        };
        let prefill = PrefillAttention {
            out,
            qkv,
            cache,
            block_table,
            query_starts,
            context_lens,
            query_heads,
            kv_heads,
            head_size,
            block_size,
            blocks_per_request,
            scale,
        };
        let products = plans.map(|plan| product.under(plan, workspace));
        let others = [
            Embed { out, table, ids, hidden, table_rows: any.int() }.over(rows),
            RmsNorm { out, residual: out, input, weight, hidden, epsilon, add: any.int() }.over(rows),
            HeadNorm { qkv, query_weight: weight, key_weight: input, query_heads, kv_heads, head_size, epsilon }
                .over(rows),
            Rotary { qkv, positions: ids, query_heads, kv_heads, head_size, log2_theta: scale }.over(rows),
            KvWrite { cache, qkv, slots: ids, query_heads, kv_heads, head_size, block_size }.over(rows),
            SiluMul { out, gate_up: input, rows: any.int(), intermediate: hidden }.whole(),
            Argmax { out, logits: input, vocabulary: hidden }.over(rows),
            decode.over(requests),
            DecodeAttentionMerge { out, partial, query_heads, head_size, splits }.over(requests),
            prefill.over(requests, chunk),
            Gate { flag: ids, outcome: out, timeout_ns: u64::from(any.count()) }.alone(),
            Clocks { out, cycles: u64::MAX }.alone(),
            Copy { to: out, from: input, vectors: u64::from(any.count()) }.by(any.count()),
        ];
        others.into_iter().chain(products).collect()
    }

    #[test]
    fn no_number_is_too_odd_to_be_answered() {
        let mut any = Extremes(Random::named("extremes", 0));
        let mut accepted = std::collections::BTreeMap::new();
        for _ in 0..20_000 {
            for launch in launches(&mut any).into_iter().flatten() {
                for (blocks, most) in launch.grid.into_iter().zip(MOST_BLOCKS) {
                    assert!(blocks >= 1 && u64::from(blocks) <= most, "{launch:?}");
                }
                assert_eq!(launch.arguments.offsets().len(), launch.kernel.parameters().len());
                *accepted.entry(launch.kernel).or_insert(0) += 1;
            }
        }
        // Every kernel but the one without arguments was accepted now and then: the numbers are not all nonsense.
        assert_eq!(accepted.len(), Kernel::ALL.len() - 1, "{accepted:?}");
    }

    #[test]
    fn sizes_beyond_everything_stay_beyond_everything() {
        assert_eq!(size_of([3, 33, 200, 4]), 79_200);
        assert_eq!(size_of([u32::MAX, u32::MAX, u32::MAX]), u64::MAX);
    }
}

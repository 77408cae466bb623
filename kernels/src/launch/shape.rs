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

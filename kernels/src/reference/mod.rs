//! What the kernels should compute, in f64, written to be read: no tiles, no tricks, nothing shared with the kernels.
//!
//! Matrices are rows behind one another. Functions take and give exact values; rounding to bf16 is the caller's
//! ([`Precision`]), who knows what a step stores.

mod attention;
mod model;
mod operations;

pub use attention::{Heads, PagedCache, attention};
pub use model::{LayerValues, Model, Row};
pub use operations::{add, argmax, embed, head_norm, product, rms_norm, rotary, silu_mul};

use crate::bf16::Bf16;

/// How a reference keeps what a step stores between kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// In f64: the true value.
    Exact,
    /// Rounded to bf16 wherever a kernel writes bf16: what differs from it is arithmetic, not storage.
    Bf16,
}

impl Precision {
    /// The values as they are stored.
    pub fn stored(self, mut values: Vec<f64>) -> Vec<f64> {
        if self == Self::Bf16 {
            for value in &mut values {
                *value = Bf16::from_f64(*value).to_f64();
            }
        }
        values
    }
}

//! Every kernel against its reference: cases over a [`Machine`](crate::machine::Machine), so that a GPU and the CPU
//! executor of the tests run the same ones.
//!
//! A case gives a kernel random operands and compares what it wrote with [`reference`](crate::reference). Around each
//! operand lie guard zones; those, inputs, and rows that the kernel has no business with must stay as they were.
//! Outputs are NaN before the launch, so that an element that nobody writes is seen, and so are the guards, so that a
//! read too far spoils a result. Kernels that only move data must match exactly; the others within a [`Tolerance`] that
//! says why.

mod attention;
mod bench;
mod cases;
mod compare;
mod decoder;
mod measure;
mod product;

pub use bench::Bench;
pub use cases::{Case, Size, cases};
pub use compare::{Difference, Margin, Tolerance};

use crate::launch::ShapeError;

/// Why a case failed.
#[derive(Debug, thiserror::Error)]
pub enum CheckError<E> {
    /// The machine failed.
    #[error(transparent)]
    Machine(E),
    /// The case asked for a shape that the kernel does not take: a mistake in the case.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A result differs from the reference.
    #[error(transparent)]
    Differs(#[from] Difference),
}

/// A count of a case as the device takes it.
fn int(count: usize) -> i32 {
    i32::try_from(count).expect("cases are small")
}

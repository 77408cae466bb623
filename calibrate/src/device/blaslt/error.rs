//! What can go wrong with cuBLASLt.

use std::fmt;

use miette::Diagnostic;

use crate::device::search::Tried;

/// Why cuBLASLt does not multiply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlasltError {
    /// It is not to be used.
    #[error("cuBLASLt is not used: {0}")]
    Unwanted(&'static str),
    /// No library can be loaded and used on this device.
    #[error("no usable cuBLASLt was found: {}", .0.iter().map(Tried::to_string).collect::<Vec<_>>().join("; "))]
    NotFound(Vec<Tried>),
    /// It has no algorithm for a product.
    #[error(
        "cuBLASLt has no algorithm for {rows} rows, {outputs} outputs and {inputs} inputs in {workspace_bytes} bytes of workspace"
    )]
    NoAlgorithm {
        /// Rows of the input.
        rows: u32,
        /// Rows of the weight.
        outputs: u32,
        /// Columns of both.
        inputs: u32,
        /// The workspace that it may use.
        workspace_bytes: u64,
    },
    /// A call failed.
    #[error("{call}: {status}, {}", name(*.status))]
    Call {
        /// Which.
        call: &'static str,
        /// Its `cublasStatus_t`.
        status: i32,
    },
}

/// Names of `cublasStatus_t`.
fn name(status: i32) -> &'static str {
    match status {
        1 => "CUBLAS_STATUS_NOT_INITIALIZED (no driver that is new enough for it, or no memory for its handle)",
        3 => "CUBLAS_STATUS_ALLOC_FAILED",
        7 => "CUBLAS_STATUS_INVALID_VALUE",
        8 => "CUBLAS_STATUS_ARCH_MISMATCH",
        11 => "CUBLAS_STATUS_MAPPING_ERROR",
        13 => "CUBLAS_STATUS_EXECUTION_FAILED",
        14 => "CUBLAS_STATUS_INTERNAL_ERROR",
        15 => "CUBLAS_STATUS_NOT_SUPPORTED",
        16 => "CUBLAS_STATUS_LICENSE_ERROR",
        _ => "a status that this program does not know",
    }
}

impl BlasltError {
    /// What to do about it.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Unwanted(_) | Self::NotFound(_) => {
                "install it (the Python package nvidia-cublas, or a CUDA toolkit) or name it in RUNGWISE_CUBLASLT; without \
                 it the own kernel multiplies, whose steps lie at other row counts than an engine's"
            }
            Self::NoAlgorithm { .. } | Self::Call { .. } => {
                "set RUNGWISE_CUBLASLT=none to multiply with the own kernel, and report this with the library's version"
            }
        }
    }
}

impl Diagnostic for BlasltError {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(self.advice()))
    }
}

//! Which library multiplied matrices: recorded with every figure that depends on it, and never mixed within one run.

use std::fmt;
use std::path::PathBuf;

/// What computes matrix products.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GemmBackend {
    /// NVIDIA's cuBLASLt, as in the engines: its tiles are theirs.
    CublasLt {
        /// The library's file, or the name by which the system's loader found it.
        file: PathBuf,
        /// Its version.
        version: String,
    },
    /// The own kernel: of the same shape, but with steps at other row counts (GPU specification section 3c).
    Own,
}

impl fmt::Display for GemmBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CublasLt { file, version } => write!(f, "cuBLASLt {version} ({})", file.display()),
            Self::Own => f.write_str("own kernel"),
        }
    }
}

//! What a call of the driver answered.

/// A status other than success, and the call that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Status {
    /// The driver function.
    pub call: &'static str,
    /// The number it returned.
    pub code: u32,
}

impl Status {
    /// Turns what a call returned into a result.
    ///
    /// # Errors
    /// Any code but success.
    pub(super) fn check(call: &'static str, code: u32) -> Result<(), Self> {
        if code == code::SUCCESS { Ok(()) } else { Err(Self { call, code }) }
    }

    /// Whether the context is lost with it: every later call fails as well ("sticky" errors of the CUDA driver API
    /// documentation, type `CUresult`).
    pub(super) fn is_sticky(self) -> bool {
        matches!(self.code, code::ECC_UNCORRECTABLE | 220 | 226 | 700 | 702 | 710 | 714..=719 | 721)
    }
}

/// Status codes that mean something to calibrate (CUDA driver API documentation, type `CUresult`).
pub(super) mod code {
    pub(in crate::device) const SUCCESS: u32 = 0;
    pub(in crate::device) const INVALID_VALUE: u32 = 1;
    pub(in crate::device) const OUT_OF_MEMORY: u32 = 2;
    pub(in crate::device) const STUB_LIBRARY: u32 = 34;
    pub(in crate::device) const DEVICE_UNAVAILABLE: u32 = 46;
    pub(in crate::device) const NO_DEVICE: u32 = 100;
    pub(in crate::device) const INVALID_DEVICE: u32 = 101;
    pub(in crate::device) const NO_BINARY_FOR_GPU: u32 = 209;
    pub(in crate::device) const ECC_UNCORRECTABLE: u32 = 214;
    pub(in crate::device) const JIT_COMPILER_NOT_FOUND: u32 = 221;
    pub(in crate::device) const UNSUPPORTED_PTX_VERSION: u32 = 222;
    pub(in crate::device) const JIT_COMPILATION_DISABLED: u32 = 223;
    /// An edge carries data that the function does not tell.
    pub(in crate::device) const LOSSY_QUERY: u32 = 402;
    pub(in crate::device) const NOT_FOUND: u32 = 500;
    pub(in crate::device) const PRIMARY_CONTEXT_ACTIVE: u32 = 708;
    pub(in crate::device) const SYSTEM_NOT_READY: u32 = 802;
    pub(in crate::device) const DRIVER_MISMATCH: u32 = 803;
    pub(in crate::device) const COMPAT_NOT_SUPPORTED: u32 = 804;
    /// The first and the last of those about the MPS server.
    pub(in crate::device) const MPS_FIRST: u32 = 805;
    pub(in crate::device) const MPS_LAST: u32 = 810;
    pub(in crate::device) const GRAPH_UPDATE_FAILURE: u32 = 910;
}

//! The functions, numbers and structures of cuBLASLt that are used, from its documentation ("Using the cuBLASLt API").

#![expect(clippy::too_many_arguments, reason = "the library's signatures")]

use std::ffi::{c_int, c_void};

use libloading::Library;

use super::error::BlasltError;

/// `cublasLtHandle_t`, `cublasLtMatmulDesc_t`, `cublasLtMatrixLayout_t`, `cublasLtMatmulPreference_t`: addresses.
pub(super) type Handle = *mut c_void;
pub(super) type Description = *mut c_void;
pub(super) type Layout = *mut c_void;
pub(super) type Preference = *mut c_void;

/// `CUDA_R_32F` and `CUDA_R_16BF` of `cudaDataType_t`.
pub(super) const FLOAT: c_int = 0;
pub(super) const BF16: c_int = 14;
/// `CUBLAS_COMPUTE_32F`: products of bf16 summed in f32.
pub(super) const COMPUTE_FLOAT: c_int = 68;
/// `CUBLAS_OP_T`.
pub(super) const TRANSPOSED: i32 = 1;
/// `CUBLASLT_EPILOGUE_BIAS`: adds to each row of the (column-major) result its element of a vector.
pub(super) const EPILOGUE_BIAS: u32 = 4;

/// Attributes of a description (`cublasLtMatmulDescAttributes_t`).
pub(super) mod description {
    pub(in super::super) const TRANSPOSE_A: u32 = 3;
    pub(in super::super) const EPILOGUE: u32 = 7;
    pub(in super::super) const BIAS_POINTER: u32 = 8;
    pub(in super::super) const BIAS_TYPE: u32 = 26;
}

/// Attributes of a preference (`cublasLtMatmulPreferenceAttributes_t`).
pub(super) mod preference {
    pub(in super::super) const WORKSPACE_BYTES_MAX: u32 = 1;
    /// The alignments of A, B, C and D.
    pub(in super::super) const ALIGNMENTS: [u32; 4] = [5, 6, 7, 8];
}

/// `cublasLtMatmulAlgo_t`: opaque, kept as it comes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Algorithm {
    data: [u64; 8],
}

/// `cublasLtMatmulHeuristicResult_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Heuristic {
    pub(super) algorithm: Algorithm,
    pub(super) workspace_bytes: usize,
    /// `cublasStatus_t`: whether the rest counts.
    pub(super) status: c_int,
    /// Waves of blocks: 1 fills the GPU once.
    pub(super) waves: f32,
    reserved: [c_int; 4],
}

macro_rules! functions {
    ($($method:ident = $name:literal($($argument:ident: $type:ty),*);)*) => {
        /// The functions of one library.
        #[derive(Clone, Copy, Debug)]
        pub(super) struct Functions {
            pub(super) version: unsafe extern "C" fn() -> usize,
            $(pub(super) $method: unsafe extern "C" fn($($type),*) -> c_int,)*
        }

        impl Functions {
            pub(super) fn resolve(library: &Library) -> Result<Self, String> {
                // SAFETY: every signature below is that of cuBLASLt's documentation for this name.
                unsafe {
                    Ok(Self {
                        version: *library.get("cublasLtGetVersion").map_err(|_| "it has no cublasLtGetVersion".to_owned())?,
                        $($method: *library.get($name).map_err(|_| format!("it has no {}", $name))?,)*
                    })
                }
            }

            $(
                #[doc = concat!("`", $name, "`")]
                pub(super) unsafe fn $method(&self, $($argument: $type),*) -> Result<(), BlasltError> {
                    // SAFETY: the caller's.
                    match unsafe { (self.$method)($($argument),*) } {
                        0 => Ok(()),
                        status => Err(BlasltError::Call { call: $name, status }),
                    }
                }
            )*
        }
    };
}

functions! {
    create = "cublasLtCreate"(handle: *mut Handle);
    destroy = "cublasLtDestroy"(handle: Handle);
    description_create = "cublasLtMatmulDescCreate"(description: *mut Description, compute: c_int, scale: c_int);
    description_destroy = "cublasLtMatmulDescDestroy"(description: Description);
    description_set = "cublasLtMatmulDescSetAttribute"(
        description: Description, attribute: u32, value: *const c_void, bytes: usize
    );
    layout_create = "cublasLtMatrixLayoutCreate"(
        layout: *mut Layout, element: c_int, rows: u64, columns: u64, leading: i64
    );
    layout_destroy = "cublasLtMatrixLayoutDestroy"(layout: Layout);
    preference_create = "cublasLtMatmulPreferenceCreate"(preference: *mut Preference);
    preference_destroy = "cublasLtMatmulPreferenceDestroy"(preference: Preference);
    preference_set = "cublasLtMatmulPreferenceSetAttribute"(
        preference: Preference, attribute: u32, value: *const c_void, bytes: usize
    );
    heuristic = "cublasLtMatmulAlgoGetHeuristic"(
        handle: Handle, description: Description, a: Layout, b: Layout, c: Layout, d: Layout, preference: Preference,
        asked: c_int, results: *mut Heuristic, found: *mut c_int
    );
    matmul = "cublasLtMatmul"(
        handle: Handle, description: Description, alpha: *const c_void, a: *const c_void, a_layout: Layout,
        b: *const c_void, b_layout: Layout, beta: *const c_void, c: *const c_void, c_layout: Layout, d: *mut c_void,
        d_layout: Layout, algorithm: *const Algorithm, workspace: *mut c_void, workspace_bytes: usize, stream: *mut c_void
    );
}

impl Functions {
    /// The library's version, such as `12.9.1`.
    pub(super) fn version_text(&self) -> String {
        // SAFETY: it takes nothing and answers a constant.
        let version = unsafe { (self.version)() };
        format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100)
    }
}

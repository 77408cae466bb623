//! cuBLASLt, the library of matrix products that the engines use: opened at run time where it is there.
//!
//! Stream and workspace are arguments of every product, so that, other than with cuBLAS, a capture allocates nothing (GPU
//! specification section 1).

mod error;
mod functions;
mod plan;

use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use kernels::launch::Product;
use libloading::Library;

pub use error::BlasltError;
pub use plan::MatmulWorkspace;

use super::capture::Capture;
use super::context::Context;
use super::search::{Wanted, first, load};
use super::session::Session;
use crate::gemm_backend::GemmBackend;
use crate::host::HostTree;
use functions::{Functions, Handle};
use plan::Plans;

const WANTED: Wanted =
    Wanted { stem: "libcublasLt.so", versions: &["13", "12"], wheel: "cublas", variable: "RUNGWISE_CUBLASLT" };

/// cuBLASLt on one device. Drop it before a capture begins or after it has ended.
#[derive(Debug)]
pub struct Blaslt {
    // In the order of release: plans and handle before the library, the context last.
    plans: Plans,
    opened: Opened,
    context: Rc<Context>,
}

/// A library with a handle.
#[derive(Debug)]
struct Opened {
    functions: Functions,
    handle: Handle,
    file: PathBuf,
    /// Never unloaded: it keeps state of the context that outlives its handles.
    _library: ManuallyDrop<Library>,
}

impl Blaslt {
    /// A workspace of 32 MiB, which NVIDIA recommends on Hopper and which is ample elsewhere (cuBLAS documentation,
    /// `cublasSetWorkspace`).
    pub const WORKSPACE_BYTES: u64 = 32 << 20;

    /// Opens the library that `RUNGWISE_CUBLASLT` names, a file or a folder; else the first that can be loaded and can make a
    /// handle on the session's device. `RUNGWISE_CUBLASLT=none` is for none.
    ///
    /// # Errors
    /// There is none; the error says what was tried.
    pub fn open(session: &Session) -> Result<Self, BlasltError> {
        let tree = HostTree::of_this_machine();
        match tree.variable(WANTED.variable) {
            Some("none") => return Err(BlasltError::Unwanted("RUNGWISE_CUBLASLT is `none`")),
            None if session.card().library().double_version().is_some() => {
                return Err(BlasltError::Unwanted("it does not run on the tests' driver double"));
            }
            _ => {}
        }
        let opened = first(&WANTED, None, &tree, |file| Opened::load(file).map_err(|error| error.to_string()));
        let opened = opened.map_err(BlasltError::NotFound)?;
        Ok(Self { plans: Plans::default(), opened, context: Rc::clone(session.context()) })
    }

    /// Which library this is.
    pub fn backend(&self) -> GemmBackend {
        let Opened { file, functions, .. } = &self.opened;
        GemmBackend::CublasLt { file: file.clone(), version: functions.version_text() }
    }

    /// Has the algorithm for a product chosen. A product that was prepared and has run once may be captured.
    ///
    /// # Errors
    /// There is no algorithm for it.
    pub fn prepare(&self, product: &Product, workspace: MatmulWorkspace) -> Result<(), BlasltError> {
        self.plans.of(self.opened.functions, self.opened.handle, product, workspace).map(|_| ())
    }

    fn enqueue(&self, product: &Product, workspace: MatmulWorkspace, stream: *mut c_void) -> Result<(), BlasltError> {
        let Opened { functions, handle, .. } = self.opened;
        let plan = self.plans.of(functions, handle, product, workspace)?;
        // SAFETY: the plan is that of the product's shape; the stream is the session's, and the session or the graph holds
        // the operands and the workspace, as for every launch.
        unsafe { plan.enqueue(handle, product, workspace, stream) }
    }
}

impl Session {
    /// Multiplies after everything launched so far.
    ///
    /// # Errors
    /// cuBLASLt refuses it.
    pub fn multiply(&mut self, by: &Blaslt, product: &Product, workspace: MatmulWorkspace) -> Result<(), BlasltError> {
        by.enqueue(product, workspace, self.stream().raw.cast())
    }
}

impl Capture<'_> {
    /// Records a product. It must have run once before: cuBLASLt loads its kernels when they are first used.
    ///
    /// # Errors
    /// cuBLASLt refuses it; the capture can only be dropped then.
    pub fn multiply(&mut self, by: &Blaslt, product: &Product, workspace: MatmulWorkspace) -> Result<(), BlasltError> {
        let stream = self.multiplies_on().raw.cast();
        by.enqueue(product, workspace, stream)
    }
}

impl Opened {
    fn load(file: &Path) -> Result<Self, LoadError> {
        let library = load(file).map_err(LoadError::Library)?;
        let functions = Functions::resolve(&library).map_err(LoadError::Library)?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the pointer is to a local that lives through the call.
        unsafe { functions.create(&raw mut handle) }?;
        Ok(Self { functions, handle, file: file.to_path_buf(), _library: ManuallyDrop::new(library) })
    }
}

#[derive(Debug, thiserror::Error)]
enum LoadError {
    #[error("{0}")]
    Library(String),
    #[error(transparent)]
    Handle(#[from] BlasltError),
}

impl Drop for Blaslt {
    fn drop(&mut self) {
        // While a stream captures, destroying could spoil the capture: the handle is then left to the end of the process.
        if !self.context.is_capturing() {
            // SAFETY: the handle was created by this library, and is not used again.
            let _ = unsafe { self.opened.functions.destroy(self.opened.handle) };
        }
    }
}

#[cfg(test)]
mod tests;

//! Runs kernels on the CPU, through the executor that `RUNGWISE_DOUBLE_KERNELS` names.
#![expect(unsafe_code, reason = "a C function of a shared library")]

use std::ffi::{CStr, CString, c_char, c_int, c_uint};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::operation::KernelLaunch;

type Launch = unsafe extern "C" fn(
    symbol: *const c_char,
    grid: *const c_uint,
    block: *const c_uint,
    shared_bytes: c_uint,
    arguments: *const u8,
    argument_bytes: usize,
    order: c_uint,
    message: *mut c_char,
    message_bytes: usize,
) -> c_int;

/// The executor's entry point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Executor {
    launch: Launch,
    order: u32,
}

/// What a kernel came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Run {
    Done,
    /// The executor has no such kernel.
    Unknown,
    /// What went wrong, in the executor's words.
    Failed(String),
}

impl Executor {
    /// Loads the shared library.
    ///
    /// # Panics
    /// If it cannot be loaded: a test that asks for execution must not pass without.
    pub(crate) fn load(path: &Path, order: u32) -> Self {
        let name = CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
        // SAFETY: the path ends with a null; the library's initialisers are those of the C++ runtime.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!library.is_null(), "driver double: cannot load the executor {}", path.display());
        // SAFETY: the handle is the one just opened.
        let symbol = unsafe { libc::dlsym(library, c"rungwise_cpu_launch".as_ptr()) };
        assert!(!symbol.is_null(), "driver double: {} exports no rungwise_cpu_launch", path.display());
        // SAFETY: the contract of the executor gives the symbol this type.
        let launch = unsafe { std::mem::transmute::<*mut libc::c_void, Launch>(symbol) };
        Self { launch, order }
    }

    pub(crate) fn run(self, launch: &KernelLaunch) -> Run {
        let mut message = [0_u8; 1024];
        let arguments = &launch.arguments;
        // SAFETY: every pointer is valid for its length, and the addresses among the arguments were found live.
        let code = unsafe {
            (self.launch)(
                launch.function.name.as_ptr(),
                launch.grid.as_ptr(),
                launch.block.as_ptr(),
                launch.shared_bytes,
                arguments.as_ptr(),
                arguments.len(),
                self.order,
                message.as_mut_ptr().cast(),
                message.len(),
            )
        };
        match code {
            0 => Run::Done,
            1 => Run::Unknown,
            _ => {
                let text = CStr::from_bytes_until_nul(&message).unwrap_or_default();
                Run::Failed(format!("executor code {code}: {}", text.to_string_lossy()))
            }
        }
    }
}

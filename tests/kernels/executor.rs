//! The executor as a [`Machine`]: memory of this process, launches in a chosen order of threads and blocks.
#![expect(unsafe_code, reason = "loads a library that is built from this repository, and calls its one function")]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_uint};
use std::path::Path;

use kernels::launch::{Address, Kernel, Launch};
use kernels::machine::Machine;

/// `rungwise_cpu_launch` of `tests/executor/executor.cpp`.
type CpuLaunch = unsafe extern "C" fn(
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

/// A loaded executor. It runs one launch at a time.
pub(crate) struct Library {
    launch: CpuLaunch,
    /// Keeps `launch` loaded.
    _library: libloading::Library,
}

impl Library {
    /// Loads the library at `path`.
    pub(crate) fn open(path: &Path) -> Self {
        // SAFETY: the library was built from this repository a moment ago; its static initialisers only fill memory of
        // their own.
        let library = unsafe { libloading::Library::new(path) }.expect("the executor was just built");
        // SAFETY: `CpuLaunch` is the function's signature, and `_library` keeps it loaded as long as `launch` can be called.
        let launch = unsafe { *library.get::<CpuLaunch>(b"rungwise_cpu_launch\0").expect("the executor exports it") };
        Self { launch, _library: library }
    }
}

/// What a launch on the executor came to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExecutorError {
    /// The executor refused the launch, or stopped it; the codes are those of `rungwise_cpu_launch`.
    #[error("the executor ended with {code}: {message}")]
    Launch { code: c_int, message: String },
    /// A copy beyond what was allocated.
    #[error("{bytes} bytes at {address:#x} are not within one allocation")]
    Range { address: u64, bytes: usize },
}

/// Alignment of device allocations (CUDA C++ Programming Guide, "Device Memory Accesses").
const ALIGNMENT: usize = 256;
/// Bytes before and behind each allocation that nobody else has, so that a kernel that goes wrong, as planted ones do,
/// does not end the test. They are never touched, so they cost no memory.
const MARGIN_BYTES: usize = 1 << 20;

/// One allocation.
struct Region {
    bytes: Vec<u8>,
    /// Bytes before the first that was given out.
    skipped: usize,
    /// Bytes that were asked for.
    content: usize,
}

/// One machine: memory, and the order in which its launches run.
pub(crate) struct Executor<'l> {
    library: &'l Library,
    /// 0 ascending, 1 descending, from 2 on shuffled by this seed.
    order: u32,
    /// By the address of its first aligned byte.
    memory: BTreeMap<u64, Region>,
    /// Launches so far.
    pub(crate) launches: usize,
}

impl<'l> Executor<'l> {
    /// A machine that runs threads and blocks in `order`.
    pub(crate) fn new(library: &'l Library, order: u32) -> Self {
        Self { library, order, memory: BTreeMap::new(), launches: 0 }
    }

    /// The bytes from `address` on to the end of their allocation.
    fn bytes_from(&mut self, address: Address, bytes: usize) -> Result<&mut [u8], ExecutorError> {
        let outside = ExecutorError::Range { address: address.0, bytes };
        let Some((start, region)) = self.memory.range_mut(..=address.0).next_back() else { return Err(outside) };
        let content = &mut region.bytes[region.skipped..][..region.content];
        content.get_mut((address.0 - start) as usize..).and_then(|rest| rest.get_mut(..bytes)).ok_or(outside)
    }
}

/// Most threads of a block that the kernel was compiled for, from `.maxntid` in its PTX: a device refuses more.
fn most_threads(kernel: Kernel) -> u32 {
    let entry = format!(".visible .entry {}(", kernel.symbol());
    let (_, body) = kernel.module().ptx().split_once(&entry).expect("the module holds the kernel");
    let (_, directive) = body.split_once(".maxntid ").expect("every kernel has launch bounds");
    let (threads, _) = directive.split_once(',').expect("`.maxntid` has three dimensions");
    threads.parse().expect("`.maxntid` holds numbers")
}

impl Machine for Executor<'_> {
    type Error = ExecutorError;

    fn allocate(&mut self, bytes: u64) -> Result<Address, ExecutorError> {
        // Content is undefined, so it is not zeros.
        let content = bytes as usize;
        let mut bytes = vec![0; content + ALIGNMENT + 2 * MARGIN_BYTES];
        let first = bytes.as_mut_ptr().expose_provenance();
        let aligned = (first + MARGIN_BYTES).next_multiple_of(ALIGNMENT);
        let skipped = aligned - first;
        bytes[skipped..][..content].fill(0xcd);
        let address = aligned as u64;
        self.memory.insert(address, Region { bytes, skipped, content });
        Ok(Address(address))
    }

    fn write(&mut self, to: Address, bytes: &[u8]) -> Result<(), ExecutorError> {
        self.bytes_from(to, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }

    fn read(&mut self, from: Address, bytes: &mut [u8]) -> Result<(), ExecutorError> {
        bytes.copy_from_slice(self.bytes_from(from, bytes.len())?);
        Ok(())
    }

    fn launch(&mut self, launch: &Launch) -> Result<(), ExecutorError> {
        let (threads, most) = (launch.block.iter().product::<u32>(), most_threads(launch.kernel));
        assert!(threads <= most, "{} with {threads} threads: compiled for {most}", launch.kernel.symbol());
        let symbol = CString::new(launch.kernel.symbol()).expect("symbols have no zero byte");
        let arguments = launch.arguments.bytes();
        let mut message = [0; 1024];
        self.launches += 1;
        // SAFETY: all pointers live through the call and have the lengths given with them. Kernels read and write the
        // addresses among their arguments, which come from `allocate` of this machine and have guard zones around them.
        let code = unsafe {
            (self.library.launch)(
                symbol.as_ptr(),
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
        if code == 0 {
            return Ok(());
        }
        let message = CStr::from_bytes_until_nul(&message).unwrap_or(c"a message without an end");
        Err(ExecutorError::Launch { code, message: message.to_string_lossy().into_owned() })
    }
}

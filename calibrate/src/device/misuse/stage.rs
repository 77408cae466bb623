//! What a misuse is performed on: a context, a stream, two kernels, and every driver call as a plain number.

use std::ffi::{CStr, CString, c_void};
use std::fmt;
use std::ptr;
use std::thread;

use cudarc::driver::sys::{
    self, CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphExec, CUmodule, CUstream,
};

use super::functions::MoreFunctions;
use crate::device::status::Status;
use crate::device::symbols::{Functions, InstantiateParams, Start, UpdateResult};
use crate::driver_rules::CaptureAfter;

/// Why a misuse could not be performed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotTried {
    /// The driver cannot be loaded, or lacks this function.
    Missing(&'static str),
    /// What comes before the misuse failed.
    Before(Status),
    /// The driver or the device has no case of it.
    NoCase(&'static str),
}

impl fmt::Display for NotTried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(name) => write!(f, "the driver lacks {name}"),
            Self::Before(Status { call, code }) => write!(f, "{call} returned {code} before the misuse"),
            Self::NoCase(why) => f.write_str(why),
        }
    }
}

impl From<Status> for NotTried {
    fn from(status: Status) -> Self {
        Self::Before(status)
    }
}

/// `CUstreamCaptureMode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Global,
    ThreadLocal,
    Relaxed,
}

/// `CU_STREAM_NON_BLOCKING`, and a stream that the legacy stream waits for.
pub(super) const NON_BLOCKING: u32 = 1;
pub(super) const BLOCKING: u32 = 0;

/// `CU_EVENT_DISABLE_TIMING`.
pub(super) const WITHOUT_TIMING: u32 = 2;

/// The driver's functions, before `cuInit`.
#[derive(Debug)]
pub(super) struct Driver {
    start: Start,
    functions: Functions,
    more: MoreFunctions,
}

impl Driver {
    pub(super) fn load() -> Result<Self, NotTried> {
        // SAFETY: loading a driver library runs its initialisers, which is what asking for a GPU means.
        if !unsafe { sys::is_culib_present() } {
            return Err(NotTried::Missing("its library"));
        }
        // SAFETY: as above; it cannot panic, for the library is there.
        let library = unsafe { sys::culib() };
        let first = |names: Vec<&'static str>| NotTried::Missing(names.first().copied().unwrap_or_default());
        Ok(Self {
            start: Start::resolve(library).map_err(first)?,
            functions: Functions::resolve(library).map_err(first)?,
            more: MoreFunctions::resolve(library).map_err(NotTried::Missing)?,
        })
    }

    pub(super) fn count_devices(&self) -> u32 {
        let mut count = 0;
        // SAFETY: the pointer is to a local; before `cuInit` the call is refused.
        code(unsafe { self.functions.device_count(&raw mut count) })
    }

    pub(super) fn get_device(&self, ordinal: i32) -> u32 {
        let mut device = 0;
        // SAFETY: the pointer is to a local; an ordinal that is none is refused.
        code(unsafe { self.functions.device_get(&raw mut device, ordinal) })
    }
}

/// A context with all that misuses need.
///
/// Every call is made with handles of this stage, or with ones that are wrong on purpose: then the process is a child that
/// was started to perform one misuse, and may die of it. That is the reason of every unsafe block below.
#[derive(Debug)]
pub(super) struct Stage {
    driver: Driver,
    context: CUcontext,
    device: CUdevice,
    /// Captures, and does not wait for the legacy stream.
    pub(super) stream: CUstream,
    module: CUmodule,
    /// `store_word(address, value)`.
    pub(super) store_word: CUfunction,
    /// The same with 40 KiB of static shared memory.
    pub(super) hold_shared: CUfunction,
    /// Memory that lives as long as the stage.
    pub(super) memory: CUdeviceptr,
}

// SAFETY: the driver's functions may be called from any thread, and the handles are plain values.
unsafe impl Sync for Stage {}

/// The shape of a launch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) blocks: u32,
    pub(super) threads: u32,
    pub(super) shared_bytes: u32,
}

impl Shape {
    pub(super) const PLAIN: Self = Self { blocks: 1, threads: 32, shared_bytes: 0 };
}

/// How the arguments of a launch are given.
#[derive(Clone, Copy, Debug)]
pub(super) enum Given {
    /// As a buffer of the right size.
    Buffer,
    /// As a buffer that ends four bytes early.
    ShortBuffer,
    /// As a buffer with four more bytes, as padded to its alignment.
    LongBuffer,
    /// Not at all.
    Nothing,
    /// As a buffer and as an array.
    Twice,
}

/// An address and a word.
const STORE_BYTES: usize = 12;

impl Stage {
    /// Initialises the driver and opens the device. The kernels are launched once unless `is_cold`.
    pub(super) fn open(driver: Driver, ordinal: i32, is_cold: bool) -> Result<Self, NotTried> {
        let (mut device, mut context) = (0, ptr::null_mut());
        let (null_stream, null_module, null_function) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        // SAFETY: see `Stage`; all pointers are to locals.
        unsafe {
            driver.start.init(0)?;
            driver.functions.device_get(&raw mut device, ordinal)?;
            driver.functions.context_retain(&raw mut context, device)?;
            driver.functions.context_set_current(context)?;
        }
        let mut stage = Self {
            driver,
            context,
            device,
            stream: null_stream,
            module: null_module,
            store_word: null_function,
            hold_shared: null_function,
            memory: 0,
        };
        stage.stream = stage.new_stream(NON_BLOCKING)?;
        stage.module = stage.loaded(include_str!("probe.ptx"))?;
        stage.store_word = stage.function(c"store_word")?;
        stage.hold_shared = stage.function(c"hold_shared")?;
        stage.memory = stage.allocated(1 << 20)?;
        if !is_cold {
            must("cuLaunchKernel", stage.launch(stage.stream))?;
            must("cuStreamSynchronize", stage.synchronize(stage.stream))?;
        }
        Ok(stage)
    }

    /// Whether the context still allocates, launches and synchronizes: on a stream of its own and in RELAXED mode, for a
    /// capture that a driver lets go on is no loss of the context.
    pub(super) fn works(&self) -> bool {
        let (Ok(()), Ok(stream)) = (self.exchange_mode(Mode::Relaxed), self.new_stream(NON_BLOCKING)) else {
            return false;
        };
        let (allocation, address) = self.allocate(1 << 20);
        let calls = [allocation, self.launch(stream), self.synchronize(stream), self.free(address)];
        calls.iter().all(|code| *code == 0)
    }

    /// Ends the capture of a stream and says what had become of it.
    pub(super) fn capture_after(&self, stream: CUstream) -> CaptureAfter {
        const INVALIDATED: u32 = 901;
        match self.end(stream) {
            (0, graph) => {
                self.destroy_graph(graph);
                CaptureAfter::Intact
            }
            (INVALIDATED, graph) if graph.is_null() => CaptureAfter::Invalidated,
            _ => CaptureAfter::None,
        }
    }

    /// Runs `task` on another thread, with the same context current there.
    pub(super) fn elsewhere(&self, task: impl FnOnce(&Self) -> u32 + Send) -> Result<u32, NotTried> {
        let on_thread = || {
            // SAFETY: see `Stage`.
            let current = code(unsafe { self.driver.functions.context_set_current(self.context) });
            must("cuCtxSetCurrent", current)?;
            Ok(task(self))
        };
        thread::scope(|scope| scope.spawn(on_thread).join())
            .unwrap_or(Err(NotTried::NoCase("the other thread panicked")))
    }

    pub(super) fn device_count(&self) -> Result<i32, NotTried> {
        let mut count = 0;
        // SAFETY: see `Stage`.
        unsafe { self.driver.functions.device_count(&raw mut count) }?;
        Ok(count)
    }

    pub(super) fn get_device(&self, ordinal: i32) -> u32 {
        self.driver.get_device(ordinal)
    }

    /// CUDA version of the driver, and compute capability of the device, both as decimal digits: 12040 and 90.
    pub(super) fn versions(&self) -> Result<(i32, i32), NotTried> {
        let (mut driver, mut major, mut minor) = (0, 0, 0);
        // SAFETY: see `Stage`; 75 and 76 are the attributes of the capability's two numbers.
        unsafe {
            self.driver.start.driver_version(&raw mut driver)?;
            self.driver.functions.device_attribute(&raw mut major, 75, self.device)?;
            self.driver.functions.device_attribute(&raw mut minor, 76, self.device)?;
        }
        Ok((driver, major * 10 + minor))
    }

    /// Takes the context off this thread, or puts it back.
    pub(super) fn set_current(&self, is_current: bool) -> Result<(), NotTried> {
        let context = if is_current { self.context } else { ptr::null_mut() };
        // SAFETY: see `Stage`.
        Ok(unsafe { self.driver.functions.context_set_current(context) }?)
    }

    pub(super) fn allocate(&self, bytes: usize) -> (u32, CUdeviceptr) {
        let mut address = 0;
        // SAFETY: see `Stage`.
        let code = code(unsafe { self.driver.functions.memory_allocate(&raw mut address, bytes) });
        (code, address)
    }

    pub(super) fn allocated(&self, bytes: usize) -> Result<CUdeviceptr, NotTried> {
        let (code, address) = self.allocate(bytes);
        must("cuMemAlloc_v2", code).map(|()| address)
    }

    pub(super) fn free(&self, address: CUdeviceptr) -> u32 {
        // SAFETY: see `Stage`.
        code(unsafe { self.driver.functions.memory_free(address) })
    }

    pub(super) fn allocated_async(&self, bytes: usize, stream: CUstream) -> Result<CUdeviceptr, NotTried> {
        let mut address = 0;
        // SAFETY: see `Stage`.
        let code = unsafe { self.driver.more.allocate_async(&raw mut address, bytes, stream) };
        must("cuMemAllocAsync", code).map(|()| address)
    }

    pub(super) fn free_async(&self, address: CUdeviceptr, stream: CUstream) -> u32 {
        // SAFETY: see `Stage`.
        unsafe { self.driver.more.free_async(address, stream) }
    }

    pub(super) fn copy_now(&self, to: CUdeviceptr, from: &[u8]) -> u32 {
        // SAFETY: see `Stage`; the source is as long as is said.
        unsafe { self.driver.more.copy_now(to, from.as_ptr(), from.len()) }
    }

    pub(super) fn set(&self, at: CUdeviceptr, bytes: usize, stream: CUstream) -> u32 {
        // SAFETY: see `Stage`.
        code(unsafe { self.driver.functions.fill(at, 0, bytes, stream) })
    }

    pub(super) fn new_stream(&self, flags: u32) -> Result<CUstream, NotTried> {
        let mut stream = ptr::null_mut();
        // SAFETY: see `Stage`.
        unsafe { self.driver.functions.stream_create(&raw mut stream, flags) }?;
        Ok(stream)
    }

    pub(super) fn synchronize(&self, stream: CUstream) -> u32 {
        // SAFETY: see `Stage`.
        code(unsafe { self.driver.functions.stream_synchronize(stream) })
    }

    pub(super) fn synchronize_context(&self) -> u32 {
        // SAFETY: see `Stage`.
        code(unsafe { self.driver.functions.context_synchronize() })
    }

    pub(super) fn query(&self, stream: CUstream) -> u32 {
        // SAFETY: see `Stage`.
        unsafe { self.driver.more.stream_query(stream) }
    }

    pub(super) fn wait(&self, stream: CUstream, event: CUevent) -> u32 {
        // SAFETY: see `Stage`.
        unsafe { self.driver.more.stream_wait(stream, event, 0) }
    }

    pub(super) fn begin(&self, stream: CUstream, mode: Mode) -> u32 {
        // SAFETY: see `Stage`.
        code(unsafe { self.driver.functions.begin_capture(stream, mode as u32) })
    }

    pub(super) fn begun(&self, stream: CUstream, mode: Mode) -> Result<(), NotTried> {
        must("cuStreamBeginCapture_v2", self.begin(stream, mode))
    }

    pub(super) fn end(&self, stream: CUstream) -> (u32, CUgraph) {
        let mut graph = ptr::null_mut();
        // SAFETY: see `Stage`.
        let code = code(unsafe { self.driver.functions.end_capture(stream, &raw mut graph) });
        (code, graph)
    }

    pub(super) fn ended(&self, stream: CUstream) -> Result<CUgraph, NotTried> {
        let (code, graph) = self.end(stream);
        must("cuStreamEndCapture", code).map(|()| graph)
    }

    /// Sets this thread's mode.
    pub(super) fn exchange_mode(&self, mode: Mode) -> Result<(), NotTried> {
        let mut mode = mode as u32;
        // SAFETY: see `Stage`.
        Ok(unsafe { self.driver.functions.exchange_capture_mode(&raw mut mode) }?)
    }

    pub(super) fn new_event(&self, flags: u32) -> Result<CUevent, NotTried> {
        let mut event = ptr::null_mut();
        // SAFETY: see `Stage`.
        unsafe { self.driver.functions.event_create(&raw mut event, flags) }?;
        Ok(event)
    }

    pub(super) fn record(&self, event: CUevent, stream: CUstream) -> u32 {
        // SAFETY: see `Stage`.
        code(unsafe { self.driver.functions.event_record(event, stream) })
    }

    /// A new event, recorded.
    pub(super) fn recorded(&self, stream: CUstream) -> Result<CUevent, NotTried> {
        let event = self.new_event(0)?;
        must("cuEventRecord", self.record(event, stream))?;
        Ok(event)
    }

    pub(super) fn query_event(&self, event: CUevent) -> u32 {
        // SAFETY: see `Stage`.
        unsafe { self.driver.more.event_query(event) }
    }

    pub(super) fn synchronize_event(&self, event: CUevent) -> u32 {
        // SAFETY: see `Stage`.
        code(unsafe { self.driver.functions.event_synchronize(event) })
    }

    pub(super) fn elapsed(&self, start: CUevent, end: CUevent) -> u32 {
        let mut milliseconds = 0.0;
        // SAFETY: see `Stage`.
        code(unsafe { self.driver.functions.event_elapsed(&raw mut milliseconds, start, end) })
    }

    /// Loads PTX text.
    pub(super) fn load(&self, text: &str) -> (u32, CUmodule) {
        let mut module = ptr::null_mut();
        let text = CString::new(text).unwrap_or_default();
        let image = text.as_ptr().cast::<c_void>();
        // SAFETY: see `Stage`; the text ends with a zero, and there are no options.
        let loaded =
            unsafe { self.driver.functions.module_load(&raw mut module, image, 0, ptr::null_mut(), ptr::null_mut()) };
        (code(loaded), module)
    }

    fn loaded(&self, text: &str) -> Result<CUmodule, NotTried> {
        let (code, module) = self.load(text);
        must("cuModuleLoadDataEx", code).map(|()| module)
    }

    /// A function of the stage's module.
    pub(super) fn get_function(&self, symbol: &CStr) -> (u32, CUfunction) {
        let mut function = ptr::null_mut();
        // SAFETY: see `Stage`.
        let found = unsafe { self.driver.functions.module_function(&raw mut function, self.module, symbol.as_ptr()) };
        (code(found), function)
    }

    fn function(&self, symbol: &CStr) -> Result<CUfunction, NotTried> {
        let (code, function) = self.get_function(symbol);
        must("cuModuleGetFunction", code).map(|()| function)
    }

    /// Asks for dynamic shared memory: attribute 8, `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
    pub(super) fn ask_shared(&self, function: CUfunction, bytes: i32) -> u32 {
        // SAFETY: see `Stage`.
        code(unsafe { self.driver.functions.function_set_attribute(function, 8, bytes) })
    }

    /// Launches `store_word` on the stage's memory, as it should be.
    pub(super) fn launch(&self, stream: CUstream) -> u32 {
        self.launch_at(self.memory, stream)
    }

    /// Launches `store_word` on an address.
    pub(super) fn launch_at(&self, address: CUdeviceptr, stream: CUstream) -> u32 {
        self.launch_shaped(self.store_word, Shape::PLAIN, Given::Buffer, address, stream)
    }

    /// Launches either kernel.
    pub(super) fn launch_shaped(
        &self,
        function: CUfunction,
        shape: Shape,
        given: Given,
        address: CUdeviceptr,
        stream: CUstream,
    ) -> u32 {
        // `CU_LAUNCH_PARAM_BUFFER_POINTER`, `CU_LAUNCH_PARAM_BUFFER_SIZE` and `CU_LAUNCH_PARAM_END`.
        const BUFFER: *mut c_void = ptr::without_provenance_mut(1);
        const SIZE: *mut c_void = ptr::without_provenance_mut(2);
        const END: *mut c_void = ptr::null_mut();
        let mut buffer = [0_u8; STORE_BYTES + 4];
        buffer[..8].copy_from_slice(&address.to_le_bytes());
        let mut bytes = match given {
            Given::ShortBuffer => STORE_BYTES - 4,
            Given::LongBuffer => STORE_BYTES + 4,
            Given::Buffer | Given::Nothing | Given::Twice => STORE_BYTES,
        };
        let mut extra = [BUFFER, buffer.as_mut_ptr().cast(), SIZE, (&raw mut bytes).cast(), END];
        let (mut first, mut second) = (address, 0_u32);
        let mut array: [*mut c_void; 2] = [(&raw mut first).cast(), (&raw mut second).cast()];
        let (array, extra) = match given {
            Given::Buffer | Given::ShortBuffer | Given::LongBuffer => (ptr::null_mut(), extra.as_mut_ptr()),
            Given::Nothing => (ptr::null_mut(), ptr::null_mut()),
            Given::Twice => (array.as_mut_ptr(), extra.as_mut_ptr()),
        };
        let Shape { blocks, threads, shared_bytes } = shape;
        // SAFETY: see `Stage`; the arguments live through the call, which copies them.
        code(unsafe {
            self.driver.functions.launch_kernel(
                function,
                blocks,
                1,
                1,
                threads,
                1,
                1,
                shared_bytes,
                stream,
                array,
                extra,
            )
        })
    }

    pub(super) fn instantiate(&self, graph: CUgraph) -> (u32, CUgraphExec) {
        let mut exec = ptr::null_mut();
        let mut params =
            InstantiateParams { flags: 0, upload_stream: ptr::null_mut(), error_node: ptr::null_mut(), result: 0 };
        // SAFETY: see `Stage`.
        let made = unsafe { self.driver.functions.graph_instantiate(&raw mut exec, graph, &raw mut params) };
        (code(made), exec)
    }

    pub(super) fn instantiated(&self, graph: CUgraph) -> Result<CUgraphExec, NotTried> {
        let (code, exec) = self.instantiate(graph);
        must("cuGraphInstantiateWithParams", code).map(|()| exec)
    }

    pub(super) fn launch_graph(&self, exec: CUgraphExec, stream: CUstream) -> u32 {
        // SAFETY: see `Stage`.
        code(unsafe { self.driver.functions.graph_launch(exec, stream) })
    }

    pub(super) fn update(&self, exec: CUgraphExec, graph: CUgraph) -> u32 {
        let mut result = UpdateResult { result: 0, error_node: ptr::null_mut(), error_from_node: ptr::null_mut() };
        // SAFETY: see `Stage`.
        code(unsafe { self.driver.functions.executable_update(exec, graph, &raw mut result) })
    }

    fn destroy_graph(&self, graph: CUgraph) {
        // SAFETY: see `Stage`. A graph that stays behind ends with the process.
        let _ = unsafe { self.driver.functions.graph_destroy(graph) };
    }
}

/// What a call before the misuse came to.
pub(super) fn must(call: &'static str, code: u32) -> Result<(), NotTried> {
    Ok(Status::check(call, code)?)
}

/// The number that a call returned.
fn code(result: Result<(), Status>) -> u32 {
    result.err().map_or(0, |status| status.code)
}

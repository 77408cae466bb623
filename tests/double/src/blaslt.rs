//! cuBLASLt, doubled: what `libcublasLt.so.12` exports, as far as it is asked.
//!
//! It multiplies with the own kernel, launched through the driver double that the program has loaded, so that its products
//! are executed, captured and replayed like the real library's, and that the driver's rules hold for them. What it adds are
//! the library's own checks: sizes of attributes, layouts that fit, a workspace, and a handle that needs a context.
//!
//! `RUNGWISE_DOUBLE_BLASLT_STATUS` is what `cublasLtCreate` returns.
#![expect(unsafe_code, reason = "exported C functions")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::null_mut;

use kernels::launch::{Address, Launch, Module, Product, ProductPlan, Tile, Workspace};
use kernels::units::Rows;

/// `cublasStatus_t`.
mod status {
    pub(super) const NOT_INITIALIZED: c_int = 1;
    pub(super) const INVALID_VALUE: c_int = 7;
    pub(super) const EXECUTION_FAILED: c_int = 13;
    pub(super) const NOT_SUPPORTED: c_int = 15;
    use std::ffi::c_int;
}

type Answer = Result<(), c_int>;

fn returned(answer: Answer) -> c_int {
    answer.err().unwrap_or(0)
}

type LoadModule = unsafe extern "C" fn(*mut *mut c_void, *const c_void, u32, *mut u32, *mut *mut c_void) -> u32;
type UnloadModule = unsafe extern "C" fn(*mut c_void) -> u32;
type GetFunction = unsafe extern "C" fn(*mut *mut c_void, *mut c_void, *const c_char) -> u32;
type LaunchKernel = unsafe extern "C" fn(
    *mut c_void,
    u32,
    u32,
    u32,
    u32,
    u32,
    u32,
    u32,
    *mut c_void,
    *mut *mut c_void,
    *mut *mut c_void,
) -> u32;

/// An open handle: the kernel, loaded in the context that was current.
struct Handle {
    module: *mut c_void,
    function: *mut c_void,
    unload: UnloadModule,
    launch: LaunchKernel,
}

/// A function of the driver that the program has loaded already.
fn driver_function(name: &str) -> Option<*mut c_void> {
    let name = CString::new(name).ok()?;
    [c"libcuda.so", c"libcuda.so.1"].into_iter().find_map(|library| {
        // SAFETY: nothing is loaded, only found; both texts end with a zero.
        unsafe {
            let library = libc::dlopen(library.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD);
            let found = if library.is_null() { null_mut() } else { libc::dlsym(library, name.as_ptr()) };
            (!found.is_null()).then_some(found)
        }
    })
}

impl Handle {
    fn open() -> Option<Self> {
        let planned = std::env::var("RUNGWISE_DOUBLE_BLASLT_STATUS").ok();
        if planned.is_some_and(|status| status.trim() != "0") {
            return None;
        }
        let [load, unload, get, launch] =
            ["cuModuleLoadDataEx", "cuModuleUnload", "cuModuleGetFunction", "cuLaunchKernel"].map(driver_function);
        // SAFETY: the driver's functions have these signatures (CUDA driver API documentation).
        let (load, unload, get, launch) = unsafe {
            (
                std::mem::transmute::<*mut c_void, LoadModule>(load?),
                std::mem::transmute::<*mut c_void, UnloadModule>(unload?),
                std::mem::transmute::<*mut c_void, GetFunction>(get?),
                std::mem::transmute::<*mut c_void, LaunchKernel>(launch?),
            )
        };
        let (mut module, mut function) = (null_mut(), null_mut());
        let ptx = CString::new(Module::Gemm.ptx()).ok()?;
        // SAFETY: the text ends with a zero and lives through the call; there are no options.
        if unsafe { load(&raw mut module, ptx.as_ptr().cast(), 0, null_mut(), null_mut()) } != 0 {
            return None;
        }
        // SAFETY: the module was loaded just now.
        let found = unsafe { get(&raw mut function, module, c"gemm_tile16_bf16".as_ptr()) };
        (found == 0).then_some(Self { module, function, unload, launch })
    }

    fn launch(&self, given: &Launch, stream: *mut c_void) -> Answer {
        let arguments = given.arguments.bytes();
        let mut bytes = arguments.len();
        let pointer = |number| std::ptr::without_provenance_mut::<c_void>(number);
        let mut extra =
            [pointer(1), arguments.as_ptr().cast_mut().cast(), pointer(2), (&raw mut bytes).cast(), null_mut()];
        let ([x, y, z], [threads, ..]) = (given.grid, given.block);
        let (function, shared) = (self.function, given.shared_bytes);
        // SAFETY: the function is of the module that this handle holds; the driver copies the arguments.
        let status =
            unsafe { (self.launch)(function, x, y, z, threads, 1, 1, shared, stream, null_mut(), extra.as_mut_ptr()) };
        if status == 0 { Ok(()) } else { Err(status::EXECUTION_FAILED) }
    }
}

/// `cublasLtMatmulDescOpaque_t`.
#[derive(Default)]
struct Description {
    transpose_a: i32,
    epilogue: u32,
    bias: u64,
}

/// `cublasLtMatrixLayoutOpaque_t`: bf16, column-major and packed, or it is not supported.
struct Layout {
    rows: u64,
    columns: u64,
}

/// `cublasLtMatmulPreferenceOpaque_t`.
#[derive(Default)]
struct Preference {
    workspace_bytes: u64,
}

/// `cublasLtMatmulHeuristicResult_t`.
#[repr(C)]
struct Heuristic {
    algorithm: [u64; 8],
    workspace_bytes: usize,
    status: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

/// Marks an algorithm that came from the heuristic.
const ALGORITHM: u64 = 0x0d0b_1e00;
const WORKSPACE_BYTES: usize = 1 << 16;

/// # Safety
/// `out` is null or points to an address.
unsafe fn put<T>(out: *mut *mut c_void, value: T) -> Answer {
    if out.is_null() {
        return Err(status::INVALID_VALUE);
    }
    // SAFETY: the caller's.
    unsafe { out.write(Box::into_raw(Box::new(value)).cast()) };
    Ok(())
}

/// # Safety
/// `raw` came from [`put`] with the same type, and is dropped once.
unsafe fn drop_boxed<T>(raw: *mut c_void) -> c_int {
    if raw.is_null() {
        return status::INVALID_VALUE;
    }
    // SAFETY: the caller's.
    drop(unsafe { Box::from_raw(raw.cast::<T>()) });
    0
}

/// 12.9.1.
#[unsafe(no_mangle)]
extern "C" fn cublasLtGetVersion() -> usize {
    120_901
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cublasLtCreate(handle: *mut *mut c_void) -> c_int {
    // SAFETY: the caller's.
    returned(Handle::open().ok_or(status::NOT_INITIALIZED).and_then(|open| unsafe { put(handle, open) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cublasLtDestroy(handle: *mut c_void) -> c_int {
    if handle.is_null() {
        return status::NOT_INITIALIZED;
    }
    // SAFETY: it came from `cublasLtCreate`, and is destroyed once.
    let open = unsafe { Box::from_raw(handle.cast::<Handle>()) };
    // SAFETY: the module is this handle's own.
    if unsafe { (open.unload)(open.module) } == 0 { 0 } else { status::EXECUTION_FAILED }
}

/// f32 sums and factors only.
#[unsafe(no_mangle)]
unsafe extern "C" fn cublasLtMatmulDescCreate(out: *mut *mut c_void, compute: c_int, scale: c_int) -> c_int {
    if (compute, scale) != (68, 0) {
        return status::NOT_SUPPORTED;
    }
    // SAFETY: the caller's.
    returned(unsafe { put(out, Description::default()) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cublasLtMatmulDescDestroy(description: *mut c_void) -> c_int {
    // SAFETY: the caller's.
    unsafe { drop_boxed::<Description>(description) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cublasLtMatmulDescSetAttribute(
    description: *mut c_void,
    attribute: u32,
    value: *const c_void,
    bytes: usize,
) -> c_int {
    if description.is_null() || value.is_null() {
        return status::INVALID_VALUE;
    }
    // SAFETY: the description came from its create function; the value has the size that is said, which is checked.
    unsafe {
        let description = &mut *description.cast::<Description>();
        match (attribute, bytes) {
            (3, 4) => description.transpose_a = value.cast::<i32>().read_unaligned(),
            (7, 4) => description.epilogue = value.cast::<u32>().read_unaligned(),
            (8, 8) => description.bias = value.cast::<u64>().read_unaligned(),
            (26, 4) if value.cast::<i32>().read_unaligned() == 14 => {}
            _ => return status::INVALID_VALUE,
        }
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cublasLtMatrixLayoutCreate(
    out: *mut *mut c_void,
    element: c_int,
    rows: u64,
    columns: u64,
    leading: i64,
) -> c_int {
    if (element, leading) != (14, rows.cast_signed()) {
        return status::NOT_SUPPORTED;
    }
    // SAFETY: the caller's.
    returned(unsafe { put(out, Layout { rows, columns }) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cublasLtMatrixLayoutDestroy(layout: *mut c_void) -> c_int {
    // SAFETY: the caller's.
    unsafe { drop_boxed::<Layout>(layout) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cublasLtMatmulPreferenceCreate(out: *mut *mut c_void) -> c_int {
    // SAFETY: the caller's.
    returned(unsafe { put(out, Preference::default()) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cublasLtMatmulPreferenceDestroy(preference: *mut c_void) -> c_int {
    // SAFETY: the caller's.
    unsafe { drop_boxed::<Preference>(preference) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cublasLtMatmulPreferenceSetAttribute(
    preference: *mut c_void,
    attribute: u32,
    value: *const c_void,
    bytes: usize,
) -> c_int {
    if preference.is_null() || value.is_null() {
        return status::INVALID_VALUE;
    }
    match (attribute, bytes) {
        // SAFETY: the preference came from its create function; the value has the size that is said.
        (1, 8) => unsafe { (*preference.cast::<Preference>()).workspace_bytes = value.cast::<u64>().read_unaligned() },
        (5..=8, 4) => {}
        _ => return status::INVALID_VALUE,
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cublasLtMatmulAlgoGetHeuristic(
    handle: *mut c_void,
    description: *mut c_void,
    a: *mut c_void,
    b: *mut c_void,
    c: *mut c_void,
    d: *mut c_void,
    preference: *mut c_void,
    asked: c_int,
    results: *mut Heuristic,
    found: *mut c_int,
) -> c_int {
    let objects = [handle, description, a, b, c, d, preference];
    if objects.iter().any(|object| object.is_null()) || asked < 1 || results.is_null() || found.is_null() {
        return status::INVALID_VALUE;
    }
    // SAFETY: the objects came from their create functions; the results have room for as many as were asked for.
    unsafe {
        if let Err(status) = shape(description, a, b, d) {
            return status;
        }
        let fits = (*preference.cast::<Preference>()).workspace_bytes >= WORKSPACE_BYTES as u64;
        let mut algorithm = [0; 8];
        algorithm[0] = ALGORITHM;
        let result = Heuristic { algorithm, workspace_bytes: WORKSPACE_BYTES, status: 0, waves: 1.0, reserved: [0; 4] };
        results.write(result);
        found.write(c_int::from(fits));
        if fits { 0 } else { status::NOT_SUPPORTED }
    }
}

/// Rows, outputs and inputs of a product whose layouts fit each other; A must be transposed.
///
/// # Safety
/// The objects came from their create functions.
unsafe fn shape(
    description: *mut c_void,
    a: *mut c_void,
    b: *mut c_void,
    d: *mut c_void,
) -> Result<(u32, u32, u32), c_int> {
    // SAFETY: the caller's.
    let (description, [a, b, d]) =
        unsafe { (&*description.cast::<Description>(), [a, b, d].map(|layout| &*layout.cast::<Layout>())) };
    let fits = a.rows == b.rows && a.columns == d.rows && b.columns == d.columns;
    match (fits, description.transpose_a, description.epilogue) {
        (true, 1, 0 | 1 | 4) => Ok((d.columns as u32, d.rows as u32, a.rows as u32)),
        (true, ..) => Err(status::NOT_SUPPORTED),
        (false, ..) => Err(status::INVALID_VALUE),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cublasLtMatmul(
    handle: *mut c_void,
    description: *mut c_void,
    alpha: *const f32,
    a: *const c_void,
    a_layout: *mut c_void,
    b: *const c_void,
    b_layout: *mut c_void,
    beta: *const f32,
    _: *const c_void,
    _: *mut c_void,
    d: *mut c_void,
    d_layout: *mut c_void,
    algorithm: *const [u64; 8],
    workspace: *mut c_void,
    workspace_bytes: usize,
    stream: *mut c_void,
) -> c_int {
    let objects = [handle, description, a_layout, b_layout, d_layout];
    if objects.iter().any(|object| object.is_null()) || alpha.is_null() || beta.is_null() || algorithm.is_null() {
        return status::INVALID_VALUE;
    }
    // SAFETY: the objects came from their create functions; the factors and the algorithm are readable.
    let (description, handle, factors, algorithm, shape) = unsafe {
        let shape = shape(description, a_layout, b_layout, d_layout);
        (&*description.cast::<Description>(), &*handle.cast::<Handle>(), (*alpha, *beta), (*algorithm)[0], shape)
    };
    if workspace.is_null() || workspace_bytes < WORKSPACE_BYTES || algorithm != ALGORITHM {
        return status::INVALID_VALUE;
    }
    let multiply = || {
        let (rows, outputs, inputs) = shape?;
        if factors != (1.0, 0.0) {
            return Err(status::NOT_SUPPORTED);
        }
        let address = |pointer: *const c_void| Address(pointer.addr() as u64);
        let product = Product {
            out: address(d),
            input: address(b),
            weight: address(a),
            bias: if description.epilogue == 4 { Address(description.bias) } else { Address::NONE },
            rows: Rows(rows),
            outputs,
            inputs,
        };
        let launch = product.under(ProductPlan::exactly(&product, Tile::Rows16, 1), Workspace::default());
        handle.launch(&launch.map_err(|_| status::NOT_SUPPORTED)?, stream)
    };
    returned(multiply())
}

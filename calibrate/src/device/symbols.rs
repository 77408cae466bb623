//! Every function of the CUDA driver that calibrate calls, in one table: what is missing is known before anything is called.
//!
//! The functions are looked up once, in the library that cudarc found, and are called through pointers that return a plain
//! number. cudarc's own bindings would return a Rust enum, in which a status code newer than the bindings is undefined
//! behaviour (GPU specification section 1, "residual risk"), and would panic at the first call of a missing symbol.
#![expect(clippy::too_many_arguments, reason = "the driver's signatures")]

use std::ffi::{c_char, c_int, c_uint, c_void};

use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdeviceptr, CUevent, CUfunction, CUgraph, CUgraphExec, CUgraphNode, CUkernel, CUmodule,
    CUstream, CUuuid,
};

use super::status::Status;

/// One function of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Symbol {
    /// Its name in the library.
    pub name: &'static str,
    /// What cannot be done without it; `None`: nothing can be done without it.
    pub lost: Option<&'static str>,
}

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`, its result a plain number.
#[repr(C)]
#[derive(Debug)]
pub(super) struct InstantiateParams {
    pub(super) flags: u64,
    pub(super) upload_stream: CUstream,
    pub(super) error_node: CUgraphNode,
    pub(super) result: u32,
}

/// `CUgraphExecUpdateResultInfo`, its result a plain number.
#[repr(C)]
#[derive(Debug)]
pub(super) struct UpdateResult {
    pub(super) result: u32,
    pub(super) error_node: CUgraphNode,
    pub(super) error_from_node: CUgraphNode,
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`.
#[repr(C)]
#[derive(Debug)]
pub(super) struct KernelNodeParams {
    pub(super) function: CUfunction,
    pub(super) grid: [c_uint; 3],
    pub(super) block: [c_uint; 3],
    pub(super) shared_bytes: c_uint,
    pub(super) kernel_params: *mut *mut c_void,
    pub(super) extra: *mut *mut c_void,
    pub(super) kernel: CUkernel,
    pub(super) context: CUcontext,
}

impl Default for KernelNodeParams {
    fn default() -> Self {
        Self {
            function: std::ptr::null_mut(),
            grid: [0; 3],
            block: [0; 3],
            shared_bytes: 0,
            kernel_params: std::ptr::null_mut(),
            extra: std::ptr::null_mut(),
            kernel: std::ptr::null_mut(),
            context: std::ptr::null_mut(),
        }
    }
}

/// Declares a table: functions of the driver, those that can be missing with what is lost without them.
macro_rules! symbols {
    (
        $(#[$doc:meta])* $table:ident, $list:ident;
        needed { $($method:ident = $name:literal($($argument:ident: $type:ty),*);)* }
        optional { $($optional:ident = $optional_name:literal($($optional_argument:ident: $optional_type:ty),*) or $lost:literal;)* }
    ) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(super) struct $table {
            $($method: unsafe extern "C" fn($($type),*) -> u32,)*
            $($optional: Option<unsafe extern "C" fn($($optional_type),*) -> u32>,)*
        }

        /// The names of this table.
        const $list: &[Symbol] = &[
            $(Symbol { name: $name, lost: None },)*
            $(Symbol { name: $optional_name, lost: Some($lost) },)*
        ];

        impl $table {
            /// Looks every function up.
            ///
            /// # Errors
            /// The names of the needed functions that the library lacks.
            pub(super) fn resolve(library: &libloading::Library) -> Result<Self, Vec<&'static str>> {
                let missing: Vec<_> = [$($name),*].into_iter().filter(|name| !is_exported(library, name)).collect();
                if !missing.is_empty() {
                    return Err(missing);
                }
                // SAFETY: every signature below is that of the CUDA driver API documentation for this name.
                unsafe {
                    Ok(Self {
                        $($method: *library.get($name).map_err(|_| vec![$name])?,)*
                        $($optional: library.get($optional_name).ok().map(|found| *found),)*
                    })
                }
            }

            $(
                #[doc = concat!("`", $name, "`")]
                pub(super) unsafe fn $method(&self, $($argument: $type),*) -> Result<(), Status> {
                    // SAFETY: the caller's.
                    Status::check($name, unsafe { (self.$method)($($argument),*) })
                }
            )*
            $(
                #[doc = concat!("`", $optional_name, "`; `None` where the driver has no such function.")]
                pub(super) unsafe fn $optional(&self, $($optional_argument: $optional_type),*) -> Option<Result<(), Status>> {
                    // SAFETY: the caller's.
                    self.$optional.map(|function| Status::check($optional_name, unsafe { function($($optional_argument),*) }))
                }
            )*
        }
    };
}

symbols! {
    /// What is called before anything else is looked up: what is wrong with a driver as a whole shows here.
    Start, START;
    needed {
        init = "cuInit"(flags: c_uint);
        driver_version = "cuDriverGetVersion"(version: *mut c_int);
    }
    optional {}
}

symbols! {
    /// The functions of a driver that is initialised.
    Functions, FUNCTIONS;
    needed {
        error_name = "cuGetErrorName"(status: u32, name: *mut *const c_char);
        error_string = "cuGetErrorString"(status: u32, text: *mut *const c_char);

        device_count = "cuDeviceGetCount"(count: *mut c_int);
        device_get = "cuDeviceGet"(device: *mut CUdevice, ordinal: c_int);
        device_name = "cuDeviceGetName"(name: *mut c_char, bytes: c_int, device: CUdevice);
        device_uuid = "cuDeviceGetUuid_v2"(uuid: *mut CUuuid, device: CUdevice);
        device_pci = "cuDeviceGetPCIBusId"(address: *mut c_char, bytes: c_int, device: CUdevice);
        device_memory = "cuDeviceTotalMem_v2"(bytes: *mut usize, device: CUdevice);
        device_attribute = "cuDeviceGetAttribute"(value: *mut c_int, attribute: c_uint, device: CUdevice);

        context_flags = "cuDevicePrimaryCtxSetFlags_v2"(device: CUdevice, flags: c_uint);
        context_retain = "cuDevicePrimaryCtxRetain"(context: *mut CUcontext, device: CUdevice);
        context_release = "cuDevicePrimaryCtxRelease_v2"(device: CUdevice);
        context_set_current = "cuCtxSetCurrent"(context: CUcontext);
        context_synchronize = "cuCtxSynchronize"();

        memory_info = "cuMemGetInfo_v2"(free: *mut usize, total: *mut usize);
        memory_allocate = "cuMemAlloc_v2"(address: *mut CUdeviceptr, bytes: usize);
        memory_free = "cuMemFree_v2"(address: CUdeviceptr);
        host_allocate = "cuMemHostAlloc"(pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
        host_free = "cuMemFreeHost"(pointer: *mut c_void);
        host_device_address = "cuMemHostGetDevicePointer_v2"(address: *mut CUdeviceptr, pointer: *mut c_void, flags: c_uint);
        copy_to_device = "cuMemcpyHtoDAsync_v2"(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream);
        copy_to_host = "cuMemcpyDtoHAsync_v2"(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream);
        fill = "cuMemsetD8Async"(to: CUdeviceptr, value: u8, bytes: usize, stream: CUstream);

        stream_create = "cuStreamCreate"(stream: *mut CUstream, flags: c_uint);
        stream_destroy = "cuStreamDestroy_v2"(stream: CUstream);
        stream_synchronize = "cuStreamSynchronize"(stream: CUstream);
        begin_capture = "cuStreamBeginCapture_v2"(stream: CUstream, mode: c_uint);
        end_capture = "cuStreamEndCapture"(stream: CUstream, graph: *mut CUgraph);
        exchange_capture_mode = "cuThreadExchangeStreamCaptureMode"(mode: *mut c_uint);

        event_create = "cuEventCreate"(event: *mut CUevent, flags: c_uint);
        event_destroy = "cuEventDestroy_v2"(event: CUevent);
        event_record = "cuEventRecord"(event: CUevent, stream: CUstream);
        event_synchronize = "cuEventSynchronize"(event: CUevent);
        // Not `_v2`, which only drivers since 12.8 have; this one is in every driver.
        event_elapsed = "cuEventElapsedTime"(milliseconds: *mut f32, start: CUevent, end: CUevent);

        module_load = "cuModuleLoadDataEx"(
            module: *mut CUmodule, image: *const c_void, options: c_uint, names: *mut c_uint, values: *mut *mut c_void
        );
        module_unload = "cuModuleUnload"(module: CUmodule);
        module_function = "cuModuleGetFunction"(function: *mut CUfunction, module: CUmodule, name: *const c_char);
        function_attribute = "cuFuncGetAttribute"(value: *mut c_int, attribute: c_uint, function: CUfunction);
        function_set_attribute = "cuFuncSetAttribute"(function: CUfunction, attribute: c_uint, value: c_int);
        launch_kernel = "cuLaunchKernel"(
            function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
            block_z: c_uint, shared_bytes: c_uint, stream: CUstream, parameters: *mut *mut c_void, extra: *mut *mut c_void
        );

        graph_nodes = "cuGraphGetNodes"(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize);
        node_type = "cuGraphNodeGetType"(node: CUgraphNode, node_type: *mut c_uint);
        graph_destroy = "cuGraphDestroy"(graph: CUgraph);
        graph_instantiate = "cuGraphInstantiateWithParams"(executable: *mut CUgraphExec, graph: CUgraph, params: *mut InstantiateParams);
        graph_upload = "cuGraphUpload"(executable: CUgraphExec, stream: CUstream);
        graph_launch = "cuGraphLaunch"(executable: CUgraphExec, stream: CUstream);
        executable_update = "cuGraphExecUpdate_v2"(executable: CUgraphExec, graph: CUgraph, result: *mut UpdateResult);
        executable_destroy = "cuGraphExecDestroy"(executable: CUgraphExec);
    }
    optional {
        graph_edges = "cuGraphGetEdges"(graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode, count: *mut usize)
            or "the dependencies of a graph are not counted";
        device_card_uuid = "cuDeviceGetUuid"(uuid: *mut CUuuid, device: CUdevice)
            or "MIG instances are not told from whole GPUs";
        kernel_node_params = "cuGraphKernelNodeGetParams_v2"(node: CUgraphNode, params: *mut KernelNodeParams)
            or "the kernels of a graph are counted, not named";
        kernel_function = "cuKernelGetFunction"(function: *mut CUfunction, kernel: CUkernel)
            or "kernels that the driver keeps as library kernels are not named";
        function_name = "cuFuncGetName"(name: *mut *const c_char, function: CUfunction)
            or "the kernels of a graph are counted, not named";
        function_parameter = "cuFuncGetParamInfo"(function: CUfunction, index: usize, offset: *mut usize, bytes: *mut usize)
            or "parameters of the kernels are not compared with the driver's view of them";
    }
}

/// Every function that is called.
pub fn symbols() -> impl Iterator<Item = &'static Symbol> {
    START.iter().chain(FUNCTIONS)
}

/// Whether a library has a function of this name.
pub(super) fn is_exported(library: &libloading::Library, name: &str) -> bool {
    // SAFETY: the address is only compared with null, never called.
    unsafe { library.get::<*const c_void>(name) }.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_function_is_listed_twice() {
        let mut names: Vec<_> = symbols().map(|symbol| symbol.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), symbols().count());
    }
}

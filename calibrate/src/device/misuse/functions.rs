//! Functions of the driver that only a misuse calls, beside those of calibrate's own table.

use cudarc::driver::sys::{CUdeviceptr, CUevent, CUstream};

/// Declares the table. What a function returns is wanted as it is.
macro_rules! functions {
    ($($method:ident = $name:literal($($argument:ident: $type:ty),*);)*) => {
        /// The functions, looked up.
        #[derive(Debug)]
        pub(super) struct MoreFunctions {
            $($method: unsafe extern "C" fn($($type),*) -> u32,)*
        }

        impl MoreFunctions {
            /// Looks every function up; the name of one that is missing.
            pub(super) fn resolve(library: &libloading::Library) -> Result<Self, &'static str> {
                // SAFETY: every signature below is that of the CUDA driver API documentation for this name.
                unsafe { Ok(Self { $($method: *library.get($name).map_err(|_| $name)?,)* }) }
            }

            $(
                #[doc = concat!("`", $name, "`")]
                pub(super) unsafe fn $method(&self, $($argument: $type),*) -> u32 {
                    // SAFETY: the caller's.
                    unsafe { (self.$method)($($argument),*) }
                }
            )*
        }
    };
}

functions! {
    allocate_async = "cuMemAllocAsync"(address: *mut CUdeviceptr, bytes: usize, stream: CUstream);
    free_async = "cuMemFreeAsync"(address: CUdeviceptr, stream: CUstream);
    copy_now = "cuMemcpyHtoD_v2"(to: CUdeviceptr, from: *const u8, bytes: usize);
    stream_query = "cuStreamQuery"(stream: CUstream);
    stream_wait = "cuStreamWaitEvent"(stream: CUstream, event: CUevent, flags: u32);
    event_query = "cuEventQuery"(event: CUevent);
}

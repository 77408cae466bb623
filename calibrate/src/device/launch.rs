//! One kernel launch, with its arguments as one packed buffer.

use std::ffi::c_void;

use kernels::launch::Launch;

use super::error::DeviceError;
use super::module::Modules;
use super::stream::Stream;

/// `CU_LAUNCH_PARAM_END`, `CU_LAUNCH_PARAM_BUFFER_POINTER` and `CU_LAUNCH_PARAM_BUFFER_SIZE`.
const END: *mut c_void = std::ptr::null_mut();
const BUFFER_POINTER: *mut c_void = std::ptr::without_provenance_mut(1);
const BUFFER_SIZE: *mut c_void = std::ptr::without_provenance_mut(2);

/// Launches a kernel. The driver is given the size of the arguments with them, so that it can refuse what does not fit.
pub(super) fn launch(modules: &Modules, stream: &Stream, launch: &Launch) -> Result<(), DeviceError> {
    let function = modules.function(launch.kernel);
    let arguments = launch.arguments.bytes();
    if arguments.len() != function.parameter_bytes {
        let (given, expected) = (arguments.len(), function.parameter_bytes);
        return Err(DeviceError::Arguments { kernel: launch.kernel, given, expected });
    }
    let mut bytes = arguments.len();
    let mut extra = [BUFFER_POINTER, arguments.as_ptr().cast_mut().cast(), BUFFER_SIZE, (&raw mut bytes).cast(), END];
    // A kernel without parameters takes no buffer.
    let extra = if arguments.is_empty() { std::ptr::null_mut() } else { extra.as_mut_ptr() };
    let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (launch.grid, launch.block);
    // SAFETY: function and stream live through the call; the driver copies the arguments before it returns and does not
    // write to them; their number and sizes are those of the kernel, compared when the module was loaded and above.
    unsafe {
        modules.functions().launch_kernel(
            function.raw,
            grid_x,
            grid_y,
            grid_z,
            block_x,
            block_y,
            block_z,
            launch.shared_bytes,
            stream.raw,
            std::ptr::null_mut(),
            extra,
        )
    }?;
    Ok(())
}

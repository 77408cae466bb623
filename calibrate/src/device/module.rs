//! The kernels' modules in the driver, and each kernel's function.

use std::borrow::Cow;
use std::ffi::{CString, c_void};
use std::rc::Rc;

use cudarc::driver::sys::{CUfunction, CUmodule};
use kernels::launch::{Kernel, Module, Parameter};

use super::card::Attribute;
use super::context::{Context, Resource};
use super::error::DeviceError;
use super::named_status::named;
use super::status::{Status, code};
use super::symbols::Functions;

/// What a module is loaded from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image<'a> {
    /// PTX text: the driver compiles it for the device.
    Ptx(Cow<'a, str>),
    /// Code for one device already.
    Cubin(Cow<'a, [u8]>),
}

/// Every module loaded, every kernel found.
#[derive(Debug)]
pub(super) struct Modules {
    context: Rc<Context>,
    loaded: Vec<CUmodule>,
    functions: Vec<Function>,
}

/// One kernel in the driver.
#[derive(Clone, Copy, Debug)]
pub(super) struct Function {
    pub(super) raw: CUfunction,
    pub(super) parameter_bytes: usize,
}

/// What the driver says about a kernel's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Registers of a thread.
    pub registers: i32,
    /// Local memory of a thread, in bytes: spilled registers, and arrays that are not in registers.
    pub local_bytes: i32,
    /// Shared memory of a block that is there whatever a launch asks for.
    pub static_shared_bytes: i32,
}

/// Numbers of `CUfunction_attribute`.
mod attribute {
    pub(super) const STATIC_SHARED_BYTES: u32 = 1;
    pub(super) const LOCAL_BYTES: u32 = 3;
    pub(super) const REGISTERS: u32 = 4;
    pub(super) const DYNAMIC_SHARED_BYTES_MOST: u32 = 8;
}

/// Dynamic shared memory that a launch may ask for without the function's attribute (CUDA programming guide).
const SHARED_BYTES_UNASKED: u32 = 48 << 10;

impl Modules {
    /// Loads all modules and gets every kernel ready: found, its parameters compared, its shared memory allowed.
    pub(super) fn load<'a>(
        context: &Rc<Context>,
        image: impl Fn(Module) -> Image<'a>,
    ) -> Result<Rc<Self>, DeviceError> {
        let mut modules = Self { context: Rc::clone(context), loaded: Vec::new(), functions: Vec::new() };
        for module in Module::ALL {
            modules.loaded.push(load(context, module, &image(module))?);
        }
        for &kernel in Kernel::ALL {
            let module = Module::ALL.iter().position(|&module| module == kernel.module()).unwrap_or_default();
            let function = function(context, modules.loaded[module], kernel)?;
            modules.functions.push(function);
        }
        Ok(Rc::new(modules))
    }

    /// The function of a kernel.
    pub(super) fn function(&self, kernel: Kernel) -> Function {
        self.functions[kernel as usize]
    }

    pub(super) fn functions(&self) -> &'static Functions {
        self.context.functions()
    }

    /// What the driver says about a kernel's code.
    pub(super) fn usage(&self, kernel: Kernel) -> Result<Usage, DeviceError> {
        let get = |attribute| {
            let mut value = 0;
            // SAFETY: the function lives as long as its module, and the pointer is to a local.
            unsafe {
                self.functions().function_attribute(&raw mut value, attribute, self.function(kernel).raw)?;
            }
            Ok::<_, DeviceError>(value)
        };
        Ok(Usage {
            registers: get(attribute::REGISTERS)?,
            local_bytes: get(attribute::LOCAL_BYTES)?,
            static_shared_bytes: get(attribute::STATIC_SHARED_BYTES)?,
        })
    }
}

impl Drop for Modules {
    fn drop(&mut self) {
        for module in self.loaded.drain(..) {
            self.context.release(Resource::Module(module));
        }
    }
}

/// Loads one module; the driver compiles PTX here, so that nothing is compiled at a launch.
fn load(context: &Context, module: Module, image: &Image<'_>) -> Result<CUmodule, DeviceError> {
    const ERROR_LOG_BUFFER: u32 = 5;
    const ERROR_LOG_BUFFER_BYTES: u32 = 6;
    let terminated;
    let pointer: *const c_void = match image {
        Image::Ptx(text) => {
            // PTX holds no zero byte; a text that does ends there.
            terminated = CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default();
            terminated.as_ptr().cast()
        }
        Image::Cubin(code) => code.as_ptr().cast(),
    };
    let mut log = vec![0_u8; 8 << 10];
    let mut names = [ERROR_LOG_BUFFER, ERROR_LOG_BUFFER_BYTES];
    let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), std::ptr::without_provenance_mut(log.len())];
    let mut raw = std::ptr::null_mut();
    // SAFETY: the image is a terminated text or a whole cubin; the log is as long as is said; all outlive the call.
    let done =
        unsafe { context.functions().module_load(&raw mut raw, pointer, 2, names.as_mut_ptr(), values.as_mut_ptr()) };
    match done {
        Ok(()) => Ok(raw),
        Err(status @ Status { code: code::UNSUPPORTED_PTX_VERSION, .. }) => {
            let driver = context.card().library.version();
            Err(DeviceError::UnsupportedPtx { module, status: named(status), driver })
        }
        Err(status @ Status { code: code::JIT_COMPILER_NOT_FOUND | code::JIT_COMPILATION_DISABLED, .. }) => {
            Err(DeviceError::NoCompiler { status: named(status) })
        }
        // What ends every load alike is no fault of this module.
        Err(status @ Status { code: code::OUT_OF_MEMORY, .. }) => Err(status.into()),
        Err(status) if status.is_sticky() => Err(status.into()),
        Err(status) => {
            let text = String::from_utf8_lossy(log.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned();
            let text = crate::stderr::printable(text.trim());
            let log = if text.is_empty() { text } else { format!("\n{text}") };
            Err(DeviceError::Module { module, status: named(status), log })
        }
    }
}

/// Finds a kernel and gets it ready.
fn function(context: &Context, module: CUmodule, kernel: Kernel) -> Result<Function, DeviceError> {
    let symbol = CString::new(kernel.symbol()).unwrap_or_default();
    let mut raw = std::ptr::null_mut();
    // SAFETY: the module was loaded in this context; the symbol is a terminated text that outlives the call.
    unsafe { context.functions().module_function(&raw mut raw, module, symbol.as_ptr()) }.map_err(|status| {
        if status.code == code::NOT_FOUND { DeviceError::NoKernel { kernel } } else { status.into() }
    })?;
    compare_parameters(context, raw, kernel)?;
    allow_shared_memory(context, raw, kernel)?;
    Ok(Function { raw, parameter_bytes: parameter_bytes(kernel.parameters()) })
}

/// Bytes of the packed parameters: each at its natural alignment.
fn parameter_bytes(parameters: &[Parameter]) -> usize {
    parameters.iter().fold(0, |end, parameter| {
        let bytes = parameter.parameter_type.bytes();
        end.next_multiple_of(bytes) + bytes
    })
}

/// Compares the module's parameters with the table, where the driver can tell them (12.4 and newer).
fn compare_parameters(context: &Context, function: CUfunction, kernel: Kernel) -> Result<(), DeviceError> {
    let mut expected_offset = 0;
    for (index, parameter) in kernel.parameters().iter().enumerate() {
        let expected_bytes = parameter.parameter_type.bytes();
        expected_offset = usize::next_multiple_of(expected_offset, expected_bytes);
        let (mut offset, mut bytes) = (0, 0);
        // SAFETY: the function lives, and both pointers are to locals.
        let told = unsafe { context.functions().function_parameter(function, index, &raw mut offset, &raw mut bytes) };
        let problem = match told {
            None => return Ok(()),
            // How the driver says that there is no such parameter (CUDA driver API documentation, `cuFuncGetParamInfo`).
            Some(Err(Status { code: code::INVALID_VALUE, .. })) => {
                format!("({}) is missing in the module", parameter.name)
            }
            Some(Err(status)) => return Err(status.into()),
            Some(Ok(())) if (offset, bytes) != (expected_offset, expected_bytes) => format!(
                "({}) has {bytes} bytes at {offset} in the module: expected {expected_bytes} at {expected_offset}",
                parameter.name
            ),
            Some(Ok(())) => {
                expected_offset += expected_bytes;
                continue;
            }
        };
        return Err(DeviceError::Parameter { kernel, index, problem });
    }
    let index = kernel.parameters().len();
    let (mut offset, mut bytes) = (0, 0);
    // SAFETY: as above.
    match unsafe { context.functions().function_parameter(function, index, &raw mut offset, &raw mut bytes) } {
        Some(Ok(())) => {
            let problem = format!("is in the module, and calibrate knows {index} parameters");
            Err(DeviceError::Parameter { kernel, index, problem })
        }
        _ => Ok(()),
    }
}

/// Allows a kernel the dynamic shared memory that its launches ask for.
fn allow_shared_memory(context: &Context, function: CUfunction, kernel: Kernel) -> Result<(), DeviceError> {
    let asked = kernel.most_shared_bytes();
    if asked <= SHARED_BYTES_UNASKED {
        return Ok(());
    }
    let most = context.card().attribute(Attribute::SharedBytesMost)?;
    let asked = asked.cast_signed().min(most);
    // SAFETY: the function lives; the value is within the device's limit.
    unsafe { context.functions().function_set_attribute(function, attribute::DYNAMIC_SHARED_BYTES_MOST, asked) }?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernels::launch::{Address, Arguments};
    use kernels::launch::{Embed, Gate};

    #[test]
    fn kernels_are_found_by_their_place_in_the_table() {
        for (index, &kernel) in Kernel::ALL.iter().enumerate() {
            assert_eq!(kernel as usize, index);
        }
    }

    #[test]
    fn parameters_take_the_bytes_of_their_packed_arguments() {
        let launches: [(Kernel, Arguments); 2] = [
            Embed { out: Address(1), table: Address(2), ids: Address(3), hidden: 4, table_rows: 5 }.into(),
            Gate { flag: Address(1), outcome: Address(2), timeout_ns: 3 }.into(),
        ];
        for (kernel, arguments) in launches {
            assert_eq!(parameter_bytes(kernel.parameters()), arguments.bytes().len(), "{kernel:?}");
        }
    }
}

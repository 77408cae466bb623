//! Modules and functions.
#![expect(unsafe_code, reason = "exported C functions under their own names")]

use std::ffi::{CStr, c_char};

use super::device::BLOCK_THREADS;
use super::{number, put, put_if_asked};
use crate::driver::{CALL, Driver, enter};
use crate::driver_rules::Misuse;
use crate::limits::{Limits, RESERVED_BYTES};
use crate::modules::Loaded;
use crate::ptx::Ptx;
use crate::status::{Answer, Status};

/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
const MAX_DYNAMIC_SHARED: u32 = 8;

impl Driver {
    /// The function that a handle names.
    pub(crate) fn function(&mut self, handle: u64) -> &mut Loaded {
        let is_known = self.modules.function(handle).is_some();
        self.must_know(is_known, Misuse::UnknownFunction, "function", handle);
        self.modules.function(handle).expect("it is known")
    }
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuModuleLoadData(module: *mut u64, image: *const c_char) -> u32 {
    enter("cuModuleLoadData", |costs| costs.module_ns, |driver| load(driver, module, image))
}

/// The options of the compiler are passed over.
#[unsafe(no_mangle)]
pub(super) extern "C" fn cuModuleLoadDataEx(
    module: *mut u64,
    image: *const c_char,
    _options: u32,
    _names: *const u32,
    _values: *const *mut u8,
) -> u32 {
    enter("cuModuleLoadDataEx", |costs| costs.module_ns, |driver| load(driver, module, image))
}

fn load(driver: &mut Driver, module: *mut u64, image: *const c_char) -> Answer {
    driver.ready()?;
    driver.unsafe_call(Misuse::LoadInCapture)?;
    if image.is_null() {
        return Err(driver.violation(Status::INVALID_VALUE, "no image"));
    }
    // SAFETY: an image is a text that ends with a null, or a binary whose first four bytes tell.
    let is_binary = unsafe { image.cast::<[u8; 4]>().read_unaligned() } == *b"\x7fELF";
    if is_binary {
        return Err(driver.violation(Status::INVALID_IMAGE, "the double reads PTX only, and this is a binary"));
    }
    // SAFETY: it is no binary, so it is a text that ends with a null.
    let text = unsafe { CStr::from_ptr(image) }.to_string_lossy();
    let Some(ptx) = Ptx::parse(&text) else {
        return Err(driver.breach(Misuse::PtxBroken, "this is no PTX"));
    };
    let (major, minor) = ptx.version;
    if ptx.version > driver.configuration.ptx_version {
        let (known_major, known_minor) = driver.configuration.ptx_version;
        let text = format!("PTX {major}.{minor}, and the driver takes up to {known_major}.{known_minor}");
        return Err(driver.breach(Misuse::PtxTooNew, &text));
    }
    let (capability_major, capability_minor) = driver.configuration.capability;
    if ptx.target > capability_major * 10 + capability_minor {
        let text = format!("sm_{} on a device of {capability_major}.{capability_minor}", ptx.target);
        return Err(driver.breach(Misuse::PtxForNewerDevice, &text));
    }
    let is_eager = driver.configuration.is_eager;
    let handle = driver.modules.load(ptx, is_eager, &mut driver.handles);
    put(driver, module, handle)
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuModuleUnload(module: u64) -> u32 {
    enter("cuModuleUnload", CALL, |driver| {
        driver.ready()?;
        driver.unsafe_call(Misuse::LoadInCapture)?;
        driver.must_know(driver.modules.is_loaded(module), Misuse::UnknownFunction, "module", module);
        // Work that still runs the module's code is waited for.
        driver.wait_all()?;
        driver.modules.unload(module);
        driver.memory.forget_checks();
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuModuleGetFunction(function: *mut u64, module: u64, symbol: *const c_char) -> u32 {
    enter("cuModuleGetFunction", CALL, |driver| {
        driver.ready()?;
        if symbol.is_null() {
            return Err(driver.violation(Status::INVALID_VALUE, "no symbol"));
        }
        // SAFETY: the caller gives a text that ends with a null.
        let symbol = unsafe { CStr::from_ptr(symbol) }.to_string_lossy();
        driver.must_know(driver.modules.is_loaded(module), Misuse::UnknownFunction, "module", module);
        let Some(handle) = driver.modules.symbol(module, &symbol) else {
            return Err(driver.breach(Misuse::FunctionMissing, &format!("the module has no {symbol}")));
        };
        put(driver, function, handle)
    })
}

/// 1 eager, 2 lazy.
#[unsafe(no_mangle)]
pub(super) extern "C" fn cuModuleGetLoadingMode(mode: *mut u32) -> u32 {
    enter("cuModuleGetLoadingMode", CALL, |driver| {
        driver.initialised()?;
        let is_eager = driver.configuration.is_eager;
        put(driver, mode, if is_eager { 1 } else { 2 })
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuFuncGetName(name: *mut *const c_char, function: u64) -> u32 {
    enter("cuFuncGetName", CALL, |driver| {
        let text = driver.function(function).function.name.as_ptr();
        put(driver, name, text)
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuFuncGetModule(module: *mut u64, function: u64) -> u32 {
    enter("cuFuncGetModule", CALL, |driver| {
        let handle = driver.function(function).function.module;
        put(driver, module, handle)
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuFuncGetParamInfo(function: u64, index: usize, offset: *mut usize, bytes: *mut usize) -> u32 {
    enter("cuFuncGetParamInfo", CALL, |driver| {
        let Some(parameter) = driver.function(function).function.entry.parameters.get(index).copied() else {
            // How a caller finds the last one.
            return Err(Status::INVALID_VALUE);
        };
        put(driver, offset, parameter.offset)?;
        put_if_asked(driver, bytes, parameter.bytes)
    })
}

/// Attributes by the numbers of `CUfunction_attribute`.
#[unsafe(no_mangle)]
pub(super) extern "C" fn cuFuncGetAttribute(value: *mut i32, attribute: u32, function: u64) -> u32 {
    enter("cuFuncGetAttribute", CALL, |driver| {
        driver.ready()?;
        let (major, minor) = driver.configuration.capability;
        let loaded = driver.function(function);
        let known = match attribute {
            0 => BLOCK_THREADS,
            1 => loaded.function.entry.static_shared_bytes,
            // Neither constants nor local memory; 32 registers, whatever the kernel.
            2 | 3 => 0,
            4 => 32,
            5 | 6 => major * 10 + minor,
            MAX_DYNAMIC_SHARED => loaded.shared_max,
            _ => return Err(driver.violation(Status::INVALID_VALUE, &format!("function attribute {attribute}"))),
        };
        put(driver, value, known.cast_signed())
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuFuncSetAttribute(function: u64, attribute: u32, value: i32) -> u32 {
    enter("cuFuncSetAttribute", CALL, |driver| {
        driver.ready()?;
        let most = Limits::of(driver.configuration.capability).block_shared_bytes();
        let loaded = driver.function(function);
        match (attribute, u32::try_from(value)) {
            (MAX_DYNAMIC_SHARED, Ok(bytes)) => {
                let static_bytes = loaded.function.entry.static_shared_bytes;
                if bytes.saturating_add(static_bytes) > most {
                    let text = format!("{bytes} dynamic and {static_bytes} static bytes, of at most {most}");
                    return Err(driver.breach(Misuse::SharedBeyondDevice, &text));
                }
                loaded.shared_max = bytes;
                Ok(())
            }
            // The preferred share of the L1 cache.
            (9, _) => Ok(()),
            _ => Err(driver.violation(Status::INVALID_VALUE, &format!("function attribute {attribute} = {value}"))),
        }
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuFuncSetCacheConfig(function: u64, _preference: u32) -> u32 {
    enter("cuFuncSetCacheConfig", CALL, |driver| {
        driver.function(function);
        Ok(())
    })
}

/// Brings a lazily loaded function to the device.
#[unsafe(no_mangle)]
pub(super) extern "C" fn cuFuncLoad(function: u64) -> u32 {
    enter("cuFuncLoad", CALL, |driver| {
        driver.ready()?;
        driver.unsafe_call(Misuse::LazyLoadInCapture)?;
        driver.function(function).is_resident = true;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuFuncIsLoaded(state: *mut u32, function: u64) -> u32 {
    enter("cuFuncIsLoaded", CALL, |driver| {
        let is_resident = driver.function(function).is_resident;
        put(driver, state, u32::from(is_resident))
    })
}

/// By threads and shared memory alone: the double counts no registers.
#[unsafe(no_mangle)]
pub(super) extern "C" fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    blocks: *mut i32,
    function: u64,
    block_threads: i32,
    shared_bytes: usize,
) -> u32 {
    enter("cuOccupancyMaxActiveBlocksPerMultiprocessor", CALL, |driver| {
        let static_bytes = driver.function(function).function.entry.static_shared_bytes as usize;
        let Some(threads) = usize::try_from(block_threads).ok().filter(|threads| *threads > 0) else {
            return Err(driver.violation(Status::INVALID_VALUE, "a block without threads"));
        };
        let limits = Limits::of(driver.configuration.capability);
        let by_threads = limits.threads as usize / threads.next_multiple_of(32);
        let by_shared = limits.shared_bytes as usize / (shared_bytes + static_bytes + RESERVED_BYTES as usize);
        put(driver, blocks, number(by_threads.min(by_shared).min(limits.blocks as usize)))
    })
}

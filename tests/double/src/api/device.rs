//! Start, and what devices are.
#![expect(unsafe_code, reason = "exported C functions under their own names")]

use std::ffi::CStr;

use super::{number, put, put_text};
use crate::configuration::Configuration;
use crate::driver::{CALL, Driver, enter};
use crate::limits::{Limits, RESERVED_BYTES};
use crate::modules::SHARED_DEFAULT;
use crate::status::Status;

/// Threads of a block.
pub(crate) const BLOCK_THREADS: u32 = 1024;

/// Largest block and grid along each axis.
pub(crate) const BLOCK_MAX: [u32; 3] = [1024, 1024, 64];
pub(crate) const GRID_MAX: [u32; 3] = [0x7fff_ffff, 65_535, 65_535];

/// The handle of a device's default memory pool.
pub(crate) fn default_pool(device: usize) -> u64 {
    0x9000 + device as u64
}

/// At exit. A thread that is in a call then never comes back to let the driver go: nothing is reported in its place.
extern "C" fn close() {
    if let Some(mut driver) = crate::driver::try_lock() {
        driver.close();
    }
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuInit(flags: u32) -> u32 {
    enter("cuInit", CALL, |driver| {
        if driver.configuration.init_status != 0 {
            return Err(Status(driver.configuration.init_status));
        }
        if driver.configuration.devices == 0 {
            return Err(Status::NO_DEVICE);
        }
        if flags != 0 {
            return Err(driver.violation(Status::INVALID_VALUE, "flags must be 0"));
        }
        if !driver.is_initialised {
            driver.is_initialised = true;
            // SAFETY: the function lives as long as this library, which is never unloaded before exit.
            unsafe { libc::atexit(close) };
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuDriverGetVersion(version: *mut i32) -> u32 {
    enter("cuDriverGetVersion", CALL, |driver| put(driver, version, driver.configuration.driver_version))
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuDeviceGetCount(count: *mut i32) -> u32 {
    enter("cuDeviceGetCount", CALL, |driver| {
        driver.initialised()?;
        put(driver, count, driver.configuration.devices.cast_signed())
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuDeviceGet(device: *mut i32, ordinal: i32) -> u32 {
    enter("cuDeviceGet", CALL, |driver| {
        driver.device(ordinal)?;
        put(driver, device, ordinal)
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuDeviceGetName(name: *mut u8, room: i32, device: i32) -> u32 {
    enter("cuDeviceGetName", CALL, |driver| {
        driver.device(device)?;
        let mut text = driver.configuration.name.clone();
        if driver.configuration.is_mig {
            text.push_str(" MIG 1g.18gb");
        }
        put_text(driver, name, room, &text)
    })
}

/// The double's UUIDs differ in their last byte; a MIG instance has another first byte than its device.
pub(crate) fn uuid(device: usize, is_mig: bool) -> [u8; 16] {
    let mut bytes = *b"\xd0\x0brungwise dou\x00\x00";
    bytes[0] = if is_mig { 0xd1 } else { 0xd0 };
    bytes[15] = device as u8;
    bytes
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuDeviceGetUuid(bytes: *mut [u8; 16], device: i32) -> u32 {
    enter("cuDeviceGetUuid", CALL, |driver| {
        let device = driver.device(device)?;
        put(driver, bytes, uuid(device, false))
    })
}

/// Of a MIG instance the instance's own.
#[unsafe(no_mangle)]
pub(super) extern "C" fn cuDeviceGetUuid_v2(bytes: *mut [u8; 16], device: i32) -> u32 {
    enter("cuDeviceGetUuid_v2", CALL, |driver| {
        let device = driver.device(device)?;
        put(driver, bytes, uuid(device, driver.configuration.is_mig))
    })
}

/// The bus numbers run against the ordinals, as they do on machines where CUDA sorts by speed.
pub(crate) fn bus(configuration: &Configuration, device: usize) -> u32 {
    0x10 + (configuration.devices as usize - 1 - device) as u32
}

/// As text.
fn pci_address(driver: &Driver, device: usize) -> String {
    format!("0000:{:02x}:00.0", bus(&driver.configuration, device))
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuDeviceGetPCIBusId(text: *mut u8, room: i32, device: i32) -> u32 {
    enter("cuDeviceGetPCIBusId", CALL, |driver| {
        let device = driver.device(device)?;
        let address = pci_address(driver, device);
        put_text(driver, text, room, &address)
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuDeviceGetByPCIBusId(device: *mut i32, text: *const std::ffi::c_char) -> u32 {
    enter("cuDeviceGetByPCIBusId", CALL, |driver| {
        driver.initialised()?;
        if text.is_null() {
            return Err(driver.violation(Status::INVALID_VALUE, "no address"));
        }
        // SAFETY: the caller gives a text that ends with a null.
        let asked = unsafe { CStr::from_ptr(text) }.to_string_lossy().to_lowercase();
        let found =
            (0..driver.configuration.devices as usize).find(|known| pci_address(driver, *known).ends_with(&asked));
        let found = found.ok_or(Status::INVALID_DEVICE)?;
        put(driver, device, number(found))
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, device: i32) -> u32 {
    enter("cuDeviceTotalMem_v2", CALL, |driver| {
        driver.device(device)?;
        put(driver, bytes, driver.configuration.memory_bytes as usize)
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuDeviceGetAttribute(value: *mut i32, attribute: u32, device: i32) -> u32 {
    enter("cuDeviceGetAttribute", CALL, |driver| {
        let device = driver.device(device)?;
        let known = attribute_value(driver, attribute, device);
        put(driver, value, known)
    })
}

/// Attributes by the numbers of `CUdevice_attribute`.
fn attribute_value(driver: &mut Driver, attribute: u32, device: usize) -> i32 {
    let configuration = &driver.configuration;
    let limits = Limits::of(configuration.capability);
    let value: u32 = match attribute {
        1 => BLOCK_THREADS,
        2..=4 => BLOCK_MAX[attribute as usize - 2],
        5..=7 => GRID_MAX[attribute as usize - 5],
        8 => SHARED_DEFAULT,
        // Threads of a warp.
        10 => 32,
        12 | 82 => 65_536,
        // In kHz.
        13 => configuration.costs.clock_mhz as u32 * 1_000,
        16 => configuration.multiprocessors,
        // Whether kernels have a time limit.
        17 => configuration.kernel_timeout,
        // Not integrated, no TCC driver of Windows, PCI domain 0, PCI device 0.
        18 | 34 | 35 | 50 => 0,
        // Maps host memory, several kernels at once, ECC, one address space, managed memory, pools, cooperative launches.
        19 | 31 | 32 | 41 | 83 | 95 | 115 => 1,
        20 => configuration.compute_mode.cast_unsigned(),
        33 => bus(configuration, device),
        36 => 3_201_000,
        37 => 6_144,
        38 => 60 << 20,
        39 => limits.threads,
        75 => configuration.capability.0,
        76 => configuration.capability.1,
        81 => limits.shared_bytes,
        97 => limits.block_shared_bytes(),
        106 => limits.blocks,
        111 => RESERVED_BYTES,
        _ => {
            driver.report.note(&format!("device attribute {attribute} is not modelled: 0"));
            0
        }
    };
    value.cast_signed()
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuDeviceGetDefaultMemPool(pool: *mut u64, device: i32) -> u32 {
    enter("cuDeviceGetDefaultMemPool", CALL, |driver| {
        let device = driver.device(device)?;
        put(driver, pool, default_pool(device))
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuDeviceGetMemPool(pool: *mut u64, device: i32) -> u32 {
    enter("cuDeviceGetMemPool", CALL, |driver| {
        let device = driver.device(device)?;
        put(driver, pool, default_pool(device))
    })
}

/// Memory of graph nodes: 0 and 1 used, now and at most; 2 and 3 reserved. The double keeps no highest values.
#[unsafe(no_mangle)]
pub(super) extern "C" fn cuDeviceGetGraphMemAttribute(device: i32, attribute: u32, value: *mut u64) -> u32 {
    enter("cuDeviceGetGraphMemAttribute", CALL, |driver| {
        let device = driver.device(device)?;
        let (used, reserved) = driver.memory.graph(device);
        match attribute {
            0 | 1 => put(driver, value, used),
            2 | 3 => put(driver, value, reserved),
            _ => Err(driver.violation(Status::INVALID_VALUE, &format!("attribute {attribute}"))),
        }
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuDeviceGraphMemTrim(device: i32) -> u32 {
    enter("cuDeviceGraphMemTrim", CALL, |driver| {
        let device = driver.device(device)?;
        driver.memory.trim_graph(device);
        Ok(())
    })
}

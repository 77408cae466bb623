//! NVML, doubled: what `libnvidia-ml.so.1` exports, as far as it is asked. Only queries: nothing can be set.
//!
//! It shows the cards of the driver double, in the order of their PCI addresses, which runs against CUDA's order. Variables,
//! all with `RUNGWISE_DOUBLE_NVML_` before them, plant what it says; instead of a value each takes `unsupported`, `denied` or
//! `missing`: the call then returns NOT_SUPPORTED, NO_PERMISSION or FUNCTION_NOT_FOUND.
//!
//! | variable | default | meaning |
//! |---|---|---|
//! | `INIT` | 0 | what `nvmlInit_v2` returns |
//! | `DRIVER` | `575.57.08` | driver version |
//! | `HIDDEN` | 0 | cards more than CUDA shows, behind the others |
//! | `MEMORY_USED` | 4,194,304 | bytes in use |
//! | `POWER_LIMIT`, `POWER_DEFAULT`, `POWER_ENFORCED`, `POWER_USAGE` | 700,000, the last 76,400 | milliwatts |
//! | `REASONS` | 1 | bits of the reasons for the clocks |
//! | `SM_CLOCK`, `SM_CLOCK_MAX`, `MEMORY_CLOCK`, `MEMORY_CLOCK_MAX` | 345, 1,980, 3,201, 3,201 | MHz |
//! | `TEMPERATURE` | 31 | degrees Celsius |
//! | `ECC`, `ECC_DEFAULT`, `PERSISTENCE` | 1 | 0 off, 1 on |
//! | `VIRTUALIZATION` | 0 | as `nvmlGpuVirtualizationMode_t` |
//! | `PROCESSES` | | `PID:BYTES`, separated by commas |
//! | `PROCESSES_V3` | | only a word: the newer of the two functions for it is not there |
//! | `BUSY` | 0 | percent |
//! | `LINK_GENERATION`, `LINK_WIDTH`, `LINK_GENERATION_MAX`, `LINK_WIDTH_MAX` | 1, 16, 5, 16 | the PCIe link |
//!
//! Devices, their name, memory, MIG and compute mode are those of the driver double's own variables.
#![expect(unsafe_code, reason = "exported C functions")]

use std::ffi::{CStr, c_char};
use std::fmt::Write;
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::api::device;
use crate::configuration::Configuration;

/// Return codes of NVML (`nvmlReturn_t`).
mod code {
    pub(super) const UNINITIALIZED: u32 = 1;
    pub(super) const INVALID_ARGUMENT: u32 = 2;
    pub(super) const NOT_SUPPORTED: u32 = 3;
    pub(super) const NO_PERMISSION: u32 = 4;
    pub(super) const NOT_FOUND: u32 = 6;
    pub(super) const INSUFFICIENT_SIZE: u32 = 7;
    pub(super) const FUNCTION_NOT_FOUND: u32 = 13;
    pub(super) const ARGUMENT_VERSION_MISMATCH: u32 = 25;
}

type Answer<T = ()> = Result<T, u32>;

/// Cards are handed out as these numbers plus their index; real handles are addresses.
const CARD: usize = 0x1000;
const INSTANCE: usize = 0x2000;

static INITIALISED: AtomicU32 = AtomicU32::new(0);

fn returned(answer: Answer) -> u32 {
    answer.err().unwrap_or(0)
}

fn initialised() -> Answer {
    if INITIALISED.load(Ordering::Relaxed) == 0 { Err(code::UNINITIALIZED) } else { Ok(()) }
}

/// What the driver double is told.
fn driver() -> &'static Configuration {
    static CONFIGURATION: OnceLock<Configuration> = OnceLock::new();
    CONFIGURATION.get_or_init(Configuration::from_environment)
}

fn planted_text(name: &str) -> Answer<Option<String>> {
    match std::env::var(format!("RUNGWISE_DOUBLE_NVML_{name}")).ok() {
        Some(word) if word == "unsupported" => Err(code::NOT_SUPPORTED),
        Some(word) if word == "denied" => Err(code::NO_PERMISSION),
        Some(word) if word == "missing" => Err(code::FUNCTION_NOT_FOUND),
        planted => Ok(planted),
    }
}

fn planted<T: FromStr>(name: &str, default: T) -> Answer<T> {
    Ok(planted_text(name)?.map_or(default, |value| parsed(name, &value)))
}

/// # Panics
/// On a value that cannot be read: a test that plants nothing would prove nothing.
fn parsed<T: FromStr>(name: &str, value: &str) -> T {
    value.trim().parse().unwrap_or_else(|_| panic!("driver double: RUNGWISE_DOUBLE_NVML_{name} cannot be {value:?}"))
}

fn shown_cards() -> usize {
    driver().devices as usize
}

fn cards() -> Answer<usize> {
    Ok(shown_cards() + planted("HIDDEN", 0)?)
}

/// The card of a handle, by NVML's index; also that of an instance.
fn card(handle: usize) -> Answer<usize> {
    initialised()?;
    let index = handle.checked_sub(if handle >= INSTANCE { INSTANCE } else { CARD }).ok_or(code::INVALID_ARGUMENT)?;
    if index < cards()? { Ok(index) } else { Err(code::INVALID_ARGUMENT) }
}

fn instance(handle: usize) -> Answer<usize> {
    if handle < INSTANCE { Err(code::INVALID_ARGUMENT) } else { card(handle) }
}

/// The bus of a card, by NVML's index: its order is that of the buses.
fn bus(index: usize) -> u32 {
    let first = (0..shown_cards()).map(|device| device::bus(driver(), device)).min().unwrap_or(0);
    first + index as u32
}

fn uuid(handle: usize, index: usize) -> String {
    let is_instance = handle >= INSTANCE;
    // Of a card that CUDA hides, one that no device has.
    let ordinal = (0..shown_cards()).find(|ordinal| device::bus(driver(), *ordinal) == bus(index)).unwrap_or(index);
    let mut text = String::from(if is_instance { "MIG" } else { "GPU" });
    for (place, byte) in device::uuid(ordinal, is_instance).into_iter().enumerate() {
        let dash = if matches!(place, 0 | 4 | 6 | 8 | 10) { "-" } else { "" };
        let _ = write!(text, "{dash}{byte:02x}");
    }
    text
}

fn put<T>(out: *mut T, value: T) -> Answer {
    if out.is_null() {
        return Err(code::INVALID_ARGUMENT);
    }
    // SAFETY: the caller gives a pointer to one value of this type.
    unsafe { out.write(value) };
    Ok(())
}

fn put_text(out: *mut u8, room: u32, text: &str) -> Answer {
    if out.is_null() {
        return Err(code::INVALID_ARGUMENT);
    }
    if text.len() >= room as usize {
        return Err(code::INSUFFICIENT_SIZE);
    }
    // SAFETY: the caller's buffer has room for that many bytes, the ending zero included.
    unsafe {
        out.copy_from_nonoverlapping(text.as_ptr(), text.len());
        out.add(text.len()).write(0);
    }
    Ok(())
}

/// A query that puts one planted number of a card.
fn number(handle: usize, out: *mut u32, name: &str, default: u32) -> u32 {
    returned(card(handle).and_then(|_| put(out, planted(name, default)?)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInit_v2() -> u32 {
    let answer = planted("INIT", 0);
    if answer == Ok(0) {
        INITIALISED.fetch_add(1, Ordering::Relaxed);
    }
    answer.unwrap_or_else(|code| code)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlShutdown() -> u32 {
    returned(initialised().map(|()| _ = INITIALISED.fetch_sub(1, Ordering::Relaxed)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetDriverVersion(text: *mut u8, room: u32) -> u32 {
    let version = || planted("DRIVER", "575.57.08".to_owned());
    returned(initialised().and_then(|()| put_text(text, room, &version()?)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCount_v2(count: *mut u32) -> u32 {
    returned(initialised().and_then(|()| put(count, cards()? as u32)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: u32, handle: *mut usize) -> u32 {
    let found = CARD + index as usize;
    returned(card(found).and_then(|_| put(handle, found)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByPciBusId_v2(address: *const c_char, handle: *mut usize) -> u32 {
    if address.is_null() {
        return code::INVALID_ARGUMENT;
    }
    // SAFETY: the caller gives a text that ends with a zero.
    let asked = unsafe { CStr::from_ptr(address) }.to_string_lossy().to_lowercase();
    let find = || {
        initialised()?;
        let is_there = |index: &usize| asked.trim_start_matches('0') == format!(":{:02x}:00.0", bus(*index));
        (0..cards()?).find(is_there).ok_or(code::NOT_FOUND)
    };
    returned(find().and_then(|index| put(handle, CARD + index)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetIndex(handle: usize, index: *mut u32) -> u32 {
    returned(card(handle).and_then(|found| put(index, found as u32)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetName(handle: usize, text: *mut u8, room: u32) -> u32 {
    returned(card(handle).and_then(|_| put_text(text, room, &driver().name)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetUUID(handle: usize, text: *mut u8, room: u32) -> u32 {
    returned(card(handle).and_then(|index| put_text(text, room, &uuid(handle, index))))
}

/// `nvmlPciInfo_t`.
#[repr(C)]
struct PciInfo {
    legacy_address: [u8; 16],
    domain: u32,
    bus: u32,
    device: u32,
    device_id: u32,
    subsystem_id: u32,
    address: [u8; 32],
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPciInfo_v3(handle: usize, info: *mut PciInfo) -> u32 {
    let answer = card(handle).and_then(|index| {
        let mut address = [0; 32];
        let text = format!("00000000:{:02X}:00.0", bus(index));
        address[..text.len()].copy_from_slice(text.as_bytes());
        let legacy_address = std::array::from_fn(|place| text.as_bytes().get(place + 4).copied().unwrap_or(0));
        put(
            info,
            PciInfo { legacy_address, domain: 0, bus: bus(index), device: 0, device_id: 0, subsystem_id: 0, address },
        )
    });
    returned(answer)
}

/// `nvmlMemory_v2_t`.
#[repr(C)]
struct Memory {
    version: u32,
    total: u64,
    reserved: u64,
    free: u64,
    used: u64,
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMemoryInfo_v2(handle: usize, memory: *mut Memory) -> u32 {
    const VERSION: u32 = size_of::<Memory>() as u32 | 2 << 24;
    let answer = card(handle).and_then(|_| {
        if memory.is_null() {
            return Err(code::INVALID_ARGUMENT);
        }
        // SAFETY: the caller gives a pointer to a structure whose version it has set.
        if unsafe { (*memory).version } != VERSION {
            return Err(code::ARGUMENT_VERSION_MISMATCH);
        }
        let (total, used) = (driver().memory_bytes, planted("MEMORY_USED", 4_u64 << 20)?);
        let reserved = 600 << 20;
        put(memory, Memory { version: VERSION, total, reserved, free: total.saturating_sub(used + reserved), used })
    });
    returned(answer)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPowerManagementLimit(handle: usize, milliwatts: *mut u32) -> u32 {
    number(handle, milliwatts, "POWER_LIMIT", 700_000)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPowerManagementDefaultLimit(handle: usize, milliwatts: *mut u32) -> u32 {
    number(handle, milliwatts, "POWER_DEFAULT", 700_000)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetEnforcedPowerLimit(handle: usize, milliwatts: *mut u32) -> u32 {
    number(handle, milliwatts, "POWER_ENFORCED", 700_000)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPowerUsage(handle: usize, milliwatts: *mut u32) -> u32 {
    number(handle, milliwatts, "POWER_USAGE", 76_400)
}

/// The only name that drivers before R535 have for it: the newer one is not exported, so that both ways are gone.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCurrentClocksThrottleReasons(handle: usize, reasons: *mut u64) -> u32 {
    returned(card(handle).and_then(|_| put(reasons, planted("REASONS", 1)?)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetClockInfo(handle: usize, clock: u32, megahertz: *mut u32) -> u32 {
    match clock {
        1 => number(handle, megahertz, "SM_CLOCK", 345),
        2 => number(handle, megahertz, "MEMORY_CLOCK", 3_201),
        _ => code::INVALID_ARGUMENT,
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMaxClockInfo(handle: usize, clock: u32, megahertz: *mut u32) -> u32 {
    match clock {
        1 => number(handle, megahertz, "SM_CLOCK_MAX", 1_980),
        2 => number(handle, megahertz, "MEMORY_CLOCK_MAX", 3_201),
        _ => code::INVALID_ARGUMENT,
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetTemperature(handle: usize, sensor: u32, celsius: *mut u32) -> u32 {
    if sensor == 0 { number(handle, celsius, "TEMPERATURE", 31) } else { code::INVALID_ARGUMENT }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetEccMode(handle: usize, current: *mut u32, pending: *mut u32) -> u32 {
    match number(handle, current, "ECC", 1) {
        0 => number(handle, pending, "ECC", 1),
        refused => refused,
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetDefaultEccMode(handle: usize, mode: *mut u32) -> u32 {
    number(handle, mode, "ECC_DEFAULT", 1)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetPersistenceMode(handle: usize, mode: *mut u32) -> u32 {
    number(handle, mode, "PERSISTENCE", 1)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetComputeMode(handle: usize, mode: *mut u32) -> u32 {
    returned(card(handle).and_then(|_| put(mode, driver().compute_mode.cast_unsigned())))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetVirtualizationMode(handle: usize, mode: *mut u32) -> u32 {
    number(handle, mode, "VIRTUALIZATION", 0)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMigMode(handle: usize, current: *mut u32, pending: *mut u32) -> u32 {
    let mode = u32::from(driver().is_mig);
    returned(card(handle).and_then(|_| put(current, mode)).and_then(|()| put(pending, mode)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMaxMigDeviceCount(handle: usize, count: *mut u32) -> u32 {
    returned(card(handle).and_then(|_| put(count, 7)))
}

/// Every card has one instance, in place 0.
#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(handle: usize, index: u32, instance: *mut usize) -> u32 {
    let answer = card(handle).and_then(|card| {
        if driver().is_mig && index == 0 { put(instance, INSTANCE + card) } else { Err(code::NOT_FOUND) }
    });
    returned(answer)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetGpuInstanceId(handle: usize, id: *mut u32) -> u32 {
    returned(instance(handle).and_then(|_| put(id, 7)))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetComputeInstanceId(handle: usize, id: *mut u32) -> u32 {
    returned(instance(handle).and_then(|_| put(id, 0)))
}

/// `nvmlProcessInfo_v2_t`.
#[repr(C)]
struct ProcessInfo {
    pid: u32,
    memory_bytes: u64,
    gpu_instance: u32,
    compute_instance: u32,
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(handle: usize, count: *mut u32, infos: *mut ProcessInfo) -> u32 {
    planted_text("PROCESSES_V3")
        .map_or_else(|code| code, |_| nvmlDeviceGetComputeRunningProcesses_v2(handle, count, infos))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetComputeRunningProcesses_v2(handle: usize, count: *mut u32, infos: *mut ProcessInfo) -> u32 {
    const NO_INSTANCE: u32 = u32::MAX;
    let answer = card(handle).and_then(|_| {
        let list = planted_text("PROCESSES")?.unwrap_or_default();
        let processes: Vec<_> = list.split(',').filter_map(|process| process.split_once(':')).collect();
        if count.is_null() {
            return Err(code::INVALID_ARGUMENT);
        }
        // SAFETY: the caller gives a pointer to the number of structures that `infos` has room for.
        let room = unsafe { count.replace(processes.len() as u32) } as usize;
        if processes.len() > room {
            return Err(code::INSUFFICIENT_SIZE);
        }
        for (place, (pid, bytes)) in processes.into_iter().enumerate() {
            let (pid, memory_bytes) = (parsed("PROCESSES", pid), parsed("PROCESSES", bytes));
            let info = ProcessInfo { pid, memory_bytes, gpu_instance: NO_INSTANCE, compute_instance: NO_INSTANCE };
            // SAFETY: `place` is below the room that the caller said.
            put(unsafe { infos.add(place) }, info)?;
        }
        Ok(())
    });
    returned(answer)
}

/// `nvmlUtilization_t`.
#[repr(C)]
struct Utilization {
    gpu_percent: u32,
    memory_percent: u32,
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetUtilizationRates(handle: usize, rates: *mut Utilization) -> u32 {
    let rate = || planted("BUSY", 0);
    returned(card(handle).and_then(|_| put(rates, Utilization { gpu_percent: rate()?, memory_percent: 0 })))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCurrPcieLinkGeneration(handle: usize, generation: *mut u32) -> u32 {
    number(handle, generation, "LINK_GENERATION", 1)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCurrPcieLinkWidth(handle: usize, width: *mut u32) -> u32 {
    number(handle, width, "LINK_WIDTH", 16)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMaxPcieLinkGeneration(handle: usize, generation: *mut u32) -> u32 {
    number(handle, generation, "LINK_GENERATION_MAX", 5)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMaxPcieLinkWidth(handle: usize, width: *mut u32) -> u32 {
    number(handle, width, "LINK_WIDTH_MAX", 16)
}

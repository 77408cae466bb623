//! NVML, the management library behind nvidia-smi: opened at run time, and only asked, never told to do anything.
//!
//! Names, signatures and structures are those of the NVML API reference. A function that the library lacks, or that a card
//! does not support, or that this user may not call, makes one fact unavailable and nothing else.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};

use kernels::units::Bytes;
use libloading::Library;

use crate::pci::PciAddress;
use crate::reading::{NotAvailable, Reading};
use crate::smi::{SmiCard, SmiInstance};
use crate::state::{Clocks, EventReasons, GpuState, PcieLink, PowerLimits, Process, Virtualization};
use crate::visible::ComputeMode;

/// The library's name, with every driver since 2012.
const LIBRARY: &str = "libnvidia-ml.so.1";

type Handle = *mut c_void;

const NOT_FOUND: u32 = 6;
const INSUFFICIENT_SIZE: u32 = 7;
const FUNCTION_NOT_FOUND: u32 = 13;

/// Declares the table of functions. Each is looked up when the library is opened, and may be missing.
macro_rules! functions {
    ($($method:ident = $name:literal($($argument:ident: $type:ty),*);)*) => {
        #[derive(Debug)]
        struct Functions {
            $($method: Option<unsafe extern "C" fn($($type),*) -> u32>,)*
        }

        /// Every function of NVML that is called.
        pub const SYMBOLS: &[&str] = &[$($name,)*];

        impl Functions {
            fn resolve(library: &Library) -> Self {
                // SAFETY: every signature below is that of the NVML API reference for this name.
                unsafe { Self { $($method: library.get($name).ok().map(|found| *found),)* } }
            }

            $(
                #[doc = concat!("`", $name, "`")]
                unsafe fn $method(&self, $($argument: $type),*) -> Result<(), Refusal> {
                    let function = self.$method.ok_or(Refusal::Missing($name))?;
                    // SAFETY: the caller's.
                    match unsafe { function($($argument),*) } {
                        0 => Ok(()),
                        // A library that is newer than the kernel driver has functions that cannot work.
                        FUNCTION_NOT_FOUND => Err(Refusal::Missing($name)),
                        code => Err(Refusal::Code($name, code)),
                    }
                }
            )*
        }
    };
}

functions! {
    init = "nvmlInit_v2"();
    shutdown = "nvmlShutdown"();
    driver_version = "nvmlSystemGetDriverVersion"(text: *mut c_char, bytes: c_uint);
    count = "nvmlDeviceGetCount_v2"(count: *mut c_uint);
    handle_by_index = "nvmlDeviceGetHandleByIndex_v2"(index: c_uint, handle: *mut Handle);
    handle_by_pci = "nvmlDeviceGetHandleByPciBusId_v2"(address: *const c_char, handle: *mut Handle);
    index = "nvmlDeviceGetIndex"(handle: Handle, index: *mut c_uint);
    name = "nvmlDeviceGetName"(handle: Handle, text: *mut c_char, bytes: c_uint);
    uuid = "nvmlDeviceGetUUID"(handle: Handle, text: *mut c_char, bytes: c_uint);
    pci_info = "nvmlDeviceGetPciInfo_v3"(handle: Handle, info: *mut PciInfo);
    memory_info = "nvmlDeviceGetMemoryInfo"(handle: Handle, memory: *mut Memory);
    memory_info_v2 = "nvmlDeviceGetMemoryInfo_v2"(handle: Handle, memory: *mut MemoryV2);
    power_limit = "nvmlDeviceGetPowerManagementLimit"(handle: Handle, milliwatts: *mut c_uint);
    power_default = "nvmlDeviceGetPowerManagementDefaultLimit"(handle: Handle, milliwatts: *mut c_uint);
    power_enforced = "nvmlDeviceGetEnforcedPowerLimit"(handle: Handle, milliwatts: *mut c_uint);
    power_usage = "nvmlDeviceGetPowerUsage"(handle: Handle, milliwatts: *mut c_uint);
    event_reasons = "nvmlDeviceGetCurrentClocksEventReasons"(handle: Handle, reasons: *mut c_ulonglong);
    throttle_reasons = "nvmlDeviceGetCurrentClocksThrottleReasons"(handle: Handle, reasons: *mut c_ulonglong);
    clock = "nvmlDeviceGetClockInfo"(handle: Handle, clock: c_uint, megahertz: *mut c_uint);
    clock_max = "nvmlDeviceGetMaxClockInfo"(handle: Handle, clock: c_uint, megahertz: *mut c_uint);
    temperature = "nvmlDeviceGetTemperature"(handle: Handle, sensor: c_uint, celsius: *mut c_uint);
    ecc = "nvmlDeviceGetEccMode"(handle: Handle, current: *mut c_uint, pending: *mut c_uint);
    ecc_default = "nvmlDeviceGetDefaultEccMode"(handle: Handle, mode: *mut c_uint);
    persistence = "nvmlDeviceGetPersistenceMode"(handle: Handle, mode: *mut c_uint);
    compute_mode = "nvmlDeviceGetComputeMode"(handle: Handle, mode: *mut c_uint);
    virtualization = "nvmlDeviceGetVirtualizationMode"(handle: Handle, mode: *mut c_uint);
    mig_mode = "nvmlDeviceGetMigMode"(handle: Handle, current: *mut c_uint, pending: *mut c_uint);
    mig_count_max = "nvmlDeviceGetMaxMigDeviceCount"(handle: Handle, count: *mut c_uint);
    mig_handle = "nvmlDeviceGetMigDeviceHandleByIndex"(handle: Handle, index: c_uint, instance: *mut Handle);
    gpu_instance = "nvmlDeviceGetGpuInstanceId"(instance: Handle, id: *mut c_uint);
    compute_instance = "nvmlDeviceGetComputeInstanceId"(instance: Handle, id: *mut c_uint);
    compute_processes_v3 = "nvmlDeviceGetComputeRunningProcesses_v3"(handle: Handle, count: *mut c_uint, infos: *mut ProcessInfo);
    compute_processes_v2 = "nvmlDeviceGetComputeRunningProcesses_v2"(handle: Handle, count: *mut c_uint, infos: *mut ProcessInfo);
    graphics_processes_v3 = "nvmlDeviceGetGraphicsRunningProcesses_v3"(handle: Handle, count: *mut c_uint, infos: *mut ProcessInfo);
    graphics_processes_v2 = "nvmlDeviceGetGraphicsRunningProcesses_v2"(handle: Handle, count: *mut c_uint, infos: *mut ProcessInfo);
    utilization = "nvmlDeviceGetUtilizationRates"(handle: Handle, rates: *mut Utilization);
    link_generation = "nvmlDeviceGetCurrPcieLinkGeneration"(handle: Handle, generation: *mut c_uint);
    link_width = "nvmlDeviceGetCurrPcieLinkWidth"(handle: Handle, width: *mut c_uint);
    link_generation_max = "nvmlDeviceGetMaxPcieLinkGeneration"(handle: Handle, generation: *mut c_uint);
    link_width_max = "nvmlDeviceGetMaxPcieLinkWidth"(handle: Handle, width: *mut c_uint);
}

/// `nvmlPciInfo_t`.
#[repr(C)]
struct PciInfo {
    legacy_address: [c_char; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    device_id: c_uint,
    subsystem_id: c_uint,
    address: [c_char; 32],
}

/// `nvmlMemory_t`. What the driver keeps for itself counts as used.
#[repr(C)]
struct Memory {
    total: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

/// `nvmlMemory_v2_t`. What the driver keeps for itself stands apart.
#[repr(C)]
struct MemoryV2 {
    version: c_uint,
    total: c_ulonglong,
    reserved: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

/// `NVML_STRUCT_VERSION(Memory, 2)`: the size of the structure, and its version in the highest byte.
const MEMORY_V2: c_uint = size_of::<MemoryV2>() as c_uint | 2 << 24;

/// `nvmlProcessInfo_v2_t`, the same for version 3.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ProcessInfo {
    pid: c_uint,
    memory_bytes: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

/// `nvmlUtilization_t`.
#[repr(C)]
#[derive(Default)]
struct Utilization {
    gpu_percent: c_uint,
    memory_percent: c_uint,
}

/// Why a call gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// The library lacks the function.
    Missing(&'static str),
    /// It returned this code.
    Code(&'static str, u32),
}

impl From<Refusal> for NotAvailable {
    fn from(refusal: Refusal) -> Self {
        let (name, code) = match refusal {
            Refusal::Missing(name) => return Self(format!("this driver has no {name}")),
            Refusal::Code(name, code) => (name, code),
        };
        Self(match code {
            3 => "not supported here".to_owned(),
            4 => "no permission".to_owned(),
            9 => "the kernel driver is not loaded".to_owned(),
            15 => "the GPU is lost: it has fallen off the bus".to_owned(),
            16 => "the GPU needs a reset".to_owned(),
            18 => "NVML and the kernel driver are of different versions: reboot after a driver update".to_owned(),
            _ => format!("{name} failed with code {code}"),
        })
    }
}

/// The library, initialised until dropped.
#[derive(Debug)]
pub struct Nvml {
    functions: Functions,
    _library: Library,
}

impl Nvml {
    /// Opens the driver's library.
    ///
    /// # Errors
    /// It is not there, or it cannot be initialised.
    pub fn open() -> Reading<Self> {
        // SAFETY: the driver's library has no initialisers beyond its own state, and is what its name says.
        let library = unsafe { Library::new(LIBRARY) };
        let library = library.map_err(|_| NotAvailable(format!("{LIBRARY} cannot be loaded")))?;
        let functions = Functions::resolve(&library);
        // SAFETY: it takes nothing; every other call comes after it.
        unsafe { functions.init() }?;
        Ok(Self { functions, _library: library })
    }

    /// The driver's version, such as `550.54.15`.
    ///
    /// # Errors
    /// NVML does not tell.
    pub fn driver_version(&self) -> Reading<String> {
        // SAFETY: the buffer is as long as is said.
        text(|buffer, bytes| unsafe { self.functions.driver_version(buffer, bytes) })
    }

    /// Every card of the machine that this process may see.
    ///
    /// # Errors
    /// NVML does not tell how many there are.
    pub fn cards(&self) -> Reading<Vec<SmiCard>> {
        // SAFETY: the pointer is to a local that lives through the call.
        let count = number(|out| unsafe { self.functions.count(out) })?;
        // A card that gives no handle is passed over, as nvidia-smi passes it over.
        Ok((0..count).filter_map(|index| Some(self.card(index, self.handle_at(index).ok()?))).collect())
    }

    /// The state of the card at a PCI address.
    pub fn state(&self, address: PciAddress) -> GpuState {
        match self.handle_of(address) {
            Ok(handle) => self.state_of(handle),
            Err(why) => GpuState::not_available(&why),
        }
    }

    fn handle_at(&self, index: u32) -> Reading<Handle> {
        let mut handle = std::ptr::null_mut();
        // SAFETY: the pointer is to a local that lives through the call.
        unsafe { self.functions.handle_by_index(index, &raw mut handle) }?;
        Ok(handle)
    }

    fn handle_of(&self, address: PciAddress) -> Reading<Handle> {
        let text = format!("{address}\0");
        let mut handle = std::ptr::null_mut();
        // SAFETY: the text ends with a zero, and the pointer is to a local that lives through the call.
        let found = unsafe { self.functions.handle_by_pci(text.as_ptr().cast(), &raw mut handle) };
        match found {
            Err(Refusal::Code(_, NOT_FOUND)) => Err(NotAvailable(format!("NVML knows no card at {address}"))),
            found => Ok(found.map(|()| handle)?),
        }
    }

    fn card(&self, index: u32, handle: Handle) -> SmiCard {
        let functions = &self.functions;
        let memory = self.memory(handle);
        SmiCard {
            index,
            // SAFETY: the handle is NVML's, the buffer as long as is said.
            name: text(|buffer, bytes| unsafe { functions.name(handle, buffer, bytes) }),
            uuid: self.uuid(handle),
            pci: self.pci(handle),
            memory_used: memory.clone().map(|(used, _)| used),
            memory_total: memory.map(|(_, total)| total),
            mig: self.mig(handle),
            instances: self.instances(handle),
            compute_mode: self.compute_mode(handle),
        }
    }

    fn state_of(&self, handle: Handle) -> GpuState {
        let functions = &self.functions;
        let memory = self.memory(handle);
        // SAFETY of every block below: the handle is NVML's, and the pointers are to locals that live through the call.
        GpuState {
            // SAFETY: as above.
            smi_index: number(|out| unsafe { functions.index(handle, out) }),
            driver: self.driver_version(),
            power: self.power(handle),
            // SAFETY: as above.
            power_draw_w: number(|out| unsafe { functions.power_usage(handle, out) }).map(watts),
            clock_reasons: self.clock_reasons(handle),
            sm_clock: self.clocks(handle, SM_CLOCK),
            memory_clock: self.clocks(handle, MEMORY_CLOCK),
            // SAFETY: as above; 0 is the sensor on the chip.
            temperature_c: number(|out| unsafe { functions.temperature(handle, 0, out) }),
            ecc: self.ecc(handle),
            // SAFETY: as above.
            ecc_default: number(|out| unsafe { functions.ecc_default(handle, out) }).map(is_on),
            // SAFETY: as above.
            persistence: number(|out| unsafe { functions.persistence(handle, out) }).map(is_on),
            mig: self.mig(handle),
            compute_mode: self.compute_mode(handle),
            // SAFETY: as above.
            virtualization: number(|out| unsafe { functions.virtualization(handle, out) })
                .map(Virtualization::from_number),
            processes: self.processes(handle),
            busy_percent: self.busy_percent(handle),
            memory_used: memory.clone().map(|(used, _)| used),
            memory_total: memory.map(|(_, total)| total),
            pcie: self.link(handle),
        }
    }

    fn uuid(&self, handle: Handle) -> Reading<String> {
        // SAFETY: the handle is NVML's, the buffer as long as is said.
        text(|buffer, bytes| unsafe { self.functions.uuid(handle, buffer, bytes) })
    }

    fn pci(&self, handle: Handle) -> Reading<PciAddress> {
        // SAFETY: zeros are a valid value of this structure of numbers.
        let mut info = unsafe { std::mem::zeroed::<PciInfo>() };
        // SAFETY: the handle is NVML's, and the pointer is to a local that lives through the call.
        unsafe { self.functions.pci_info(handle, &raw mut info) }?;
        Ok(PciAddress { domain: info.domain, bus: info.bus as u8, device: info.device as u8, function: 0 })
    }

    /// Used and all memory.
    fn memory(&self, handle: Handle) -> Reading<(Bytes, Bytes)> {
        let mut apart = MemoryV2 { version: MEMORY_V2, total: 0, reserved: 0, free: 0, used: 0 };
        // SAFETY: the handle is NVML's, and the pointer is to a local of the version it says.
        if unsafe { self.functions.memory_info_v2(handle, &raw mut apart) }.is_ok() {
            return Ok((Bytes(apart.used), Bytes(apart.total)));
        }
        let mut memory = Memory { total: 0, free: 0, used: 0 };
        // SAFETY: the handle is NVML's, and the pointer is to a local that lives through the call.
        unsafe { self.functions.memory_info(handle, &raw mut memory) }?;
        Ok((Bytes(memory.used), Bytes(memory.total)))
    }

    fn power(&self, handle: Handle) -> Reading<PowerLimits> {
        let functions = &self.functions;
        Ok(PowerLimits {
            // SAFETY: the handle is NVML's, and the pointer is to a local that lives through the call.
            set_w: number(|out| unsafe { functions.power_limit(handle, out) }).map(watts)?,
            // SAFETY: as above.
            default_w: number(|out| unsafe { functions.power_default(handle, out) }).map(watts).ok(),
            // SAFETY: as above.
            enforced_w: number(|out| unsafe { functions.power_enforced(handle, out) }).map(watts).ok(),
        })
    }

    fn clock_reasons(&self, handle: Handle) -> Reading<EventReasons> {
        let mut reasons = 0;
        // SAFETY: the handle is NVML's, and the pointer is to a local that lives through the call.
        let told = unsafe { self.functions.event_reasons(handle, &raw mut reasons) };
        if told.is_err() {
            // The name that drivers before R535 have for it.
            // SAFETY: as above.
            unsafe { self.functions.throttle_reasons(handle, &raw mut reasons) }?;
        }
        Ok(EventReasons(reasons))
    }

    fn clocks(&self, handle: Handle, clock: c_uint) -> Reading<Clocks> {
        // SAFETY: the handle is NVML's, and the pointer is to a local that lives through the call.
        let now_mhz = number(|out| unsafe { self.functions.clock(handle, clock, out) })?;
        // SAFETY: as above.
        let max_mhz = number(|out| unsafe { self.functions.clock_max(handle, clock, out) }).ok();
        Ok(Clocks { now_mhz, max_mhz })
    }

    fn ecc(&self, handle: Handle) -> Reading<bool> {
        let mut pending = 0;
        // SAFETY: the handle is NVML's, and the pointers are to locals that live through the call.
        number(|out| unsafe { self.functions.ecc(handle, out, &raw mut pending) }).map(is_on)
    }

    fn mig(&self, handle: Handle) -> Reading<bool> {
        let mut pending = 0;
        // SAFETY: the handle is NVML's, and the pointers are to locals that live through the call.
        number(|out| unsafe { self.functions.mig_mode(handle, out, &raw mut pending) }).map(is_on)
    }

    /// The MIG instances of a card; none where it has none, or where NVML does not tell.
    fn instances(&self, handle: Handle) -> Vec<SmiInstance> {
        if self.mig(handle) != Ok(true) {
            return Vec::new();
        }
        // SAFETY: the handle is NVML's, and the pointer is to a local that lives through the call.
        let count = number(|out| unsafe { self.functions.mig_count_max(handle, out) }).unwrap_or(0);
        (0..count).filter_map(|index| self.instance(handle, index).ok()).collect()
    }

    fn instance(&self, card: Handle, index: u32) -> Reading<SmiInstance> {
        let functions = &self.functions;
        let mut handle = std::ptr::null_mut();
        // SAFETY: the handle is NVML's, and the pointer is to a local that lives through the call.
        unsafe { functions.mig_handle(card, index, &raw mut handle) }?;
        // SAFETY: as above, with the handle just given.
        let gpu_instance = number(|out| unsafe { functions.gpu_instance(handle, out) })?;
        // SAFETY: as above.
        let compute_instance = number(|out| unsafe { functions.compute_instance(handle, out) })?;
        let memory_used = self.memory(handle).map(|(used, _)| used);
        Ok(SmiInstance { uuid: self.uuid(handle)?, instance: (gpu_instance, compute_instance), memory_used })
    }

    fn compute_mode(&self, handle: Handle) -> Reading<ComputeMode> {
        // SAFETY: the handle is NVML's, and the pointer is to a local that lives through the call.
        let mode = number(|out| unsafe { self.functions.compute_mode(handle, out) })?;
        Ok(ComputeMode::from_number(c_int::try_from(mode).unwrap_or(-1)))
    }

    /// Compute and graphics processes, each once, in the order of their ids.
    fn processes(&self, handle: Handle) -> Reading<Vec<Process>> {
        let functions = &self.functions;
        // SAFETY: the handle is NVML's, and the list is as long as is said.
        let compute =
            processes(|count, infos| match unsafe { functions.compute_processes_v3(handle, count, infos) } {
                // SAFETY: as above; both versions have the same structure.
                Err(Refusal::Missing(_)) => unsafe { functions.compute_processes_v2(handle, count, infos) },
                told => told,
            })?;
        // SAFETY: as above.
        let graphics =
            processes(|count, infos| match unsafe { functions.graphics_processes_v3(handle, count, infos) } {
                // SAFETY: as above.
                Err(Refusal::Missing(_)) => unsafe { functions.graphics_processes_v2(handle, count, infos) },
                told => told,
            });
        let mut all = compute;
        all.extend(graphics.unwrap_or_default());
        all.sort_by_key(|process| process.pid);
        all.dedup_by_key(|process| process.pid);
        Ok(all)
    }

    fn busy_percent(&self, handle: Handle) -> Reading<u32> {
        let mut rates = Utilization::default();
        // SAFETY: the handle is NVML's, and the pointer is to a local that lives through the call.
        unsafe { self.functions.utilization(handle, &raw mut rates) }?;
        Ok(rates.gpu_percent)
    }

    fn link(&self, handle: Handle) -> Reading<PcieLink> {
        let functions = &self.functions;
        Ok(PcieLink {
            // SAFETY: the handle is NVML's, and the pointer is to a local that lives through the call.
            generation: number(|out| unsafe { functions.link_generation(handle, out) })?,
            // SAFETY: as above.
            width: number(|out| unsafe { functions.link_width(handle, out) })?,
            // SAFETY: as above.
            max_generation: number(|out| unsafe { functions.link_generation_max(handle, out) }).ok(),
            // SAFETY: as above.
            max_width: number(|out| unsafe { functions.link_width_max(handle, out) }).ok(),
        })
    }
}

impl Drop for Nvml {
    fn drop(&mut self) {
        // SAFETY: it takes nothing, and no call comes after it. What it returns changes nothing.
        let _ = unsafe { self.functions.shutdown() };
    }
}

/// `NVML_CLOCK_SM` and `NVML_CLOCK_MEM`.
const SM_CLOCK: c_uint = 1;
const MEMORY_CLOCK: c_uint = 2;

fn number(ask: impl FnOnce(*mut c_uint) -> Result<(), Refusal>) -> Reading<u32> {
    let mut number = 0;
    ask(&raw mut number)?;
    Ok(number)
}

fn text(ask: impl FnOnce(*mut c_char, c_uint) -> Result<(), Refusal>) -> Reading<String> {
    let mut buffer = [0_u8; 128];
    ask(buffer.as_mut_ptr().cast(), buffer.len() as c_uint - 1)?;
    let text = CStr::from_bytes_until_nul(&buffer).unwrap_or_default();
    Ok(text.to_string_lossy().into_owned())
}

/// Asks for a list whose length can change between two calls.
fn processes(mut ask: impl FnMut(*mut c_uint, *mut ProcessInfo) -> Result<(), Refusal>) -> Reading<Vec<Process>> {
    const TRIES: usize = 4;
    let mut infos = vec![ProcessInfo::default(); 32];
    for _ in 0..TRIES {
        let mut count = infos.len() as c_uint;
        match ask(&raw mut count, infos.as_mut_ptr()) {
            Ok(()) => {
                infos.truncate(count as usize);
                return Ok(infos.iter().map(process).collect());
            }
            // Now `count` says how many there are.
            Err(Refusal::Code(_, INSUFFICIENT_SIZE)) => {
                infos.resize(infos.len().max(count as usize).saturating_mul(2).min(1 << 16), ProcessInfo::default());
            }
            Err(refusal) => return Err(refusal.into()),
        }
    }
    Err(NotAvailable::because("the list of processes grows faster than it is read"))
}

fn process(info: &ProcessInfo) -> Process {
    // All ones: `NVML_VALUE_NOT_AVAILABLE`.
    let memory = Some(Bytes(info.memory_bytes)).filter(|bytes| bytes.0 != u64::MAX);
    Process { pid: info.pid, memory }
}

fn watts(milliwatts: u32) -> f64 {
    f64::from(milliwatts) / 1e3
}

fn is_on(mode: u32) -> bool {
    mode != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_ever_set() {
        for symbol in SYMBOLS {
            let asks = symbol.starts_with("nvmlDeviceGet") || symbol.starts_with("nvmlSystemGet");
            assert!(asks || ["nvmlInit_v2", "nvmlShutdown"].contains(symbol), "{symbol}");
            assert!(!symbol.contains("Set") && !symbol.contains("Reset") && !symbol.contains("Clear"), "{symbol}");
        }
    }

    #[test]
    fn structures_have_nvmls_sizes() {
        let sizes = [size_of::<PciInfo>(), size_of::<Memory>(), size_of::<MemoryV2>(), size_of::<ProcessInfo>()];
        assert_eq!((sizes, MEMORY_V2), ([68, 24, 40, 24], 0x0200_0028));
    }

    #[test]
    fn refusals_say_why() {
        let shown = |refusal: Refusal| NotAvailable::from(refusal).to_string();
        assert_eq!(
            shown(Refusal::Missing("nvmlDeviceGetMigMode")),
            "not available (this driver has no nvmlDeviceGetMigMode)"
        );
        assert_eq!(shown(Refusal::Code("nvmlDeviceGetEccMode", 3)), "not available (not supported here)");
        assert_eq!(shown(Refusal::Code("nvmlDeviceGetEccMode", 4)), "not available (no permission)");
        assert_eq!(shown(Refusal::Code("nvmlInit_v2", 999)), "not available (nvmlInit_v2 failed with code 999)");
    }

    #[test]
    fn a_list_that_grows_is_asked_for_again() {
        let mut asked = 0;
        let list = processes(|count, infos| {
            asked += 1;
            // SAFETY: both pointers are those that `processes` gives, the list as long as `count` says.
            unsafe {
                if *count < 40 {
                    *count = 40;
                    return Err(Refusal::Code("nvmlDeviceGetComputeRunningProcesses_v3", INSUFFICIENT_SIZE));
                }
                *count = 2;
                (*infos).pid = 7;
                (*infos).memory_bytes = u64::MAX;
                (*infos.add(1)).pid = 9;
            }
            Ok(())
        });
        let [first, second] = [(7, None), (9, Some(Bytes(0)))].map(|(pid, memory)| Process { pid, memory });
        assert_eq!((list, asked), (Ok(vec![first, second]), 2));
        let never = processes(|_, _| Err(Refusal::Code("nvmlDeviceGetComputeRunningProcesses_v3", INSUFFICIENT_SIZE)));
        assert!(never.is_err());
    }
}

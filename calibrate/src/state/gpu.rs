//! What NVML tells about one GPU.

use std::fmt;

use kernels::units::Bytes;

use crate::reading::{NotAvailable, Reading};
use crate::visible::ComputeMode;

/// A GPU at one moment, as NVML sees it (NVML API reference, "Device Queries"). Of a MIG instance, its card.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuState {
    /// The index that nvidia-smi shows.
    pub smi_index: Reading<u32>,
    /// Driver version.
    pub driver: Reading<String>,
    /// Power limits.
    pub power: Reading<PowerLimits>,
    /// Power drawn now, watts.
    pub power_draw_w: Reading<f64>,
    /// Why clocks are what they are now.
    pub clock_reasons: Reading<EventReasons>,
    /// Clock of the SMs, MHz.
    pub sm_clock: Reading<Clocks>,
    /// Clock of the memory, MHz.
    pub memory_clock: Reading<Clocks>,
    /// Temperature, degrees Celsius.
    pub temperature_c: Reading<u32>,
    /// Whether memory errors are corrected, which takes bandwidth on GDDR cards.
    pub ecc: Reading<bool>,
    /// Whether the card comes with that.
    pub ecc_default: Reading<bool>,
    /// Whether the driver keeps the GPU initialised while nobody uses it.
    pub persistence: Reading<bool>,
    /// Whether the card is cut into MIG instances.
    pub mig: Reading<bool>,
    /// Whether and how contexts may be created.
    pub compute_mode: Reading<ComputeMode>,
    /// Whether the GPU is a virtual one.
    pub virtualization: Reading<Virtualization>,
    /// Processes with a context on the card.
    pub processes: Reading<Vec<Process>>,
    /// Share of the last sample period (up to a second) in which a kernel ran, percent.
    pub busy_percent: Reading<u32>,
    /// Memory in use, without what the driver keeps for itself where it tells.
    pub memory_used: Reading<Bytes>,
    /// All memory.
    pub memory_total: Reading<Bytes>,
    /// The link to the host now, and the best one.
    pub pcie: Reading<PcieLink>,
}

impl GpuState {
    /// Nothing is known.
    pub fn not_available(why: &NotAvailable) -> Self {
        fn none<T>(why: &NotAvailable) -> Reading<T> {
            Err(why.clone())
        }
        Self {
            smi_index: none(why),
            driver: none(why),
            power: none(why),
            power_draw_w: none(why),
            clock_reasons: none(why),
            sm_clock: none(why),
            memory_clock: none(why),
            temperature_c: none(why),
            ecc: none(why),
            ecc_default: none(why),
            persistence: none(why),
            mig: none(why),
            compute_mode: none(why),
            virtualization: none(why),
            processes: none(why),
            busy_percent: none(why),
            memory_used: none(why),
            memory_total: none(why),
            pcie: none(why),
        }
    }
}

/// Power limits, watts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PowerLimits {
    /// The limit set on the card.
    pub set_w: f64,
    /// The limit that the card comes with.
    pub default_w: Option<f64>,
    /// The limit in force, the lowest of all that apply.
    pub enforced_w: Option<f64>,
}

/// A clock now, and the highest it can be, MHz.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// Now.
    pub now_mhz: u32,
    /// At most.
    pub max_mhz: Option<u32>,
}

/// The PCIe link. It falls to a lower generation while nothing goes over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcieLink {
    /// Generation now.
    pub generation: u32,
    /// Lanes now.
    pub width: u32,
    /// The best generation of card and slot.
    pub max_generation: Option<u32>,
    /// The most lanes of card and slot.
    pub max_width: Option<u32>,
}

/// A process with a context on the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Process id, as the host counts: inside a container another number than one's own.
    pub pid: u32,
    /// Memory that it holds on the card, where the driver tells.
    pub memory: Option<Bytes>,
}

/// Whether a GPU is a virtual one (`nvmlGpuVirtualizationMode_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Virtualization {
    /// The card itself.
    BareMetal,
    /// The whole card, handed through to a virtual machine.
    PassThrough,
    /// A slice of a card in a virtual machine.
    Vgpu,
    /// A card whose host hands out slices of it.
    VgpuHost,
    /// A mode that this program does not know.
    Other(u32),
}

impl Virtualization {
    /// The mode that NVML numbers so.
    pub fn from_number(number: u32) -> Self {
        match number {
            0 => Self::BareMetal,
            1 => Self::PassThrough,
            2 => Self::Vgpu,
            3 | 4 => Self::VgpuHost,
            other => Self::Other(other),
        }
    }
}

impl fmt::Display for Virtualization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BareMetal => f.pad("none"),
            Self::PassThrough => f.pad("the whole card, passed through"),
            Self::Vgpu => f.pad("vGPU"),
            Self::VgpuHost => f.pad("host of vGPUs"),
            Self::Other(number) => f.pad(&format!("mode {number}")),
        }
    }
}

/// One reason for the clocks in force (`nvmlClocksEventReason*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventReason {
    /// Nothing runs.
    Idle,
    /// Somebody has set clocks.
    SetClocks,
    /// The power limit.
    PowerCap,
    /// The hardware: temperature, power supply or brake.
    HardwareSlowdown,
    /// A group of cards that boost together.
    SyncBoost,
    /// Temperature, held by software.
    ThermalSlowdown,
    /// Temperature, held by hardware.
    HardwareThermalSlowdown,
    /// A brake from outside, such as the power supply.
    PowerBrake,
    /// The display needs it.
    Display,
}

/// All reasons in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventReasons(pub u64);

impl EventReasons {
    const BITS: [(u64, EventReason); 9] = [
        (0x001, EventReason::Idle),
        (0x002, EventReason::SetClocks),
        (0x004, EventReason::PowerCap),
        (0x008, EventReason::HardwareSlowdown),
        (0x010, EventReason::SyncBoost),
        (0x020, EventReason::ThermalSlowdown),
        (0x040, EventReason::HardwareThermalSlowdown),
        (0x080, EventReason::PowerBrake),
        (0x100, EventReason::Display),
    ];

    /// Each reason that this program knows.
    pub fn known(self) -> impl Iterator<Item = EventReason> {
        Self::BITS.into_iter().filter(move |(bit, _)| self.0 & bit != 0).map(|(_, reason)| reason)
    }

    /// The bits that it does not know.
    pub fn unknown(self) -> u64 {
        Self::BITS.iter().fold(self.0, |rest, (bit, _)| rest & !bit)
    }
}

impl fmt::Display for EventReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Idle => "idle",
            Self::SetClocks => "clocks set by somebody",
            Self::PowerCap => "power limit",
            Self::HardwareSlowdown => "hardware slowdown",
            Self::SyncBoost => "boost in step with other cards",
            Self::ThermalSlowdown => "temperature (software)",
            Self::HardwareThermalSlowdown => "temperature (hardware)",
            Self::PowerBrake => "power brake",
            Self::Display => "display",
        })
    }
}

impl fmt::Display for EventReasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unknown = (self.unknown() != 0).then(|| format!("{:#x}", self.unknown()));
        let names: Vec<_> = self.known().map(|reason| reason.to_string()).chain(unknown).collect();
        if names.is_empty() { f.pad("none") } else { f.pad(&names.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_nvmls_bits() {
        assert_eq!(EventReasons(0).to_string(), "none");
        assert_eq!(EventReasons(0x1).to_string(), "idle");
        assert_eq!(EventReasons(0x24).to_string(), "power limit, temperature (software)");
        assert_eq!(EventReasons(0x404).to_string(), "power limit, 0x400");
    }
}

//! The state that a machine is in when it is measured: its GPU and its host, read and never set.

mod concerns;
mod gpu;
mod text;

pub use concerns::Concern;
pub use gpu::{Clocks, EventReason, EventReasons, GpuState, PcieLink, PowerLimits, Process, Virtualization};

use crate::host::{HostState, Locality};

/// GPU and host at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineState {
    /// The GPU, as NVML sees it.
    pub gpu: GpuState,
    /// The host.
    pub host: HostState,
    /// How near they are to each other.
    pub locality: Locality,
}

#[cfg(test)]
mod tests;

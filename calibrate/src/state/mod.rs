//! The state that a machine is in when it is measured: its GPU and its host, read and never set.

mod concerns;
mod gpu;
mod text;

pub use concerns::Concern;
use concerns::UNSEEN_MEMORY;
pub use gpu::{Clocks, EventReason, EventReasons, GpuState, PcieLink, PowerLimits, Process, Virtualization};

use kernels::units::Bytes;

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

impl MachineState {
    /// Device memory that other processes hold, of so much that is taken now: this program's own context included now, and
    /// not yet when the state was read. Without NVML that context is taken for a large one.
    pub fn held_by_others(&self, taken: Bytes) -> Bytes {
        let others = match (&self.gpu.memory_used, &self.gpu.processes) {
            (Ok(used), Ok(processes)) if processes.is_empty() && *used <= UNSEEN_MEMORY => Bytes(0),
            (Ok(used), _) => *used,
            (Err(_), _) => Bytes(taken.0.saturating_sub(UNSEEN_MEMORY.0)),
        };
        others.min(taken)
    }
}

#[cfg(test)]
mod tests;

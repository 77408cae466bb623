//! Virtual time: what work takes on the device. The figures are planted, see [`crate::configuration`].

use kernels::launch::Kernel;

use crate::configuration::Costs;
use crate::operation::{KernelLaunch, Operation};

impl Costs {
    /// Device time of one operation, without what lies between operations.
    pub(crate) fn duration_ns(&self, operation: &Operation) -> u64 {
        match operation {
            Operation::Kernel(launch) => self.kernel_duration_ns(launch),
            Operation::Copy { bytes, .. } => self.transfer_ns(2 * bytes),
            Operation::Write { bytes, .. } => self.transfer_ns(2 * bytes.len() as u64),
            Operation::Set { width, count, .. } => self.transfer_ns(u64::from(*width) * count),
            Operation::Allocate { .. } | Operation::Free { .. } => 0,
        }
    }

    /// Bytes read plus bytes written at the planted bandwidth, never below the shortest kernel.
    fn transfer_ns(&self, bytes: u64) -> u64 {
        self.kernel_ns.max(bytes / self.bandwidth_gb_per_s)
    }

    fn kernel_duration_ns(&self, launch: &KernelLaunch) -> u64 {
        let symbol = launch.function.entry.symbol.as_str();
        if let Some(stairs) = self.stairs.get(symbol) {
            return self.kernel_ns.max(stairs.at(rows(launch)));
        }
        let kernel = Kernel::ALL.iter().find(|kernel| kernel.symbol() == symbol);
        match kernel {
            Some(Kernel::Copy) => self.transfer_ns(32 * argument(launch, Kernel::Copy, "vectors").unwrap_or(0)),
            Some(Kernel::Clocks) => {
                let cycles = argument(launch, Kernel::Clocks, "cycles").unwrap_or(0);
                self.kernel_ns.max(cycles.saturating_mul(1_000) / self.clock_mhz)
            }
            _ => self.kernel_ns,
        }
    }
}

/// Rows that a launch works on: its argument `rows` if it has one, else the blocks along x.
pub(crate) fn rows(launch: &KernelLaunch) -> u64 {
    let symbol = launch.function.entry.symbol.as_str();
    let kernel = Kernel::ALL.iter().find(|kernel| kernel.symbol() == symbol);
    let rows = kernel.and_then(|kernel| argument(launch, *kernel, "rows"));
    rows.unwrap_or(u64::from(launch.grid[0]))
}

/// An integer argument by the name it has in the kernel table.
pub(crate) fn argument(launch: &KernelLaunch, kernel: Kernel, name: &str) -> Option<u64> {
    let index = kernel.parameters().iter().position(|parameter| parameter.name == name)?;
    let parameter = launch.function.entry.parameters.get(index)?;
    let bytes = launch.arguments.get(parameter.offset..parameter.offset + parameter.bytes)?;
    let mut value = [0; 8];
    value.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(u64::from_le_bytes(value))
}

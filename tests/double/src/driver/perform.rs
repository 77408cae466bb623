//! Doing what became due, on memory that is checked again at that moment.

use kernels::launch::Kernel;

use super::Driver;
use crate::configuration::Configuration;
use crate::driver_rules::Misuse;
use crate::execute::Run;
use crate::memory::Memory;
use crate::operation::{Batch, KernelLaunch, Operation};
use crate::status::Status;
use crate::time::argument;
use crate::timeline::Due;
use crate::wild_access;

impl Driver {
    /// Does what became due.
    pub(crate) fn perform(&mut self) {
        for due in self.timeline.take_due() {
            match due {
                Due::Batch(batch) => self.perform_batch(&batch),
                Due::Passed { outcome, value } => match self.memory.outside(outcome, 4) {
                    None => Memory::write(outcome, &value.to_le_bytes()),
                    Some(why) => self.fault(Misuse::LaunchOnFreedMemory, &format!("outcome of the gate: {why}")),
                },
            }
        }
    }

    pub(super) fn perform_batch(&mut self, batch: &Batch) {
        let is_checked = batch.is_checked_at(self.memory.generation);
        for operation in &batch.operations {
            // After a fault the device does nothing more.
            if self.sticky.is_some() {
                return;
            }
            if !is_checked && let Some(why) = self.stale(operation) {
                let misuse = if batch.is_replay { Misuse::ReplayOnFreedMemory } else { Misuse::LaunchOnFreedMemory };
                return self.fault(misuse, &why);
            }
            self.perform_operation(operation);
        }
        batch.set_checked_at(self.memory.generation);
    }

    /// Which address of an operation is not live, if any.
    fn stale(&self, operation: &Operation) -> Option<String> {
        let range = |address, bytes| self.memory.outside(address, bytes);
        match operation {
            Operation::Kernel(launch) => {
                let symbol = &launch.function.entry.symbol;
                if !self.modules.is_loaded(launch.function.module) {
                    return Some(format!("the module of {symbol} was unloaded"));
                }
                launch.addresses().find_map(|(index, address)| {
                    let why = range(address, 1)?;
                    Some(format!("argument {index} of {symbol}: {why}"))
                })
            }
            // Ranges were checked when the copy was called for; one side may be host memory that the double did not give.
            Operation::Copy { to, from, bytes } => [*to, *from]
                .into_iter()
                .find(|address| self.memory.freed_at(*address).is_some())
                .and_then(|address| range(address, *bytes)),
            Operation::Write { to, bytes } => range(*to, bytes.len() as u64),
            Operation::Set { at, width, count, .. } => range(*at, u64::from(*width) * count),
            Operation::Allocate { .. } | Operation::Free { .. } => None,
        }
    }

    /// A fault of the device: the context is lost.
    fn fault(&mut self, misuse: Misuse, text: &str) {
        let status = self.breach(misuse, text);
        self.sticky = Some(status);
    }

    fn perform_operation(&mut self, operation: &Operation) {
        match operation {
            Operation::Kernel(launch) => self.perform_kernel(launch),
            Operation::Copy { to, from, bytes } => Memory::copy(*to, *from, *bytes),
            Operation::Write { to, bytes } => Memory::write(*to, bytes),
            Operation::Set { at, element, width, count } => {
                self.memory.set(*at, &element[..usize::from(*width)], *count);
            }
            Operation::Allocate { .. } | Operation::Free { .. } => {}
        }
    }

    fn perform_kernel(&mut self, launch: &KernelLaunch) {
        let symbol = launch.function.entry.symbol.as_str();
        if symbol == Kernel::Clocks.symbol() {
            return self.write_clocks(launch);
        }
        if symbol == Kernel::Gate.symbol() {
            return self.report.note("a gate inside a graph holds nothing: the double passes it at once");
        }
        let Some(executor) = self.executor else { return };
        let name = launch.function.name.as_c_str();
        match wild_access::watched(name, self.report.file(), || executor.run(launch)) {
            Run::Done => {}
            Run::Unknown => {
                self.report.note(&format!("the executor has no kernel {symbol}: it took time and did nothing"));
            }
            Run::Failed(why) => {
                self.sticky = Some(self.violation(Status::LAUNCH_FAILED, &format!("{symbol}: {why}")));
            }
        }
    }

    /// The clock kernel reads virtual clocks: it ends now, and began so many cycles ago.
    fn write_clocks(&mut self, launch: &KernelLaunch) {
        let (Some(out), Some(cycles)) =
            (argument(launch, Kernel::Clocks, "out"), argument(launch, Kernel::Clocks, "cycles"))
        else {
            return;
        };
        let after_ns = self.timeline.host_ns;
        let Configuration { costs, disturbance, .. } = &self.configuration;
        let mhz = disturbance.clock_mhz(costs.clock_mhz, after_ns);
        let before_ns = after_ns.saturating_sub(cycles.saturating_mul(1_000) / mhz);
        let cycles_before = before_ns * mhz / 1_000;
        for (index, value) in [cycles_before, before_ns, cycles_before + cycles, after_ns].into_iter().enumerate() {
            Memory::write(out + 8 * index as u64, &value.to_le_bytes());
        }
    }
}

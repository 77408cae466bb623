//! What the host around a GPU is like, as far as it changes what is measured there. Only read, nothing is ever set.
//!
//! Everything is read from files below a root and from given environment variables, so that a made-up tree can stand for a
//! machine. What cannot be read is not available, with the reason; it never fails.

mod cgroup;
mod cpu;
mod cpu_set;
mod nodes;
mod numa;
mod surroundings;
mod tree;

pub use cgroup::CpuQuota;
pub use cpu::{Cpu, Frequency};
pub use cpu_set::CpuSet;
pub use nodes::{DeviceNode, device_nodes};
pub use numa::{Locality, locality};
pub use surroundings::{Mps, Surroundings};
pub use tree::HostTree;

use crate::reading::Reading;

/// The host at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct HostState {
    /// The processor.
    pub cpu: Cpu,
    /// All CPUs that run.
    pub online_cpus: Reading<CpuSet>,
    /// CPUs that this process may run on: its affinity.
    pub affinity: Reading<CpuSet>,
    /// CPUs that its cgroup allows.
    pub cgroup_cpus: Reading<CpuSet>,
    /// CPU time that its cgroups allow, the tightest of them.
    pub cpu_quota: Reading<CpuQuota>,
    /// Processes of the whole machine running or waiting for a CPU, on average over the last minute.
    pub load: Reading<f64>,
    /// Kernel release.
    pub kernel: Reading<String>,
    /// The kernel's clock. Where it is not the processor's own counter, reading the time is slow.
    pub clock_source: Reading<String>,
    /// NVIDIA's kernel module, as it describes itself.
    pub kernel_module: Reading<String>,
    /// What lies between this process and the machine.
    pub surroundings: Surroundings,
    /// The GPU's device nodes.
    pub nodes: Vec<DeviceNode>,
}

impl HostState {
    /// Reads everything that the tree has.
    pub fn read(tree: &HostTree) -> Self {
        let affinity = tree.field("proc/self/status", "Cpus_allowed_list").and_then(|list| cpu_set::parse(&list));
        Self {
            cpu: Cpu::read(tree, affinity.as_ref().ok()),
            online_cpus: tree.line("sys/devices/system/cpu/online").and_then(|list| cpu_set::parse(&list)),
            cgroup_cpus: cgroup::cpus(tree),
            cpu_quota: cgroup::cpu_quota(tree),
            load: load(tree),
            kernel: tree.line("proc/sys/kernel/osrelease"),
            clock_source: tree.line("sys/devices/system/clocksource/clocksource0/current_clocksource"),
            kernel_module: tree.line("proc/driver/nvidia/version"),
            surroundings: Surroundings::read(tree),
            nodes: device_nodes(tree),
            affinity,
        }
    }
}

fn load(tree: &HostTree) -> Reading<f64> {
    let line = tree.line("proc/loadavg")?;
    let first = line.split_whitespace().next().and_then(|first| first.parse().ok());
    first.ok_or_else(|| tree.unexpected("proc/loadavg", &line))
}

#[cfg(test)]
pub(crate) mod tests;

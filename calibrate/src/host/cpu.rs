//! The processor, and how its frequency is governed.

use super::{CpuSet, HostTree};
use crate::reading::{NotAvailable, Reading};

/// The processor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Model name; on Arm, which has none in `/proc/cpuinfo`, implementer and part numbers.
    pub model: Reading<String>,
    /// Whether a hypervisor says so: this is a virtual machine. Unknown on processors other than x86.
    pub virtual_machine: Reading<bool>,
    /// How the frequency of the CPUs that this process may use is governed: CPUs alike together.
    pub frequency: Reading<Vec<Frequency>>,
}

/// CPUs whose frequency is governed alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frequency {
    /// `scaling_governor`: `performance`, `powersave`, `schedutil`, …
    pub governor: String,
    /// `scaling_driver`. Under `intel_pstate` and `amd-pstate-epp`, `powersave` follows the load; elsewhere it is the lowest
    /// frequency.
    pub driver: Option<String>,
    /// The CPUs.
    pub cpus: CpuSet,
}

impl Cpu {
    /// Reads the processor; of all CPUs, only those in `affinity` count for the frequency.
    pub(super) fn read(tree: &HostTree, affinity: Option<&CpuSet>) -> Self {
        Self { model: model(tree), virtual_machine: virtual_machine(tree), frequency: frequency(tree, affinity) }
    }
}

fn model(tree: &HostTree) -> Reading<String> {
    const CPUINFO: &str = "proc/cpuinfo";
    if let Ok(name) = tree.field(CPUINFO, "model name") {
        return Ok(name);
    }
    let implementer = tree.field(CPUINFO, "CPU implementer")?;
    Ok(format!("Arm implementer {implementer} part {}", tree.field(CPUINFO, "CPU part")?))
}

fn virtual_machine(tree: &HostTree) -> Reading<bool> {
    Ok(tree.field("proc/cpuinfo", "flags")?.split_whitespace().any(|flag| flag == "hypervisor"))
}

fn frequency(tree: &HostTree, affinity: Option<&CpuSet>) -> Reading<Vec<Frequency>> {
    const CPUS: &str = "sys/devices/system/cpu";
    let number = |name: String| name.strip_prefix("cpu")?.parse::<u32>().ok();
    let present: CpuSet = tree.entries(CPUS).into_iter().filter_map(number).collect();
    let usable = affinity.map_or_else(|| present.clone(), |affinity| affinity.and(&present));
    let mut alike: Vec<(String, Option<String>, Vec<u32>)> = Vec::new();
    for cpu in usable.iter() {
        let folder = format!("{CPUS}/cpu{cpu}/cpufreq");
        let Ok(governor) = tree.line(format!("{folder}/scaling_governor")) else { continue };
        let driver = tree.line(format!("{folder}/scaling_driver")).ok();
        match alike.iter_mut().find(|(other, others, _)| &governor == other && &driver == others) {
            Some((.., cpus)) => cpus.push(cpu),
            None => alike.push((governor, driver, vec![cpu])),
        }
    }
    if alike.is_empty() {
        return Err(NotAvailable::because("no CPU has cpufreq in sysfs, usual in a virtual machine"));
    }
    let groups = alike.into_iter();
    Ok(groups
        .map(|(governor, driver, cpus)| Frequency { governor, driver, cpus: cpus.into_iter().collect() })
        .collect())
}

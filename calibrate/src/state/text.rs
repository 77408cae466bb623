//! The state as text for people: one fact a line.

use std::fmt;

use super::{Clocks, MachineState, PcieLink, PowerLimits, Process};
use crate::host::{DeviceNode, Frequency, HostState};
use crate::reading::{Reading, shown};

impl fmt::Display for MachineState {
    /// GPU, host, and what makes measurements suspect, one fact a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        section(f, "GPU", &self.gpu_facts())?;
        section(f, "host", &self.host_facts())?;
        let concerns = self.concerns();
        if concerns.is_empty() {
            return writeln!(f, "concerns: none");
        }
        writeln!(f, "concerns")?;
        concerns.iter().try_for_each(|concern| writeln!(f, "  {concern}"))
    }
}

type Fact = (&'static str, String);

fn section(f: &mut fmt::Formatter<'_>, title: &str, facts: &[Fact]) -> fmt::Result {
    writeln!(f, "{title}")?;
    facts.iter().try_for_each(|(name, fact)| writeln!(f, "  {name:<17}{fact}"))
}

fn plain<T: fmt::Display>(reading: &Reading<T>) -> String {
    shown(reading, T::to_string)
}

fn on_off(reading: &Reading<bool>) -> String {
    shown(reading, |on| if *on { "on" } else { "off" }.to_owned())
}

impl MachineState {
    fn gpu_facts(&self) -> Vec<Fact> {
        let gpu = &self.gpu;
        let told = vec![
            ("nvidia-smi index", plain(&gpu.smi_index)),
            ("driver", plain(&gpu.driver)),
            ("power limit", shown(&gpu.power, power)),
            ("power drawn", shown(&gpu.power_draw_w, |watts| format!("{watts:.0} W"))),
            ("clocks held by", plain(&gpu.clock_reasons)),
            ("SM clock", shown(&gpu.sm_clock, clocks)),
            ("memory clock", shown(&gpu.memory_clock, clocks)),
            ("temperature", shown(&gpu.temperature_c, |celsius| format!("{celsius} C"))),
            ("ECC", on_off(&gpu.ecc)),
            ("persistence", on_off(&gpu.persistence)),
            ("MIG", on_off(&gpu.mig)),
            ("compute mode", plain(&gpu.compute_mode)),
            ("virtualization", plain(&gpu.virtualization)),
            ("processes", shown(&gpu.processes, |processes| list(processes, process))),
            ("busy", shown(&gpu.busy_percent, |percent| format!("{percent} %"))),
            ("memory used", plain(&gpu.memory_used)),
            ("PCIe link", shown(&gpu.pcie, link)),
        ];
        // Without NVML nothing is told, always for the same reason: that is one fact.
        let is_one_reason = gpu.smi_index.is_err() && told.iter().all(|(_, fact)| *fact == told[0].1);
        let mut facts = if is_one_reason { vec![("state", told[0].1.clone())] } else { told };
        facts.extend([
            ("NUMA node", shown(&self.locality.node, |node| node.map_or("none".to_owned(), |node| node.to_string()))),
            ("CPUs near it", plain(&self.locality.near_cpus)),
        ]);
        facts
    }

    fn host_facts(&self) -> Vec<Fact> {
        let HostState { cpu, surroundings, .. } = &self.host;
        let signs = |signs: &[String]| if signs.is_empty() { "no".to_owned() } else { signs.join("; ") };
        let mps = surroundings.mps.as_ref().map_or("no".to_owned(), |mps| {
            let pipe = mps.control_pipe.as_ref().map(|pipe| format!("control pipe {pipe}"));
            let share = mps.active_thread_percentage.as_ref().map(|share| format!("{share} % of the SMs"));
            pipe.into_iter().chain(share).collect::<Vec<_>>().join("; ")
        });
        vec![
            ("CPU", plain(&cpu.model)),
            ("virtual machine", shown(&cpu.virtual_machine, |is| if *is { "yes" } else { "no" }.to_owned())),
            ("governor", shown(&cpu.frequency, |groups| list(groups, governor))),
            ("CPUs online", plain(&self.host.online_cpus)),
            ("affinity", plain(&self.host.affinity)),
            ("cgroup CPUs", plain(&self.host.cgroup_cpus)),
            ("cgroup quota", plain(&self.host.cpu_quota)),
            ("load", shown(&self.host.load, |load| format!("{load:.2}"))),
            ("NUMA nodes", plain(&self.locality.nodes)),
            ("kernel", plain(&self.host.kernel)),
            ("clock source", plain(&self.host.clock_source)),
            ("kernel module", plain(&self.host.kernel_module)),
            ("WSL", signs(&surroundings.wsl)),
            ("container", signs(&surroundings.container)),
            ("MPS", mps),
            ("device nodes", list(&self.host.nodes, node)),
        ]
    }
}

/// What is listed, or `none`.
fn list<T>(items: &[T], show: impl Fn(&T) -> String) -> String {
    if items.is_empty() { "none".to_owned() } else { items.iter().map(show).collect::<Vec<_>>().join(", ") }
}

fn power(limits: &PowerLimits) -> String {
    let default = limits.default_w.map(|watts| format!("default {watts:.0} W"));
    let enforced = limits.enforced_w.map(|watts| format!("in force {watts:.0} W"));
    [Some(format!("{:.0} W", limits.set_w)), default, enforced].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn clocks(clocks: &Clocks) -> String {
    let max = clocks.max_mhz.map_or_else(String::new, |max| format!(" of at most {max} MHz"));
    format!("{} MHz{max}", clocks.now_mhz)
}

fn link(link: &PcieLink) -> String {
    let best = link.max_generation.zip(link.max_width);
    let best = best.map_or_else(String::new, |(generation, width)| format!(" of at most gen {generation} x{width}"));
    format!("gen {} x{}{best}", link.generation, link.width)
}

fn process(process: &Process) -> String {
    let memory = process.memory.map_or_else(String::new, |bytes| format!(" ({bytes})"));
    format!("{}{memory}", process.pid)
}

fn node(node: &DeviceNode) -> String {
    let closed = if node.usable { "" } else { " (closed to this process)" };
    format!("{} {:o}{closed}", node.path, node.permissions)
}

fn governor(group: &Frequency) -> String {
    let driver = group.driver.as_ref().map_or_else(String::new, |driver| format!(" ({driver})"));
    format!("{}{driver} on CPUs {}", group.governor, group.cpus)
}

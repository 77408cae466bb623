//! What in a machine's state makes measurements suspect, and what to do about it.

use std::fmt;

use kernels::units::Bytes;

use super::{EventReason, MachineState, Virtualization};
use crate::counted::counted;
use crate::host::{CpuQuota, Frequency};

/// One thing that makes measurements suspect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concern {
    /// A name for it that does not change, for files and tests.
    pub code: &'static str,
    /// What is the case, and what it does to measurements.
    pub what: String,
    /// What to do.
    pub advice: String,
}

impl fmt::Display for Concern {
    /// Two lines: what is the case, and below it what to do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}\n    {}", self.code, self.what, self.advice)
    }
}

/// A limit this much below the default is a rounding of the driver, not a cap.
const POWER_LIMIT_SHARE: f64 = 0.99;
/// One CPU launches, another serves the driver's threads and the system; with less, launches wait for CPU time.
const CPUS_MIN: f64 = 2.0;
/// Share of a second in which a kernel ran, above which the card is not idle.
const BUSY_PERCENT_MAX: u32 = 10;
/// More memory than this is not what a driver keeps for itself.
pub(super) const UNSEEN_MEMORY: Bytes = Bytes(1 << 30);
/// Clocks that a process reads without entering the kernel.
const FAST_CLOCKS: [&str; 4] = ["tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page"];
/// Drivers under which `powersave` follows the load instead of staying at the lowest frequency (the kernel's
/// documentation of `intel_pstate` and `amd-pstate`).
const DYNAMIC_POWERSAVE: [&str; 2] = ["intel_pstate", "amd-pstate-epp"];

impl MachineState {
    /// Everything in this state that makes measurements suspect. What is not available is not assumed to be well: where
    /// the card's limits or its other users cannot be seen, that is a concern itself.
    pub fn concerns(&self) -> Vec<Concern> {
        let mut found = Concerns::default();
        self.unseen(&mut found);
        self.power_and_clocks(&mut found);
        self.other_users(&mut found);
        self.slices(&mut found);
        self.settings(&mut found);
        self.processor(&mut found);
        self.distance(&mut found);
        found.0
    }

    fn unseen(&self, found: &mut Concerns) {
        let gpu = &self.gpu;
        match (&gpu.power, &gpu.clock_reasons, &gpu.processes) {
            (Err(_), Err(_), Err(why)) => found.add(
                "gpu_state_unknown",
                format!(
                    "the state of the GPU is {why}: a power limit, throttling or other processes would not be seen"
                ),
                "compare with `nvidia-smi -q` where it works, such as on the host of a container",
            ),
            (_, _, Err(why)) => found.add(
                "processes_unknown",
                format!("the list of processes on the card is {why}: others could be running there"),
                "make sure that nothing else uses the card while it is measured",
            ),
            _ => {}
        }
    }

    fn power_and_clocks(&self, found: &mut Concerns) {
        if let Ok(limits) = &self.gpu.power
            && let Some(default_w) = limits.default_w
        {
            let in_force_w = limits.enforced_w.map_or(limits.set_w, |enforced_w| enforced_w.min(limits.set_w));
            if in_force_w < default_w * POWER_LIMIT_SHARE {
                found.add(
                    "power_limit",
                    format!("the power limit is {in_force_w:.0} W, the card comes with {default_w:.0} W: large steps run slower"),
                    "the figures hold for this limit only; measure with the one that the server will have",
                );
            }
        }
        let Ok(reasons) = &self.gpu.clock_reasons else { return };
        let slowed = |reason: &EventReason| !matches!(reason, EventReason::Idle | EventReason::SetClocks);
        let slowing: Vec<_> = reasons.known().filter(slowed).map(|reason| reason.to_string()).collect();
        if !slowing.is_empty() {
            found.add(
                "throttled",
                format!("clocks are held down now by: {}", slowing.join(", ")),
                "wait until the card is cool and idle; if it stays so, look at cooling and power supply",
            );
        }
        if reasons.known().any(|reason| reason == EventReason::SetClocks) {
            found.add(
                "clocks_set",
                "somebody has set the card's clocks",
                "the figures hold for these clocks only; `nvidia-smi -q -d CLOCK` shows them",
            );
        }
    }

    fn other_users(&self, found: &mut Concerns) {
        let gpu = &self.gpu;
        let processes = gpu.processes.as_deref().unwrap_or_default();
        if !processes.is_empty() {
            let pids: Vec<_> = processes.iter().map(|process| process.pid.to_string()).collect();
            found.add(
                "other_processes",
                format!("other processes use the card: {}; they take its time and its memory", pids.join(", ")),
                "stop them, or measure when they have ended",
            );
        }
        if let Ok(used) = gpu.memory_used
            && processes.is_empty()
            && used > UNSEEN_MEMORY
        {
            found.add(
                "memory_held",
                format!("{used} of the card's memory are in use, by no process that can be seen from here"),
                "look on the host, outside of this container, for what uses the card",
            );
        }
        if let Ok(busy) = gpu.busy_percent
            && busy > BUSY_PERCENT_MAX
        {
            found.add(
                "busy",
                format!("kernels ran on the card in {busy} % of the last second"),
                "measure when the card is idle",
            );
        }
        if let Some(mps) = &self.host.surroundings.mps {
            let share = mps.active_thread_percentage.as_ref();
            let share =
                share.map_or_else(String::new, |share| format!(", and this process may use {share} % of the SMs"));
            found.add(
                "mps",
                format!(
                    "CUDA's multi-process service is there{share}: launches go through it, others share the context"
                ),
                "measure without it, or only for a server that runs under it",
            );
        }
    }

    fn slices(&self, found: &mut Concerns) {
        if self.gpu.mig == Ok(true) {
            found.add(
                "mig",
                "the card is cut into MIG instances: power, clocks and the link to the host are shared with the others",
                "the figures hold for an instance of this size only; keep the others idle",
            );
        }
        match self.gpu.virtualization {
            Ok(Virtualization::Vgpu) => found.add(
                "vgpu",
                "this is a virtual GPU: the host gives it time slices among others, which measuring cannot see",
                "measure on the whole card, or only for a server on this very kind of virtual GPU",
            ),
            Ok(Virtualization::VgpuHost) => found.add(
                "vgpu_host",
                "the card hands out virtual GPUs: virtual machines may be using it",
                "make sure that none is running",
            ),
            _ => {}
        }
    }

    fn settings(&self, found: &mut Concerns) {
        let gpu = &self.gpu;
        if gpu.persistence == Ok(false) {
            found.add(
                "persistence_off",
                "persistence is off: the driver sets the card up anew for the first process, which takes seconds",
                "start-up figures of the first run are too long; run twice, or have nvidia-persistenced running",
            );
        }
        if let (Ok(ecc), Ok(default)) = (&gpu.ecc, &gpu.ecc_default)
            && ecc != default
        {
            let on_off = |on: bool| if on { "on" } else { "off" };
            found.add(
                "ecc",
                format!(
                    "ECC is {}, the card comes with it {}: bandwidth and memory differ",
                    on_off(*ecc),
                    on_off(*default)
                ),
                "the figures hold for this setting only",
            );
        }
        if let Ok(link) = &gpu.pcie
            && let Some(max_width) = link.max_width
            && link.width < max_width
        {
            found.add(
                "pcie_width",
                format!("the link to the host has {} of {max_width} lanes", link.width),
                "look at the slot and the riser; copies between host and card are slower than they could be",
            );
        }
    }

    fn processor(&self, found: &mut Concerns) {
        let host = &self.host;
        if !host.surroundings.wsl.is_empty() {
            found.add(
                "wsl",
                "this is WSL: launches go through Windows, which batches them; host costs are other ones than on Linux",
                "measure on Linux, or only for a server that runs here",
            );
        }
        for group in host.cpu.frequency.iter().flatten() {
            let advice = "have the administrator set the governor `performance`, as on a machine that serves";
            if let Some(what) = governed(group) {
                found.add("governor", format!("CPUs {}: {what}", group.cpus), advice);
            }
        }
        if let Ok(CpuQuota::Cpus(cpus)) = host.cpu_quota
            && cpus < CPUS_MIN
        {
            found.add(
                "cpu_quota",
                format!("the control group allows {cpus:.2} CPUs: when they are used up, launches wait up to a period"),
                "give the container at least 2 CPUs, better no limit (`docker run --cpus`, `resources.limits.cpu`)",
            );
        }
        if let Ok(affinity) = &host.affinity {
            let cpus = affinity.len() as f64;
            if cpus < CPUS_MIN {
                found.add(
                    "few_cpus",
                    format!(
                        "this process may run on CPU {affinity} only: the driver's threads take time from launches"
                    ),
                    "allow at least 2 CPUs",
                );
            }
        }
        if let (Ok(load), Ok(online)) = (&host.load, &host.online_cpus)
            && *load > online.len() as f64 / 2.0
        {
            found.add(
                "host_load",
                format!("the load is {load:.1} on {}: launches compete with other work", counted(online.len(), "CPU")),
                "measure when the host is quiet",
            );
        }
        if let Ok(clock) = &host.clock_source
            && !FAST_CLOCKS.contains(&clock.as_str())
        {
            found.add(
                "clock_source",
                format!("the kernel's clock is {clock}: reading the time takes as long as what is timed"),
                "boot with a clock source that is read in user space, usually `tsc`",
            );
        }
    }

    fn distance(&self, found: &mut Concerns) {
        let Ok(affinity) = &self.host.affinity else { return };
        let Ok(near) = self.locality.near(affinity) else { return };
        let Ok(near_cpus) = &self.locality.near_cpus else { return };
        if near_cpus.is_empty() || near.len() == affinity.len() {
            return;
        }
        let allowed = self.host.cgroup_cpus.as_ref().map_or_else(|_| near_cpus.clone(), |cpus| cpus.and(near_cpus));
        let advice = if allowed.is_empty() {
            format!(
                "the control group allows none of CPUs {near_cpus}, which are near the GPU: give the container some of them"
            )
        } else {
            format!("run with `taskset -c {allowed}`, and the server too")
        };
        if near.is_empty() {
            let what =
                "the GPU hangs on another NUMA node than every CPU that this process may use: launches take longer";
            found.add("numa", what, advice);
        } else {
            let (near, all) = (near.len(), affinity.len());
            let what = format!(
                "only {near} of the {all} CPUs that this process may use are near the GPU: launch costs jump with the CPU"
            );
            found.add("numa", what, advice);
        }
    }
}

/// How a governor makes launch times unsteady; `None` if it does not.
fn governed(group: &Frequency) -> Option<String> {
    let is_dynamic = group.driver.as_deref().is_some_and(|driver| DYNAMIC_POWERSAVE.contains(&driver));
    let governor = group.governor.as_str();
    match governor {
        "performance" => None,
        "powersave" if !is_dynamic => Some("the governor powersave keeps the lowest frequency".to_owned()),
        "userspace" => Some("the governor userspace keeps a frequency that somebody has set".to_owned()),
        _ => Some(format!("the governor {governor} follows the load: launches after a pause are slower")),
    }
}

#[derive(Default)]
struct Concerns(Vec<Concern>);

impl Concerns {
    fn add(&mut self, code: &'static str, what: impl Into<String>, advice: impl Into<String>) {
        self.0.push(Concern { code, what: what.into(), advice: advice.into() });
    }
}

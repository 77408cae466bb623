//! States and their concerns.

use kernels::units::Bytes;

use super::*;
use crate::host::{CpuQuota, CpuSet, Frequency, HostTree, Mps, locality};
use crate::reading::NotAvailable;
use crate::visible::ComputeMode;

fn cpus(range: std::ops::Range<u32>) -> CpuSet {
    range.collect()
}

/// A quiet server with an H200, pinned to the CPUs beside it.
fn quiet() -> MachineState {
    let gpu = GpuState {
        smi_index: Ok(3),
        driver: Ok("550.54.15".to_owned()),
        power: Ok(PowerLimits { set_w: 700.0, default_w: Some(700.0), enforced_w: Some(700.0) }),
        power_draw_w: Ok(76.4),
        clock_reasons: Ok(EventReasons(1)),
        sm_clock: Ok(Clocks { now_mhz: 345, max_mhz: Some(1980) }),
        memory_clock: Ok(Clocks { now_mhz: 3201, max_mhz: None }),
        temperature_c: Ok(31),
        ecc: Ok(true),
        ecc_default: Ok(true),
        persistence: Ok(true),
        mig: Ok(false),
        compute_mode: Ok(ComputeMode::Shared),
        virtualization: Ok(Virtualization::BareMetal),
        processes: Ok(vec![]),
        busy_percent: Ok(0),
        memory_used: Ok(Bytes(4 << 20)),
        memory_total: Ok(Bytes(141 << 30)),
        pcie: Ok(PcieLink { generation: 1, width: 16, max_generation: Some(5), max_width: Some(16) }),
    };
    let made = crate::host::tests::Made::server();
    let mut host = HostState::read(&made.tree());
    host.cpu.frequency.as_mut().unwrap().retain(|group| group.governor == "performance");
    host.affinity = Ok(cpus(4..8));
    let locality = locality(&made.tree(), "0000:3b:00.0".parse().unwrap());
    MachineState { gpu, host, locality }
}

/// The concerns of the quiet server after a change.
fn after(change: impl FnOnce(&mut MachineState)) -> String {
    let mut state = quiet();
    change(&mut state);
    let concerns = state.concerns();
    concerns.iter().map(Concern::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_quiet_server_has_no_concerns() {
    assert_eq!(quiet().concerns(), []);
    insta::assert_snapshot!(quiet(), @r"
    GPU
      nvidia-smi index 3
      driver           550.54.15
      power limit      700 W, default 700 W, in force 700 W
      power drawn      76 W
      clocks held by   idle
      SM clock         345 MHz of at most 1980 MHz
      memory clock     3201 MHz
      temperature      31 C
      ECC              on
      persistence      on
      MIG              off
      compute mode     default
      virtualization   none
      processes        none
      busy             0 %
      memory used      4.00 MiB
      PCIe link        gen 1 x16 of at most gen 5 x16
      NUMA node        1
      CPUs near it     4-7
    host
      CPU              Intel(R) Xeon(R) Platinum 8480+
      virtual machine  no
      governor         performance (intel_pstate) on CPUs 0-2,4-7
      CPUs online      0-7
      affinity         4-7
      cgroup CPUs      0-7
      cgroup quota     unlimited
      load             0.42
      NUMA nodes       2
      kernel           6.8.0-51-generic
      clock source     tsc
      kernel module    NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15
      WSL              no
      container        no
      MPS              no
      device nodes     /dev/nvidia0 666, /dev/nvidiactl 600 (closed to this process)
    concerns: none
    ");
}

#[test]
fn a_machine_without_anything_prints_why() {
    let tree = HostTree::below("/nowhere/at/all", std::collections::BTreeMap::new());
    let state = MachineState {
        gpu: GpuState::not_available(&NotAvailable::because("libnvidia-ml.so.1 is not there")),
        host: HostState::read(&tree),
        locality: locality(&tree, "0000:3b:00.0".parse().unwrap()),
    };
    insta::assert_snapshot!(state, @r"
    GPU
      state            not available (libnvidia-ml.so.1 is not there)
      NUMA node        not available (/sys/bus/pci/devices/0000:3b:00.0/numa_node: not there)
      CPUs near it     not available (/sys/bus/pci/devices/0000:3b:00.0/local_cpulist: not there)
    host
      CPU              not available (/proc/cpuinfo: not there)
      virtual machine  not available (/proc/cpuinfo: not there)
      governor         not available (no CPU has cpufreq in sysfs, usual in a virtual machine)
      CPUs online      not available (/sys/devices/system/cpu/online: not there)
      affinity         not available (/proc/self/status: not there)
      cgroup CPUs      not available (/proc/self/cgroup: not there)
      cgroup quota     not available (/proc/self/cgroup: not there)
      load             not available (/proc/loadavg: not there)
      NUMA nodes       not available (/sys/devices/system/node/online: not there)
      kernel           not available (/proc/sys/kernel/osrelease: not there)
      clock source     not available (/sys/devices/system/clocksource/clocksource0/current_clocksource: not there)
      kernel module    not available (/proc/driver/nvidia/version: not there)
      WSL              no
      container        no
      MPS              no
      device nodes     none
    concerns
      gpu_state_unknown: the state of the GPU is not available (libnvidia-ml.so.1 is not there): a power limit, throttling or other processes would not be seen
        compare with `nvidia-smi -q` where it works, such as on the host of a container
    ");
}

#[test]
fn power_and_clocks() {
    insta::assert_snapshot!(after(|state| {
        state.gpu.power = Ok(PowerLimits { set_w: 500.0, default_w: Some(700.0), enforced_w: Some(500.0) });
    }), @r"
    power_limit: the power limit is 500 W, the card comes with 700 W: large steps run slower
        the figures hold for this limit only; measure with the one that the server will have
    ");
    // A limit that something else holds below the one set.
    let enforced = PowerLimits { set_w: 700.0, default_w: Some(700.0), enforced_w: Some(350.0) };
    assert!(after(|state| state.gpu.power = Ok(enforced)).contains("the power limit is 350 W"));
    let rounded = PowerLimits { set_w: 699.5, default_w: Some(700.0), enforced_w: None };
    assert_eq!(after(|state| state.gpu.power = Ok(rounded)), "");
    let above = PowerLimits { set_w: 350.0, default_w: Some(300.0), enforced_w: Some(350.0) };
    assert_eq!(after(|state| state.gpu.power = Ok(above)), "");
    insta::assert_snapshot!(after(|state| state.gpu.clock_reasons = Ok(EventReasons(0x44))), @r"
    throttled: clocks are held down now by: power limit, temperature (hardware)
        wait until the card is cool and idle; if it stays so, look at cooling and power supply
    ");
    insta::assert_snapshot!(after(|state| state.gpu.clock_reasons = Ok(EventReasons(0x3))), @r"
    clocks_set: somebody has set the card's clocks
        the figures hold for these clocks only; `nvidia-smi -q -d CLOCK` shows them
    ");
}

#[test]
fn other_users_of_the_card() {
    let process = |pid| Process { pid, memory: Some(Bytes(1 << 30)) };
    insta::assert_snapshot!(after(|state| state.gpu.processes = Ok(vec![process(4242), process(77)])), @r"
    other_processes: other processes use the card: 4242, 77; they take its time and its memory
        stop them, or measure when they have ended
    ");
    insta::assert_snapshot!(after(|state| state.gpu.memory_used = Ok(Bytes(9 << 30))), @r"
    memory_held: 9.00 GiB of the card's memory are in use, by no process that can be seen from here
        look on the host, outside of this container, for what uses the card
    ");
    insta::assert_snapshot!(after(|state| state.gpu.busy_percent = Ok(93)), @r"
    busy: kernels ran on the card in 93 % of the last second
        measure when the card is idle
    ");
    let pipe = Some("/tmp/nvidia-mps/control".to_owned());
    let mps = Mps { control_pipe: pipe, active_thread_percentage: Some("30".to_owned()) };
    insta::assert_snapshot!(after(|state| state.host.surroundings.mps = Some(mps)), @r"
    mps: CUDA's multi-process service is there, and this process may use 30 % of the SMs: launches go through it, others share the context
        measure without it, or only for a server that runs under it
    ");
}

#[test]
fn what_cannot_be_seen_is_not_taken_to_be_well() {
    let why = NotAvailable::because("NVML: not supported");
    insta::assert_snapshot!(after(|state| state.gpu.processes = Err(why.clone())), @r"
    processes_unknown: the list of processes on the card is not available (NVML: not supported): others could be running there
        make sure that nothing else uses the card while it is measured
    ");
    insta::assert_snapshot!(after(|state| state.gpu = GpuState::not_available(&why)), @r"
    gpu_state_unknown: the state of the GPU is not available (NVML: not supported): a power limit, throttling or other processes would not be seen
        compare with `nvidia-smi -q` where it works, such as on the host of a container
    ");
}

#[test]
fn slices_of_a_card() {
    insta::assert_snapshot!(after(|state| state.gpu.mig = Ok(true)), @r"
    mig: the card is cut into MIG instances: power, clocks and the link to the host are shared with the others
        the figures hold for an instance of this size only; keep the others idle
    ");
    insta::assert_snapshot!(after(|state| state.gpu.virtualization = Ok(Virtualization::Vgpu)), @r"
    vgpu: this is a virtual GPU: the host gives it time slices among others, which measuring cannot see
        measure on the whole card, or only for a server on this very kind of virtual GPU
    ");
    insta::assert_snapshot!(after(|state| state.gpu.virtualization = Ok(Virtualization::VgpuHost)), @r"
    vgpu_host: the card hands out virtual GPUs: virtual machines may be using it
        make sure that none is running
    ");
    assert_eq!(after(|state| state.gpu.virtualization = Ok(Virtualization::PassThrough)), "");
}

#[test]
fn settings_of_the_card() {
    insta::assert_snapshot!(after(|state| state.gpu.persistence = Ok(false)), @r"
    persistence_off: persistence is off: the driver sets the card up anew for the first process, which takes seconds
        start-up figures of the first run are too long; run twice, or have nvidia-persistenced running
    ");
    insta::assert_snapshot!(after(|state| state.gpu.ecc = Ok(false)), @r"
    ecc: ECC is off, the card comes with it on: bandwidth and memory differ
        the figures hold for this setting only
    ");
    // A card that comes without ECC.
    assert_eq!(after(|state| (state.gpu.ecc, state.gpu.ecc_default) = (Ok(false), Ok(false))), "");
    let narrow = PcieLink { generation: 1, width: 8, max_generation: Some(5), max_width: Some(16) };
    insta::assert_snapshot!(after(|state| state.gpu.pcie = Ok(narrow)), @r"
    pcie_width: the link to the host has 8 of 16 lanes
        look at the slot and the riser; copies between host and card are slower than they could be
    ");
}

#[test]
fn the_processor_and_what_is_around_it() {
    let governor = |governor: &str, driver: &str| {
        let group = Frequency { governor: governor.to_owned(), driver: Some(driver.to_owned()), cpus: cpus(4..8) };
        after(|state| state.host.cpu.frequency = Ok(vec![group]))
    };
    insta::assert_snapshot!(governor("powersave", "acpi-cpufreq"), @r"
    governor: CPUs 4-7: the governor powersave keeps the lowest frequency
        have the administrator set the governor `performance`, as on a machine that serves
    ");
    insta::assert_snapshot!(governor("powersave", "intel_pstate"), @r"
    governor: CPUs 4-7: the governor powersave follows the load: launches after a pause are slower
        have the administrator set the governor `performance`, as on a machine that serves
    ");
    insta::assert_snapshot!(governor("schedutil", "acpi-cpufreq"), @r"
    governor: CPUs 4-7: the governor schedutil follows the load: launches after a pause are slower
        have the administrator set the governor `performance`, as on a machine that serves
    ");
    insta::assert_snapshot!(governor("userspace", "acpi-cpufreq"), @r"
    governor: CPUs 4-7: the governor userspace keeps a frequency that somebody has set
        have the administrator set the governor `performance`, as on a machine that serves
    ");
    insta::assert_snapshot!(after(|state| state.host.surroundings.wsl = vec!["/dev/dxg is there".to_owned()]), @r"
    wsl: this is WSL: launches go through Windows, which batches them; host costs are other ones than on Linux
        measure on Linux, or only for a server that runs here
    ");
    insta::assert_snapshot!(after(|state| state.host.cpu_quota = Ok(CpuQuota::Cpus(1.5))), @r"
    cpu_quota: the control group allows 1.50 CPUs: when they are used up, launches wait up to a period
        give the container at least 2 CPUs, better no limit (`docker run --cpus`, `resources.limits.cpu`)
    ");
    assert_eq!(after(|state| state.host.cpu_quota = Ok(CpuQuota::Cpus(2.0))), "");
    insta::assert_snapshot!(after(|state| state.host.affinity = Ok(cpus(5..6))), @r"
    few_cpus: this process may run on CPU 5 only: the driver's threads take time from launches
        allow at least 2 CPUs
    ");
    insta::assert_snapshot!(after(|state| state.host.load = Ok(4.5)), @r"
    host_load: the load is 4.5 on 8 CPUs: launches compete with other work
        measure when the host is quiet
    ");
    insta::assert_snapshot!(after(|state| state.host.clock_source = Ok("hpet".to_owned())), @r"
    clock_source: the kernel's clock is hpet: reading the time takes as long as what is timed
        boot with a clock source that is read in user space, usually `tsc`
    ");
}

#[test]
fn the_way_from_the_cpus_to_the_card() {
    insta::assert_snapshot!(after(|state| state.host.affinity = Ok(cpus(0..4))), @r"
    numa: the GPU hangs on another NUMA node than every CPU that this process may use: launches take longer
        run with `taskset -c 4-7`, and the server too
    ");
    insta::assert_snapshot!(after(|state| state.host.affinity = Ok(cpus(0..8))), @r"
    numa: only 4 of the 8 CPUs that this process may use are near the GPU: launch costs jump with the CPU
        run with `taskset -c 4-7`, and the server too
    ");
    insta::assert_snapshot!(after(|state| {
        state.host.affinity = Ok(cpus(0..4));
        state.host.cgroup_cpus = Ok(cpus(0..4));
    }), @r"
    numa: the GPU hangs on another NUMA node than every CPU that this process may use: launches take longer
        the control group allows none of CPUs 4-7, which are near the GPU: give the container some of them
    ");
    // Neither a machine without NUMA nor an unknown place is a concern.
    assert_eq!(after(|state| state.locality.near_cpus = Err(NotAvailable::because("not there"))), "");
    assert_eq!(after(|state| state.locality.near_cpus = Ok(CpuSet::default())), "");
}

#[test]
fn several_concerns_come_in_one_order() {
    let mut state = quiet();
    state.gpu.processes = Err(NotAvailable::because("no permission"));
    state.gpu.power = Ok(PowerLimits { set_w: 1.0, default_w: Some(2.0), enforced_w: None });
    state.gpu.clock_reasons = Ok(EventReasons(0x6));
    state.host.affinity = Ok(cpus(0..1));
    let codes: Vec<_> = state.concerns().iter().map(|concern| concern.code).collect();
    assert_eq!(codes, ["processes_unknown", "power_limit", "throttled", "clocks_set", "few_cpus", "numa"]);
}

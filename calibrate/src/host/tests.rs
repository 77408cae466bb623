//! Hosts read from made-up trees.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;

use super::*;

/// A made-up machine.
pub(crate) struct Made {
    folder: TempDir,
    variables: BTreeMap<String, String>,
}

impl Made {
    pub(crate) fn empty() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder"), variables: BTreeMap::new() }
    }

    pub(crate) fn with(self, path: &str, content: &str) -> Self {
        let place = self.folder.path().join(path);
        fs::create_dir_all(place.parent().expect("a file in a folder")).expect("writable");
        fs::write(place, content).expect("writable");
        self
    }

    pub(crate) fn with_node(self, name: &str, permissions: u32) -> Self {
        let made = self.with(&format!("dev/{name}"), "");
        let place = made.folder.path().join("dev").join(name);
        fs::set_permissions(place, fs::Permissions::from_mode(permissions)).expect("one's own file");
        made
    }

    pub(crate) fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn tree(&self) -> HostTree {
        HostTree::below(self.folder.path(), self.variables.clone())
    }

    fn read(&self) -> HostState {
        HostState::read(&self.tree())
    }

    /// Two sockets of 4 CPUs, a user session under cgroup version 2.
    pub(crate) fn server() -> Self {
        let mut made = Self::empty()
            .with("proc/cpuinfo", "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Platinum 8480+\nflags\t\t: fpu sse\n")
            .with("proc/self/status", "Name:\tcalibrate\nUid:\t3999999999\t3999999999\t0\t0\nGid:\t3999999999\t3999999999\t0\t0\nGroups:\t3999999998\nCpus_allowed_list:\t0-7\n")
            .with("proc/self/cgroup", "0::/user.slice/session-1.scope\n")
            .with("proc/self/mountinfo", "24 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n")
            .with("sys/fs/cgroup/user.slice/cpu.max", "max 100000\n")
            .with("sys/fs/cgroup/user.slice/session-1.scope/cpuset.cpus.effective", "0-7\n")
            .with("proc/loadavg", "0.42 0.30 0.20 1/500 4242\n")
            .with("proc/sys/kernel/osrelease", "6.8.0-51-generic\n")
            .with("proc/version", "Linux version 6.8.0-51-generic (buildd@lcy02)\n")
            .with("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15\nGCC version:\n")
            .with("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n")
            .with("sys/devices/system/cpu/online", "0-7\n")
            .with("sys/devices/system/node/online", "0-1\n")
            .with("sys/bus/pci/devices/0000:3b:00.0/numa_node", "1\n")
            .with("sys/bus/pci/devices/0000:3b:00.0/local_cpulist", "4-7\n")
            .with_node("nvidia0", 0o666)
            .with_node("nvidiactl", 0o600)
            .with_node("nvidia-caps-imex-channels", 0o400)
            .with_node("null", 0o666);
        for cpu in 0..8 {
            let folder = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq");
            let governor = if cpu == 3 { "powersave\n" } else { "performance\n" };
            made = made.with(&format!("{folder}/scaling_governor"), governor);
            made = made.with(&format!("{folder}/scaling_driver"), "intel_pstate\n");
        }
        made
    }
}

#[test]
fn a_server_is_read() {
    let made = Made::server();
    let host = made.read();
    assert_eq!(host.cpu.model.as_deref(), Ok("Intel(R) Xeon(R) Platinum 8480+"));
    assert_eq!(host.cpu.virtual_machine, Ok(false));
    let frequency = host.cpu.frequency.as_ref().unwrap();
    let groups: Vec<_> = frequency.iter().map(|group| format!("{} {}", group.governor, group.cpus)).collect();
    assert_eq!(groups, ["performance 0-2,4-7", "powersave 3"]);
    assert_eq!((host.cpu_quota, host.load), (Ok(CpuQuota::Unlimited), Ok(0.42)));
    assert_eq!(host.affinity.as_ref().unwrap().to_string(), "0-7");
    assert_eq!(host.cgroup_cpus.unwrap().to_string(), "0-7");
    assert_eq!(host.surroundings, Surroundings::default());
    let nodes: Vec<_> = host.nodes.iter().map(|node| (node.path.as_str(), node.permissions)).collect();
    assert_eq!(nodes, [("/dev/nvidia0", 0o666), ("/dev/nvidiactl", 0o600)]);
}

#[test]
fn nodes_of_others_are_not_usable() {
    // The made-up status is that of a user whom no machine has: only what is open to everybody is open to it.
    let usable = Made::server().read().nodes.into_iter().map(|node| node.usable).collect::<Vec<_>>();
    assert_eq!(usable, [true, false]);
}

#[test]
fn an_empty_tree_has_nothing_and_does_not_fail() {
    let host = Made::empty().read();
    insta::assert_debug_snapshot!(host);
    let locality = locality(&Made::empty().tree(), "0000:3b:00.0".parse().unwrap());
    insta::assert_debug_snapshot!(locality);
}

#[test]
fn garbage_is_not_available_and_does_not_fail() {
    let junk = "\u{0}\u{7f}: - \n\n:::\n";
    let files = [
        "proc/cpuinfo",
        "proc/self/status",
        "proc/self/cgroup",
        "proc/self/mountinfo",
        "proc/loadavg",
        "proc/version",
        "sys/devices/system/node/online",
        "sys/bus/pci/devices/0000:3b:00.0/numa_node",
        "sys/bus/pci/devices/0000:3b:00.0/local_cpulist",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    ];
    let made = files.into_iter().fold(Made::empty(), |made, file| made.with(file, junk));
    let host = made.read();
    assert!(host.cpu.model.is_err() && host.affinity.is_err() && host.load.is_err() && host.cpu_quota.is_err());
    let locality = locality(&made.tree(), "0000:3b:00.0".parse().unwrap());
    assert!(locality.node.is_err() && locality.near_cpus.is_err() && locality.nodes.is_err());
}

#[test]
fn a_docker_container_under_cgroup_version_1() {
    let made = Made::empty()
        .with("proc/self/cgroup", "12:cpuset:/docker/ab12\n4:cpu,cpuacct:/docker/ab12\n0::/docker/ab12\n")
        .with(
            "proc/self/mountinfo",
            "40 30 0:33 /docker/ab12 /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n\
             41 30 0:34 /docker/ab12 /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset\n",
        )
        .with("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "150000\n")
        .with("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n")
        .with("sys/fs/cgroup/cpuset/cpuset.cpus", "0-3\n")
        .with(".dockerenv", "");
    let host = made.read();
    assert_eq!(host.cpu_quota, Ok(CpuQuota::Cpus(1.5)));
    assert_eq!(host.cgroup_cpus.unwrap().to_string(), "0-3");
    assert_eq!(host.surroundings.container, ["/.dockerenv is there", "/proc/self/cgroup names docker"]);
}

#[test]
fn a_pod_under_cgroup_version_2_sees_its_own_group_as_the_root() {
    let made = Made::empty()
        .with("proc/self/cgroup", "0::/\n")
        .with("proc/self/mountinfo", "30 24 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw,nsdelegate\n")
        .with("sys/fs/cgroup/cpu.max", "50000 100000\n")
        .with("sys/fs/cgroup/cpuset.cpus.effective", "8-15\n")
        .with_variable("KUBERNETES_SERVICE_HOST", "10.0.0.1");
    let host = made.read();
    assert_eq!(host.cpu_quota, Ok(CpuQuota::Cpus(0.5)));
    assert_eq!(host.cgroup_cpus.unwrap().to_string(), "8-15");
    assert_eq!(host.surroundings.container, ["KUBERNETES_SERVICE_HOST is set"]);
}

#[test]
fn the_tightest_group_above_counts() {
    let quota = |inner: &str, outer: &str| {
        let made = Made::server()
            .with("sys/fs/cgroup/user.slice/cpu.max", outer)
            .with("sys/fs/cgroup/user.slice/session-1.scope/cpu.max", inner);
        made.read().cpu_quota
    };
    assert_eq!(quota("400000 100000\n", "100000 100000\n"), Ok(CpuQuota::Cpus(1.0)));
    assert_eq!(quota("400000 100000\n", "max 100000\n"), Ok(CpuQuota::Cpus(4.0)));
    assert_eq!(quota("max 100000\n", "250000 100000\n"), Ok(CpuQuota::Cpus(2.5)));
    assert_eq!(quota("max 100000\n", "max 100000\n"), Ok(CpuQuota::Unlimited));
}

#[test]
fn a_mount_that_begins_inside_the_tree_is_left_out_of_the_path() {
    let mounts = "30 24 0:26 /machine/vm1 /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
    let quota = |group: &str| {
        let made = Made::empty()
            .with("proc/self/cgroup", &format!("0::{group}\n"))
            .with("proc/self/mountinfo", mounts)
            .with("sys/fs/cgroup/cpu.max", "max 100000\n")
            .with("sys/fs/cgroup/server/cpu.max", "120000 100000\n");
        made.read().cpu_quota
    };
    assert_eq!(quota("/machine/vm1/server"), Ok(CpuQuota::Cpus(1.2)));
    assert_eq!(quota("/machine/vm1"), Ok(CpuQuota::Unlimited));
    // Another group whose name begins alike is not inside.
    assert_eq!(quota("/machine/vm10/server"), Ok(CpuQuota::Unlimited));
}

#[test]
fn a_group_outside_of_what_the_container_sees_is_the_mount_itself() {
    let made = Made::empty()
        .with("proc/self/cgroup", "0::/../../other\n")
        .with("proc/self/mountinfo", "30 24 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n")
        .with("sys/fs/cgroup/cpu.max", "300000 100000\n");
    assert_eq!(made.read().cpu_quota, Ok(CpuQuota::Cpus(3.0)));
}

#[test]
fn wsl_and_its_library_are_seen() {
    let made = Made::empty()
        .with("proc/version", "Linux version 5.15.153.1-microsoft-standard-WSL2 (root@941d701f84f1)\n")
        .with("usr/lib/wsl/lib/libcuda.so.1.1", "")
        .with_node("dxg", 0o666);
    let host = made.read();
    let signs = ["/proc/version names Microsoft", "/dev/dxg is there", "/usr/lib/wsl/lib has libcuda"];
    assert_eq!(host.surroundings.wsl, signs);
    assert_eq!(host.nodes[0].path, "/dev/dxg");
}

#[test]
fn mps_is_seen_by_its_pipe_and_its_variables() {
    let default = Made::empty().with("tmp/nvidia-mps/control", "").read().surroundings.mps.unwrap();
    assert_eq!(default.control_pipe.as_deref(), Some("/tmp/nvidia-mps/control"));
    let elsewhere = Made::empty()
        .with("run/mps/control", "")
        .with_variable("CUDA_MPS_PIPE_DIRECTORY", "/run/mps/")
        .with_variable("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "30");
    let mps = elsewhere.read().surroundings.mps.unwrap();
    assert_eq!(mps.control_pipe.as_deref(), Some("/run/mps/control"));
    assert_eq!(mps.active_thread_percentage.as_deref(), Some("30"));
    // The variable alone points nowhere: no daemon.
    let nowhere = Made::empty().with_variable("CUDA_MPS_PIPE_DIRECTORY", "/run/mps");
    assert_eq!(nowhere.read().surroundings.mps, None);
}

#[test]
fn arm_processors_have_numbers_instead_of_a_name() {
    let made = Made::empty().with("proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n");
    assert_eq!(made.read().cpu.model.as_deref(), Ok("Arm implementer 0x41 part 0xd4f"));
}

#[test]
fn a_machine_with_one_node_has_no_numa() {
    let made = Made::empty().with("sys/bus/pci/devices/0000:01:00.0/numa_node", "-1\n");
    assert_eq!(locality(&made.tree(), "0000:01:00.0".parse().unwrap()).node, Ok(None));
}

#[test]
fn this_machine_is_read_without_failing() {
    let host = HostState::read(&HostTree::of_this_machine());
    assert!(Path::new("/proc/self/status").exists() == host.affinity.is_ok(), "{:?}", host.affinity);
}

//! What this process's control groups allow, version 1 and 2 (the kernel's `cgroup-v1` and `cgroup-v2` documentation).

use std::fmt;

use super::{CpuSet, HostTree, cpu_set};
use crate::reading::{NotAvailable, Reading};

/// CPU time that a control group may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CpuQuota {
    /// As much as there is.
    Unlimited,
    /// So many CPUs' worth, averaged over each period (usually 100 ms); whoever used them up waits for the next period.
    Cpus(f64),
}

impl fmt::Display for CpuQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => f.pad("unlimited"),
            Self::Cpus(cpus) => f.pad(&format!("{cpus:.2} CPUs")),
        }
    }
}

/// Where the files of one controller are: a mount point, and the group's path below it.
struct Place {
    version: u8,
    mount: String,
    group: String,
}

impl Place {
    /// The folders from the process's own group up to the mount point, as far as they are visible.
    fn folders(&self) -> Vec<String> {
        let mut folders = Vec::new();
        let mut group = self.group.trim_matches('/');
        while !group.is_empty() {
            folders.push(format!("{}/{group}", self.mount));
            group = group.rsplit_once('/').map_or("", |(above, _)| above);
        }
        folders.push(self.mount.clone());
        folders
    }
}

/// The tightest quota of this process's group and of those above it.
pub(super) fn cpu_quota(tree: &HostTree) -> Reading<CpuQuota> {
    let place = place(tree, "cpu")?;
    let quotas = place.folders().into_iter().filter_map(|folder| quota_of(tree, place.version, &folder));
    let tightest = quotas.reduce(|one, other| match (one, other) {
        (CpuQuota::Cpus(one), CpuQuota::Cpus(other)) => CpuQuota::Cpus(one.min(other)),
        (limited @ CpuQuota::Cpus(_), _) | (_, limited) => limited,
    });
    // The root group of version 2 has no cpu.max: nothing limits it.
    match (tightest, place.version) {
        (Some(quota), _) => Ok(quota),
        (None, 2) if place.group == "/" => Ok(CpuQuota::Unlimited),
        _ => Err(NotAvailable(format!("no quota file below {}", place.mount))),
    }
}

fn quota_of(tree: &HostTree, version: u8, folder: &str) -> Option<CpuQuota> {
    let (quota, period) = if version == 2 {
        let line = tree.line(format!("{folder}/cpu.max")).ok()?;
        let (quota, period) = line.split_once(' ')?;
        (quota.to_owned(), period.to_owned())
    } else {
        let quota = tree.line(format!("{folder}/cpu.cfs_quota_us")).ok()?;
        (quota, tree.line(format!("{folder}/cpu.cfs_period_us")).ok()?)
    };
    if quota == "max" || quota == "-1" {
        return Some(CpuQuota::Unlimited);
    }
    let (quota_us, period_us) = (quota.parse::<f64>().ok()?, period.parse::<f64>().ok()?);
    (quota_us > 0.0 && period_us > 0.0).then(|| CpuQuota::Cpus(quota_us / period_us))
}

/// CPUs that this process's group allows.
pub(super) fn cpus(tree: &HostTree) -> Reading<CpuSet> {
    let place = place(tree, "cpuset")?;
    let names: &[&str] =
        if place.version == 2 { &["cpuset.cpus.effective"] } else { &["cpuset.effective_cpus", "cpuset.cpus"] };
    // A group without the controller has what the nearest group above it has.
    let folders = place.folders();
    let paths = folders.iter().flat_map(|folder| names.iter().map(move |name| format!("{folder}/{name}")));
    let list = paths.into_iter().find_map(|path| tree.line(path).ok());
    cpu_set::parse(&list.ok_or_else(|| NotAvailable(format!("no cpuset file below {}", place.mount)))?)
}

/// Finds the files of a controller from `/proc/self/cgroup` and `/proc/self/mountinfo`. Version 1 goes first: on a machine
/// with both, a controller mounted under version 1 is not in version 2.
fn place(tree: &HostTree, controller: &str) -> Reading<Place> {
    let groups = tree.text("proc/self/cgroup")?;
    let lines = || groups.lines().filter_map(|line| line.splitn(3, ':').collect::<Vec<_>>().try_into().ok());
    let has = |controllers: &str| controllers.split(',').any(|name| name == controller);
    let first = lines().find(|[_, controllers, _]: &[&str; 3]| has(controllers)).map(|[.., group]| (1, group));
    let found =
        first.or_else(|| lines().find(|[id, names, _]| *id == "0" && names.is_empty()).map(|[.., group]| (2, group)));
    let Some((version, group)) = found else {
        return Err(NotAvailable(format!("/proc/self/cgroup names no {controller} group")));
    };
    let mounts = tree.text("proc/self/mountinfo")?;
    let mount = mounts.lines().filter_map(Mount::parse).find(|mount| match version {
        2 => mount.kind == "cgroup2",
        _ => mount.kind == "cgroup" && has(mount.options),
    });
    let mount =
        mount.ok_or_else(|| NotAvailable(format!("no cgroup version {version} is mounted for {controller}")))?;
    // In a container the mount shows only a part of the tree: its own group is then the mount's root.
    let below =
        group.strip_prefix(mount.root).filter(|rest| rest.is_empty() || rest.starts_with('/') || mount.root == "/");
    let group = format!("/{}", below.unwrap_or("").trim_matches('/'));
    let outside = group.contains("..");
    Ok(Place { version, mount: mount.point.to_owned(), group: if outside { "/".to_owned() } else { group } })
}

/// One line of `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
struct Mount<'line> {
    root: &'line str,
    point: &'line str,
    kind: &'line str,
    options: &'line str,
}

impl<'line> Mount<'line> {
    fn parse(line: &'line str) -> Option<Self> {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let mut right = right.split(' ');
        Some(Self { root: left.next()?, point: left.next()?, kind: right.next()?, options: right.nth(1)? })
    }
}

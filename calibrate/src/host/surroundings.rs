//! What lies between this process and the machine: WSL, a container, MPS.

use super::HostTree;

/// What lies between this process and the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// What shows that this is the Windows Subsystem for Linux; empty if nothing does.
    pub wsl: Vec<String>,
    /// What shows that this is a container; empty if nothing does.
    pub container: Vec<String>,
    /// CUDA's multi-process service, if anything of it is there.
    pub mps: Option<Mps>,
}

/// CUDA's multi-process service: processes share one context of the GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mps {
    /// Its control pipe, if there. It can be left over from a daemon that has died.
    pub control_pipe: Option<String>,
    /// `CUDA_MPS_ACTIVE_THREAD_PERCENTAGE`: the share of the SMs that this process may use.
    pub active_thread_percentage: Option<String>,
}

impl Surroundings {
    pub(super) fn read(tree: &HostTree) -> Self {
        Self { wsl: wsl(tree), container: container(tree), mps: mps(tree) }
    }
}

fn wsl(tree: &HostTree) -> Vec<String> {
    let version = tree.line("proc/version").unwrap_or_default().to_ascii_lowercase();
    let signs = [
        ("/proc/version names Microsoft", version.contains("microsoft")),
        ("/dev/dxg is there", tree.has("dev/dxg")),
        (
            "/usr/lib/wsl/lib has libcuda",
            tree.entries("usr/lib/wsl/lib").iter().any(|name| name.starts_with("libcuda.so")),
        ),
    ];
    seen(&signs)
}

fn container(tree: &HostTree) -> Vec<String> {
    const ENGINES: [&str; 8] = ["docker", "kubepods", "containerd", "libpod", "crio", "lxc", "garden", "buildkit"];
    let groups = tree.text("proc/self/cgroup").unwrap_or_default();
    let engine = ENGINES.into_iter().find(|engine| groups.contains(engine));
    let files = [
        ("/.dockerenv is there", tree.has(".dockerenv")),
        ("/run/.containerenv is there", tree.has("run/.containerenv")),
        ("KUBERNETES_SERVICE_HOST is set", tree.variable("KUBERNETES_SERVICE_HOST").is_some()),
    ];
    let group = engine.map(|engine| format!("/proc/self/cgroup names {engine}"));
    seen(&files).into_iter().chain(group).collect()
}

/// The control daemon's pipe is `control` in `CUDA_MPS_PIPE_DIRECTORY`, by default `/tmp/nvidia-mps` (MPS documentation,
/// "Environment variables").
fn mps(tree: &HostTree) -> Option<Mps> {
    let folder = tree.variable("CUDA_MPS_PIPE_DIRECTORY").unwrap_or("/tmp/nvidia-mps");
    let pipe = format!("{}/control", folder.trim_end_matches('/'));
    let control_pipe = tree.has(&pipe).then_some(pipe);
    let active_thread_percentage = tree.variable("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE").map(str::to_owned);
    let anything = control_pipe.is_some() || active_thread_percentage.is_some();
    anything.then_some(Mps { control_pipe, active_thread_percentage })
}

fn seen(signs: &[(&str, bool)]) -> Vec<String> {
    signs.iter().filter(|(_, seen)| *seen).map(|(sign, _)| (*sign).to_owned()).collect()
}

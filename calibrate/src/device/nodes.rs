//! The device nodes of the NVIDIA kernel driver: what tells a machine without a GPU from a container that was not given one.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What the folder of device nodes shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Nodes {
    /// No control node: no kernel driver, or a container that was given no GPU.
    Absent,
    /// There is a control node, but no node of a GPU.
    ControlOnly,
    /// This node is there, but this process may not open it.
    Forbidden(PathBuf),
    /// Every node can be opened.
    Usable,
}

impl Nodes {
    /// Looks at the nodes of this machine.
    pub(super) fn look() -> Self {
        Self::look_in(Path::new("/dev"))
    }

    fn look_in(folder: &Path) -> Self {
        // Under WSL all GPUs share one node.
        let control = [folder.join("nvidiactl"), folder.join("dxg")].into_iter().find(|node| node.exists());
        let Some(control) = control else { return Self::Absent };
        let is_wsl = control.ends_with("dxg");
        let mut gpus: Vec<PathBuf> = fs::read_dir(folder)
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(is_gpu))
            .collect();
        gpus.sort_unstable();
        if gpus.is_empty() && !is_wsl {
            return Self::ControlOnly;
        }
        let unified_memory = Some(folder.join("nvidia-uvm")).filter(|node| node.exists());
        let forbidden = [control].into_iter().chain(unified_memory).chain(gpus).find(|node| is_forbidden(node));
        forbidden.map_or(Self::Usable, Self::Forbidden)
    }
}

/// `nvidia0`, `nvidia1`, ...: one GPU.
fn is_gpu(name: &str) -> bool {
    name.strip_prefix("nvidia").is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_forbidden(node: &Path) -> bool {
    File::options().read(true).write(true).open(node).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let touch = |name: &str| File::create(folder.path().join(name)).unwrap();
        assert_eq!(Nodes::look_in(folder.path()), Nodes::Absent);
        assert_eq!(Nodes::look_in(&folder.path().join("missing")), Nodes::Absent);
        touch("nvidiactl");
        touch("nvidia-modeset");
        assert_eq!(Nodes::look_in(folder.path()), Nodes::ControlOnly);
        touch("nvidia0");
        touch("nvidia-uvm");
        assert_eq!(Nodes::look_in(folder.path()), Nodes::Usable);
    }

    #[test]
    fn one_shared_node_is_enough_under_wsl() {
        let folder = tempfile::tempdir().unwrap();
        File::create(folder.path().join("dxg")).unwrap();
        assert_eq!(Nodes::look_in(folder.path()), Nodes::Usable);
    }

    #[test]
    fn only_numbered_nodes_are_gpus() {
        assert!(is_gpu("nvidia0") && is_gpu("nvidia12"));
        assert!(!is_gpu("nvidia") && !is_gpu("nvidiactl") && !is_gpu("nvidia-uvm") && !is_gpu("nvidia-caps"));
    }

    #[cfg(unix)]
    #[test]
    fn a_node_that_may_not_be_opened_is_named() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        for name in ["nvidiactl", "nvidia0"] {
            File::create(folder.path().join(name)).unwrap();
        }
        let node = folder.path().join("nvidia0");
        fs::set_permissions(&node, fs::Permissions::from_mode(0o000)).unwrap();
        // Root opens everything, whatever the permissions say.
        let expected = if is_forbidden(&node) { Nodes::Forbidden(node) } else { Nodes::Usable };
        assert_eq!(Nodes::look_in(folder.path()), expected);
    }
}

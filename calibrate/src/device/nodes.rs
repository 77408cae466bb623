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
    /// This node is there, and no process can do without it, but this one may not open it.
    Forbidden(PathBuf),
    /// The node of unified memory is not there, which CUDA cannot do without.
    Missing(PathBuf),
    /// What a process needs can be opened: the control nodes, and a GPU.
    Usable,
}

impl Nodes {
    /// Looks at the nodes of this machine.
    pub(super) fn look() -> Self {
        Self::look_in(Path::new("/dev"), is_forbidden)
    }

    fn look_in(folder: &Path, is_forbidden: impl Fn(&Path) -> bool) -> Self {
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
        let unified_memory = folder.join("nvidia-uvm");
        let is_there = unified_memory.exists();
        let mut needed = [control].into_iter().chain(is_there.then(|| unified_memory.clone()));
        // Of several GPUs one may be closed because it is somebody else's.
        let all_closed = gpus.iter().all(|node| is_forbidden(node));
        let closed = needed.find(|node| is_forbidden(node)).or(gpus.into_iter().next().filter(|_| all_closed));
        match closed {
            Some(node) => Self::Forbidden(node),
            None if !is_there && !is_wsl => Self::Missing(unified_memory),
            None => Self::Usable,
        }
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

    struct Made(tempfile::TempDir);

    impl Made {
        fn new(names: &[&str]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            for name in names {
                File::create(folder.path().join(name)).unwrap();
            }
            Self(folder)
        }

        /// What is seen where these are closed.
        fn seen(&self, closed: &[&str]) -> Nodes {
            Nodes::look_in(self.0.path(), |node| closed.iter().any(|name| node.ends_with(name)))
        }

        fn node(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }
    }

    #[test]
    fn nodes_are_told_apart() {
        assert_eq!(Made::new(&[]).seen(&[]), Nodes::Absent);
        assert_eq!(Nodes::look_in(Path::new("/no/such/folder"), |_| false), Nodes::Absent);
        assert_eq!(Made::new(&["nvidiactl", "nvidia-modeset"]).seen(&[]), Nodes::ControlOnly);
        assert_eq!(Made::new(&["nvidiactl", "nvidia0", "nvidia-uvm"]).seen(&[]), Nodes::Usable);
        let without = Made::new(&["nvidiactl", "nvidia0"]);
        assert_eq!(without.seen(&[]), Nodes::Missing(without.node("nvidia-uvm")));
    }

    #[test]
    fn one_shared_node_is_enough_under_wsl() {
        let made = Made::new(&["dxg"]);
        assert_eq!(made.seen(&[]), Nodes::Usable);
        assert_eq!(made.seen(&["dxg"]), Nodes::Forbidden(made.node("dxg")));
    }

    #[test]
    fn only_numbered_nodes_are_gpus() {
        assert!(is_gpu("nvidia0") && is_gpu("nvidia12"));
        assert!(!is_gpu("nvidia") && !is_gpu("nvidiactl") && !is_gpu("nvidia-uvm") && !is_gpu("nvidia-caps"));
    }

    #[test]
    fn a_node_that_nobody_can_do_without_is_named() {
        let made = Made::new(&["nvidiactl", "nvidia0", "nvidia1", "nvidia-uvm"]);
        assert_eq!(made.seen(&["nvidia-uvm"]), Nodes::Forbidden(made.node("nvidia-uvm")));
        assert_eq!(made.seen(&["nvidia0"]), Nodes::Usable, "the other GPU is open");
        assert_eq!(made.seen(&["nvidia0", "nvidia1"]), Nodes::Forbidden(made.node("nvidia0")));
    }

    #[cfg(unix)]
    #[test]
    fn permissions_count() {
        use std::os::unix::fs::PermissionsExt;
        let made = Made::new(&["nvidia0"]);
        let node = made.node("nvidia0");
        assert!(!is_forbidden(&node));
        fs::set_permissions(&node, fs::Permissions::from_mode(0o000)).unwrap();
        // Root opens everything, whatever the permissions say.
        assert_eq!(is_forbidden(&node), File::open(&node).is_err());
    }
}

//! The device nodes that the driver library opens.

use std::os::unix::fs::MetadataExt;

use super::HostTree;

/// One of `/dev/nvidia*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceNode {
    /// Path.
    pub path: String,
    /// Permission bits, such as `0o666`.
    pub permissions: u32,
    /// Whether they let this process read and write. A container's device rules may forbid it all the same; only opening
    /// tells, and nothing is opened here.
    pub usable: bool,
}

/// Every `/dev/nvidia*`, in order. On WSL there is none: `/dev/dxg` stands for them.
pub fn device_nodes(tree: &HostTree) -> Vec<DeviceNode> {
    let is_node = |name: &String| name.starts_with("nvidia") && !name.starts_with("nvidia-caps") || name == "dxg";
    let who = Who::is_reading(tree);
    let nodes = tree.entries("dev").into_iter().filter(is_node).filter_map(|name| {
        let path = format!("/dev/{name}");
        let metadata = tree.metadata(&path)?;
        let permissions = metadata.mode() & 0o777;
        let usable = who.may_read_and_write(permissions, metadata.uid(), metadata.gid());
        Some(DeviceNode { path, permissions, usable })
    });
    nodes.collect()
}

/// User and groups of this process, from `/proc/self/status`.
struct Who {
    user: Option<u32>,
    groups: Vec<u32>,
}

impl Who {
    fn is_reading(tree: &HostTree) -> Self {
        let numbers = |key| {
            let field = tree.field("proc/self/status", key).unwrap_or_default();
            field.split_whitespace().filter_map(|number| number.parse().ok()).collect::<Vec<u32>>()
        };
        // The second number is the effective one (proc_pid_status(5)).
        let mut groups = numbers("Groups");
        groups.extend(numbers("Gid").get(1));
        Self { user: numbers("Uid").get(1).copied(), groups }
    }

    fn may_read_and_write(&self, permissions: u32, owner: u32, group: u32) -> bool {
        let bits = match self.user {
            Some(0) => return true,
            Some(user) if user == owner => permissions >> 6,
            _ if self.groups.contains(&group) => permissions >> 3,
            _ => permissions,
        };
        bits & 0o6 == 0o6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_those_of_owner_group_or_others() {
        let user = Who { user: Some(1000), groups: vec![44] };
        for (permissions, owner, group, may) in [
            (0o666, 0, 0, true),
            (0o660, 0, 0, false),
            (0o660, 0, 44, true),
            (0o640, 0, 44, false),
            (0o660, 1000, 0, true),
            // The owner's bits count even where others have more.
            (0o066, 1000, 44, false),
            (0o444, 0, 0, false),
        ] {
            assert_eq!(user.may_read_and_write(permissions, owner, group), may, "{permissions:o} {owner} {group}");
        }
        assert!(Who { user: Some(0), groups: vec![] }.may_read_and_write(0o000, 5, 5));
    }
}

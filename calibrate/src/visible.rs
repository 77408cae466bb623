//! The devices that CUDA shows to this process, and what decides which they are and how they are numbered.

use std::fmt;

use kernels::units::Bytes;

use crate::pci::PciAddress;

/// One device as CUDA shows it to this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisibleDevice {
    /// CUDA's index: after `CUDA_VISIBLE_DEVICES`, in the order of `CUDA_DEVICE_ORDER`. Not nvidia-smi's.
    pub index: u32,
    /// Name, as the driver gives it.
    pub name: String,
    /// `GPU-…`, or `MIG-…` for a MIG instance.
    pub uuid: String,
    /// Of a MIG instance, the UUID of its card.
    pub card_uuid: Option<String>,
    /// Of a MIG instance, its GPU instance and compute instance, where NVML told.
    pub instance: Option<(u32, u32)>,
    /// Where the card sits.
    pub pci: PciAddress,
    /// All memory of the device.
    pub memory: Bytes,
    /// Compute capability, major and minor.
    pub compute_capability: (u32, u32),
    /// Whether and how contexts may be created.
    pub compute_mode: ComputeMode,
}

impl VisibleDevice {
    /// Whether this is a MIG instance.
    pub fn is_mig(&self) -> bool {
        self.card_uuid.is_some()
    }
}

impl fmt::Display for VisibleDevice {
    /// One line of a list of candidates.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, name, uuid, pci, .. } = self;
        write!(f, "{index}: {name}, {uuid}, {pci}")
    }
}

/// Who may create a context on a device (`CU_COMPUTEMODE_*`, the same numbers in NVML).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComputeMode {
    /// Everybody.
    Shared,
    /// One process at a time.
    ExclusiveProcess,
    /// Nobody.
    Prohibited,
    /// A mode that this program does not know.
    Other(i32),
}

impl ComputeMode {
    /// The mode that CUDA and NVML number so.
    pub fn from_number(number: i32) -> Self {
        match number {
            0 => Self::Shared,
            2 => Self::Prohibited,
            3 => Self::ExclusiveProcess,
            other => Self::Other(other),
        }
    }
}

impl fmt::Display for ComputeMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shared => f.pad("default"),
            Self::ExclusiveProcess => f.pad("exclusive"),
            Self::Prohibited => f.pad("prohibited"),
            Self::Other(number) => f.pad(&format!("mode {number}")),
        }
    }
}

/// The environment variables that decide which devices a process sees, and their order.
///
/// "CUDA environment variables" of the CUDA programming guide; `NVIDIA_VISIBLE_DEVICES` is the container runtime's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VisibilityVariables {
    /// `CUDA_VISIBLE_DEVICES`: indices or UUIDs; the list ends at the first that is not valid.
    pub visible_devices: Option<String>,
    /// `CUDA_DEVICE_ORDER`: `FASTEST_FIRST` if unset, or `PCI_BUS_ID`.
    pub device_order: Option<String>,
    /// `NVIDIA_VISIBLE_DEVICES`: what a container runtime was asked to put into this container.
    pub container_devices: Option<String>,
}

impl VisibilityVariables {
    /// What this process was started with.
    pub fn of_this_process() -> Self {
        let variable = |name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
        Self {
            visible_devices: variable("CUDA_VISIBLE_DEVICES"),
            device_order: variable("CUDA_DEVICE_ORDER"),
            container_devices: variable("NVIDIA_VISIBLE_DEVICES"),
        }
    }

    /// What they change, one sentence each.
    pub fn consequences(&self) -> Vec<String> {
        let visible = match &self.visible_devices {
            None => "CUDA_VISIBLE_DEVICES is unset: CUDA shows every device.".to_owned(),
            Some(list) if list.trim().is_empty() => "CUDA_VISIBLE_DEVICES is empty: CUDA shows no device.".to_owned(),
            Some(list) => format!(
                "CUDA_VISIBLE_DEVICES={list}: CUDA shows only these, numbered from 0 in this order; the list ends at the \
                 first entry that names no device."
            ),
        };
        // With a list of UUIDs, the list's order alone counts; with indices, CUDA_DEVICE_ORDER says which device each is.
        let order = match self.device_order.as_deref() {
            Some("PCI_BUS_ID") => "CUDA_DEVICE_ORDER=PCI_BUS_ID: CUDA numbers devices as nvidia-smi does.".to_owned(),
            Some(other) if other != "FASTEST_FIRST" => {
                format!("CUDA_DEVICE_ORDER={other} is no order that CUDA knows: it puts the fastest device first.")
            }
            given => {
                let set = given.map_or("CUDA_DEVICE_ORDER is unset", |_| "CUDA_DEVICE_ORDER=FASTEST_FIRST");
                format!(
                    "{set}: CUDA puts the fastest device first, nvidia-smi goes by PCI address; CUDA_DEVICE_ORDER=PCI_BUS_ID \
                     makes both the same."
                )
            }
        };
        let container = self.container_devices.as_ref().map(|list| {
            format!("NVIDIA_VISIBLE_DEVICES={list}: the container runtime decides which devices are in this container.")
        });
        [visible, order].into_iter().chain(container).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_explained() {
        let variables = |visible: Option<&str>, order: Option<&str>| VisibilityVariables {
            visible_devices: visible.map(str::to_owned),
            device_order: order.map(str::to_owned),
            container_devices: None,
        };
        insta::assert_snapshot!(variables(None, None).consequences().join("\n"), @r"
        CUDA_VISIBLE_DEVICES is unset: CUDA shows every device.
        CUDA_DEVICE_ORDER is unset: CUDA puts the fastest device first, nvidia-smi goes by PCI address; CUDA_DEVICE_ORDER=PCI_BUS_ID makes both the same.
        ");
        insta::assert_snapshot!(variables(Some("2,0"), Some("PCI_BUS_ID")).consequences().join("\n"), @r"
        CUDA_VISIBLE_DEVICES=2,0: CUDA shows only these, numbered from 0 in this order; the list ends at the first entry that names no device.
        CUDA_DEVICE_ORDER=PCI_BUS_ID: CUDA numbers devices as nvidia-smi does.
        ");
        let mut odd = variables(Some(""), Some("pci"));
        odd.container_devices = Some("all".to_owned());
        insta::assert_snapshot!(odd.consequences().join("\n"), @r"
        CUDA_VISIBLE_DEVICES is empty: CUDA shows no device.
        CUDA_DEVICE_ORDER=pci is no order that CUDA knows: it puts the fastest device first.
        NVIDIA_VISIBLE_DEVICES=all: the container runtime decides which devices are in this container.
        ");
    }

    #[test]
    fn modes_have_the_drivers_numbers() {
        let modes = [0, 1, 2, 3].map(|number| ComputeMode::from_number(number).to_string());
        assert_eq!(modes, ["default", "mode 1", "prohibited", "exclusive"]);
    }
}

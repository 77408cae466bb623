//! The devices of this machine, as CUDA and as NVML see them: what the commands for a GPU begin with.

use std::io::{self, Write};

use crate::command_line::GpuOptions;
use crate::device::{Card, DeviceError, Images, Library, Nvml, Nvrtc, NvrtcError};
use crate::device_name::{DeviceName, DeviceNotFound};
use crate::host::{HostState, HostTree, locality};
use crate::reading::{NotAvailable, Reading};
use crate::smi::{SmiCard, with_instance};
use crate::state::{GpuState, MachineState};
use crate::visible::{VisibilityVariables, VisibleDevice};

/// The devices of this machine.
pub(super) struct Found {
    pub(super) library: &'static Library,
    /// Those that CUDA shows to this process, in its order.
    pub(super) visible: Vec<VisibleDevice>,
    /// All cards, as NVML counts.
    pub(super) cards: Reading<Vec<SmiCard>>,
    pub(super) variables: VisibilityVariables,
    nvml: Reading<Nvml>,
}

impl Found {
    /// Opens the driver, and NVML if it is there.
    pub(super) fn look() -> Result<Self, DeviceError> {
        let library = Library::open();
        let nvml = Nvml::open();
        let cards = nvml.as_ref().map_err(NotAvailable::clone).and_then(Nvml::cards);
        let library = library.map_err(|error| with_reason(error, cards.as_deref().unwrap_or_default()))?;
        let known = cards.as_deref().unwrap_or_default();
        let shown = Card::all(library)?.into_iter().map(|card| Ok(with_instance(card.shown()?, known)));
        let visible = shown.collect::<Result<_, DeviceError>>()?;
        Ok(Self { library, visible, cards, variables: VisibilityVariables::of_this_process(), nvml })
    }

    /// The device of this name; without one, the first.
    pub(super) fn choose(&self, name: Option<&DeviceName>) -> Result<&VisibleDevice, DeviceNotFound> {
        name.unwrap_or(&DeviceName::FIRST).resolve(&self.visible, &self.variables)
    }

    /// The kernels' code for a device: embedded, or compiled for it if that is asked for.
    pub(super) fn images(&self, device: &VisibleDevice, options: &GpuOptions) -> Result<Images, NvrtcError> {
        let Some(named) = &options.nvrtc else { return Ok(Images::Embedded) };
        let nvrtc = Nvrtc::open(named.as_deref(), Some(self.library.version()))?;
        Images::compile(&nvrtc, device.compute_capability)
    }

    /// The state of a device and of the host, now.
    pub(super) fn state(&self, device: &VisibleDevice) -> MachineState {
        let tree = HostTree::of_this_machine();
        let gpu = match &self.nvml {
            Ok(nvml) => nvml.state(device.pci),
            Err(why) => GpuState::not_available(why),
        };
        MachineState { gpu, host: HostState::read(&tree), locality: locality(&tree, device.pci) }
    }

    /// Says which driver answers: the first lines of whatever follows.
    pub(super) fn introduce(&self, out: &mut impl Write) -> io::Result<()> {
        if let Some(version) = self.library.double_version() {
            writeln!(out, "driver   the tests' driver double, version {version}: nothing here comes from a GPU")?;
        }
        writeln!(out, "driver   CUDA {}", self.library.version())
    }
}

/// No device, because a card is cut into MIG instances of which there is none: CUDA cannot tell, NVML can.
fn with_reason(error: DeviceError, cards: &[SmiCard]) -> DeviceError {
    let is_empty = |card: &&SmiCard| card.mig == Ok(true) && card.instances.is_empty();
    match (&error, cards.iter().find(is_empty)) {
        (DeviceError::NoDevice { visible_devices: None, .. }, Some(card)) => {
            let device = card.name.as_ref().map_or_else(|_| format!("card {}", card.index), String::clone);
            DeviceError::NoMigInstance { device }
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_without_instances_is_why_there_is_no_device() {
        let not_asked = || NotAvailable::because("not asked");
        let card = SmiCard {
            index: 0,
            name: Ok("NVIDIA A100".into()),
            uuid: Err(not_asked()),
            pci: Err(not_asked()),
            memory_used: Err(not_asked()),
            memory_total: Err(not_asked()),
            mig: Ok(true),
            instances: Vec::new(),
            compute_mode: Err(not_asked()),
        };
        let none = DeviceError::NoDevice { visible_devices: None, nodes_are_missing: false };
        let explained = with_reason(none.clone(), std::slice::from_ref(&card));
        assert_eq!(explained.to_string(), "NVIDIA A100 is partitioned (MIG), and no instance of it is visible");
        assert_eq!(with_reason(none.clone(), &[SmiCard { mig: Ok(false), ..card.clone() }]), none);
        let hidden = DeviceError::NoDevice { visible_devices: Some("7".into()), nodes_are_missing: false };
        assert_eq!(with_reason(hidden.clone(), &[card]), hidden);
    }
}

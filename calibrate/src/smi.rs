//! The cards of the machine as NVML, and with it nvidia-smi, counts them.

use kernels::units::Bytes;

use crate::pci::PciAddress;
use crate::reading::Reading;
use crate::visible::{ComputeMode, VisibleDevice};

/// One card as NVML sees it, whatever CUDA shows to this process.
#[derive(Clone, Debug, PartialEq)]
pub struct SmiCard {
    /// nvidia-smi's index: cards in the order of their PCI addresses.
    pub index: u32,
    /// Name.
    pub name: Reading<String>,
    /// `GPU-…`.
    pub uuid: Reading<String>,
    /// Where it sits.
    pub pci: Reading<PciAddress>,
    /// Memory in use.
    pub memory_used: Reading<Bytes>,
    /// All memory.
    pub memory_total: Reading<Bytes>,
    /// Whether it is cut into MIG instances.
    pub mig: Reading<bool>,
    /// Its MIG instances.
    pub instances: Vec<SmiInstance>,
    /// Whether and how contexts may be created.
    pub compute_mode: Reading<ComputeMode>,
}

/// One MIG instance as NVML sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmiInstance {
    /// `MIG-…`.
    pub uuid: String,
    /// GPU instance and compute instance.
    pub instance: (u32, u32),
    /// Memory in use.
    pub memory_used: Reading<Bytes>,
}

impl SmiCard {
    /// The card that a visible device is, or that it is an instance of.
    pub fn of<'cards>(device: &VisibleDevice, cards: &'cards [Self]) -> Option<&'cards Self> {
        let uuid = device.card_uuid.as_ref().unwrap_or(&device.uuid);
        let by_uuid = |card: &&Self| card.uuid.as_ref().is_ok_and(|other| other.eq_ignore_ascii_case(uuid));
        let by_place = |card: &&Self| card.pci == Ok(device.pci);
        cards.iter().find(by_uuid).or_else(|| cards.iter().find(by_place))
    }

    /// The instance of this card that a visible device is.
    pub fn instance(&self, device: &VisibleDevice) -> Option<&SmiInstance> {
        self.instances.iter().find(|instance| digits(&instance.uuid).eq_ignore_ascii_case(digits(&device.uuid)))
    }
}

/// The same device, with what NVML knows of MIG: that it is an instance, of which card, and which one.
#[must_use]
pub fn with_instance(mut device: VisibleDevice, cards: &[SmiCard]) -> VisibleDevice {
    let Some((card, instance)) = cards.iter().find_map(|card| Some((card, card.instance(&device)?))) else {
        return device;
    };
    device.uuid.clone_from(&instance.uuid);
    device.instance = Some(instance.instance);
    device.card_uuid = device.card_uuid.or_else(|| card.uuid.clone().ok());
    device
}

/// A UUID without `GPU-` or `MIG-`.
fn digits(uuid: &str) -> &str {
    uuid.get(4..).unwrap_or(uuid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CARD: &str = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6";
    const OTHER: &str = "GPU-11112222-d72c-4106-c12f-20bd9faed9f6";

    fn device(uuid: &str) -> VisibleDevice {
        VisibleDevice {
            index: 0,
            name: "NVIDIA H200".to_owned(),
            uuid: uuid.to_owned(),
            card_uuid: None,
            instance: None,
            pci: "0000:3b:00.0".parse().unwrap(),
            memory: Bytes(150_000_000_000),
            compute_capability: (9, 0),
            compute_mode: ComputeMode::Shared,
        }
    }

    fn card(index: u32, uuid: &str, pci: &str) -> SmiCard {
        SmiCard {
            index,
            name: Ok("NVIDIA H200".to_owned()),
            uuid: Ok(uuid.to_owned()),
            pci: Ok(pci.parse().unwrap()),
            memory_used: Ok(Bytes(0)),
            memory_total: Ok(Bytes(0)),
            mig: Ok(false),
            instances: Vec::new(),
            compute_mode: Ok(ComputeMode::Shared),
        }
    }

    #[test]
    fn cards_are_matched_by_uuid_before_their_place() {
        let cards = [card(0, OTHER, "0000:0a:00.0"), card(1, CARD, "0000:3b:00.0")];
        let index = |uuid: &str| SmiCard::of(&device(uuid), &cards).map(|card| card.index);
        // A virtual machine can show another PCI address than NVML's.
        assert_eq!((index(OTHER), index(CARD)), (Some(0), Some(1)));
        assert_eq!(index("GPU-00000000-0000-0000-0000-000000000000"), Some(1), "by its place");
    }

    #[test]
    fn an_instance_is_known_by_nvml_where_cuda_does_not_tell() {
        let mut cut = card(0, CARD, "0000:3b:00.0");
        let uuid = "MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f".to_owned();
        cut.instances = vec![SmiInstance { uuid: uuid.clone(), instance: (3, 0), memory_used: Ok(Bytes(0)) }];
        let told = with_instance(device("GPU-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f"), std::slice::from_ref(&cut));
        assert_eq!((told.uuid, told.card_uuid.as_deref(), told.instance), (uuid, Some(CARD), Some((3, 0))));
        assert_eq!(with_instance(device(CARD), &[cut]), device(CARD));
    }
}

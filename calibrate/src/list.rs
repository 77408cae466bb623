//! `calibrate --list` as text: every device under every name it has.

use std::fmt::Write;

use crate::reading::{NotAvailable, Reading};
use crate::smi::{SmiCard, SmiInstance};
use crate::visible::{VisibilityVariables, VisibleDevice};

const HEADER: [&str; 10] = [
    "CUDA",
    "nvidia-smi",
    "name",
    "UUID",
    "PCI address",
    "memory used",
    "memory total",
    "capability",
    "MIG",
    "compute mode",
];

type Row = [String; HEADER.len()];

/// One line a device: first those that CUDA shows to this process, by CUDA's index, then what else NVML sees; then what the
/// environment changes.
///
/// The names of MIG instances stand in the UUID column, their GPU instance and compute instance in the MIG column.
pub fn table(visible: &[VisibleDevice], cards: &Reading<Vec<SmiCard>>, variables: &VisibilityVariables) -> String {
    let known = cards.as_deref().unwrap_or_default();
    let shown = visible.iter().map(|device| shown(device, SmiCard::of(device, known)));
    let rows: Vec<Row> = shown.chain(known.iter().flat_map(|card| hidden(card, visible))).collect();
    let mut text = aligned(&rows);
    text.push('\n');
    if let Err(why) = cards {
        let NotAvailable(reason) = why;
        let _ = writeln!(text, "nvidia-smi's index, memory in use and MIG are not available: {reason}.");
    }
    if rows.iter().any(|row| row[0] == NOTHING) {
        text += "Devices without a CUDA index are not shown to this process.\n";
    }
    for sentence in variables.consequences() {
        let _ = writeln!(text, "{sentence}");
    }
    text
}

const NOTHING: &str = "-";

fn shown(device: &VisibleDevice, card: Option<&SmiCard>) -> Row {
    let instance = card.and_then(|card| card.instance(device));
    let used = match (instance, card) {
        (Some(instance), _) => or_nothing(&instance.memory_used),
        (None, Some(card)) if !device.is_mig() => or_nothing(&card.memory_used),
        _ => NOTHING.to_owned(),
    };
    let (major, minor) = device.compute_capability;
    [
        device.index.to_string(),
        card.map_or(NOTHING.to_owned(), |card| card.index.to_string()),
        device.name.clone(),
        device.uuid.clone(),
        device.pci.to_string(),
        used,
        device.memory.to_string(),
        format!("{major}.{minor}"),
        match (device.instance, card) {
            (Some(instance), _) => slice(instance),
            (None, Some(card)) => mig(card),
            (None, None) => NOTHING.to_owned(),
        },
        device.compute_mode.to_string(),
    ]
}

/// A card that CUDA does not show, or its instances that it does not show.
fn hidden(card: &SmiCard, visible: &[VisibleDevice]) -> Vec<Row> {
    let cards = std::slice::from_ref(card);
    let on_card = || visible.iter().filter(|device| SmiCard::of(device, cards).is_some());
    let row = |uuid: String, used: String, total: String, mig: String| {
        [
            NOTHING.to_owned(),
            card.index.to_string(),
            or_nothing(&card.name),
            uuid,
            or_nothing(&card.pci),
            used,
            total,
            NOTHING.to_owned(),
            mig,
            or_nothing(&card.compute_mode),
        ]
    };
    if card.instances.is_empty() {
        let is_shown = on_card().next().is_some();
        let whole =
            || row(or_nothing(&card.uuid), or_nothing(&card.memory_used), or_nothing(&card.memory_total), mig(card));
        return if is_shown { Vec::new() } else { vec![whole()] };
    }
    let is_shown = |instance: &&SmiInstance| on_card().any(|device| device.uuid.eq_ignore_ascii_case(&instance.uuid));
    let rest = card.instances.iter().filter(|instance| !is_shown(instance));
    rest.map(|it| row(it.uuid.clone(), or_nothing(&it.memory_used), NOTHING.to_owned(), slice(it.instance))).collect()
}

fn mig(card: &SmiCard) -> String {
    match card.mig {
        Ok(true) => "on".to_owned(),
        Ok(false) => "off".to_owned(),
        Err(_) => NOTHING.to_owned(),
    }
}

fn slice((gpu_instance, compute_instance): (u32, u32)) -> String {
    format!("{gpu_instance}/{compute_instance}")
}

fn or_nothing<T: ToString>(reading: &Reading<T>) -> String {
    reading.as_ref().map_or_else(|_| NOTHING.to_owned(), T::to_string)
}

/// Columns as wide as their widest cell, two blanks between them.
fn aligned(rows: &[Row]) -> String {
    let header = HEADER.map(str::to_owned);
    let lines = || std::iter::once(&header).chain(rows);
    let widths: [usize; HEADER.len()] =
        std::array::from_fn(|column| lines().map(|row| row[column].chars().count()).max().unwrap_or(0));
    let mut text = String::new();
    for row in lines() {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use kernels::units::Bytes;

    use super::*;
    use crate::visible::ComputeMode;

    const FIRST: &str = "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6";
    const SECOND: &str = "GPU-11112222-d72c-4106-c12f-20bd9faed9f6";
    const INSTANCE: &str = "MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f";
    const OTHER_INSTANCE: &str = "MIG-00004444-42e4-5de3-91c7-45d71c87eb3f";

    fn device(index: u32, uuid: &str, pci: &str) -> VisibleDevice {
        VisibleDevice {
            index,
            name: "NVIDIA H200".to_owned(),
            uuid: uuid.to_owned(),
            card_uuid: None,
            instance: None,
            pci: pci.parse().unwrap(),
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
            memory_used: Ok(Bytes(4 << 20)),
            memory_total: Ok(Bytes(151_000_000_000)),
            mig: Ok(false),
            instances: Vec::new(),
            compute_mode: Ok(ComputeMode::Shared),
        }
    }

    fn smi() -> Vec<SmiCard> {
        vec![card(0, SECOND, "0000:0a:00.0"), card(1, FIRST, "0000:3b:00.0")]
    }

    #[test]
    fn both_indices_stand_side_by_side() {
        let visible = [device(0, FIRST, "0000:3b:00.0"), device(1, SECOND, "0000:0a:00.0")];
        insta::assert_snapshot!(table(&visible, &Ok(smi()), &VisibilityVariables::default()), @r"
        CUDA  nvidia-smi  name         UUID                                      PCI address   memory used  memory total  capability  MIG  compute mode
        0     1           NVIDIA H200  GPU-8932f937-d72c-4106-c12f-20bd9faed9f6  0000:3b:00.0  4.00 MiB     139.70 GiB    9.0         off  default
        1     0           NVIDIA H200  GPU-11112222-d72c-4106-c12f-20bd9faed9f6  0000:0a:00.0  4.00 MiB     139.70 GiB    9.0         off  default

        CUDA_VISIBLE_DEVICES is unset: CUDA shows every device.
        CUDA_DEVICE_ORDER is unset: CUDA puts the fastest device first, nvidia-smi goes by PCI address; CUDA_DEVICE_ORDER=PCI_BUS_ID makes both the same.
        ");
    }

    #[test]
    fn what_cuda_hides_is_there_without_an_index() {
        let variables = VisibilityVariables { visible_devices: Some("0".to_owned()), ..Default::default() };
        insta::assert_snapshot!(table(&[device(0, FIRST, "0000:3b:00.0")], &Ok(smi()), &variables), @r"
        CUDA  nvidia-smi  name         UUID                                      PCI address   memory used  memory total  capability  MIG  compute mode
        0     1           NVIDIA H200  GPU-8932f937-d72c-4106-c12f-20bd9faed9f6  0000:3b:00.0  4.00 MiB     139.70 GiB    9.0         off  default
        -     0           NVIDIA H200  GPU-11112222-d72c-4106-c12f-20bd9faed9f6  0000:0a:00.0  4.00 MiB     140.63 GiB    -           off  default

        Devices without a CUDA index are not shown to this process.
        CUDA_VISIBLE_DEVICES=0: CUDA shows only these, numbered from 0 in this order; the list ends at the first entry that names no device.
        CUDA_DEVICE_ORDER is unset: CUDA puts the fastest device first, nvidia-smi goes by PCI address; CUDA_DEVICE_ORDER=PCI_BUS_ID makes both the same.
        ");
    }

    #[test]
    fn without_nvml_its_columns_are_empty_and_a_line_says_why() {
        let why = Err(NotAvailable::because("libnvidia-ml.so.1 cannot be loaded"));
        let visible = [device(0, FIRST, "0000:3b:00.0")];
        insta::assert_snapshot!(table(&visible, &why, &VisibilityVariables::default()), @r"
        CUDA  nvidia-smi  name         UUID                                      PCI address   memory used  memory total  capability  MIG  compute mode
        0     -           NVIDIA H200  GPU-8932f937-d72c-4106-c12f-20bd9faed9f6  0000:3b:00.0  -            139.70 GiB    9.0         -    default

        nvidia-smi's index, memory in use and MIG are not available: libnvidia-ml.so.1 cannot be loaded.
        CUDA_VISIBLE_DEVICES is unset: CUDA shows every device.
        CUDA_DEVICE_ORDER is unset: CUDA puts the fastest device first, nvidia-smi goes by PCI address; CUDA_DEVICE_ORDER=PCI_BUS_ID makes both the same.
        ");
    }

    #[test]
    fn instances_of_a_card_are_listed_one_by_one() {
        let mut shown = device(0, INSTANCE, "0000:3b:00.0");
        shown.name = "NVIDIA H200 MIG 3g.71gb".to_owned();
        (shown.card_uuid, shown.instance) = (Some(FIRST.to_owned()), Some((1, 0)));
        let mut cut = card(0, FIRST, "0000:3b:00.0");
        cut.mig = Ok(true);
        cut.instances = [(INSTANCE, 1), (OTHER_INSTANCE, 2)]
            .map(|(uuid, number)| SmiInstance {
                uuid: uuid.to_owned(),
                instance: (number, 0),
                memory_used: Ok(Bytes(1 << 24)),
            })
            .to_vec();
        insta::assert_snapshot!(table(&[shown], &Ok(vec![cut]), &VisibilityVariables::default()), @r"
        CUDA  nvidia-smi  name                     UUID                                      PCI address   memory used  memory total  capability  MIG  compute mode
        0     0           NVIDIA H200 MIG 3g.71gb  MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f  0000:3b:00.0  16.00 MiB    139.70 GiB    9.0         1/0  default
        -     0           NVIDIA H200              MIG-00004444-42e4-5de3-91c7-45d71c87eb3f  0000:3b:00.0  16.00 MiB    -             -           2/0  default

        Devices without a CUDA index are not shown to this process.
        CUDA_VISIBLE_DEVICES is unset: CUDA shows every device.
        CUDA_DEVICE_ORDER is unset: CUDA puts the fastest device first, nvidia-smi goes by PCI address; CUDA_DEVICE_ORDER=PCI_BUS_ID makes both the same.
        ");
    }
}

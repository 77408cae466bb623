//! How near a card is to the CPUs that this process may use.

use super::{CpuSet, HostTree, cpu_set};
use crate::pci::PciAddress;
use crate::reading::{NotAvailable, Reading};

/// How near a card is to the CPUs that this process may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locality {
    /// NUMA node that the card hangs on; none on a machine with one node, which the kernel writes as -1.
    pub node: Reading<Option<u32>>,
    /// CPUs of that node.
    pub near_cpus: Reading<CpuSet>,
    /// Nodes of the machine.
    pub nodes: Reading<usize>,
}

/// Reads where the card at `address` hangs.
pub fn locality(tree: &HostTree, address: PciAddress) -> Locality {
    let folder = format!("sys/bus/pci/devices/{address}");
    Locality {
        node: node(tree, &format!("{folder}/numa_node")),
        near_cpus: tree.line(format!("{folder}/local_cpulist")).and_then(|list| cpu_set::parse(&list)),
        nodes: tree.line("sys/devices/system/node/online").and_then(|list| Ok(cpu_set::parse(&list)?.len())),
    }
}

fn node(tree: &HostTree, path: &str) -> Reading<Option<u32>> {
    let line = tree.line(path)?;
    match line.parse::<i64>() {
        Ok(-1) => Ok(None),
        Ok(node) => u32::try_from(node).map(Some).map_err(|_| tree.unexpected(path, &line)),
        Err(_) => Err(tree.unexpected(path, &line)),
    }
}

impl Locality {
    /// Those of `affinity` that are near the card.
    ///
    /// # Errors
    /// It is not known which CPUs are near.
    pub fn near(&self, affinity: &CpuSet) -> Reading<CpuSet> {
        self.near_cpus.as_ref().map(|near| near.and(affinity)).map_err(NotAvailable::clone)
    }
}

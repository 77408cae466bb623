//! Graphs and executable graphs.

use std::collections::HashMap;
use std::sync::Arc;

use crate::configuration::Costs;
use crate::handles::{Handles, Kind};
use crate::operation::{Batch, Operation};

/// `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH`.
pub(crate) const AUTO_FREE_ON_LAUNCH: u64 = 1;

/// One node: what it does, after which earlier ones.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) handle: u64,
    pub(crate) operation: Operation,
    /// Indices of nodes before this one.
    pub(crate) after: Vec<usize>,
    /// Where the driver's copy of each argument lies, for `cuGraphKernelNodeGetParams`.
    argument_pointers: Box<[u64]>,
}

/// A graph that was captured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    /// Every edge leads from an earlier node to a later one.
    pub(crate) nodes: Vec<Node>,
}

impl Graph {
    /// Appends a node and gives its index.
    pub(crate) fn add(&mut self, operation: Operation, after: Vec<usize>, handles: &mut Handles) -> usize {
        let argument_pointers = match &operation {
            Operation::Kernel(launch) => {
                let buffer = launch.arguments.as_ptr() as u64;
                launch.function.entry.parameters.iter().map(|parameter| buffer + parameter.offset as u64).collect()
            }
            _ => Box::default(),
        };
        self.nodes.push(Node { handle: handles.next(Kind::Node), operation, after, argument_pointers });
        self.nodes.len() - 1
    }

    /// Edges as pairs of node handles.
    pub(crate) fn edges(&self) -> Vec<(u64, u64)> {
        let into = |node: &Node| -> Vec<_> {
            node.after.iter().map(|before| (self.nodes[*before].handle, node.handle)).collect()
        };
        self.nodes.iter().flat_map(into).collect()
    }

    /// Addresses of its allocation nodes that none of its free nodes frees.
    fn unfreed(&self) -> Vec<u64> {
        let freed = self.nodes.iter().filter_map(|node| match node.operation {
            Operation::Free { address } => Some(address),
            _ => None,
        });
        let freed = freed.collect::<Vec<_>>();
        let allocated = self.nodes.iter().filter_map(|node| match node.operation {
            Operation::Allocate { address } => Some(address),
            _ => None,
        });
        allocated.filter(|address| !freed.contains(address)).collect()
    }

    pub(crate) fn has_memory_nodes(&self) -> bool {
        let is_memory = |node: &Node| matches!(node.operation, Operation::Allocate { .. } | Operation::Free { .. });
        self.nodes.iter().any(is_memory)
    }

    /// Which nodes `roots` come after, themselves included.
    pub(crate) fn ancestors(&self, roots: &[usize]) -> Vec<bool> {
        let mut is_before = vec![false; self.nodes.len()];
        for root in roots {
            is_before[*root] = true;
        }
        for index in (0..self.nodes.len()).rev() {
            if is_before[index] {
                for before in &self.nodes[index].after {
                    is_before[*before] = true;
                }
            }
        }
        is_before
    }

    /// Operations in an order that the edges allow: among nodes that are ready the last one goes first, so that an edge
    /// which is missing shows.
    fn order(&self) -> Vec<Operation> {
        let mut waits_for: Vec<_> = self.nodes.iter().map(|node| node.after.len()).collect();
        let mut followers = vec![Vec::new(); self.nodes.len()];
        for (index, node) in self.nodes.iter().enumerate() {
            for before in &node.after {
                followers[*before].push(index);
            }
        }
        let mut ready: Vec<_> = (0..self.nodes.len()).filter(|index| waits_for[*index] == 0).collect();
        let mut order = Vec::with_capacity(self.nodes.len());
        while let Some(index) = ready.pop() {
            order.push(self.nodes[index].operation.clone());
            for follower in &followers[index] {
                waits_for[*follower] -= 1;
                if waits_for[*follower] == 0 {
                    ready.push(*follower);
                }
            }
        }
        order
    }

    /// Device time of a replay: the longest path through the nodes.
    fn duration_ns(&self, costs: &Costs) -> u64 {
        let mut ends_ns: Vec<u64> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let start_ns = node.after.iter().map(|before| ends_ns[*before]).max().unwrap_or(0);
            ends_ns.push(start_ns + costs.node_ns + costs.duration_ns(&node.operation));
        }
        costs.graph_ns + ends_ns.into_iter().max().unwrap_or(0)
    }
}

impl Node {
    /// Where the driver's array of argument pointers lies; null for a node without arguments.
    pub(crate) fn argument_array(&self) -> u64 {
        if self.argument_pointers.is_empty() { 0 } else { self.argument_pointers.as_ptr() as u64 }
    }
}

/// An executable graph.
#[derive(Debug)]
pub(crate) struct Exec {
    /// The graph it was made of, by handle; it may be destroyed by now.
    pub(crate) graph: u64,
    /// What it runs, as of its last update.
    pub(crate) snapshot: Graph,
    pub(crate) batch: Arc<Batch>,
    pub(crate) duration_ns: u64,
    pub(crate) flags: u64,
    pub(crate) device_bytes: u64,
    pub(crate) is_uploaded: bool,
    /// Addresses that it allocates and does not free.
    pub(crate) unfreed: Arc<[u64]>,
    /// The stream of its last launch: launches of one executable follow each other.
    pub(crate) last_stream: Option<u64>,
}

impl Exec {
    pub(crate) fn new(graph: u64, snapshot: Graph, flags: u64, costs: &Costs) -> Self {
        let (batch, duration_ns) = (Batch::of_graph(snapshot.order()), snapshot.duration_ns(costs));
        let device_bytes = costs.exec_bytes + costs.exec_node_bytes * snapshot.nodes.len() as u64;
        let unfreed = snapshot.unfreed().into();
        let (is_uploaded, last_stream) = (false, None);
        Self { graph, snapshot, batch, duration_ns, flags, device_bytes, is_uploaded, unfreed, last_stream }
    }

    /// Takes another graph of the same shape.
    ///
    /// # Errors
    /// `CUgraphExecUpdateResult` and the node at fault: 2 topology, 3 type of a node, 4 function of another module or
    /// with other parameters, 5 parameters that cannot change.
    pub(crate) fn update(&mut self, graph: &Graph, costs: &Costs) -> Result<(), (u32, u64)> {
        let (old, new) = (&self.snapshot.nodes, &graph.nodes);
        if old.len() != new.len() {
            return Err((2, new.last().map_or(0, |node| node.handle)));
        }
        for (old, new) in old.iter().zip(new) {
            if old.after != new.after {
                return Err((2, new.handle));
            }
            match (&old.operation, &new.operation) {
                (Operation::Kernel(_), Operation::Kernel(_)) => {}
                (Operation::Copy { bytes, .. }, Operation::Copy { bytes: changed, .. }) if bytes != changed => {
                    return Err((5, new.handle));
                }
                (Operation::Allocate { .. } | Operation::Free { .. }, _) => return Err((6, new.handle)),
                (old, changed) if old.node_type() != changed.node_type() => return Err((3, new.handle)),
                _ => {}
            }
        }
        let (device_bytes, last_stream) = (self.device_bytes, self.last_stream);
        *self = Self { device_bytes, last_stream, ..Self::new(self.graph, graph.clone(), self.flags, costs) };
        Ok(())
    }
}

/// All graphs.
#[derive(Debug, Default)]
pub(crate) struct Graphs {
    live: HashMap<u64, Graph>,
    /// Graph and index of every node.
    places: HashMap<u64, (u64, usize)>,
    pub(crate) execs: HashMap<u64, Exec>,
}

impl Graphs {
    pub(crate) fn insert(&mut self, handle: u64, graph: Graph) {
        let places = graph.nodes.iter().enumerate().map(|(index, node)| (node.handle, (handle, index)));
        self.places.extend(places);
        self.live.insert(handle, graph);
    }

    pub(crate) fn remove(&mut self, handle: u64) {
        for node in self.live.remove(&handle).into_iter().flat_map(|graph| graph.nodes) {
            self.places.remove(&node.handle);
        }
    }

    pub(crate) fn graph(&self, handle: u64) -> Option<&Graph> {
        self.live.get(&handle)
    }

    /// How many graphs live.
    pub(crate) fn count(&self) -> usize {
        self.live.len()
    }

    /// The node of any graph that lives.
    pub(crate) fn node(&self, handle: u64) -> Option<&Node> {
        let (graph, index) = self.places.get(&handle)?;
        self.live.get(graph)?.nodes.get(*index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::Configuration;

    fn diamond(handles: &mut Handles) -> Graph {
        let mut graph = Graph::default();
        let set = |at| Operation::Set { at, element: [0; 4], width: 1, count: 1 };
        let top = graph.add(set(0), vec![], handles);
        let left = graph.add(set(1), vec![top], handles);
        let right = graph.add(set(2), vec![top], handles);
        graph.add(set(3), vec![left, right], handles);
        graph
    }

    fn places(operations: &[Operation]) -> Vec<u64> {
        let place = |operation: &Operation| match operation {
            Operation::Set { at, .. } => *at,
            _ => u64::MAX,
        };
        operations.iter().map(place).collect()
    }

    #[test]
    fn nodes_run_in_an_order_that_the_edges_allow_and_luck_does_not() {
        let graph = diamond(&mut Handles::default());
        assert_eq!(places(&graph.order()), [0, 2, 1, 3]);
        assert_eq!(graph.edges().len(), 4);
        assert_eq!(graph.ancestors(&[1]), [true, true, false, false]);
    }

    #[test]
    fn a_replay_takes_the_longest_path() {
        let costs = Configuration::plain().costs;
        let graph = diamond(&mut Handles::default());
        assert_eq!(graph.duration_ns(&costs), costs.graph_ns + 3 * (costs.node_ns + costs.kernel_ns));
    }

    #[test]
    fn an_update_takes_the_same_shape_only() {
        let (costs, handles) = (Configuration::plain().costs, &mut Handles::default());
        let graph = diamond(handles);
        let mut exec = Exec::new(1, graph.clone(), 0, &costs);
        assert_eq!(exec.update(&graph, &costs), Ok(()));
        let mut longer = graph.clone();
        longer.add(Operation::Free { address: 1 }, vec![3], handles);
        assert_eq!(exec.update(&longer, &costs), Err((2, longer.nodes[4].handle)));
        let mut chain = graph.clone();
        chain.nodes[2].after = vec![1];
        assert_eq!(exec.update(&chain, &costs), Err((2, chain.nodes[2].handle)), "as many nodes, other edges");
        let mut other = Graph::default();
        other.add(Operation::Copy { to: 1, from: 2, bytes: 3 }, vec![], handles);
        for after in [vec![0], vec![0], vec![1, 2]] {
            other.add(Operation::Set { at: 9, element: [0; 4], width: 1, count: 1 }, after, handles);
        }
        assert_eq!(exec.update(&other, &costs), Err((3, other.nodes[0].handle)));
    }
}

//! What two graphs must have in common to share an executable.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use thiserror::Error;

/// A captured graph: nodes, and edges between their positions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    nodes: Vec<Node>,
    edges: Vec<(usize, usize)>,
    /// Positions of the nodes, each behind those it depends on.
    order: Vec<usize>,
}

/// One node, as far as signatures look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// A kernel launch.
    Kernel(KernelNode),
    /// A copy between two kinds of memory.
    Memcpy {
        /// Kind of the source.
        src: u32,
        /// Kind of the destination.
        dst: u32,
    },
    /// A fill.
    Memset {
        /// Bytes per element.
        element_bytes: u32,
    },
    /// A graph within the graph.
    Child(Graph),
    /// Any other node: only its type counts.
    Other(String),
}

/// A kernel launch. Its grid is not part of the signature.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KernelNode {
    /// Handle of the kernel.
    pub kernel: u64,
    /// Handle of its function.
    pub function: u64,
    /// Threads per block in three dimensions.
    pub block: [u32; 3],
    /// Dynamic shared memory, in bytes.
    pub shared_bytes: u32,
    /// Attributes of the launch.
    pub attributes: LaunchAttributes,
}

/// Attributes of a launch; `None` where the driver does not let them be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LaunchAttributes {
    /// Cooperative launch.
    pub cooperative: Option<i64>,
    /// Cluster dimensions; all zero without clusters.
    pub cluster: Option<[u32; 3]>,
    /// How clusters are scheduled.
    pub cluster_policy: Option<i64>,
    /// Preferred cluster dimensions.
    pub preferred_cluster: Option<[u32; 3]>,
    /// Preferred share of shared memory.
    pub shared_carveout: Option<i64>,
}

/// The edges do not make an acyclic graph over the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the edges of a captured graph form a cycle, or name a node that does not exist")]
pub struct NotAcyclic;

/// Equal signatures share an executable. Nodes come in topological order with ties by their original position, so two
/// equal graphs whose unordered nodes were recorded in another order may differ.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Signature {
    payloads: Vec<Payload>,
    edges: Vec<(usize, usize)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Payload {
    Kernel {
        node: KernelNode,
        /// Set where the node must match no other.
        own_number: Option<u64>,
    },
    Memcpy {
        src: u32,
        dst: u32,
    },
    Memset {
        element_bytes: u32,
    },
    Child(Signature),
    Other(String),
}

impl Graph {
    /// A graph of these nodes; an edge leads from the first position to the second.
    ///
    /// # Errors
    /// If an edge names no node, or edges form a cycle.
    pub fn new(nodes: Vec<Node>, edges: Vec<(usize, usize)>) -> Result<Self, NotAcyclic> {
        let order = topological_order(nodes.len(), &edges).ok_or(NotAcyclic)?;
        Ok(Self { nodes, edges, order })
    }
}

impl Signature {
    /// The signature of `graph`. `next_number` numbers the nodes that must match no other, over all graphs.
    pub fn of(graph: &Graph, next_number: &mut u64) -> Self {
        let payloads = graph.order.iter().map(|&node| Payload::of(&graph.nodes[node], next_number)).collect();
        let mut position = vec![0; graph.order.len()];
        for (place, &node) in graph.order.iter().enumerate() {
            position[node] = place;
        }
        let mut edges: Vec<(usize, usize)> =
            graph.edges.iter().map(|&(from, to)| (position[from], position[to])).collect();
        edges.sort_unstable();
        Self { payloads, edges }
    }
}

impl Payload {
    fn of(node: &Node, next_number: &mut u64) -> Self {
        match node {
            Node::Kernel(node) => {
                let own_number = node.attributes.hides_cluster().then(|| {
                    *next_number += 1;
                    *next_number
                });
                Self::Kernel { node: node.clone(), own_number }
            }
            Node::Memcpy { src, dst } => Self::Memcpy { src: *src, dst: *dst },
            Node::Memset { element_bytes } => Self::Memset { element_bytes: *element_bytes },
            Node::Child(graph) => Self::Child(Signature::of(graph, next_number)),
            Node::Other(kind) => Self::Other(kind.clone()),
        }
    }
}

impl LaunchAttributes {
    /// The launch has clusters whose preferred dimensions cannot be read: an update might change them unseen.
    fn hides_cluster(&self) -> bool {
        self.cluster.is_some_and(|dims| dims != [0; 3]) && self.preferred_cluster.is_none()
    }
}

/// Each node behind those it depends on; of the nodes that are ready, the one of the smallest position goes first.
fn topological_order(nodes: usize, edges: &[(usize, usize)]) -> Option<Vec<usize>> {
    let mut successors = vec![Vec::new(); nodes];
    let mut pending = vec![0_usize; nodes];
    for &(from, to) in edges {
        successors.get_mut(from)?.push(to);
        *pending.get_mut(to)? += 1;
    }
    let mut ready: BinaryHeap<Reverse<usize>> = (0..nodes).filter(|&node| pending[node] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(nodes);
    while let Some(Reverse(node)) = ready.pop() {
        order.push(node);
        for &next in &successors[node] {
            pending[next] -= 1;
            if pending[next] == 0 {
                ready.push(Reverse(next));
            }
        }
    }
    (order.len() == nodes).then_some(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(kernel: u64, attributes: LaunchAttributes) -> Node {
        Node::Kernel(KernelNode { kernel, function: 0, block: [128, 1, 1], shared_bytes: 0, attributes })
    }

    fn same(left: &Graph, right: &Graph) -> bool {
        let mut number = 0;
        Signature::of(left, &mut number) == Signature::of(right, &mut number)
    }

    fn graph(nodes: Vec<Node>, edges: &[(usize, usize)]) -> Graph {
        Graph::new(nodes, edges.to_vec()).expect("acyclic")
    }

    #[test]
    fn relabelled_chains_are_equal_and_relabelled_unordered_pairs_are_not() {
        let plain = |id| kernel(id, LaunchAttributes::default());
        let chain = graph(vec![plain(1), plain(2)], &[(0, 1)]);
        assert!(same(&chain, &graph(vec![plain(2), plain(1)], &[(1, 0)])));
        assert!(!same(&chain, &graph(vec![plain(1), plain(2)], &[])));
        let pair = graph(vec![plain(1), plain(2)], &[]);
        assert!(!same(&pair, &graph(vec![plain(2), plain(1)], &[])));
    }

    #[test]
    fn unreadable_cluster_preferences_match_nothing_not_even_themselves() {
        let hidden = LaunchAttributes { cluster: Some([2, 1, 1]), ..LaunchAttributes::default() };
        let known = LaunchAttributes { preferred_cluster: Some([2, 1, 1]), ..hidden.clone() };
        let of = |attributes: &LaunchAttributes| graph(vec![kernel(1, attributes.clone())], &[]);
        assert!(!same(&of(&hidden), &of(&hidden)));
        assert!(same(&of(&known), &of(&known)));
        let nested = |attributes: &LaunchAttributes| graph(vec![Node::Child(of(attributes))], &[]);
        assert!(!same(&nested(&hidden), &nested(&hidden)) && same(&nested(&known), &nested(&known)));
    }

    #[test]
    fn cycles_and_unknown_nodes_are_refused() {
        let nodes = || vec![Node::Other("EMPTY".to_owned()), Node::Other("EMPTY".to_owned())];
        assert_eq!(Graph::new(nodes(), vec![(0, 1), (1, 0)]), Err(NotAcyclic));
        assert_eq!(Graph::new(nodes(), vec![(0, 2)]), Err(NotAcyclic));
    }
}

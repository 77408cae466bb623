//! Which graphs share an executable, and which replays update it.

use serde::Deserialize;
use serde_json::{Value, json};
use sim::engine::sglang::dedup::{Graph, KernelNode, LaunchAttributes, Node, Registered, Registry};

use super::check_answers;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    graphs: Vec<GraphInput>,
    replay: Vec<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GraphInput {
    nodes: Vec<NodeInput>,
    edges: Vec<(usize, usize)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeInput {
    #[serde(rename = "type")]
    kind: String,
    kern: Option<u64>,
    func: Option<u64>,
    block: Option<[u32; 3]>,
    smem: Option<u32>,
    #[serde(default)]
    attrs: Attributes,
    #[serde(rename = "grid")]
    _grid: Option<[u32; 3]>,
    src: Option<u32>,
    dst: Option<u32>,
    elem: Option<u32>,
    child: Option<GraphInput>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Attributes {
    coop: Option<i64>,
    cdim: Option<[u32; 3]>,
    cpol: Option<i64>,
    pcd: Option<[u32; 3]>,
    smem: Option<i64>,
}

fn node(input: &NodeInput) -> Option<Node> {
    Some(match input.kind.as_str() {
        "KERNEL" => Node::Kernel(KernelNode {
            kernel: input.kern?,
            function: input.func?,
            block: input.block?,
            shared_bytes: input.smem?,
            attributes: LaunchAttributes {
                cooperative: input.attrs.coop,
                cluster: input.attrs.cdim,
                cluster_policy: input.attrs.cpol,
                preferred_cluster: input.attrs.pcd,
                shared_carveout: input.attrs.smem,
            },
        }),
        "MEMCPY" => Node::Memcpy { src: input.src?, dst: input.dst? },
        "MEMSET" => Node::Memset { element_bytes: input.elem? },
        "GRAPH" => Node::Child(graph(input.child.as_ref()?)?),
        kind => Node::Other(kind.to_owned()),
    })
}

fn graph(input: &GraphInput) -> Option<Graph> {
    let nodes = input.nodes.iter().map(node).collect::<Option<Vec<Node>>>()?;
    Graph::new(nodes, input.edges.clone()).ok()
}

fn answer(input: &Input) -> Value {
    let Some(graphs) = input.graphs.iter().map(graph).collect::<Option<Vec<Graph>>>() else {
        return json!("not a graph");
    };
    let mut registry = Registry::default();
    let mut calls = Vec::new();
    for graph in &graphs {
        calls.push(match registry.register(graph) {
            Ok(Registered::Instantiated) => "instantiate",
            Ok(Registered::Updated) => "update",
            Err(_) => "sealed",
        });
    }
    registry.seal();
    let updates: Vec<u32> = input.replay.iter().map(|&number| u32::from(registry.replay(number))).collect();
    json!({
        "captured": registry.captured(),
        "execs": registry.executables(),
        "group_of": registry.groups(),
        "register_calls": calls,
        "replay_exec_updates": updates,
    })
}

#[test]
fn dedup() {
    check_answers("sglang/dedup.jsonl", answer);
}

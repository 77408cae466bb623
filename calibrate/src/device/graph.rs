//! A captured graph: what is in it, and whether it is what a step should be.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::rc::Rc;

use cudarc::driver::sys::{CUgraph, CUgraphNode};

use super::context::{Context, Resource};
use super::error::DeviceError;
use super::memory::Arena;
use super::module::Modules;
use super::status::{Status, code};
use super::symbols::KernelNodeParams;

/// `CU_GRAPH_NODE_TYPE_KERNEL`.
const KERNEL_NODE: u32 = 0;
/// `CU_GRAPH_NODE_TYPE_MEMSET`.
const FILL_NODE: u32 = 2;

/// What lives as long as anything that replays: the kernels, and the memory whose addresses are baked in.
#[derive(Clone, Debug)]
#[expect(dead_code, reason = "held, so that it lives; nobody looks at it")]
pub(super) struct Baked {
    pub(super) modules: Rc<Modules>,
    pub(super) memory: Rc<[Rc<Arena>]>,
}

/// A graph that was captured: kernels in the order of their launches.
#[derive(Debug)]
pub struct Graph {
    context: Rc<Context>,
    pub(super) raw: CUgraph,
    pub(super) baked: Baked,
    nodes: usize,
    capture_ns: u64,
}

impl Graph {
    /// Takes over a captured graph, if every node of it is a kernel: a copy, a fill or an allocation would have been made by
    /// a call that has no place in a step (GPU specification section 1). With `may_fill` fills are let in too: cuBLASLt
    /// clears the counters of split products in its workspace.
    ///
    /// # Errors
    /// Another node is in it, or the driver refuses to tell.
    pub(super) fn of_kernels(
        context: &Rc<Context>,
        raw: CUgraph,
        baked: Baked,
        may_fill: bool,
        capture_ns: u64,
    ) -> Result<Self, DeviceError> {
        let mut graph = Self { context: Rc::clone(context), raw, baked, nodes: 0, capture_ns };
        let nodes = graph.list()?;
        for &node in &nodes {
            match graph.node_type(node)? {
                KERNEL_NODE => {}
                FILL_NODE if may_fill => {}
                node_type => return Err(DeviceError::NotAKernel { node_type }),
            }
        }
        graph.nodes = nodes.len();
        Ok(graph)
    }

    fn node_type(&self, node: CUgraphNode) -> Result<u32, DeviceError> {
        let mut node_type = 0;
        // SAFETY: the node is the graph's own, and the pointer is to a local.
        unsafe { self.context.functions().node_type(node, &raw mut node_type) }?;
        Ok(node_type)
    }

    /// Nodes in it: kernels, and what cuBLASLt clears between them.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Host time of the capture, from its beginning to its end, in nanoseconds.
    pub fn capture_ns(&self) -> u64 {
        self.capture_ns
    }

    /// Dependencies between them: one less than the nodes, if each waits for the one before. `None` where the driver cannot
    /// tell, as where a library launches kernels before the ones they depend on have ended.
    ///
    /// # Errors
    /// The driver refuses to tell.
    pub fn edges(&self) -> Result<Option<usize>, DeviceError> {
        let mut count = 0;
        let none = std::ptr::null_mut();
        // SAFETY: without arrays the driver writes the count only.
        match unsafe { self.context.functions().graph_edges(self.raw, none, none, &raw mut count) } {
            None | Some(Err(Status { code: code::LOSSY_QUERY, .. })) => Ok(None),
            Some(told) => Ok(told.map(|()| Some(count))?),
        }
    }

    /// How often each kernel is in it, by symbol; `None` where the driver cannot name kernels.
    ///
    /// # Errors
    /// The driver refuses to tell.
    pub fn kernels(&self) -> Result<Option<BTreeMap<String, usize>>, DeviceError> {
        let mut kernels = BTreeMap::new();
        for node in self.list()? {
            if self.node_type(node)? != KERNEL_NODE {
                continue;
            }
            match self.symbol(node)? {
                Some(symbol) => *kernels.entry(symbol).or_default() += 1,
                None => return Ok(None),
            }
        }
        Ok(Some(kernels))
    }

    fn list(&self) -> Result<Vec<CUgraphNode>, DeviceError> {
        let functions = self.context.functions();
        let mut count = 0;
        // SAFETY: without an array the driver writes the count only.
        unsafe { functions.graph_nodes(self.raw, std::ptr::null_mut(), &raw mut count) }?;
        let mut nodes = vec![std::ptr::null_mut(); count];
        if count > 0 {
            // SAFETY: the array holds as many nodes as is said.
            unsafe { functions.graph_nodes(self.raw, nodes.as_mut_ptr(), &raw mut count) }?;
            nodes.truncate(count);
        }
        Ok(nodes)
    }

    fn symbol(&self, node: CUgraphNode) -> Result<Option<String>, DeviceError> {
        let functions = self.context.functions();
        let mut params = KernelNodeParams::default();
        // SAFETY: the node is a kernel of this graph, and the pointer is to a local.
        match unsafe { functions.kernel_node_params(node, &raw mut params) } {
            None => return Ok(None),
            Some(told) => told?,
        }
        let mut function = params.function;
        if function.is_null() {
            // SAFETY: the driver gave the kernel's handle just now.
            match unsafe { functions.kernel_function(&raw mut function, params.kernel) } {
                None => return Ok(None),
                Some(told) => told?,
            }
        }
        let mut name = std::ptr::null();
        // SAFETY: the driver gave the function's handle just now, and the pointer is to a local.
        match unsafe { functions.function_name(&raw mut name, function) } {
            None => return Ok(None),
            Some(told) => told?,
        }
        // SAFETY: on success the name is a terminated text that lives as long as the module, which this graph holds.
        Ok((!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        self.context.release(Resource::Graph(self.raw));
    }
}

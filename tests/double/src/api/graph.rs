//! Graphs and executable graphs.
#![expect(unsafe_code, reason = "exported C functions under their own names")]

use super::{put, put_if_asked};
use crate::claim::Claim;
use crate::driver::{CALL, Driver, OWN, enter};
use crate::driver_rules::Misuse;
use crate::graph::{AUTO_FREE_ON_LAUNCH, Exec, Graph, Node};
use crate::handles::Kind;
use crate::memory::Owner;
use crate::operation::Operation;
use crate::status::{Answer, Status};
use crate::timeline::Work;

/// `CUDA_KERNEL_NODE_PARAMS_v2`.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct KernelNodeParameters {
    pub(super) function: u64,
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    shared_bytes: u32,
    arguments: u64,
    extra: u64,
    kernel: u64,
    context: u64,
}

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`.
#[repr(C)]
pub(super) struct InstantiateParameters {
    pub(super) flags: u64,
    pub(super) upload_stream: u64,
    pub(super) error_node: u64,
    pub(super) result: u32,
}

/// `CUgraphExecUpdateResultInfo`.
#[repr(C)]
pub(super) struct UpdateResult {
    pub(super) result: u32,
    pub(super) error_node: u64,
    pub(super) error_from_node: u64,
}

/// `CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD`.
const UPLOAD: u64 = 2;

impl Driver {
    fn graph(&mut self, handle: u64) -> &Graph {
        self.must_know(self.graphs.graph(handle).is_some(), Misuse::UnknownGraph, "graph", handle);
        self.graphs.graph(handle).expect("it is known")
    }

    fn node(&mut self, handle: u64) -> &Node {
        self.must_know(self.graphs.node(handle).is_some(), Misuse::UnknownGraph, "node", handle);
        self.graphs.node(handle).expect("it is known")
    }

    fn exec(&mut self, handle: u64) -> &mut Exec {
        let is_known = self.graphs.execs.contains_key(&handle);
        self.must_know(is_known, Misuse::UnknownGraph, "executable graph", handle);
        self.graphs.execs.get_mut(&handle).expect("it is known")
    }
}

/// Fills an array of the caller's, or tells how long it must be, as the driver's list functions do.
fn put_list(driver: &mut Driver, to: *mut u64, count: *mut usize, values: &[u64]) -> Answer {
    if count.is_null() {
        return Err(driver.violation(Status::INVALID_VALUE, "no count"));
    }
    if !to.is_null() {
        // SAFETY: neither pointer is null, and the caller gives an array of as many elements as the count says.
        let room = unsafe { count.read() };
        for (index, value) in values.iter().take(room).enumerate() {
            // SAFETY: the index is below the room.
            unsafe { to.add(index).write(*value) };
        }
    }
    put(driver, count, values.len())
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuGraphGetNodes(graph: u64, nodes: *mut u64, count: *mut usize) -> u32 {
    enter("cuGraphGetNodes", CALL, |driver| {
        let handles: Vec<_> = driver.graph(graph).nodes.iter().map(|node| node.handle).collect();
        put_list(driver, nodes, count, &handles)
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuGraphGetEdges(graph: u64, from: *mut u64, to: *mut u64, count: *mut usize) -> u32 {
    enter("cuGraphGetEdges", CALL, |driver| edges(driver, graph, from, to, count))
}

/// With data of the edges, which the double leaves as it is: all are plain.
#[unsafe(no_mangle)]
pub(super) extern "C" fn cuGraphGetEdges_v2(
    graph: u64,
    from: *mut u64,
    to: *mut u64,
    data: *mut u8,
    count: *mut usize,
) -> u32 {
    enter("cuGraphGetEdges_v2", CALL, |driver| {
        if !from.is_null() && data.is_null() {
            driver
                .report
                .note("cuGraphGetEdges_v2 without edge data: a driver returns LOSSY_QUERY if any edge has some");
        }
        edges(driver, graph, from, to, count)
    })
}

fn edges(driver: &mut Driver, graph: u64, from: *mut u64, to: *mut u64, count: *mut usize) -> Answer {
    let (starts, ends): (Vec<_>, Vec<_>) = driver.graph(graph).edges().into_iter().unzip();
    if from.is_null() != to.is_null() {
        return Err(driver.violation(Status::INVALID_VALUE, "one of the two arrays is missing"));
    }
    if !from.is_null() && !count.is_null() {
        // SAFETY: the pointer is not null, and the caller vouches for it.
        let mut room = unsafe { count.read() };
        put_list(driver, from, &raw mut room, &starts)?;
    }
    put_list(driver, to, count, &ends)
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuGraphNodeGetType(node: u64, node_type: *mut u32) -> u32 {
    enter("cuGraphNodeGetType", CALL, |driver| {
        let number = driver.node(node).operation.node_type();
        put(driver, node_type, number)
    })
}

/// The double keeps functions, never kernels of a library.
#[unsafe(no_mangle)]
pub(super) extern "C" fn cuKernelGetFunction(_function: *mut u64, kernel: u64) -> u32 {
    enter("cuKernelGetFunction", CALL, |driver| {
        driver.must_know(false, Misuse::UnknownFunction, "kernel", kernel);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuGraphKernelNodeGetParams_v2(node: u64, parameters: *mut KernelNodeParameters) -> u32 {
    enter("cuGraphKernelNodeGetParams_v2", CALL, |driver| {
        let found = driver.node(node);
        let Operation::Kernel(launch) = &found.operation else {
            return Err(driver.violation(Status::INVALID_VALUE, "the node is no kernel"));
        };
        let answer = KernelNodeParameters {
            function: launch.handle,
            grid: launch.grid,
            block: launch.block,
            shared_bytes: launch.shared_bytes,
            arguments: found.argument_array(),
            extra: 0,
            kernel: 0,
            context: 0,
        };
        put(driver, parameters, answer)
    })
}

fn instantiate(driver: &mut Driver, graph: u64, flags: u64) -> Answer<u64> {
    let context = driver.ready()?;
    let snapshot = driver.graph(graph).clone();
    if snapshot.has_memory_nodes() && driver.graphs.execs.values().any(|exec| exec.graph == graph) {
        let text = "the graph has memory nodes, and an executable of it exists";
        return Err(driver.breach(Misuse::InstantiateAllocationsTwice, text));
    }
    let costs = &driver.configuration.costs;
    let exec = Exec::new(graph, snapshot, flags, costs);
    let spent_ns = costs.instantiate_ns + costs.instantiate_node_ns * exec.snapshot.nodes.len() as u64;
    driver.spend(spent_ns);
    driver.memory.take_exec(context.device, exec.device_bytes)?;
    let handle = driver.handle(Kind::Exec);
    driver.graphs.execs.insert(handle, exec);
    Ok(handle)
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuGraphInstantiateWithFlags(exec: *mut u64, graph: u64, flags: u64) -> u32 {
    enter("cuGraphInstantiateWithFlags", OWN, |driver| {
        let handle = instantiate(driver, graph, flags)?;
        put(driver, exec, handle)
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuGraphInstantiateWithParams(
    exec: *mut u64,
    graph: u64,
    parameters: *mut InstantiateParameters,
) -> u32 {
    enter("cuGraphInstantiateWithParams", OWN, |driver| {
        if parameters.is_null() {
            return Err(driver.violation(Status::INVALID_VALUE, "no parameters"));
        }
        // SAFETY: the pointer is not null, and the caller vouches for it.
        let mut given = unsafe { parameters.read() };
        let made = instantiate(driver, graph, given.flags);
        (given.error_node, given.result) = (0, u32::from(made.is_err()));
        let (flags, upload_stream) = (given.flags, given.upload_stream);
        put(driver, parameters, given)?;
        let handle = made?;
        put(driver, exec, handle)?;
        if flags & UPLOAD != 0 { upload(driver, handle, upload_stream) } else { Ok(()) }
    })
}

fn upload(driver: &mut Driver, exec: u64, stream: u64) -> Answer {
    let stream = driver.stream(stream);
    driver.check_legacy(stream)?;
    if driver.exec(exec).is_uploaded {
        driver.spend(driver.configuration.costs.call_ns);
    }
    spend_upload(driver, exec);
    Ok(())
}

/// The first use of an executable graph brings it to the device.
fn spend_upload(driver: &mut Driver, exec: u64) {
    let known = driver.exec(exec);
    let (was_uploaded, nodes) = (std::mem::replace(&mut known.is_uploaded, true), known.snapshot.nodes.len() as u64);
    if !was_uploaded {
        let costs = &driver.configuration.costs;
        driver.spend(costs.upload_ns + costs.upload_node_ns * nodes);
    }
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuGraphUpload(exec: u64, stream: u64) -> u32 {
    enter("cuGraphUpload", OWN, |driver| {
        driver.ready()?;
        upload(driver, exec, stream)
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuGraphLaunch(exec: u64, stream: u64) -> u32 {
    let claim = Claim::of(exec);
    enter("cuGraphLaunch", OWN, |driver| {
        driver.ready()?;
        claim.check(driver);
        let stream = driver.stream(stream);
        if driver.capture_of(stream)?.is_some() {
            return Err(driver.violation(Status::NOT_SUPPORTED, "the double does not model graphs inside captures"));
        }
        let known = driver.exec(exec);
        let (batch, duration_ns, nodes) = (known.batch.clone(), known.duration_ns, known.snapshot.nodes.len() as u64);
        let (flags, unfreed, last_stream) = (known.flags, known.unfreed.clone(), known.last_stream.replace(stream));
        take_graph_memory(driver, flags, &unfreed)?;
        if let Some(last) = last_stream.filter(|last| *last != stream) {
            driver.order_after(stream, last);
        }
        spend_upload(driver, exec);
        let costs = &driver.configuration.costs;
        let latency_ns = costs.latency_ns;
        driver.spend(costs.replay_ns + costs.replay_node_ns * nodes);
        driver.enqueue(stream, Work::Run { batch, duration_ns, gap_ns: 0, latency_ns })
    })
}

/// Makes what the graph allocates and does not free.
fn take_graph_memory(driver: &mut Driver, flags: u64, unfreed: &[u64]) -> Answer {
    for address in unfreed {
        let owner = driver.memory.at(*address).map(|(_, allocation)| allocation.owner);
        if owner == Some(Owner::Graph { is_made: true }) && flags & AUTO_FREE_ON_LAUNCH == 0 {
            let text = format!("the allocation at {address:#x} of the launch before is still live");
            return Err(driver.breach(Misuse::RelaunchWithLiveAllocation, &text));
        }
        driver.memory.make_graph_allocation(*address, true)?;
    }
    Ok(())
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuGraphExecUpdate_v2(exec: u64, graph: u64, result: *mut UpdateResult) -> u32 {
    let claims = [Claim::of(exec), Claim::of(graph)];
    enter("cuGraphExecUpdate_v2", OWN, |driver| {
        driver.ready()?;
        for claim in &claims {
            claim.check(driver);
        }
        let new = driver.graph(graph).clone();
        driver.exec(exec);
        let costs = driver.configuration.costs.clone();
        driver.spend(costs.update_ns + costs.update_node_ns * new.nodes.len() as u64);
        let updated = driver.exec(exec).update(&new, &costs);
        let (number, error_node) = updated.err().unwrap_or((0, 0));
        put(driver, result, UpdateResult { result: number, error_node, error_from_node: 0 })?;
        match number {
            0 => Ok(()),
            2 => Err(driver.breach(Misuse::UpdateOtherTopology, "other nodes or edges")),
            3 => Err(driver.breach(Misuse::UpdateOtherNodeType, "a node of another type")),
            _ => Err(driver.violation(Status::GRAPH_EXEC_UPDATE_FAILURE, "a node that cannot change so")),
        }
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuGraphExecDestroy(exec: u64) -> u32 {
    enter("cuGraphExecDestroy", CALL, |driver| {
        let context = driver.ready()?;
        driver.exec(exec);
        if let Some(gone) = driver.graphs.execs.remove(&exec) {
            driver.memory.give_exec(context.device, gone.device_bytes);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuGraphExecGetFlags(exec: u64, flags: *mut u64) -> u32 {
    enter("cuGraphExecGetFlags", CALL, |driver| {
        let known = driver.exec(exec).flags;
        put_if_asked(driver, flags, known)
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuGraphDestroy(graph: u64) -> u32 {
    enter("cuGraphDestroy", CALL, |driver| {
        driver.graph(graph);
        driver.graphs.remove(graph);
        Ok(())
    })
}

//! Misuses of graphs and executable graphs.

use std::ptr;

use cudarc::driver::sys::CUgraph;

use super::Tried;
use super::stage::{Mode, NotTried, Stage, must};
use crate::driver_rules::{CaptureAfter, Misuse};

/// Performs a misuse of this group; `None` for those of others.
pub(super) fn attempt(stage: &Stage, misuse: Misuse) -> Option<Tried> {
    let status = match misuse {
        Misuse::UpdateOtherTopology => update(stage, |stage| {
            launch(stage)?;
            launch(stage)
        }),
        Misuse::UpdateOtherNodeType => {
            update(stage, |stage| must("cuMemsetD8Async", stage.set(stage.memory, 64, stage.stream)))
        }
        Misuse::InstantiateAllocationsTwice => instantiate_allocations_twice(stage),
        Misuse::RelaunchWithLiveAllocation => relaunch_with_live_allocation(stage),
        Misuse::ReplayOnFreedMemory => replay_on_freed_memory(stage),
        Misuse::UnknownGraph => Ok(stage.launch_graph(ptr::without_provenance_mut(0x100), stage.stream)),
        _ => return None,
    };
    Some(status.map(|status| (status, CaptureAfter::None)))
}

fn launch(stage: &Stage) -> Result<(), NotTried> {
    must("cuLaunchKernel", stage.launch(stage.stream))
}

fn captured(stage: &Stage, work: impl FnOnce(&Stage) -> Result<(), NotTried>) -> Result<CUgraph, NotTried> {
    stage.begun(stage.stream, Mode::Global)?;
    work(stage)?;
    stage.ended(stage.stream)
}

/// Updates an executable graph of one kernel with other work.
fn update(stage: &Stage, other: impl FnOnce(&Stage) -> Result<(), NotTried>) -> Result<u32, NotTried> {
    let exec = stage.instantiated(captured(stage, launch)?)?;
    let other = captured(stage, other)?;
    Ok(stage.update(exec, other))
}

fn instantiate_allocations_twice(stage: &Stage) -> Result<u32, NotTried> {
    let graph = captured(stage, |stage| {
        let address = stage.allocated_async(1 << 20, stage.stream)?;
        must("cuMemFreeAsync", stage.free_async(address, stage.stream))
    })?;
    stage.instantiated(graph)?;
    Ok(stage.instantiate(graph).0)
}

fn relaunch_with_live_allocation(stage: &Stage) -> Result<u32, NotTried> {
    let graph = captured(stage, |stage| stage.allocated_async(1 << 20, stage.stream).map(|_| ()))?;
    let exec = stage.instantiated(graph)?;
    must("cuGraphLaunch", stage.launch_graph(exec, stage.stream))?;
    must("cuStreamSynchronize", stage.synchronize(stage.stream))?;
    Ok(stage.launch_graph(exec, stage.stream))
}

/// The fault shows when the kernel has run.
fn replay_on_freed_memory(stage: &Stage) -> Result<u32, NotTried> {
    let address = stage.allocated(64 << 20)?;
    let graph = captured(stage, |stage| must("cuLaunchKernel", stage.launch_at(address, stage.stream)))?;
    let exec = stage.instantiated(graph)?;
    must("cuGraphLaunch", stage.launch_graph(exec, stage.stream))?;
    must("cuStreamSynchronize", stage.synchronize(stage.stream))?;
    must("cuMemFree_v2", stage.free(address))?;
    let launched = stage.launch_graph(exec, stage.stream);
    Ok(if launched == 0 { stage.synchronize(stage.stream) } else { launched })
}

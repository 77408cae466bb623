//! Graphs made executable: instantiated, uploaded, replayed, updated.

use std::rc::Rc;

use cudarc::driver::sys::CUgraphExec;

use super::context::{Context, Resource};
use super::error::DeviceError;
use super::graph::{Baked, Graph};
use super::named_status::named;
use super::status::{Status, code};
use super::stream::Stream;
use super::symbols::{InstantiateParams, UpdateResult};

/// An executable graph. It holds the memory and the modules that are baked into it.
#[derive(Debug)]
pub struct Executable {
    context: Rc<Context>,
    raw: CUgraphExec,
    baked: Baked,
}

impl Executable {
    pub(super) fn new(context: &Rc<Context>, graph: &Graph) -> Result<Self, DeviceError> {
        let mut params = InstantiateParams {
            flags: 0,
            upload_stream: std::ptr::null_mut(),
            error_node: std::ptr::null_mut(),
            result: 0,
        };
        let mut raw = std::ptr::null_mut();
        // SAFETY: the graph lives through the call; both pointers are to locals.
        let done = unsafe { context.functions().graph_instantiate(&raw mut raw, graph.raw, &raw mut params) };
        match done {
            Ok(()) => Ok(Self { context: Rc::clone(context), raw, baked: graph.baked.clone() }),
            // Neither says anything about the graph.
            Err(status) if status.is_sticky() || status.code == code::OUT_OF_MEMORY => Err(status.into()),
            Err(status) => Err(DeviceError::Instantiate { reason: refusal(params.result), status: named(status) }),
        }
    }

    pub(super) fn upload(&self, stream: &Stream) -> Result<(), DeviceError> {
        // SAFETY: executable and stream live through the call.
        Ok(unsafe { self.context.functions().graph_upload(self.raw, stream.raw) }?)
    }

    pub(super) fn launch(&self, stream: &Stream) -> Result<(), DeviceError> {
        // SAFETY: executable and stream live through the call; what is baked in is held by this value.
        Ok(unsafe { self.context.functions().graph_launch(self.raw, stream.raw) }?)
    }

    pub(super) fn update(&mut self, graph: &Graph) -> Result<(), DeviceError> {
        let mut result =
            UpdateResult { result: 0, error_node: std::ptr::null_mut(), error_from_node: std::ptr::null_mut() };
        // SAFETY: executable and graph live through the call; the pointer is to a local.
        match unsafe { self.context.functions().executable_update(self.raw, graph.raw, &raw mut result) } {
            Ok(()) => {
                self.baked = graph.baked.clone();
                Ok(())
            }
            Err(status @ Status { code: code::GRAPH_UPDATE_FAILURE, .. }) => {
                Err(DeviceError::Update { reason: difference(result.result), status: named(status) })
            }
            Err(status) => Err(status.into()),
        }
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        self.context.release(Resource::Executable(self.raw));
    }
}

/// `CUgraphInstantiateResult`.
fn refusal(result: u32) -> &'static str {
    match result {
        2 => "its structure is invalid",
        3 => "a node does what is not supported",
        4 => "its nodes are of several contexts",
        5 => "a conditional handle belongs to no node",
        _ => "the driver gives no reason",
    }
}

/// `CUgraphExecUpdateResult`.
fn difference(result: u32) -> &'static str {
    match result {
        2 => "the topology differs",
        3 => "the type of a node differs",
        4 => "the function of a node differs",
        5 => "parameters of a node differ in a way that cannot be taken over",
        6 => "a node cannot be updated at all",
        7 => "the function of a node differs in a way that cannot be taken over",
        8 => "attributes of a node differ",
        _ => "the driver gives no reason",
    }
}

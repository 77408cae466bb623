//! Calls as a program makes them, through the exported functions and the process's one driver.
#![expect(clippy::ptr_as_ptr, reason = "C's pointers")]

use std::ffi::c_char;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::capture::cuThreadExchangeStreamCaptureMode;
use super::capture::{cuStreamBeginCapture_v2, cuStreamEndCapture, cuStreamGetCaptureInfo_v2, cuStreamIsCapturing};
use super::context::{cuCtxSetCurrent, cuDevicePrimaryCtxRelease_v2, cuDevicePrimaryCtxRetain};
use super::device::{cuDeviceGet, cuDeviceGetGraphMemAttribute, cuInit};
use super::event::{cuEventCreate, cuEventElapsedTime, cuEventQuery, cuEventRecord, cuEventSynchronize};
use super::graph::{
    InstantiateParameters, KernelNodeParameters, UpdateResult, cuGraphExecUpdate_v2, cuGraphGetEdges, cuGraphGetNodes,
    cuGraphInstantiateWithParams, cuGraphKernelNodeGetParams_v2, cuGraphLaunch, cuGraphNodeGetType,
};
use super::launch::cuLaunchKernel;
use super::memory::{
    cuMemAlloc_v2, cuMemAllocAsync, cuMemFree_v2, cuMemFreeAsync, cuMemGetInfo_v2, cuMemHostAlloc,
    cuMemcpyDtoHAsync_v2, cuMemcpyHtoDAsync_v2, cuMemsetD32Async,
};
use super::module::{cuFuncGetParamInfo, cuModuleGetFunction, cuModuleLoadData};
use super::stream::{cuStreamCreate, cuStreamDestroy_v2, cuStreamSynchronize};
use crate::driver;

const ADD: &[u8] =
    b".version 8.0\n.target sm_80\n.visible .entry add(.param .u64 add_param_0, .param .u32 add_param_1)\n\
    { ld.param.u64 %rd1, [add_param_0]; cvta.to.global.u64 %rd2, %rd1; ret; }\n\0";

/// A context with a stream, for one test at a time.
struct Program {
    stream: u64,
    lines_before: usize,
    _alone: MutexGuard<'static, ()>,
}

fn made(call: impl FnOnce(*mut u64) -> u32) -> u64 {
    let mut handle = 0;
    assert_eq!(call(&raw mut handle), 0);
    handle
}

impl Program {
    fn start() -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut device = -1;
        assert_eq!((cuInit(0), cuDeviceGet(&raw mut device, 0)), (0, 0));
        let context = made(|to| cuDevicePrimaryCtxRetain(to, device));
        assert_eq!(cuCtxSetCurrent(context), 0);
        let lines_before = driver::lock().report.lines().len();
        Self { stream: made(|to| cuStreamCreate(to, 1)), lines_before, _alone: alone }
    }

    /// Violations and notes of this test.
    fn lines(&self) -> Vec<String> {
        driver::lock().report.lines()[self.lines_before..].to_vec()
    }

    fn function(&self) -> u64 {
        let module = made(|to| cuModuleLoadData(to, ADD.as_ptr() as *const c_char));
        let function = made(|to| cuModuleGetFunction(to, module, c"add".as_ptr()));
        assert_eq!(self.launch(function, 0), 0, "loaded by its first launch");
        function
    }

    fn launch(&self, function: u64, address: u64) -> u32 {
        let (address, number) = (address, 7_u32);
        let parameters = [&raw const address as *const u8, &raw const number as *const u8];
        cuLaunchKernel(function, 2, 1, 1, 64, 1, 1, 0, self.stream, parameters.as_ptr(), ptr::null())
    }

    fn captured(&self, work: impl FnOnce()) -> u64 {
        assert_eq!(cuStreamBeginCapture_v2(self.stream, 0), 0);
        work();
        made(|to| cuStreamEndCapture(self.stream, to))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        cuDevicePrimaryCtxRelease_v2(0);
        cuCtxSetCurrent(0);
    }
}

fn instantiated(graph: u64, flags: u64) -> u64 {
    let mut parameters = InstantiateParameters { flags, upload_stream: 0, error_node: 0, result: 9 };
    let exec = made(|to| cuGraphInstantiateWithParams(to, graph, &raw mut parameters));
    assert_eq!(parameters.result, 0);
    exec
}

#[test]
fn copies_go_there_and_back() {
    let program = Program::start();
    let device = made(|to| cuMemAlloc_v2(to, 16));
    let (sent, mut received) = ([1_u8, 2, 3, 4, 5, 6, 7, 8], [0_u8; 16]);
    assert_eq!(cuMemsetD32Async(device, 0x0102_0304, 4, program.stream), 0);
    assert_eq!(cuMemcpyHtoDAsync_v2(device + 4, sent.as_ptr() as u64, 8, program.stream), 0);
    assert_eq!(cuMemcpyDtoHAsync_v2(received.as_mut_ptr() as u64, device, 16, program.stream), 0);
    assert_eq!(received, [4, 3, 2, 1, 1, 2, 3, 4, 5, 6, 7, 8, 4, 3, 2, 1], "to pageable memory a copy is waited for");
    assert_eq!((program.lines(), cuMemFree_v2(device)), (vec![], 0));
}

#[test]
fn the_hosts_side_of_a_copy_is_checked() {
    let program = Program::start();
    let device = made(|to| cuMemAlloc_v2(to, 16));
    let pinned = made(|to| cuMemHostAlloc(to, 8, 0));
    assert_eq!(cuMemcpyHtoDAsync_v2(device, 0, 8, program.stream), 1);
    assert_eq!(cuMemcpyHtoDAsync_v2(device, device + 8, 8, program.stream), 1);
    assert_eq!(cuMemcpyHtoDAsync_v2(device, pinned, 9, program.stream), 1);
    let lines = program.lines();
    assert!(lines[0].contains("a null host pointer") && lines[1].contains("a device address"), "{lines:?}");
    assert!(lines[2].contains("copy-past-end") && lines.len() == 3, "{lines:?}");
}

#[test]
fn pageable_memory_in_a_capture_is_told() {
    let program = Program::start();
    let device = made(|to| cuMemAlloc_v2(to, 16));
    let source = [0_u8; 8];
    let graph = program.captured(|| {
        assert_eq!(cuMemcpyHtoDAsync_v2(device, source.as_ptr() as u64, 8, program.stream), 0);
    });
    let lines = program.lines();
    assert!(lines.len() == 1 && lines[0].contains("read again at every replay"), "{lines:?}");
    let (mut node, mut count, mut node_type) = (0, 1, 9);
    assert_eq!(cuGraphGetNodes(graph, &raw mut node, &raw mut count), 0);
    assert_eq!((cuGraphNodeGetType(node, &raw mut node_type), node_type), (0, 1), "a copy is no kernel");
}

#[test]
fn a_graph_can_be_looked_at() {
    let program = Program::start();
    let (function, device) = (program.function(), made(|to| cuMemAlloc_v2(to, 16)));
    let graph = program.captured(|| {
        assert_eq!((program.launch(function, device), program.launch(function, 0)), (0, 0));
    });
    let mut count = 0;
    assert_eq!((cuGraphGetNodes(graph, ptr::null_mut(), &raw mut count), count), (0, 2));
    let (mut nodes, mut from, mut to, mut edges) = ([0; 2], [0; 1], [0; 1], 1);
    assert_eq!(cuGraphGetNodes(graph, nodes.as_mut_ptr(), &raw mut count), 0);
    assert_eq!(cuGraphGetEdges(graph, from.as_mut_ptr(), to.as_mut_ptr(), &raw mut edges), 0);
    assert_eq!((from[0], to[0], edges), (nodes[0], nodes[1], 1));
    let mut parameters = KernelNodeParameters::default();
    assert_eq!(cuGraphKernelNodeGetParams_v2(nodes[0], &raw mut parameters), 0);
    assert_eq!((parameters.function, parameters.grid, parameters.block), (function, [2, 1, 1], [64, 1, 1]));
    let (mut offset, mut bytes) = (0, 0);
    assert_eq!(cuFuncGetParamInfo(function, 1, &raw mut offset, &raw mut bytes), 0);
    assert_eq!((offset, bytes, cuFuncGetParamInfo(function, 2, &raw mut offset, &raw mut bytes)), (8, 4, 1));
    assert_eq!(program.lines(), [""; 0]);
}

#[test]
fn an_update_says_what_differs() {
    let program = Program::start();
    let (function, device) = (program.function(), made(|to| cuMemAlloc_v2(to, 64)));
    let one = program.captured(|| _ = program.launch(function, device));
    let two = program.captured(|| _ = (program.launch(function, device), program.launch(function, device)));
    let other = program.captured(|| _ = cuMemsetD32Async(device, 0, 4, program.stream));
    let moved = program.captured(|| _ = program.launch(function, device + 32));
    let exec = instantiated(one, 0);
    for (graph, status, result) in [(two, 910, 2), (other, 910, 3), (moved, 0, 0)] {
        let mut told = UpdateResult { result: 9, error_node: 0, error_from_node: 0 };
        assert_eq!((cuGraphExecUpdate_v2(exec, graph, &raw mut told), told.result), (status, result));
    }
    assert_eq!((cuGraphLaunch(exec, program.stream), cuStreamSynchronize(program.stream)), (0, 0));
}

#[test]
fn memory_of_a_graph_is_taken_by_its_launch() {
    const AUTO_FREE: u64 = 1;
    let program = Program::start();
    let reserved = || made(|to| cuDeviceGetGraphMemAttribute(0, 2, to));
    let mut address = 0;
    let graph = program.captured(|| address = made(|to| cuMemAllocAsync(to, 1 << 20, program.stream)));
    let exec = instantiated(graph, AUTO_FREE);
    assert_eq!(reserved(), 0);
    assert_eq!((cuGraphLaunch(exec, program.stream), cuGraphLaunch(exec, program.stream)), (0, 0));
    assert_eq!(reserved(), 32 << 20);
    assert_eq!((cuMemFreeAsync(address, program.stream), program.lines()), (0, vec![]));
}

#[test]
fn a_capture_can_be_asked_about() {
    let program = Program::start();
    let capturing = || {
        let mut state = 9;
        assert_eq!(cuStreamIsCapturing(program.stream, &raw mut state), 0);
        state
    };
    assert_eq!(capturing(), 0);
    program.captured(|| {
        let (mut state, mut number) = (9, 0);
        let (graph, nodes) = (ptr::null_mut(), ptr::null_mut());
        let (state_to, number_to) = (&raw mut state, &raw mut number);
        let told = cuStreamGetCaptureInfo_v2(program.stream, state_to, number_to, graph, nodes, ptr::null_mut());
        assert_eq!((told, state, capturing()), (0, 1, 1));
        assert!(number > 0);
    });
    let mut mode = 2;
    assert_eq!((cuThreadExchangeStreamCaptureMode(&raw mut mode), mode), (0, 0), "the mode before");
    assert_eq!((cuThreadExchangeStreamCaptureMode(&raw mut mode), mode), (0, 2));
}

#[test]
fn a_stream_that_captures_is_not_destroyed_unnoticed() {
    let program = Program::start();
    let stream = made(|to| cuStreamCreate(to, 1));
    assert_eq!((cuStreamBeginCapture_v2(stream, 0), cuStreamDestroy_v2(stream)), (0, 0));
    let lines = program.lines();
    assert!(lines.len() == 1 && lines[0].contains("the stream is in a capture"), "{lines:?}");
}

#[test]
fn events_know_what_has_passed() {
    let program = Program::start();
    let device = made(|to| cuMemAlloc_v2(to, 64 << 20));
    let [start, end] = [(); 2].map(|()| made(|to| cuEventCreate(to, 0)));
    let mut ms = 0.0;
    assert_eq!(cuEventQuery(start), 0, "never recorded: nothing to wait for");
    assert_eq!(cuEventRecord(start, program.stream), 0);
    assert_eq!(cuMemsetD32Async(device, 1, 16 << 20, program.stream), 0);
    assert_eq!(cuEventRecord(end, program.stream), 0);
    assert_eq!((cuEventQuery(end), cuEventElapsedTime(&raw mut ms, start, end)), (600, 600));
    assert_eq!((cuEventSynchronize(end), cuEventElapsedTime(&raw mut ms, start, end)), (0, 0));
    // 64 MiB at 4,300 GB/s are 15.6 us, after 1.8 us of latency and 2.6 us of launching.
    assert!((ms - 0.020).abs() < 0.000_5, "{ms}");
    assert_eq!(program.lines(), [""; 0]);
}

#[test]
fn a_context_takes_its_memory_and_gives_it_back() {
    let free = || {
        let mut bytes = 0;
        assert_eq!(cuMemGetInfo_v2(&raw mut bytes, ptr::null_mut()), 0);
        bytes
    };
    let program = Program::start();
    let before = free();
    assert_eq!(before, (140 << 30) - (500 << 20));
    made(|to| cuMemAlloc_v2(to, 3 << 20));
    assert_eq!(before - free(), 4 << 20);
    drop(program);
    let program = Program::start();
    assert_eq!(free(), before, "what leaked is gone with its context");
    drop(program);
}

use std::sync::Arc;

use super::*;
use crate::capture::Mode;
use crate::graph::{Exec, Graph};
use crate::memory::Owner;
use crate::operation::{Batch, KernelLaunch, Operation};
use crate::ptx::Ptx;
use crate::thread;
use crate::timeline::{Gate, Work};

const STORE: &str = "\
.version 8.0
.target sm_80
.visible .entry store(.param .u64 store_param_0, .param .u32 store_param_1)
{ ld.param.u64 %rd1, [store_param_0]; cvta.to.global.u64 %rd2, %rd1; ret; }
";

/// A driver with an open context and one kernel; streams 11 and 12 wait for nobody, stream 21 is a blocking one.
fn opened(configuration: Configuration) -> (Driver, u64) {
    let mut driver = Driver::new(configuration);
    driver.is_initialised = true;
    let handle = driver.handle(Kind::Context);
    driver.contexts.insert(0, Context { device: 0, handle, references: 1 });
    thread::set_context(handle);
    for (stream, is_blocking) in [(LEGACY, true), (11, false), (12, false), (21, true)] {
        driver.timeline.create(stream, is_blocking);
    }
    let module = driver.modules.load(Ptx::parse(STORE).unwrap(), true, &mut driver.handles);
    let function = driver.modules.symbol(module, "store").unwrap();
    (driver, function)
}

fn allocated(driver: &mut Driver, bytes: u64, owner: Owner) -> u64 {
    driver.memory.allocate(0, bytes, owner).unwrap()
}

fn launch(driver: &mut Driver, function: u64, address: u64, rows: u32) -> Operation {
    let mut arguments = address.to_le_bytes().to_vec();
    arguments.extend([0; 4]);
    Operation::Kernel(Arc::new(KernelLaunch {
        handle: function,
        function: driver.function(function).function.clone(),
        grid: [rows, 1, 1],
        block: [32, 1, 1],
        shared_bytes: 0,
        arguments,
    }))
}

fn write(to: u64, bytes: &[u8]) -> Operation {
    Operation::Write { to, bytes: bytes.into() }
}

#[test]
fn nothing_is_there_before_somebody_waited() {
    let (mut driver, _) = opened(Configuration::plain());
    let (device, host) = (allocated(&mut driver, 8, Owner::Device), allocated(&mut driver, 8, Owner::Host));
    driver.submit(11, write(device, b"arrived!")).unwrap();
    driver.submit(11, Operation::Copy { to: host, from: device, bytes: 8 }).unwrap();
    driver.spend(1_000_000_000);
    assert_eq!(Memory::read(host, 8), [0; 8], "time alone makes nothing visible");
    driver.wait_stream(12).unwrap();
    assert_eq!(Memory::read(host, 8), [0; 8], "nor does waiting for another stream");
    driver.wait_stream(11).unwrap();
    assert_eq!(Memory::read(host, 8), b"arrived!");
}

#[test]
fn streams_are_joined_by_events_only() {
    let (mut driver, _) = opened(Configuration::plain());
    let (device, host) = (allocated(&mut driver, 8, Owner::Device), allocated(&mut driver, 16, Owner::Host));
    driver.submit(11, write(device, b"one more")).unwrap();
    driver.submit(12, Operation::Copy { to: host, from: device, bytes: 8 }).unwrap();
    let mark = driver.record(11).unwrap();
    driver.enqueue(12, Work::Wait(mark)).unwrap();
    driver.submit(12, Operation::Copy { to: host + 8, from: device, bytes: 8 }).unwrap();
    driver.wait_stream(12).unwrap();
    assert_eq!(Memory::read(host, 16), b"\0\0\0\0\0\0\0\0one more", "the first copy was ordered after nothing");
}

#[test]
fn the_legacy_stream_waits_for_blocking_streams() {
    for (stream, expected) in [(21, b"blocking"), (11, &[0; 8])] {
        let (mut driver, _) = opened(Configuration::plain());
        let (device, host) = (allocated(&mut driver, 8, Owner::Device), allocated(&mut driver, 8, Owner::Host));
        driver.submit(stream, write(device, b"blocking")).unwrap();
        driver.submit(LEGACY, Operation::Copy { to: host, from: device, bytes: 8 }).unwrap();
        driver.wait_stream(LEGACY).unwrap();
        assert_eq!(Memory::read(host, 8), expected, "stream {stream}");
    }
}

#[test]
fn blocking_streams_wait_for_the_legacy_stream() {
    for (stream, expected) in [(21, b"at first"), (11, &[0; 8])] {
        let (mut driver, _) = opened(Configuration::plain());
        let (device, host) = (allocated(&mut driver, 8, Owner::Device), allocated(&mut driver, 8, Owner::Host));
        driver.submit(LEGACY, write(device, b"at first")).unwrap();
        driver.submit(stream, Operation::Copy { to: host, from: device, bytes: 8 }).unwrap();
        driver.wait_stream(stream).unwrap();
        assert_eq!(Memory::read(host, 8), expected, "stream {stream}");
    }
}

#[test]
fn after_a_fault_nothing_is_done_and_every_call_fails() {
    let (mut driver, function) = opened(Configuration::plain());
    let (stale, device) = (allocated(&mut driver, 64, Owner::Device), allocated(&mut driver, 8, Owner::Device));
    driver.memory.free(stale);
    let stale = launch(&mut driver, function, stale, 1);
    driver.submit(11, stale).unwrap();
    driver.submit(11, write(device, b"too late")).unwrap();
    assert_eq!(driver.wait_stream(11), Err(Status(700)));
    assert_eq!(Memory::read(device, 8), [0; 8]);
    assert_eq!(driver.ready().map(|context| context.device), Err(Status(700)));
    let line = &driver.report.lines()[0];
    assert!(line.contains("launch-on-freed-memory: argument 0 of store: ") && line.contains("were freed"), "{line}");
}

#[test]
fn a_replay_needs_its_module_and_both_sides_of_its_copies() {
    let (mut driver, function) = opened(Configuration::plain());
    let [kept, freed] = [(); 2].map(|()| allocated(&mut driver, 64, Owner::Device));
    let copy = Batch::of_graph(vec![Operation::Copy { to: kept, from: freed, bytes: 8 }]);
    let kernel = Batch::of_graph(vec![launch(&mut driver, function, kept, 1)]);
    for batch in [&copy, &kernel] {
        driver.perform_batch(batch);
        assert_eq!(driver.sticky, None);
    }
    driver.memory.free(freed);
    driver.perform_batch(&copy);
    assert_eq!(driver.sticky.take(), Some(Status(700)));
    let module = driver.function(function).function.module;
    driver.modules.unload(module);
    driver.memory.forget_checks();
    driver.perform_batch(&kernel);
    assert_eq!(driver.sticky, Some(Status(700)));
}

#[test]
fn null_is_an_operand_that_is_not_there() {
    let (mut driver, function) = opened(Configuration::plain());
    let absent = launch(&mut driver, function, 0, 1);
    driver.submit(11, absent).unwrap();
    assert_eq!(driver.wait_stream(11), Ok(()));
}

#[test]
fn what_is_planted_is_what_is_measured() {
    let planted = [
        ("LAUNCH_NS", "2500"),
        ("LATENCY_NS", "1000"),
        ("GAP_NS", "100"),
        ("KERNEL_NS", "10"),
        ("STAIRS", "store=1:5000,16:9000"),
        ("SYNCHRONIZE_NS", "700"),
    ];
    let (mut driver, function) = opened(Configuration::planted(&planted));
    let device = allocated(&mut driver, 64, Owner::Device);
    for rows in [1, 15, 16, 64] {
        let operation = launch(&mut driver, function, device, rows);
        driver.submit(11, operation).unwrap();
    }
    assert_eq!(driver.timeline.host_ns, 4 * 2_500, "the host runs ahead");
    let mark = driver.record(11).unwrap();
    let end_ns = 2_500 + 1_000 + 5_000 + (100 + 5_000) + 2 * (100 + 9_000);
    assert_eq!(driver.timeline.passed_ns(mark), Some(end_ns));
    driver.wait_stream(11).unwrap();
    assert_eq!(driver.timeline.host_ns, end_ns + 700);
}

#[test]
fn launches_of_one_executable_follow_each_other() {
    let (mut driver, _) = opened(Configuration::plain());
    let mut graph = Graph::default();
    let device = allocated(&mut driver, 4_096, Owner::Device);
    graph.add(Operation::Set { at: device, element: [1; 4], width: 4, count: 1_024 }, vec![], &mut driver.handles);
    let exec = Exec::new(1, graph, 0, &driver.configuration.costs);
    let work = || Work::Run { batch: exec.batch.clone(), duration_ns: 5_000, gap_ns: 0, latency_ns: 0 };
    driver.enqueue(11, work()).unwrap();
    driver.order_after(12, 11);
    driver.enqueue(12, work()).unwrap();
    let mark = driver.record(12).unwrap();
    assert_eq!(driver.timeline.passed_ns(mark), Some(10_000));
}

#[test]
fn a_gate_lets_go_when_the_host_says_so() {
    let (mut driver, _) = opened(Configuration::plain());
    let flag = allocated(&mut driver, 4, Owner::Host);
    let outcome = allocated(&mut driver, 4, Owner::Host);
    let device = allocated(&mut driver, 8, Owner::Device);
    driver.enqueue(11, Work::Gate(Gate { flag, outcome, timeout_ns: 1_000_000 })).unwrap();
    driver.submit(11, write(device, b"released")).unwrap();
    driver.spend(300_000);
    driver.settle();
    Memory::write(flag, &1_u32.to_le_bytes());
    driver.wait_stream(11).unwrap();
    assert_eq!(Memory::read(outcome, 4), [1, 0, 0, 0]);
    assert!((300_000..1_000_000).contains(&driver.timeline.host_ns), "{}", driver.timeline.host_ns);
}

#[test]
fn the_call_that_a_test_names_fails_and_no_other() {
    let mut driver = Driver::new(Configuration::planted(&[("FAIL", "cuMemAlloc_v2:2=2")]));
    let calls = ["cuMemAlloc_v2", "cuMemFree_v2", "cuMemAlloc_v2", "cuMemAlloc_v2"];
    assert_eq!(calls.map(|call| driver.begin_call(call)), [None, None, Some(2), None]);
}

#[test]
fn what_is_left_behind_is_listed() {
    let (mut driver, _) = opened(Configuration::plain());
    allocated(&mut driver, 100, Owner::Device);
    driver.captures.begin(11, Mode::Global, thread::number());
    driver.close();
    let leaks: Vec<_> = driver.report.lines().iter().filter_map(|line| line.strip_prefix("leak: ")).collect();
    assert_eq!(leaks[..4], ["the context of device 0", "3 streams", "1 module", "1 capture"]);
    assert!(leaks[4].starts_with("100 bytes at ") && leaks.len() == 5, "{leaks:?}");
    assert_eq!(driver.memory.live().count(), 0);
}

#[test]
fn an_order_that_is_checked_once_is_checked_again_when_memory_changes() {
    let (mut driver, function) = opened(Configuration::plain());
    let device = allocated(&mut driver, 64, Owner::Device);
    let batch = Batch::of_graph(vec![launch(&mut driver, function, device, 1)]);
    driver.perform_batch(&batch);
    assert!(driver.sticky.is_none() && batch.is_checked_at(driver.memory.generation));
    driver.memory.free(device);
    driver.perform_batch(&batch);
    assert_eq!(driver.sticky, Some(Status(700)));
}

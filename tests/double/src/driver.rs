//! The driver as a whole: its state, what every call does first, and what a breach of a rule comes to.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, OnceLock};

use kernels::launch::Kernel;

use crate::capture::{CaptureId, Captures};
use crate::configuration::{Configuration, Costs};
use crate::driver_rules::{CaptureAfter, Misuse};
use crate::execute::{Executor, Run};
use crate::graph::Graphs;
use crate::handles::{Handles, Kind};
use crate::memory::{Memory, Owner};
use crate::modules::Modules;
use crate::operation::{Batch, KernelLaunch, Operation};
use crate::report::Report;
use crate::status::{Answer, Status};
use crate::thread;
use crate::time::argument;
use crate::timeline::{Due, MarkId, ReadFlag, Timeline, Work};
use crate::wild_access;

/// `CU_STREAM_LEGACY`; a null stream means the same.
pub(crate) const LEGACY: u64 = 1;

/// A primary context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    pub(crate) device: usize,
    pub(crate) handle: u64,
    pub(crate) references: u32,
}

/// An event.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) has_timing: bool,
    pub(crate) state: EventState,
}

/// Where an event was recorded last.
#[derive(Clone, Debug)]
pub(crate) enum EventState {
    Never,
    Marked(MarkId),
    Captured { capture: CaptureId, nodes: Vec<usize> },
}

/// Everything that the double knows.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) configuration: Configuration,
    pub(crate) report: Report,
    pub(crate) handles: Handles,
    pub(crate) is_initialised: bool,
    pub(crate) contexts: BTreeMap<usize, Context>,
    /// A fault of the device: every later call of the context returns it.
    pub(crate) sticky: Option<Status>,
    pub(crate) memory: Memory,
    pub(crate) modules: Modules,
    pub(crate) timeline: Timeline,
    pub(crate) events: HashMap<u64, Event>,
    pub(crate) captures: Captures,
    pub(crate) graphs: Graphs,
    executor: Option<Executor>,
    /// The function that is being called.
    function: &'static str,
    calls: HashMap<&'static str, u64>,
}

static DRIVER: OnceLock<Mutex<Driver>> = OnceLock::new();

/// The process's driver, made by the first call.
pub(crate) fn lock() -> MutexGuard<'static, Driver> {
    let driver = DRIVER.get_or_init(|| Mutex::new(Driver::new(Configuration::from_environment())));
    driver.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The driver if nobody uses it now.
pub(crate) fn try_lock() -> Option<MutexGuard<'static, Driver>> {
    DRIVER.get()?.try_lock().ok()
}

/// Host time of a call, out of the planted costs.
pub(crate) type Cost = fn(&Costs) -> u64;

/// Host time of most calls.
pub(crate) const CALL: Cost = |costs| costs.call_ns;

/// A call whose body says itself what it takes.
pub(crate) const OWN: Cost = |_| 0;

/// Every exported function goes through here: it takes the driver, spends the call's time, and turns the answer into a
/// `CUresult`.
pub(crate) fn enter(function: &'static str, cost: Cost, body: impl FnOnce(&mut Driver) -> Answer) -> u32 {
    let mut driver = lock();
    if let Some(status) = driver.begin_call(function) {
        return status;
    }
    driver.timeline.host_ns += cost(&driver.configuration.costs);
    driver.settle();
    match body(&mut driver) {
        Ok(()) => 0,
        Err(Status(code)) => code,
    }
}

impl Driver {
    pub(crate) fn new(configuration: Configuration) -> Self {
        let executor = configuration.kernels.as_deref().map(|path| Executor::load(path, configuration.order));
        let devices = configuration.devices as usize;
        let mut memory = Memory::new(devices, configuration.memory_bytes, executor.is_some());
        for device in 0..devices {
            // More than there is: then none is left.
            let others_bytes = configuration.others_bytes.min(configuration.memory_bytes);
            let _ = memory.take_fixed(device, others_bytes);
        }
        let timeline = Timeline::new(configuration.disturbance.clone());
        Self {
            report: Report::to(configuration.report.as_deref()),
            configuration,
            handles: Handles::default(),
            is_initialised: false,
            contexts: BTreeMap::new(),
            sticky: None,
            memory,
            modules: Modules::default(),
            timeline,
            events: HashMap::new(),
            captures: Captures::default(),
            graphs: Graphs::default(),
            executor,
            function: "",
            calls: HashMap::new(),
        }
    }

    /// Counts the call. A status if a test has planted its failure.
    fn begin_call(&mut self, function: &'static str) -> Option<u32> {
        self.function = function;
        self.report.count_call();
        let calls = self.calls.entry(function).or_insert(0);
        *calls += 1;
        let planted = self.configuration.failures.iter();
        planted
            .clone()
            .find(|failure| failure.function == function && failure.call == *calls)
            .map(|failure| failure.status)
    }

    /// The host works for a while.
    pub(crate) fn spend(&mut self, ns: u64) {
        self.timeline.host_ns += ns;
    }

    /// Lets time pass: gates look at their flags in memory.
    pub(crate) fn on_timeline<T>(&mut self, act: impl FnOnce(&mut Timeline, ReadFlag<'_>) -> T) -> T {
        let memory = &self.memory;
        act(&mut self.timeline, &|address| memory.flag(address))
    }

    pub(crate) fn settle(&mut self) {
        self.on_timeline(Timeline::settle);
    }

    /// A breach that no rule of the table names: recorded, and answered with `status`.
    pub(crate) fn violation(&mut self, status: Status, text: &str) -> Status {
        let name =
            Status::name(status.0).map_or_else(|| status.0.to_string(), |name| name.to_string_lossy().into_owned());
        self.report.violation(&format!("{}: {text} ({name})", self.function));
        status
    }

    /// A breach of a rule: recorded, and answered as the table says.
    pub(crate) fn breach(&mut self, misuse: Misuse, text: &str) -> Status {
        let rule = misuse.rule();
        let Some(status) = misuse.status() else { self.crash(misuse, text) };
        self.violation(Status(status), &format!("{}: {text}", rule.name))
    }

    /// A breach of a rule by a stream that is in a capture.
    pub(crate) fn breach_in_capture(&mut self, misuse: Misuse, capture: CaptureId, text: &str) -> Status {
        if misuse.rule().capture == CaptureAfter::Invalidated {
            self.captures.invalidate(capture, self.function);
        }
        self.breach(misuse, text)
    }

    /// What makes a real driver fault: the process ends here.
    pub(crate) fn crash(&mut self, misuse: Misuse, text: &str) -> ! {
        let line = format!("{}: {}: {text}", self.function, misuse.rule().name);
        self.report.violation(&line);
        self.report.close(self.timeline.host_ns);
        eprintln!("driver double: {line}");
        std::process::abort();
    }

    /// A real driver follows whatever handle it is given: the process ends with one that was never given out, or whose
    /// object is gone.
    pub(crate) fn must_know(&mut self, is_known: bool, misuse: Misuse, kind: &str, handle: u64) {
        if !is_known {
            self.crash(misuse, &format!("no {kind} has the handle {handle:#x}"));
        }
    }

    /// What nearly every call needs: `cuInit`, no fault before, and a context that is current on this thread.
    pub(crate) fn ready(&mut self) -> Answer<Context> {
        self.initialised()?;
        let current = thread::context();
        let Some(context) = self.contexts.values().find(|context| context.handle == current).copied() else {
            return Err(self.breach(Misuse::NoCurrentContext, "no context is current on this thread"));
        };
        match self.sticky {
            Some(status) => Err(status),
            None => Ok(context),
        }
    }

    pub(crate) fn initialised(&mut self) -> Answer {
        if self.is_initialised {
            return Ok(());
        }
        Err(self.breach(Misuse::CallBeforeInit, "cuInit was not called, or failed"))
    }

    /// A device by its ordinal.
    pub(crate) fn device(&mut self, ordinal: i32) -> Answer<usize> {
        self.initialised()?;
        let device = usize::try_from(ordinal).ok().filter(|device| *device < self.configuration.devices as usize);
        device.ok_or_else(|| self.breach(Misuse::DeviceOutOfRange, &format!("device {ordinal}")))
    }

    /// A call that is potentially unsafe during a capture: refused, and the captures that forbid it invalid, unless the
    /// thread's mode allows it.
    pub(crate) fn unsafe_call(&mut self, misuse: Misuse) -> Answer {
        let forbidding = self.captures.forbidding(thread::number(), thread::mode());
        if forbidding.is_empty() {
            return Ok(());
        }
        for capture in forbidding {
            self.captures.invalidate(capture, self.function);
        }
        Err(self.breach(misuse, "a capture is under way, and this thread's mode is not relaxed"))
    }

    /// The stream that a handle names.
    pub(crate) fn stream(&mut self, handle: u64) -> u64 {
        let stream = if handle == 0 { LEGACY } else { handle };
        self.must_know(self.timeline.has(stream), Misuse::UnknownStream, "stream", handle);
        stream
    }

    /// The legacy stream waits for blocking streams, and so cannot be used while one captures.
    pub(crate) fn check_legacy(&mut self, stream: u64) -> Answer {
        if stream != LEGACY {
            return Ok(());
        }
        let captured = self.captures.streams();
        let Some(blocking) = captured.into_iter().find(|stream| self.timeline.is_blocking(*stream)) else {
            return Ok(());
        };
        let text = "a blocking stream captures, and the legacy stream would wait for it";
        match self.captures.of(blocking) {
            Some(capture) => Err(self.breach_in_capture(Misuse::LegacyBesideCapture, capture, text)),
            None => Ok(()),
        }
    }

    /// The capture that a stream is in, if that is still valid.
    pub(crate) fn capture_of(&mut self, stream: u64) -> Answer<Option<CaptureId>> {
        let Some(id) = self.captures.of(stream) else { return Ok(None) };
        match self.captures.get(id).and_then(|capture| capture.invalid) {
            Some(by) => {
                Err(self.breach(Misuse::LaunchAfterInvalidation, &format!("the capture is invalid since {by}")))
            }
            None => Ok(Some(id)),
        }
    }

    /// Puts an operation into a stream, or into the capture that the stream is in.
    pub(crate) fn submit(&mut self, stream: u64, operation: Operation) -> Answer {
        if let Some(capture) = self.capture_of(stream)? {
            self.spend(self.configuration.costs.capture_launch_ns);
            self.captures.add(capture, stream, operation, &mut self.handles);
            return Ok(());
        }
        let costs = &self.configuration.costs;
        let duration_ns = costs.duration_ns(&operation);
        let (launch_ns, gap_ns, latency_ns) = (costs.launch_ns, costs.gap_ns, costs.latency_ns);
        self.spend(launch_ns);
        self.enqueue(stream, Work::Run { batch: Batch::of_call(operation), duration_ns, gap_ns, latency_ns })
    }

    /// Puts work into a stream that is in no capture.
    pub(crate) fn enqueue(&mut self, stream: u64, work: Work) -> Answer {
        self.check_legacy(stream)?;
        self.order_with_legacy(stream);
        self.on_timeline(|timeline, flags| timeline.enqueue(stream, work, flags));
        self.perform();
        Ok(())
    }

    /// Records a point in a stream that is in no capture.
    pub(crate) fn record(&mut self, stream: u64) -> Answer<MarkId> {
        self.check_legacy(stream)?;
        self.order_with_legacy(stream);
        let mark = self.on_timeline(|timeline, flags| timeline.record(stream, flags));
        self.perform();
        Ok(mark)
    }

    /// The legacy stream and the blocking ones wait for each other.
    fn order_with_legacy(&mut self, stream: u64) {
        let others: Vec<_> = match stream {
            LEGACY => self.timeline.busy().into_iter().filter(|busy| self.timeline.is_blocking(*busy)).collect(),
            _ if self.timeline.is_blocking(stream) => vec![LEGACY],
            _ => return,
        };
        for other in others.into_iter().filter(|other| *other != stream) {
            self.order_after(stream, other);
        }
    }

    /// Whatever is put into `stream` from now on waits for what `other` holds now.
    pub(crate) fn order_after(&mut self, stream: u64, other: u64) {
        if self.timeline.busy().contains(&other) {
            self.on_timeline(|timeline, flags| {
                let mark = timeline.record(other, flags);
                timeline.enqueue(stream, Work::Wait(mark), flags);
            });
        }
    }

    /// The host waits for a stream.
    pub(crate) fn wait_stream(&mut self, stream: u64) -> Answer {
        self.wait(|timeline, flags| timeline.wait_stream(stream, flags))
    }

    /// The host waits for everything.
    pub(crate) fn wait_all(&mut self) -> Answer {
        self.wait(Timeline::wait_all)
    }

    /// The host waits for a mark.
    pub(crate) fn wait_mark(&mut self, mark: MarkId) -> Answer {
        self.wait(|timeline, flags| timeline.wait(mark, flags))
    }

    fn wait(&mut self, act: impl FnOnce(&mut Timeline, ReadFlag<'_>)) -> Answer {
        self.on_timeline(act);
        self.spend(self.configuration.costs.synchronize_ns);
        self.perform();
        self.sticky.map_or(Ok(()), Err)
    }

    /// Asks whether something has passed, without waiting.
    pub(crate) fn query(&mut self, act: impl FnOnce(&mut Timeline, ReadFlag<'_>) -> bool) -> Answer {
        let is_passed = self.on_timeline(act);
        self.perform();
        match self.sticky {
            Some(status) => Err(status),
            None if is_passed => Ok(()),
            None => Err(Status::NOT_READY),
        }
    }

    /// Does what became due.
    pub(crate) fn perform(&mut self) {
        for due in self.timeline.take_due() {
            match due {
                Due::Batch(batch) => self.perform_batch(&batch),
                Due::Passed { outcome, value } => match self.memory.outside(outcome, 4) {
                    None => Memory::write(outcome, &value.to_le_bytes()),
                    Some(why) => self.fault(Misuse::LaunchOnFreedMemory, &format!("outcome of the gate: {why}")),
                },
            }
        }
    }

    fn perform_batch(&mut self, batch: &Batch) {
        let is_checked = batch.is_checked_at(self.memory.generation);
        for operation in &batch.operations {
            // After a fault the device does nothing more.
            if self.sticky.is_some() {
                return;
            }
            if !is_checked && let Some(why) = self.stale(operation) {
                let misuse = if batch.is_replay { Misuse::ReplayOnFreedMemory } else { Misuse::LaunchOnFreedMemory };
                return self.fault(misuse, &why);
            }
            self.perform_operation(operation);
        }
        batch.set_checked_at(self.memory.generation);
    }

    /// Which address of an operation is not live, if any.
    fn stale(&self, operation: &Operation) -> Option<String> {
        let range = |address, bytes| self.memory.outside(address, bytes);
        match operation {
            Operation::Kernel(launch) => {
                let symbol = &launch.function.entry.symbol;
                if !self.modules.is_loaded(launch.function.module) {
                    return Some(format!("the module of {symbol} was unloaded"));
                }
                launch.addresses().find_map(|(index, address)| {
                    let why = range(address, 1)?;
                    Some(format!("argument {index} of {symbol}: {why}"))
                })
            }
            // Ranges were checked when the copy was called for; one side may be host memory that the double did not give.
            Operation::Copy { to, from, bytes } => [*to, *from]
                .into_iter()
                .find(|address| self.memory.freed_at(*address).is_some())
                .and_then(|address| range(address, *bytes)),
            Operation::Write { to, bytes } => range(*to, bytes.len() as u64),
            Operation::Set { at, width, count, .. } => range(*at, u64::from(*width) * count),
            Operation::Allocate { .. } | Operation::Free { .. } => None,
        }
    }

    /// A fault of the device: the context is lost.
    fn fault(&mut self, misuse: Misuse, text: &str) {
        let status = self.breach(misuse, text);
        self.sticky = Some(status);
    }

    fn perform_operation(&mut self, operation: &Operation) {
        match operation {
            Operation::Kernel(launch) => self.perform_kernel(launch),
            Operation::Copy { to, from, bytes } => Memory::copy(*to, *from, *bytes),
            Operation::Write { to, bytes } => Memory::write(*to, bytes),
            Operation::Set { at, element, width, count } => {
                self.memory.set(*at, &element[..usize::from(*width)], *count);
            }
            Operation::Allocate { .. } | Operation::Free { .. } => {}
        }
    }

    fn perform_kernel(&mut self, launch: &KernelLaunch) {
        let symbol = launch.function.entry.symbol.as_str();
        if symbol == Kernel::Clocks.symbol() {
            return self.write_clocks(launch);
        }
        if symbol == Kernel::Gate.symbol() {
            return self.report.note("a gate inside a graph holds nothing: the double passes it at once");
        }
        let Some(executor) = self.executor else { return };
        let name = launch.function.name.as_c_str();
        match wild_access::watched(name, self.report.file(), || executor.run(launch)) {
            Run::Done => {}
            Run::Unknown => {
                self.report.note(&format!("the executor has no kernel {symbol}: it took time and did nothing"));
            }
            Run::Failed(why) => {
                self.sticky = Some(self.violation(Status::LAUNCH_FAILED, &format!("{symbol}: {why}")));
            }
        }
    }

    /// The clock kernel reads virtual clocks: it ends now, and began so many cycles ago.
    fn write_clocks(&mut self, launch: &KernelLaunch) {
        let (Some(out), Some(cycles)) =
            (argument(launch, Kernel::Clocks, "out"), argument(launch, Kernel::Clocks, "cycles"))
        else {
            return;
        };
        let mhz = self.configuration.costs.clock_mhz;
        let after_ns = self.timeline.host_ns;
        let before_ns = after_ns.saturating_sub(cycles.saturating_mul(1_000) / mhz);
        let cycles_before = before_ns * mhz / 1_000;
        for (index, value) in [cycles_before, before_ns, cycles_before + cycles, after_ns].into_iter().enumerate() {
            Memory::write(out + 8 * index as u64, &value.to_le_bytes());
        }
    }

    /// A context ends: what still lives in it leaks, and is gone.
    pub(crate) fn end_context(&mut self) {
        let _ = self.wait_all();
        self.report_leaks();
        let allocations: Vec<_> = self.memory.live().map(|(address, _)| address).collect();
        for address in allocations {
            self.memory.free(address);
        }
        self.timeline.clear();
        self.events.clear();
        self.modules = Modules::default();
        self.graphs = Graphs::default();
        self.captures = Captures::default();
        self.sticky = None;
    }

    fn report_leaks(&mut self) {
        let streams = self.timeline.handles().into_iter().filter(|stream| *stream != LEGACY).count();
        let counts = [
            (streams, "stream"),
            (self.events.len(), "event"),
            (self.modules.count(), "module"),
            (self.graphs.count(), "graph"),
            (self.graphs.execs.len(), "executable graph"),
            (self.captures.streams().len(), "capture"),
        ];
        for (count, kind) in counts.into_iter().filter(|(count, _)| *count > 0) {
            self.report.leak(&format!("{count} {kind}{}", if count == 1 { "" } else { "s" }));
        }
        let allocations = self.memory.live().filter(|(_, allocation)| !matches!(allocation.owner, Owner::Graph { .. }));
        let leaks: Vec<_> = allocations
            .map(|(address, allocation)| format!("{} bytes at {address:#x} ({:?})", allocation.bytes, allocation.owner))
            .collect();
        for leak in &leaks {
            self.report.leak(leak);
        }
    }

    /// The process ends.
    pub(crate) fn close(&mut self) {
        let contexts: Vec<_> = self.contexts.values().map(|context| context.device).collect();
        for device in &contexts {
            self.report.leak(&format!("the context of device {device}"));
        }
        if !contexts.is_empty() {
            self.end_context();
        }
        self.report.close(self.timeline.host_ns);
    }

    /// A new handle.
    pub(crate) fn handle(&mut self, kind: Kind) -> u64 {
        self.handles.next(kind)
    }
}

#[cfg(test)]
mod tests;

//! The driver as a whole: its state, and the way into it that every call takes.

mod checks;
mod ending;
mod perform;
mod work;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, OnceLock};

use crate::capture::{CaptureId, Captures};
use crate::configuration::{Configuration, Costs};
use crate::execute::Executor;
use crate::graph::Graphs;
use crate::handles::{Handles, Kind};
use crate::memory::Memory;
use crate::modules::Modules;
use crate::report::Report;
use crate::status::{Answer, Status};
use crate::timeline::{MarkId, Timeline};

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
    let spent_ns = cost(&driver.configuration.costs);
    driver.spend(spent_ns);
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
        self.timeline.spend(ns);
    }

    /// A new handle.
    pub(crate) fn handle(&mut self, kind: Kind) -> u64 {
        self.handles.next(kind)
    }
}

#[cfg(test)]
mod tests;

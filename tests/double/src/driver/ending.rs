//! The end of a context and of the process: what still lives has leaked.

use super::{Driver, LEGACY};
use crate::capture::Captures;
use crate::graph::Graphs;
use crate::memory::Owner;
use crate::modules::Modules;

impl Driver {
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
}

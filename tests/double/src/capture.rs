//! Captures under way: which streams are in them, which thread began them, what may be called meanwhile.
//!
//! The rules are those of `cuThreadExchangeStreamCaptureMode`'s and `cuStreamBeginCapture`'s documentation.

use std::collections::BTreeMap;

use crate::graph::Graph;
use crate::handles::Handles;
use crate::operation::Operation;
use crate::thread::ThreadNumber;

/// `CUstreamCaptureMode`, of a capture and of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Global,
    ThreadLocal,
    Relaxed,
}

impl Mode {
    pub(crate) fn from_number(number: u32) -> Option<Self> {
        [Self::Global, Self::ThreadLocal, Self::Relaxed].into_iter().find(|mode| *mode as u32 == number)
    }
}

/// Number of a capture, never given out twice.
pub(crate) type CaptureId = u64;

/// One capture.
#[derive(Debug)]
pub(crate) struct Capture {
    pub(crate) graph: Graph,
    pub(crate) origin: u64,
    pub(crate) mode: Mode,
    pub(crate) thread: ThreadNumber,
    /// The first call that made it invalid.
    pub(crate) invalid: Option<&'static str>,
    /// For each stream that is in it, the nodes that its next one comes after.
    frontiers: BTreeMap<u64, Vec<usize>>,
}

/// All captures under way.
#[derive(Debug, Default)]
pub(crate) struct Captures {
    active: BTreeMap<CaptureId, Capture>,
    ever: CaptureId,
}

impl Captures {
    pub(crate) fn begin(&mut self, stream: u64, mode: Mode, thread: ThreadNumber) -> CaptureId {
        self.ever += 1;
        let frontiers = BTreeMap::from([(stream, Vec::new())]);
        let begun = Capture { graph: Graph::default(), origin: stream, mode, thread, invalid: None, frontiers };
        self.active.insert(self.ever, begun);
        self.ever
    }

    /// Takes a capture out, whatever its state.
    pub(crate) fn end(&mut self, id: CaptureId) -> Option<Capture> {
        self.active.remove(&id)
    }

    /// The capture that a stream is in.
    pub(crate) fn of(&self, stream: u64) -> Option<CaptureId> {
        self.active.iter().find(|(_, capture)| capture.frontiers.contains_key(&stream)).map(|(id, _)| *id)
    }

    pub(crate) fn get(&self, id: CaptureId) -> Option<&Capture> {
        self.active.get(&id)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.active.is_empty()
    }

    /// Whether captures are under way, and none of them began on this thread.
    pub(crate) fn is_only_of_other_threads(&self) -> bool {
        let this = crate::thread::number();
        !self.is_empty() && self.active.values().all(|capture| capture.thread != this)
    }

    /// Streams that are in any capture.
    pub(crate) fn streams(&self) -> Vec<u64> {
        self.active.values().flat_map(|capture| capture.frontiers.keys().copied()).collect()
    }

    /// Appends what a stream would have done.
    pub(crate) fn add(&mut self, id: CaptureId, stream: u64, operation: Operation, handles: &mut Handles) {
        let Some(capture) = self.active.get_mut(&id) else { return };
        let after = capture.frontiers.get(&stream).cloned().unwrap_or_default();
        let node = capture.graph.add(operation, after, handles);
        capture.frontiers.insert(stream, vec![node]);
    }

    /// What an event recorded on the stream stands for.
    pub(crate) fn frontier(&self, id: CaptureId, stream: u64) -> Vec<usize> {
        self.active.get(&id).and_then(|capture| capture.frontiers.get(&stream)).cloned().unwrap_or_default()
    }

    /// The stream goes on after those nodes too; a stream that was not in the capture joins it.
    pub(crate) fn join(&mut self, id: CaptureId, stream: u64, nodes: &[usize]) {
        let Some(capture) = self.active.get_mut(&id) else { return };
        let frontier = capture.frontiers.entry(stream).or_default();
        frontier.extend(nodes);
        frontier.sort_unstable();
        frontier.dedup();
    }

    pub(crate) fn invalidate(&mut self, id: CaptureId, function: &'static str) {
        if let Some(capture) = self.active.get_mut(&id) {
            capture.invalid.get_or_insert(function);
        }
    }

    pub(crate) fn invalidate_all(&mut self, function: &'static str) {
        self.active.values_mut().for_each(|capture| _ = capture.invalid.get_or_insert(function));
    }

    /// The captures that forbid this thread, in this mode, a potentially unsafe call.
    pub(crate) fn forbidding(&self, thread: ThreadNumber, thread_mode: Mode) -> Vec<CaptureId> {
        let forbids = |capture: &Capture| match (thread_mode, capture.mode) {
            (Mode::Relaxed, _) | (_, Mode::Relaxed) => false,
            (Mode::Global, Mode::Global) => true,
            (Mode::Global | Mode::ThreadLocal, _) => capture.thread == thread,
        };
        self.active.iter().filter(|(_, capture)| forbids(capture)).map(|(id, _)| *id).collect()
    }
}

impl Capture {
    /// Streams that were forked off and whose last work the origin does not come after.
    pub(crate) fn unjoined(&self) -> Vec<u64> {
        let origin = self.frontiers.get(&self.origin).map_or(&[][..], Vec::as_slice);
        let is_before = self.graph.ancestors(origin);
        let is_joined = |nodes: &Vec<usize>| nodes.iter().all(|node| is_before[*node]);
        self.frontiers.iter().filter(|(_, nodes)| !is_joined(nodes)).map(|(stream, _)| *stream).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_call_what_during_a_capture() {
        use Mode::{Global, Relaxed, ThreadLocal};
        // (mode of the capture, same thread, mode of the caller) => forbidden
        for (capture, is_same, caller, is_forbidden) in [
            (Global, true, Global, true),
            (Global, true, ThreadLocal, true),
            (Global, true, Relaxed, false),
            (Global, false, Global, true),
            (Global, false, ThreadLocal, false),
            (Global, false, Relaxed, false),
            (ThreadLocal, true, Global, true),
            (ThreadLocal, true, ThreadLocal, true),
            (ThreadLocal, true, Relaxed, false),
            (ThreadLocal, false, Global, false),
            (ThreadLocal, false, ThreadLocal, false),
            (Relaxed, true, Global, false),
            (Relaxed, false, Global, false),
        ] {
            let mut captures = Captures::default();
            captures.begin(7, capture, ThreadNumber(1));
            let thread = ThreadNumber(if is_same { 1 } else { 2 });
            let forbidding = captures.forbidding(thread, caller);
            assert_eq!(!forbidding.is_empty(), is_forbidden, "{capture:?} {is_same} {caller:?}");
        }
    }

    #[test]
    fn a_fork_must_be_joined() {
        let (mut captures, handles) = (Captures::default(), &mut Handles::default());
        let id = captures.begin(1, Mode::Global, ThreadNumber(1));
        captures.add(id, 1, Operation::Free { address: 1 }, handles);
        captures.join(id, 2, &captures.frontier(id, 1));
        assert_eq!(captures.get(id).unwrap().unjoined(), [0; 0], "a fork without work of its own is joined");
        captures.add(id, 2, Operation::Free { address: 2 }, handles);
        assert_eq!(captures.get(id).unwrap().unjoined(), [2]);
        captures.join(id, 1, &captures.frontier(id, 2));
        assert_eq!(captures.end(id).unwrap().unjoined(), [0; 0]);
    }
}

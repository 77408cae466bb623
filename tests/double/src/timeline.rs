//! Streams: work in order, in virtual time, and done as late as its waiters allow.
//!
//! Two things are kept apart. *When* an item ends is settled as soon as everything before it is known, so that events
//! have exact times. *Doing* it is put off until the host waits for it, and only what the wait covers is done: work that
//! no wait or event orders is not there yet, so that a missing synchronization shows.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use crate::disturbance::Disturbance;
use crate::operation::Batch;

/// Launches that fit into a stream before the next one blocks the host.
const DEPTH: usize = 1024;

/// What a stream holds.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// Operations one after another; `gap_ns` after other work, `latency_ns` after their launch at the soonest.
    Run {
        batch: Arc<Batch>,
        duration_ns: u64,
        gap_ns: u64,
        latency_ns: u64,
    },
    Gate(Gate),
    /// A point in the stream.
    Record(MarkId),
    /// Nothing after it starts before the mark is passed.
    Wait(MarkId),
}

/// The gate kernel: holds its stream until the host sets a flag in mapped memory, or until its time is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gate {
    pub(crate) flag: u64,
    pub(crate) outcome: u64,
    pub(crate) timeout_ns: u64,
}

/// A recorded point of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct MarkId(u64);

#[derive(Debug)]
struct Mark {
    stream: u64,
    end_ns: Option<u64>,
    is_done: bool,
}

#[derive(Debug)]
struct Item {
    arrived_ns: u64,
    work: Work,
    end_ns: Option<u64>,
    /// Whether a gate ended because its time was up.
    is_timed_out: bool,
}

#[derive(Debug)]
struct Stream {
    queue: VecDeque<Item>,
    /// Items of the queue whose end is settled.
    settled: usize,
    /// End of the last settled item.
    tail_ns: u64,
    is_blocking: bool,
    is_destroyed: bool,
}

/// Something to be done now.
#[derive(Clone, Debug)]
pub(crate) enum Due {
    Batch(Arc<Batch>),
    /// A gate was passed: 1 released, 2 timed out, to be written to `outcome`.
    Passed {
        outcome: u64,
        value: u32,
    },
}

/// All streams, and the host's clock.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    pub(crate) host_ns: u64,
    streams: BTreeMap<u64, Stream>,
    marks: HashMap<MarkId, Mark>,
    marks_ever: u64,
    disturbance: Disturbance,
    /// Items whose end is settled.
    settled_ever: u64,
    /// Things that the host did.
    spent_ever: u64,
    due: Vec<Due>,
}

/// Reads a gate's flag.
pub(crate) type ReadFlag<'a> = &'a dyn Fn(u64) -> u32;

impl Timeline {
    pub(crate) fn new(disturbance: Disturbance) -> Self {
        Self { disturbance, ..Self::default() }
    }

    pub(crate) fn create(&mut self, stream: u64, is_blocking: bool) {
        let created = Stream { queue: VecDeque::new(), settled: 0, tail_ns: 0, is_blocking, is_destroyed: false };
        self.streams.insert(stream, created);
    }

    /// The handle goes; what was enqueued is still done.
    pub(crate) fn destroy(&mut self, stream: u64) {
        if let Some(destroyed) = self.streams.get_mut(&stream) {
            destroyed.is_destroyed = true;
        }
        self.forget_idle();
    }

    /// Everything goes, as a context does.
    pub(crate) fn clear(&mut self) {
        self.streams.clear();
        self.marks.clear();
    }

    /// Whether this is a stream that the user may name.
    pub(crate) fn has(&self, stream: u64) -> bool {
        self.streams.get(&stream).is_some_and(|stream| !stream.is_destroyed)
    }

    pub(crate) fn is_blocking(&self, stream: u64) -> bool {
        self.streams.get(&stream).is_some_and(|stream| stream.is_blocking)
    }

    /// Streams that live, in the order of their handles.
    pub(crate) fn handles(&self) -> Vec<u64> {
        self.streams.iter().filter(|(_, stream)| !stream.is_destroyed).map(|(handle, _)| *handle).collect()
    }

    /// Streams with work that is not done.
    pub(crate) fn busy(&self) -> Vec<u64> {
        self.streams.iter().filter(|(_, stream)| !stream.queue.is_empty()).map(|(handle, _)| *handle).collect()
    }

    /// The host works for a while.
    pub(crate) fn spend(&mut self, ns: u64) {
        self.spent_ever += 1;
        self.host_ns += self.disturbance.apply_on_host(ns, self.host_ns, self.spent_ever);
    }

    /// Appends work that the host calls for now.
    pub(crate) fn enqueue(&mut self, stream: u64, work: Work, read_flag: ReadFlag<'_>) {
        let arrived_ns = self.host_ns;
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.queue.push_back(Item { arrived_ns, work, end_ns: None, is_timed_out: false });
        }
        self.settle(read_flag);
        self.limit_depth(stream, read_flag);
    }

    /// Records a point.
    pub(crate) fn record(&mut self, stream: u64, read_flag: ReadFlag<'_>) -> MarkId {
        self.marks_ever += 1;
        let mark = MarkId(self.marks_ever);
        self.marks.insert(mark, Mark { stream, end_ns: None, is_done: false });
        self.enqueue(stream, Work::Record(mark), read_flag);
        mark
    }

    /// When a mark is passed, if that is known.
    pub(crate) fn passed_ns(&self, mark: MarkId) -> Option<u64> {
        self.marks.get(&mark)?.end_ns
    }

    /// A mark that nobody can ask about again.
    pub(crate) fn forget(&mut self, mark: MarkId) {
        if self.marks.get(&mark).is_some_and(|mark| mark.is_done) {
            self.marks.remove(&mark);
        }
    }

    /// Whether the clock has passed the mark. Does what lies before it, if so.
    pub(crate) fn query(&mut self, mark: MarkId, read_flag: ReadFlag<'_>) -> bool {
        self.settle(read_flag);
        let Some(known) = self.marks.get(&mark) else { return true };
        let is_passed = known.end_ns.is_some_and(|end_ns| end_ns <= self.host_ns);
        if is_passed && !known.is_done {
            self.drain(known.stream, Some(mark));
        }
        is_passed
    }

    /// The host waits for a mark.
    pub(crate) fn wait(&mut self, mark: MarkId, read_flag: ReadFlag<'_>) {
        let Some(known) = self.marks.get(&mark) else { return };
        let stream = known.stream;
        while self.passed_ns(mark).is_none() {
            if !self.force(stream, read_flag) {
                return;
            }
        }
        self.host_ns = self.host_ns.max(self.passed_ns(mark).unwrap_or(0));
        if self.marks.get(&mark).is_some_and(|mark| !mark.is_done) {
            self.drain(stream, Some(mark));
        }
    }

    /// Whether the clock has passed everything of a stream. Does it, if so.
    pub(crate) fn query_stream(&mut self, stream: u64, read_flag: ReadFlag<'_>) -> bool {
        self.settle(read_flag);
        let Some(asked) = self.streams.get(&stream) else { return true };
        let is_idle = asked.settled == asked.queue.len() && asked.tail_ns <= self.host_ns;
        if is_idle {
            self.drain(stream, None);
        }
        is_idle
    }

    /// The host waits for everything of a stream.
    pub(crate) fn wait_stream(&mut self, stream: u64, read_flag: ReadFlag<'_>) {
        self.settle(read_flag);
        while self.streams.get(&stream).is_some_and(|stream| stream.settled < stream.queue.len()) {
            if !self.force(stream, read_flag) {
                return;
            }
        }
        let tail_ns = self.streams.get(&stream).map_or(0, |stream| stream.tail_ns);
        self.host_ns = self.host_ns.max(tail_ns);
        self.drain(stream, None);
        self.forget_idle();
    }

    /// The host waits for everything. The youngest stream is done first: an order that only luck would give is not given.
    pub(crate) fn wait_all(&mut self, read_flag: ReadFlag<'_>) {
        let handles: Vec<_> = self.streams.keys().rev().copied().collect();
        for handle in handles {
            self.wait_stream(handle, read_flag);
        }
    }

    /// What became due since the last call, in an order that keeps every stream's own.
    pub(crate) fn take_due(&mut self) -> Vec<Due> {
        std::mem::take(&mut self.due)
    }

    /// Finds the end of every item whose start is known.
    pub(crate) fn settle(&mut self, read_flag: ReadFlag<'_>) {
        let host_ns = self.host_ns;
        let mut is_moving = true;
        while is_moving {
            is_moving = false;
            for stream in self.streams.values_mut() {
                while stream.settled < stream.queue.len() {
                    let (item, tail_ns) = (&mut stream.queue[stream.settled], stream.tail_ns);
                    let disturb =
                        |duration_ns, start_ns| self.disturbance.apply(duration_ns, start_ns, self.settled_ever);
                    let known = end_of(item, tail_ns, host_ns, &self.marks, read_flag, disturb);
                    let Some(end_ns) = known else { break };
                    self.settled_ever += 1;
                    item.end_ns = Some(end_ns);
                    if let Work::Record(mark) = item.work
                        && let Some(mark) = self.marks.get_mut(&mark)
                    {
                        mark.end_ns = Some(end_ns);
                    }
                    stream.tail_ns = end_ns;
                    stream.settled += 1;
                    is_moving = true;
                }
            }
        }
    }

    /// Lets the clock run until the gate that holds this stream, or one that it waits for, times out.
    fn force(&mut self, stream: u64, read_flag: ReadFlag<'_>) -> bool {
        let mut at = stream;
        // A wait names a mark recorded before it, so that this walk ends.
        let until_ns = loop {
            let Some(held) = self.streams.get(&at) else { return false };
            let Some(item) = held.queue.get(held.settled) else { return false };
            match &item.work {
                Work::Wait(mark) => match self.marks.get(mark) {
                    Some(mark) => at = mark.stream,
                    None => return false,
                },
                Work::Gate(gate) => break held.tail_ns.max(item.arrived_ns) + gate.timeout_ns,
                Work::Run { .. } | Work::Record(_) => return false,
            }
        };
        self.host_ns = self.host_ns.max(until_ns);
        self.settle(read_flag);
        true
    }

    /// A full stream blocks the host until its first item is over.
    fn limit_depth(&mut self, stream: u64, read_flag: ReadFlag<'_>) {
        while self.streams.get(&stream).is_some_and(|stream| stream.queue.len() > DEPTH) {
            while self.streams.get(&stream).is_some_and(|stream| stream.settled == 0) {
                if !self.force(stream, read_flag) {
                    return;
                }
            }
            let front_ns = self.streams.get(&stream).and_then(|stream| stream.queue.front()?.end_ns).unwrap_or(0);
            self.host_ns = self.host_ns.max(front_ns);
            self.do_front(stream);
        }
    }

    /// Does the items of a stream up to a mark, or all.
    fn drain(&mut self, stream: u64, until: Option<MarkId>) {
        while let Some(front) = self.streams.get(&stream).and_then(|stream| stream.queue.front()) {
            if front.end_ns.is_none() {
                return;
            }
            let is_last = matches!((&front.work, until), (Work::Record(mark), Some(until)) if *mark == until);
            self.do_front(stream);
            if is_last {
                return;
            }
        }
    }

    fn do_front(&mut self, stream: u64) {
        let Some(owner) = self.streams.get_mut(&stream) else { return };
        let Some(item) = owner.queue.pop_front() else { return };
        owner.settled -= 1;
        match item.work {
            Work::Run { batch, .. } => self.due.push(Due::Batch(batch)),
            Work::Gate(gate) => {
                let value = if item.is_timed_out { 2 } else { 1 };
                self.due.push(Due::Passed { outcome: gate.outcome, value });
            }
            Work::Record(mark) => {
                if let Some(mark) = self.marks.get_mut(&mark) {
                    mark.is_done = true;
                }
            }
            Work::Wait(mark) => {
                if let Some(known) = self.marks.get(&mark)
                    && !known.is_done
                {
                    self.drain(known.stream, Some(mark));
                }
            }
        }
    }

    fn forget_idle(&mut self) {
        self.streams.retain(|_, stream| !stream.is_destroyed || !stream.queue.is_empty());
    }
}

/// When an item ends that starts after `tail_ns`, if that can be told yet.
fn end_of(
    item: &mut Item,
    tail_ns: u64,
    host_ns: u64,
    marks: &HashMap<MarkId, Mark>,
    read_flag: ReadFlag<'_>,
    disturb: impl Fn(u64, u64) -> u64,
) -> Option<u64> {
    match &item.work {
        Work::Run { duration_ns, gap_ns, latency_ns, .. } => {
            let after_others_ns = if tail_ns > 0 { tail_ns + gap_ns } else { 0 };
            let start_ns = after_others_ns.max(item.arrived_ns + latency_ns);
            Some(start_ns + disturb(*duration_ns, start_ns))
        }
        Work::Record(_) => Some(tail_ns.max(item.arrived_ns)),
        Work::Wait(mark) => match marks.get(mark) {
            Some(mark) => mark.end_ns.map(|end_ns| tail_ns.max(end_ns)),
            None => Some(tail_ns),
        },
        Work::Gate(gate) => {
            let start_ns = tail_ns.max(item.arrived_ns);
            let timeout_ns = start_ns + gate.timeout_ns;
            if host_ns < timeout_ns && read_flag(gate.flag) != 0 {
                // The host set the flag between its last call and this one.
                return Some(start_ns.max(host_ns));
            }
            item.is_timed_out = host_ns >= timeout_ns;
            item.is_timed_out.then_some(timeout_ns)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::operation::Operation;

    fn run(duration_ns: u64) -> Work {
        Work::Run { batch: Batch::of_call(Operation::Free { address: 0 }), duration_ns, gap_ns: 10, latency_ns: 100 }
    }

    fn timeline(streams: u64) -> Timeline {
        let mut timeline = Timeline::default();
        (1..=streams).for_each(|stream| timeline.create(stream, false));
        timeline
    }

    #[test]
    fn work_of_a_stream_follows_its_launch_and_its_predecessor() {
        let mut timeline = timeline(1);
        timeline.enqueue(1, run(1_000), &|_| 0);
        timeline.host_ns = 50;
        timeline.enqueue(1, run(500), &|_| 0);
        let mark = timeline.record(1, &|_| 0);
        assert_eq!(timeline.passed_ns(mark), Some(100 + 1_000 + 10 + 500));
        assert!(!timeline.query(mark, &|_| 0) && timeline.take_due().is_empty());
        timeline.wait(mark, &|_| 0);
        assert_eq!((timeline.host_ns, timeline.take_due().len()), (1_610, 2));
    }

    #[test]
    fn only_what_a_wait_covers_is_done() {
        let mut timeline = timeline(2);
        timeline.enqueue(1, run(1_000), &|_| 0);
        timeline.enqueue(2, run(10), &|_| 0);
        timeline.wait_stream(2, &|_| 0);
        assert_eq!(timeline.take_due().len(), 1, "stream 1 was not waited for");
        let mark = timeline.record(1, &|_| 0);
        timeline.enqueue(2, Work::Wait(mark), &|_| 0);
        timeline.enqueue(2, run(10), &|_| 0);
        timeline.wait_stream(2, &|_| 0);
        assert_eq!((timeline.take_due().len(), timeline.host_ns), (2, 1_100 + 10 + 10));
    }

    #[test]
    fn a_gate_holds_its_stream_until_the_flag_or_the_timeout() {
        for (flag, ends_ns, outcome) in [(1, 700 + 10 + 5, 1), (0, 2_000 + 10 + 5, 2)] {
            let mut timeline = timeline(2);
            let now = Cell::new(0);
            let read = |_: u64| now.get();
            timeline.enqueue(1, Work::Gate(Gate { flag: 8, outcome: 16, timeout_ns: 2_000 }), &read);
            timeline.enqueue(1, run(5), &read);
            let mark = timeline.record(1, &read);
            timeline.enqueue(2, Work::Wait(mark), &read);
            assert_eq!(timeline.passed_ns(mark), None);
            timeline.host_ns = 700;
            now.set(flag);
            timeline.wait_stream(2, &read);
            assert_eq!((timeline.host_ns, timeline.passed_ns(mark)), (ends_ns, Some(ends_ns)));
            let due = timeline.take_due();
            assert!(matches!(due[0], Due::Passed { outcome: 16, value } if value == outcome), "{due:?}");
        }
    }

    #[test]
    fn a_full_stream_blocks_the_host() {
        let mut timeline = timeline(1);
        for _ in 0..DEPTH {
            timeline.enqueue(1, run(1_000), &|_| 0);
        }
        assert_eq!(timeline.host_ns, 0);
        timeline.enqueue(1, run(1_000), &|_| 0);
        assert_eq!(timeline.host_ns, 1_100);
    }

    #[test]
    fn a_destroyed_stream_still_does_its_work() {
        let mut timeline = timeline(1);
        timeline.enqueue(1, run(1_000), &|_| 0);
        timeline.destroy(1);
        assert!(!timeline.has(1) && timeline.busy() == [1]);
        timeline.wait_all(&|_| 0);
        assert_eq!((timeline.take_due().len(), timeline.busy().len()), (1, 0));
    }
}

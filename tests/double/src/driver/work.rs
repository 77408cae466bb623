//! Work for streams and captures, and waiting for it.

use super::{Driver, LEGACY};
use crate::operation::{Batch, Operation};
use crate::status::{Answer, Status};
use crate::timeline::{MarkId, ReadFlag, Timeline, Work};

impl Driver {
    /// Lets time pass: gates look at their flags in memory.
    pub(crate) fn on_timeline<T>(&mut self, act: impl FnOnce(&mut Timeline, ReadFlag<'_>) -> T) -> T {
        let memory = &self.memory;
        act(&mut self.timeline, &|address| memory.flag(address))
    }

    pub(crate) fn settle(&mut self) {
        self.on_timeline(Timeline::settle);
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
}

//! A simulation that runs, as a source: its thread makes the records and sends them through a bounded channel.
//!
//! The channel holds so few facts that a view in slow motion holds its simulation up, and nothing is ever lost: at full
//! speed the view takes facts as fast as they come, whatever the terminal does, and only draws less often.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use super::fact::Fact;
use super::source::{Next, Source};
use super::state::End;
use crate::observe::{Event, Observer};
use crate::record::{RequestRecorder, StepRecorder};
use crate::scenario::Slo;
use crate::server::Setup;

/// Facts that travel together.
const BATCH_FACTS: usize = 256;
/// Batches on their way.
const BATCHES_MAX: usize = 8;

/// What travels; nothing is the end.
type Batch = Option<Vec<Fact>>;

/// Makes the records of one run, and sends them.
pub struct LiveObserver<'a> {
    steps: StepRecorder<'a>,
    requests: RequestRecorder,
    batch: Vec<Fact>,
    sender: SyncSender<Batch>,
}

/// The other end.
#[derive(Debug)]
pub struct LiveSource {
    batch: std::vec::IntoIter<Fact>,
    receiver: Receiver<Batch>,
    ended: bool,
}

/// A run that stopped before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the simulation stopped before its end")]
pub struct Stopped;

/// An observer of one candidate and seed, and what a view reads it from.
#[must_use]
pub fn live<'a>(candidate: &str, seed: u64, slo: Slo, setup: &'a Setup) -> (LiveObserver<'a>, LiveSource) {
    let (sender, receiver) = sync_channel(BATCHES_MAX);
    let observer = LiveObserver {
        steps: StepRecorder::new(setup),
        requests: RequestRecorder::new(candidate, seed, slo),
        batch: Vec::with_capacity(BATCH_FACTS),
        sender,
    };
    (observer, LiveSource { batch: Vec::new().into_iter(), receiver, ended: false })
}

impl LiveObserver<'_> {
    /// Sends what is left and says that this was all.
    ///
    /// # Errors
    /// If nobody listens any more.
    pub fn finish(mut self) -> io::Result<()> {
        self.send()?;
        self.sender.send(None).map_err(gone)
    }

    fn send(&mut self) -> io::Result<()> {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH_FACTS));
        self.sender.send(Some(batch)).map_err(gone)
    }
}

/// Nobody listens: the run ends here.
fn gone<T>(_: std::sync::mpsc::SendError<T>) -> io::Error {
    io::Error::new(io::ErrorKind::Interrupted, "the view was closed")
}

impl Observer for LiveObserver<'_> {
    fn observe(&mut self, event: &Event<'_>) -> io::Result<()> {
        let batch = &mut self.batch;
        batch.extend(self.steps.observe(event).map(|step| Fact::Step(Box::new(step))));
        self.requests.observe(event, |request| {
            batch.push(Fact::Request(request));
            Ok(())
        })?;
        if self.batch.len() >= BATCH_FACTS { self.send() } else { Ok(()) }
    }
}

impl Source for LiveSource {
    type Error = Stopped;

    fn next(&mut self, patience: Duration) -> Result<Next, Stopped> {
        loop {
            if let Some(fact) = self.batch.next() {
                return Ok(Next::Fact(fact));
            }
            if self.ended {
                return Ok(Next::End(End::default()));
            }
            match self.receiver.recv_timeout(patience) {
                Ok(Some(batch)) => self.batch = batch.into_iter(),
                Ok(None) => self.ended = true,
                Err(RecvTimeoutError::Timeout) => return Ok(Next::NotYet),
                Err(RecvTimeoutError::Disconnected) => return Err(Stopped),
            }
        }
    }
}

//! Facts of a run, and those who want to know them.
//!
//! The server tells events in the past tense; metrics, the step log, the request log and any view are observers of the
//! same events.

pub mod event;

use std::io;

pub use event::{Event, StepScheduled, StepSpan};

/// Somebody who is told everything that happens in a run.
pub trait Observer {
    /// Takes note of one event.
    ///
    /// # Errors
    /// If what the observer writes cannot be written; the run then stops.
    fn observe(&mut self, event: &Event<'_>) -> io::Result<()>;
}

/// Nobody.
impl Observer for () {
    fn observe(&mut self, _event: &Event<'_>) -> io::Result<()> {
        Ok(())
    }
}

/// Two observers, told in order.
impl<A: Observer, B: Observer> Observer for (A, B) {
    fn observe(&mut self, event: &Event<'_>) -> io::Result<()> {
        self.0.observe(event)?;
        self.1.observe(event)
    }
}

/// An observer that may be absent.
impl<O: Observer> Observer for Option<O> {
    fn observe(&mut self, event: &Event<'_>) -> io::Result<()> {
        self.as_mut().map_or(Ok(()), |observer| observer.observe(event))
    }
}

impl<O: Observer + ?Sized> Observer for &mut O {
    fn observe(&mut self, event: &Event<'_>) -> io::Result<()> {
        (**self).observe(event)
    }
}

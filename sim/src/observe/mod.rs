//! Facts of a run, and those who want to know them.
//!
//! The server tells events in the past tense; metrics, the step log, the request log and any view are observers of the
//! same events.

pub mod event;
pub mod stretch;

use std::io;

pub use event::{Event, StepScheduled, StepSpan};
pub use stretch::{Beat, Stretch, Sums};

/// Somebody who is told everything that happens in a run.
pub trait Observer {
    /// Takes note of one event.
    ///
    /// # Errors
    /// If what the observer writes cannot be written; the run then stops.
    fn observe(&mut self, event: &Event<'_>) -> io::Result<()>;

    /// Takes note of many decode steps at once. Observers that have no shorter way see their events one by one.
    ///
    /// # Errors
    /// As [`observe`](Self::observe).
    fn observe_stretch(&mut self, stretch: &Stretch<'_>) -> io::Result<()> {
        stretch.events(|event| self.observe(event))
    }
}

/// Nobody.
impl Observer for () {
    fn observe(&mut self, _event: &Event<'_>) -> io::Result<()> {
        Ok(())
    }

    fn observe_stretch(&mut self, _stretch: &Stretch<'_>) -> io::Result<()> {
        Ok(())
    }
}

/// Two observers, told in order.
impl<A: Observer, B: Observer> Observer for (A, B) {
    #[expect(clippy::inline_always, reason = "as of the observers of which an event leaves little")]
    #[inline(always)]
    fn observe(&mut self, event: &Event<'_>) -> io::Result<()> {
        self.0.observe(event)?;
        self.1.observe(event)
    }

    fn observe_stretch(&mut self, stretch: &Stretch<'_>) -> io::Result<()> {
        self.0.observe_stretch(stretch)?;
        self.1.observe_stretch(stretch)
    }
}

/// An observer that may be absent.
impl<O: Observer> Observer for Option<O> {
    fn observe(&mut self, event: &Event<'_>) -> io::Result<()> {
        self.as_mut().map_or(Ok(()), |observer| observer.observe(event))
    }

    fn observe_stretch(&mut self, stretch: &Stretch<'_>) -> io::Result<()> {
        self.as_mut().map_or(Ok(()), |observer| observer.observe_stretch(stretch))
    }
}

impl<O: Observer + ?Sized> Observer for &mut O {
    fn observe(&mut self, event: &Event<'_>) -> io::Result<()> {
        (**self).observe(event)
    }

    fn observe_stretch(&mut self, stretch: &Stretch<'_>) -> io::Result<()> {
        (**self).observe_stretch(stretch)
    }
}

//! Somewhere that the records of a run go to, one by one.

use std::io;

/// Takes records of one kind in their order.
pub trait Log<R> {
    /// Writes one record.
    ///
    /// # Errors
    /// The I/O error of the sink, unchanged.
    fn record(&mut self, record: &R) -> io::Result<()>;
}

/// Two logs of the same records.
impl<R, A: Log<R>, B: Log<R>> Log<R> for (A, B) {
    fn record(&mut self, record: &R) -> io::Result<()> {
        self.0.record(record)?;
        self.1.record(record)
    }
}

/// A log that may be absent.
impl<R, L: Log<R>> Log<R> for Option<L> {
    fn record(&mut self, record: &R) -> io::Result<()> {
        self.as_mut().map_or(Ok(()), |log| log.record(record))
    }
}

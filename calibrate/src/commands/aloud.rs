//! Output beside which something is written that was asked for.

use std::io::{self, Write};

/// Output whose reader may leave, as in `calibrate --device 0 | head`: the file is what was asked for.
pub(super) struct Aloud<'a, W>(pub(super) &'a mut W);

impl<W: Write> Write for Aloud<'_, W> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        unless_nobody_reads(self.0.write(text), text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        unless_nobody_reads(self.0.flush(), ())
    }
}

fn unless_nobody_reads<T>(done: io::Result<T>, anyway: T) -> io::Result<T> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(anyway),
        done => done,
    }
}

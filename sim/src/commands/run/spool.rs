//! Many logs in one nameless file, put in order at the end.
//!
//! Runs go on side by side and their logs may be long; a file for each would use up the process's file handles. A
//! [`Spool`] takes blocks from all of them as they come and hands each log back whole.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Bytes that a log collects before it takes its turn at the file.
const BLOCK_BYTES: usize = 1 << 16;

/// One file that many logs are written to.
#[derive(Debug)]
pub(super) struct Spool {
    /// The file, and its length.
    file: Mutex<(File, u64)>,
}

/// One log on its way into a [`Spool`].
#[derive(Debug)]
pub(super) struct SpoolWriter<'a> {
    spool: &'a Spool,
    block: Vec<u8>,
    extents: Vec<Extent>,
}

/// Where a block lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    start: u64,
    bytes: u64,
}

impl Spool {
    /// A spool in `folder`; its file has no name and vanishes with the process, whatever happens.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub(super) fn create(folder: &Path) -> io::Result<Self> {
        Ok(Self { file: Mutex::new((tempfile::tempfile_in(folder)?, 0)) })
    }

    /// A new log.
    pub(super) fn log(&self) -> SpoolWriter<'_> {
        SpoolWriter { spool: self, block: Vec::with_capacity(BLOCK_BYTES), extents: Vec::new() }
    }

    fn append(&self, block: &[u8]) -> io::Result<Extent> {
        let mut guard = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, length) = &mut *guard;
        file.seek(SeekFrom::Start(*length))?;
        file.write_all(block)?;
        let extent = Extent { start: *length, bytes: block.len() as u64 };
        *length += extent.bytes;
        Ok(extent)
    }

    /// Copies one log to `sink`.
    ///
    /// # Errors
    /// If the spool cannot be read or the sink not written.
    pub(super) fn copy(&self, log: &[Extent], sink: &mut impl Write) -> io::Result<()> {
        self.each_block(log, |block| sink.write_all(block))
    }

    /// Gives one log block by block. A block begins and ends where writes began and ended.
    ///
    /// # Errors
    /// If the spool cannot be read, or what `take` returns.
    pub(super) fn each_block(&self, log: &[Extent], mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut guard = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let mut block = Vec::new();
        for extent in log {
            guard.0.seek(SeekFrom::Start(extent.start))?;
            block.resize(extent.bytes as usize, 0);
            guard.0.read_exact(&mut block)?;
            take(&block)?;
        }
        Ok(())
    }
}

impl SpoolWriter<'_> {
    /// Flushes and says where the log lies.
    ///
    /// # Errors
    /// If the spool cannot be written.
    pub(super) fn finish(mut self) -> io::Result<Vec<Extent>> {
        self.flush()?;
        Ok(self.extents)
    }
}

impl Write for SpoolWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.block.extend_from_slice(bytes);
        if self.block.len() >= BLOCK_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.block.is_empty() {
            self.extents.push(self.spool.append(&self.block)?);
            self.block.clear();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaved_logs_come_back_whole() {
        let spool = Spool::create(&std::env::temp_dir()).expect("a writable folder");
        let (mut one, mut two) = (spool.log(), spool.log());
        let mut expected = [String::new(), String::new()];
        for line in 0..20_000 {
            let texts = [format!("one {line}\n"), format!("two {}\n", line * 7)];
            one.write_all(texts[0].as_bytes()).expect("writes");
            two.write_all(texts[1].as_bytes()).expect("writes");
            expected[0] += &texts[0];
            expected[1] += &texts[1];
        }
        let (one, two) = (one.finish().expect("writes"), two.finish().expect("writes"));
        assert!(one.len() > 2, "several blocks each");
        for (log, text) in [(two, &expected[1]), (one, &expected[0])] {
            let mut found = Vec::new();
            spool.copy(&log, &mut found).expect("copies");
            assert_eq!(String::from_utf8(found).expect("text"), *text);
        }
    }
}

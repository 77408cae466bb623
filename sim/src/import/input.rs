//! A file or standard input: unpacked if it is compressed, hashed as it is, in bounded memory.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;
use sha2::{Digest, Sha256};

use crate::record::hexadecimal;

/// Longest line that is kept, in bytes; of a longer one the beginning is.
pub const LINE_BYTES_MAX: usize = 1 << 20;

/// Bytes of a line after which it is no line: a device or a pipe without an end.
const LINE_BYTES_SKIPPED_MAX: u64 = 1 << 26;

/// What is looked at to tell what a source is, in bytes.
const HEAD_BYTES: usize = 1 << 16;

/// How the bytes of a source are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// Not at all.
    Plain,
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstd,
}

/// A source that is being read.
pub struct Input {
    /// The file as it was named; `standard input` for `-`.
    pub name: String,
    /// How it is packed.
    pub packing: Packing,
    raw: Arc<Mutex<Hashed>>,
    unpacked: BufReader<Box<dyn Read + Send>>,
    head: Vec<u8>,
    /// Whether it may have no end.
    is_endless: bool,
}

/// What a source was, once it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The file as it was named.
    pub name: String,
    /// How it was packed.
    pub packing: Packing,
    /// SHA-256 of its bytes as they were, in hexadecimal.
    pub sha256: String,
    /// Its bytes as they were.
    pub bytes: u64,
}

/// Counts and hashes what is read.
struct Hashed {
    inner: Box<dyn Read + Send>,
    hash: Sha256,
    bytes: u64,
}

impl Read for Hashed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hash.update(&buffer[..read]);
        self.bytes += read as u64;
        Ok(read)
    }
}

/// One of several readers of the same bytes, one after the other.
struct Shared(Arc<Mutex<Hashed>>);

impl Read for Shared {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).read(buffer)
    }
}

/// Zstandard frames, one after the other: packed files that were put together, or packed in parallel.
struct ZstdFrames<R: Read> {
    frame: Option<StreamingDecoder<BufReader<R>, ruzstd::decoding::FrameDecoder>>,
}

impl<R: Read> ZstdFrames<R> {
    fn new(input: R) -> io::Result<Self> {
        Ok(Self { frame: Some(Self::open(BufReader::new(input))?) })
    }

    fn open(input: BufReader<R>) -> io::Result<StreamingDecoder<BufReader<R>, ruzstd::decoding::FrameDecoder>> {
        StreamingDecoder::new(input).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))
    }
}

impl<R: Read> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(frame) = &mut self.frame {
            let read = frame.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            let mut rest = self.frame.take().expect("looked at before").into_inner();
            if !rest.fill_buf()?.is_empty() {
                self.frame = Some(Self::open(rest)?);
            }
        }
        Ok(0)
    }
}

/// The end of a source that could not be read further.
struct Broken(Option<io::Error>);

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

impl Input {
    /// Opens a file, or standard input for `-`.
    ///
    /// # Errors
    /// If it cannot be opened or its first bytes cannot be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Self::of("standard input".to_owned(), Box::new(io::stdin()));
        }
        let file = File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder"));
        }
        Self::of(path.display().to_string(), Box::new(file))
    }

    /// Reads what is given.
    ///
    /// # Errors
    /// If the first bytes cannot be read.
    pub fn of(name: String, inner: Box<dyn Read + Send>) -> io::Result<Self> {
        let raw = Arc::new(Mutex::new(Hashed { inner, hash: Sha256::new(), bytes: 0 }));
        let magic = first(&mut Shared(Arc::clone(&raw)), 4)?;
        let packed = Cursor::new(magic.clone()).chain(Shared(Arc::clone(&raw)));
        let packing = packing_of(&magic);
        let unpacked: Box<dyn Read + Send> = match packing {
            Packing::Gzip => Box::new(MultiGzDecoder::new(BufReader::new(packed))),
            Packing::Zstd => Box::new(ZstdFrames::new(packed)?),
            Packing::Plain => Box::new(packed),
        };
        let mut unpacked = BufReader::with_capacity(HEAD_BYTES, unpacked);
        if packing != Packing::Plain && unpacked.fill_buf().is_ok_and(|bytes| packing_of(bytes) != Packing::Plain) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is packed twice: unpack it once"));
        }
        let mut head = Vec::new();
        let fault = (&mut unpacked).take(HEAD_BYTES as u64).read_to_end(&mut head).err();
        // A source that breaks off still has a beginning: the fault shows where it is read.
        let whole: Box<dyn Read + Send> = match fault {
            Some(fault) => Box::new(Cursor::new(head.clone()).chain(Broken(Some(fault)))),
            None => Box::new(Cursor::new(head.clone()).chain(unpacked)),
        };
        Ok(Self { name, packing, raw, unpacked: BufReader::with_capacity(HEAD_BYTES, whole), head, is_endless: false })
    }

    /// The first bytes, unpacked.
    #[must_use]
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// Moves to the next line; `Ok(None)` at the end.
    ///
    /// # Errors
    /// If reading or unpacking fails on the way.
    pub fn next_line<'a>(&mut self, line: &'a mut RawLine) -> io::Result<Option<&'a RawLine>> {
        line.bytes.clear();
        if (&mut self.unpacked).take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', &mut line.bytes)? == 0 {
            return Ok(None);
        }
        line.number += 1;
        line.is_cut = line.bytes.len() > LINE_BYTES_MAX && line.bytes.last() != Some(&b'\n');
        if line.is_cut && skip_line(&mut self.unpacked, LINE_BYTES_SKIPPED_MAX)?.is_none() {
            self.is_endless = true;
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a line is longer than 64 MiB: this is no text"));
        }
        if line.number == 1 && line.bytes.starts_with(b"\xef\xbb\xbf") {
            line.bytes.drain(..3);
        }
        Ok(Some(line))
    }

    /// Reads everything that is left, up to a limit; `Ok(None)` if there is more.
    ///
    /// # Errors
    /// If reading or unpacking fails on the way.
    pub fn read_whole(&mut self, limit: u64) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        let read = (&mut self.unpacked).take(limit + 1).read_to_end(&mut bytes)?;
        Ok((read as u64 <= limit).then_some(bytes))
    }

    /// Reads what is left of the source, for its hash, and says what it was; what seems to have no end is left there.
    ///
    /// # Errors
    /// If reading fails on the way.
    pub fn finish(self) -> io::Result<Origin> {
        let Self { name, packing, raw, is_endless, .. } = self;
        if !is_endless {
            io::copy(&mut Shared(Arc::clone(&raw)), &mut io::sink())?;
        }
        let raw = raw.lock().unwrap_or_else(PoisonError::into_inner);
        let sha256 = hexadecimal(&raw.hash.clone().finalize());
        Ok(Origin { name, packing, sha256, bytes: raw.bytes })
    }
}

/// The unpacked bytes, for whoever reads lines by himself.
impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.unpacked.read(buffer)
    }
}

/// A line as it was, with its number; reused for all lines.
#[derive(Debug, Default)]
pub struct RawLine {
    bytes: Vec<u8>,
    /// Number, from 1; 0 before the first.
    pub number: u64,
    /// Whether only the beginning is here.
    pub is_cut: bool,
}

impl RawLine {
    /// The line, with its end.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// How a source is packed that begins with these bytes.
fn packing_of(bytes: &[u8]) -> Packing {
    match bytes {
        [0x1f, 0x8b, ..] => Packing::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Packing::Zstd,
        _ => Packing::Plain,
    }
}

/// Passes over the rest of a line; `None` if it is not over after so many bytes.
fn skip_line(input: &mut impl BufRead, most: u64) -> io::Result<Option<u64>> {
    let mut skipped = 0;
    while skipped < most {
        let bytes = input.fill_buf()?;
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(bytes.len(), |end| end + 1);
        let is_over = end.is_some() || bytes.is_empty();
        input.consume(length);
        skipped += length as u64;
        if is_over {
            return Ok(Some(skipped));
        }
    }
    Ok(None)
}

/// The first bytes, as many as asked for or as there are.
fn first(input: &mut impl Read, count: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(count as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn gzip(text: &str) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(text.as_bytes()).expect("memory");
        packed.finish().expect("memory")
    }

    fn zstd(text: &str) -> Vec<u8> {
        compress_to_vec(text.as_bytes(), CompressionLevel::Fastest)
    }

    fn lines(bytes: Vec<u8>) -> (Packing, Vec<String>, Option<io::ErrorKind>, Origin) {
        let mut input = Input::of("a".to_owned(), Box::new(Cursor::new(bytes))).expect("opens");
        let (mut line, mut lines, mut fault) = (RawLine::default(), Vec::new(), None);
        loop {
            match input.next_line(&mut line) {
                Ok(Some(line)) => lines.push(String::from_utf8_lossy(line.bytes()).trim_end().to_owned()),
                Ok(None) => break,
                Err(error) => {
                    fault = Some(error.kind());
                    break;
                }
            }
        }
        (input.packing, lines, fault, input.finish().expect("memory"))
    }

    #[test]
    fn packed_sources_are_told_by_their_first_bytes_and_hashed_as_they_are() {
        let text = "one\r\ntwo\nthree";
        for (packing, bytes) in [
            (Packing::Plain, text.as_bytes().to_vec()),
            (Packing::Gzip, gzip(text)),
            (Packing::Zstd, zstd(text)),
            (Packing::Gzip, [gzip("one\r\nt"), gzip("wo\nthree")].concat()),
            (Packing::Zstd, [zstd("one\r\nt"), zstd("wo\nthree")].concat()),
        ] {
            let (found, lines, fault, origin) = lines(bytes.clone());
            assert_eq!((found, fault), (packing, None));
            assert_eq!(lines, ["one", "two", "three"], "{packing:?}");
            assert_eq!(origin.bytes, bytes.len() as u64);
            assert_eq!(origin.sha256, hexadecimal(&Sha256::digest(&bytes)));
        }
    }

    #[test]
    fn a_packed_source_that_ends_early_gives_what_it_has_and_then_a_fault() {
        let line = |number: u64| format!("line {number} {}\n", number * number);
        let text: String = (0..20_000).map(line).collect::<Vec<_>>().concat();
        for packed in [gzip(&text), zstd(&text)] {
            let (_, all, fault, _) = lines(packed.clone());
            assert_eq!((all.len(), fault), (20_000, None));
            let (_, some, fault, _) = lines(packed[..packed.len() / 2].to_vec());
            assert!(some.len() < 20_000 && fault.is_some(), "{} {fault:?}", some.len());
        }
        for cut in 0..gzip("x").len() {
            let _ = Input::of("a".to_owned(), Box::new(Cursor::new(gzip("x")[..cut].to_vec())));
        }
        for cut in 0..zstd("x").len() {
            let _ = Input::of("a".to_owned(), Box::new(Cursor::new(zstd("x")[..cut].to_vec())));
        }
    }

    #[test]
    fn what_is_packed_twice_is_refused() {
        let mut twice = GzEncoder::new(Vec::new(), Compression::fast());
        twice.write_all(&gzip("a line\n")).expect("memory");
        for packed in [twice.finish().expect("memory"), compress_to_vec(&gzip("x")[..], CompressionLevel::Fastest)] {
            let refused = Input::of("a".to_owned(), Box::new(Cursor::new(packed))).err().expect("refused");
            assert!(refused.to_string().contains("packed twice"), "{refused}");
        }
    }

    #[test]
    fn what_has_no_end_is_left() {
        let mut input = Input::of("a".to_owned(), Box::new(io::repeat(b'x'))).expect("opens");
        let refused = input.next_line(&mut RawLine::default()).expect_err("no line");
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        let origin = input.finish().expect("ends");
        assert!(origin.bytes < 2 * LINE_BYTES_SKIPPED_MAX, "{}", origin.bytes);
        assert_eq!(skip_line(&mut Cursor::new(b"ab\ncd"), 10).expect("memory"), Some(3));
        assert_eq!(skip_line(&mut Cursor::new(b"cd"), 10).expect("memory"), Some(2));
        assert_eq!(skip_line(&mut Cursor::new(b"cdefgh"), 4).expect("memory"), None);
    }

    #[test]
    fn a_line_without_an_end_does_not_fill_the_memory() {
        let text = format!("{}\nnext\n", "x".repeat(3 * LINE_BYTES_MAX));
        let mut input = Input::of("a".to_owned(), Box::new(Cursor::new(text.into_bytes()))).expect("opens");
        let mut line = RawLine::default();
        let cut = input.next_line(&mut line).expect("memory").expect("a line");
        assert!(cut.is_cut && cut.bytes().len() == LINE_BYTES_MAX + 1);
        let next = input.next_line(&mut line).expect("memory").expect("a line");
        assert!(!next.is_cut && next.bytes() == b"next\n" && next.number == 2);
    }
}

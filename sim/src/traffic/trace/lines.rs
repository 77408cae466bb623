//! Lines of a file, one at a time, in bounded memory.

use std::io::{self, BufRead, BufReader, Read};

/// Longest line that is kept, in bytes: a hundred times the longest Mooncake row. A file without line ends must not
/// fill the memory.
const LINE_BYTES_MAX: usize = 1 << 20;

/// Reads lines into one reused buffer. Line ends (LF or CR LF), a byte-order mark and blank lines are dropped; the last
/// line needs no end.
pub(super) struct Lines {
    input: BufReader<Box<dyn Read + Send>>,
    buffer: Vec<u8>,
    number: u64,
    cut: bool,
}

impl Lines {
    pub(super) fn new(input: Box<dyn Read + Send>) -> Self {
        Self { input: BufReader::with_capacity(1 << 16, input), buffer: Vec::new(), number: 0, cut: false }
    }

    /// Moves to the next line that is not blank; `false` at the end.
    pub(super) fn advance(&mut self) -> io::Result<bool> {
        loop {
            self.buffer.clear();
            let limit = LINE_BYTES_MAX as u64 + 1;
            if self.input.by_ref().take(limit).read_until(b'\n', &mut self.buffer)? == 0 {
                return Ok(false);
            }
            self.number += 1;
            self.cut = self.buffer.len() > LINE_BYTES_MAX && self.buffer.last() != Some(&b'\n');
            if self.cut {
                self.input.skip_until(b'\n')?;
            }
            if self.number == 1 && self.buffer.starts_with(b"\xef\xbb\xbf") {
                self.buffer.drain(..3);
            }
            if !self.text().is_empty() {
                return Ok(true);
            }
        }
    }

    /// The current line, without blanks around it.
    pub(super) fn text(&self) -> &[u8] {
        self.buffer.trim_ascii()
    }

    /// Number of the current line, from 1; 0 before the first.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether the current line was too long to keep and only its beginning is there.
    pub(super) fn is_cut(&self) -> bool {
        self.cut
    }

    /// The current line for a message: shortened, with anything unprintable escaped.
    pub(super) fn excerpt(&self) -> String {
        const SHOWN: usize = 80;
        let text = self.text();
        let shown = String::from_utf8_lossy(&text[..text.len().min(SHOWN)]);
        let mut excerpt = String::with_capacity(SHOWN);
        for char in shown.chars() {
            match char {
                '"' | '\'' | '\\' => excerpt.push(char),
                _ => excerpt.extend(char.escape_debug()),
            }
        }
        if text.len() > SHOWN {
            excerpt.push('…');
        }
        excerpt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(bytes: Vec<u8>) -> Vec<(u64, usize, bool)> {
        let mut lines = Lines::new(Box::new(io::Cursor::new(bytes)));
        let mut seen = Vec::new();
        while lines.advance().expect("reads") {
            seen.push((lines.number(), lines.text().len(), lines.is_cut()));
        }
        seen
    }

    #[test]
    fn ends_blanks_and_marks_are_dropped() {
        assert_eq!(collect(b"\xef\xbb\xbfab\r\n\r\n \ncde\nf".to_vec()), [(1, 2, false), (4, 3, false), (5, 1, false)]);
        assert_eq!(collect(Vec::new()), []);
    }

    #[test]
    fn an_endless_line_is_cut_and_the_next_one_read() {
        let mut bytes = vec![b'x'; 5 * LINE_BYTES_MAX];
        bytes.extend_from_slice(b"\nok\n");
        assert_eq!(collect(bytes), [(1, LINE_BYTES_MAX + 1, true), (2, 2, false)]);
        let mut longest = vec![b'x'; LINE_BYTES_MAX];
        longest.extend_from_slice(b"\nok\n");
        assert_eq!(collect(longest), [(1, LINE_BYTES_MAX, false), (2, 2, false)]);
    }
}

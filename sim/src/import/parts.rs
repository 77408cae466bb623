//! Lines that a container's runtime wrote in parts into its node's log, put together again.
//!
//! `2026-04-16T16:59:23.1Z stdout P beginning`, then `2026-04-16T16:59:23.1Z stdout F end`: `P` goes on in the next line of the
//! same stream, `F` is over. Runtimes split lines behind so many bytes, not characters. An end that is not in the log, as where
//! lines were dropped, costs its own line only if the next one begins as vLLM's do.

use super::input::LINE_BYTES_MAX;
use super::line;
use super::settings::Place;

/// What is known of a line so far.
#[derive(Debug)]
struct Open {
    bytes: Vec<u8>,
    begun: Place,
    /// Whether it was too long: nothing of it is kept, and the rest is passed over.
    is_too_long: bool,
}

/// Lines whose ends have not come yet.
#[derive(Debug, Default)]
pub struct Parts {
    /// Of standard output, and of standard error.
    open: [Option<Open>; 2],
    /// The last one whose end never came, as the next one shows.
    given_up: Option<BrokenLine>,
}

/// What a line of a file comes to.
#[derive(Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// It is whole: what is left of it without time, stream and tag, or all of it where it has none.
    Whole(&'a [u8]),
    /// It ends this line, which began there.
    Last(Vec<u8>, Place),
    /// It goes on, or belongs to a line that was given up.
    More,
}

/// A line that cannot be put together.
#[derive(Debug, PartialEq, Eq)]
pub struct BrokenLine {
    /// Where it begins.
    pub begun: Place,
    /// What is wrong.
    pub problem: &'static str,
}

impl Parts {
    /// Takes the next line of a file, with its end.
    ///
    /// # Errors
    /// A line in parts has become longer than [`LINE_BYTES_MAX`]: it is given up, and what follows of it passed over.
    pub fn take<'a>(&mut self, raw: &'a [u8], place: &Place) -> Result<Part<'a>, BrokenLine> {
        let Some(ContainerLine { stream, is_last, text }) = ContainerLine::of(raw) else { return Ok(Part::Whole(raw)) };
        let open = &mut self.open[stream as usize];
        // A process begins a line once: a second beginning is the next line's.
        if let Some(line) = open.take_if(|line| begins(&line.bytes) && begins(text)) {
            self.given_up = Some(line.without_end());
        }
        if is_last && open.is_none() {
            return Ok(Part::Whole(text));
        }
        // A file with ends of lines of its own has them behind every part.
        let text = if is_last { text } else { without_end(text) };
        let line = open.get_or_insert_with(|| Open { bytes: Vec::new(), begun: place.clone(), is_too_long: false });
        let was_too_long = line.is_too_long;
        if line.bytes.len() + text.len() > LINE_BYTES_MAX {
            (line.is_too_long, line.bytes) = (true, Vec::new());
        } else if !was_too_long {
            line.bytes.extend_from_slice(text);
        }
        let fault = (line.is_too_long && !was_too_long).then(|| BrokenLine {
            begun: line.begun.clone(),
            problem: "a line in parts (`P`) is longer than 1 MiB in all",
        });
        let ended = if is_last { open.take().filter(|line| !line.is_too_long) } else { None };
        match fault {
            Some(fault) => Err(fault),
            None => Ok(ended.map_or(Part::More, |line| Part::Last(line.bytes, line.begun))),
        }
    }

    /// Whether the end of a line is missing.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open.iter().any(Option::is_some)
    }

    /// The line that the last one taken showed to have no end.
    pub fn given_up(&mut self) -> Option<BrokenLine> {
        self.given_up.take()
    }

    /// The lines whose ends never came, once everything is read.
    pub fn finish(&mut self) -> impl Iterator<Item = BrokenLine> {
        let open = self.open.iter_mut().filter_map(Option::take).filter(|line| !line.is_too_long);
        open.map(Open::without_end)
    }
}

impl Open {
    fn without_end(self) -> BrokenLine {
        BrokenLine { begun: self.begun, problem: "the end of a line in parts (`P`) is missing" }
    }
}

/// Bytes that show whether a line begins: a process, a level and a time.
const BEGINNING_BYTES: usize = 256;

/// Whether bytes begin a line of vLLM, with level and time.
fn begins(bytes: &[u8]) -> bool {
    let beginning = &bytes[..bytes.len().min(BEGINNING_BYTES)];
    line::begins_timed(&String::from_utf8_lossy(beginning))
}

/// What a container writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Out,
    Error,
}

/// A line as a runtime writes it.
#[derive(Debug, PartialEq, Eq)]
struct ContainerLine<'a> {
    stream: Stream,
    is_last: bool,
    text: &'a [u8],
}

impl<'a> ContainerLine<'a> {
    /// `time stream tags text`; further tags stand behind the first one and a colon. `None` of any other line.
    fn of(raw: &'a [u8]) -> Option<Self> {
        let (time, rest) = word(raw);
        let (stream, rest) = word(rest);
        let stream = match stream {
            b"stdout" => Stream::Out,
            b"stderr" => Stream::Error,
            _ => return None,
        };
        let (tags, text) = word(rest);
        let is_last = match without_end(tags).split(|byte| *byte == b':').next()? {
            b"P" => false,
            b"F" => true,
            _ => return None,
        };
        is_time(time).then_some(Self { stream, is_last, text })
    }
}

/// What stands before the first blank, and behind it.
fn word(line: &[u8]) -> (&[u8], &[u8]) {
    let at = line.iter().position(|byte| *byte == b' ');
    at.map_or((line, &[]), |at| (&line[..at], &line[at + 1..]))
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// `2026-04-16T16:59:23.1Z`, or with an offset.
fn is_time(word: &[u8]) -> bool {
    const FORM: &[u8; 19] = b"0000-00-00T00:00:00";
    word.len() > FORM.len()
        && word.iter().zip(FORM).all(|(byte, form)| if *form == b'0' { byte.is_ascii_digit() } else { byte == form })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(line: u64) -> Place {
        Place { file: "0.log".to_owned(), line }
    }

    /// A line that was put together, after the number of the one where it began.
    type Joined = (u64, Vec<u8>);

    /// What the lines come to; then where those began that were given up, and those that have no end.
    fn read(lines: &[&[u8]]) -> (Vec<Joined>, Vec<u64>, Vec<u64>) {
        let (mut parts, mut whole, mut broken) = (Parts::default(), Vec::new(), Vec::new());
        for (raw, number) in lines.iter().zip(1..) {
            let part = parts.take(raw, &place(number));
            broken.extend(parts.given_up().map(|fault| fault.begun.line));
            match part {
                Ok(Part::Whole(text)) => whole.push((number, text.to_vec())),
                Ok(Part::Last(text, begun)) => whole.push((begun.line, text)),
                Ok(Part::More) => {}
                Err(fault) => broken.push(fault.begun.line),
            }
        }
        let missing = parts.finish().map(|fault| fault.begun.line).collect();
        assert!(!parts.is_open());
        (whole, broken, missing)
    }

    #[test]
    fn parts_of_two_streams_are_put_together_each_for_itself() {
        let lines: [&[u8]; 8] = [
            b"2026-04-16T16:59:23.1Z stdout P one \xe2\x96\n",
            b"2026-04-16T16:59:23.1Z stderr P err\r\n",
            b"2026-04-16T16:59:23.1+02:00 stdout P \x88 two\n",
            b"2026-04-16T16:59:23.1Z stderr F or\n",
            b"2026-04-16T16:59:23.1Z stderr F whole\n",
            b"bare stdout P line\n",
            b"2026-04-16T16:59:23.1Z stdout F:x \n",
            b"2026-04-16T16:59:23.1Z stdout F\n",
        ];
        let (whole, broken, missing) = read(&lines);
        let whole: Vec<(u64, &str)> =
            whole.iter().map(|(begun, text)| (*begun, std::str::from_utf8(text).expect("text"))).collect();
        let bare = (6, "bare stdout P line\n");
        let expected = [(2, "error\n"), (5, "whole\n"), bare, (1, "one \u{2588} two\n"), (8, "")];
        assert_eq!(whole, expected);
        assert!(broken.is_empty() && missing.is_empty());
    }

    #[test]
    fn a_line_that_grows_too_long_is_given_up_once_and_the_next_one_is_read() {
        let part = [b"2026-04-16T16:59:23.1Z stdout P ".as_slice(), &[b'a'; 1 << 14], b"\n"].concat();
        let mut lines: Vec<&[u8]> = vec![&part; 200];
        lines.push(b"2026-04-16T16:59:23.1Z stdout F end\n");
        lines.push(b"2026-04-16T16:59:23.1Z stdout P ne\n");
        lines.push(b"2026-04-16T16:59:23.1Z stdout F xt");
        assert_eq!(read(&lines), (vec![(202, b"next".to_vec())], vec![1], Vec::new()));
        // As long as allowed.
        let most = LINE_BYTES_MAX / (1 << 14);
        let mut lines: Vec<&[u8]> = vec![&part; most];
        lines.push(b"2026-04-16T16:59:23.1Z stdout F ");
        let (whole, broken, _) = read(&lines);
        assert_eq!((whole[0].1.len(), broken.len()), (LINE_BYTES_MAX, 0));
        lines[most] = b"2026-04-16T16:59:23.1Z stdout F a";
        assert_eq!(read(&lines), (Vec::new(), vec![1], Vec::new()), "the last part is one too many");
    }

    #[test]
    fn an_end_that_never_comes_is_told() {
        let lines: [&[u8]; 2] = [b"2026-04-16T16:59:23Z stderr P a\n", b"2026-04-16T16:59:23Z stdout P b\n"];
        assert_eq!(read(&lines), (Vec::new(), Vec::new(), vec![2, 1]));
    }

    #[test]
    fn a_line_without_an_end_does_not_take_the_next_one_with_it() {
        let lines: [&[u8]; 6] = [
            b"2026-04-16T16:59:23Z stdout P (APIServer pid=7) INFO 04-16 16:59:23 [a.py:1] one\n",
            b"2026-04-16T16:59:23Z stdout F (APIServer pid=7) INFO 04-16 16:59:23 [a.py:1] two\n",
            b"2026-04-16T16:59:23Z stdout P (APIServer pid=7) INFO 04-16 16:59:23 [a.py:1] thr\n",
            b"2026-04-16T16:59:23Z stdout P (APIServer pid=7) INFO 04-16 16:59:24 [a.py:1] fo\n",
            b"2026-04-16T16:59:23Z stderr F (APIServer pid=7) INFO 04-16 16:59:24 [a.py:1] five\n",
            b"2026-04-16T16:59:23Z stdout F ur",
        ];
        let (whole, broken, missing) = read(&lines);
        let whole: Vec<(u64, bool)> = whole
            .iter()
            .map(|(begun, text)| {
                (*begun, [b"two\n".as_slice(), b"five\n", b"four"].iter().any(|end| text.ends_with(end)))
            })
            .collect();
        assert_eq!((whole, broken, missing), (vec![(2, true), (5, true), (4, true)], vec![1, 3], Vec::new()));
        // A part that only looks like one of a line that has no beginning of its own.
        let lines: [&[u8]; 2] = [
            b"2026-04-16T16:59:23Z stdout P they print \n",
            b"2026-04-16T16:59:23Z stdout F INFO 04-16 16:59:23 [a.py:1] words\n",
        ];
        assert_eq!(read(&lines).1, Vec::<u64>::new());
    }

    #[test]
    fn other_lines_stay_as_they_are() {
        for line in [
            "2026-04-16T16:59:23.1Z INFO 04-16 16:58:41 [a.py:6] words",
            "2026-04-16 16:59:23.1 stdout F words",
            "2026-04-16T16:59:23.1Z stdout G words",
            "2026-04-16T16:59 stdout F words",
            "stdout F",
            "",
        ] {
            assert_eq!(Parts::default().take(line.as_bytes(), &place(1)), Ok(Part::Whole(line.as_bytes())), "{line}");
        }
    }
}

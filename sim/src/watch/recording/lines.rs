//! The lines of a step log, read strictly.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use calibrate::stderr::printable;
use reports::{STEP_SCHEMA, StepHeader, StepLine, StepRecord};
use serde::Deserialize;

use super::error::{RecordingError, WHOLE, object_expected};

/// No line of a step log is longer, in bytes: thousands of prefills fit.
const LINE_BYTES_MAX: u64 = 1 << 24;
/// Bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 18;
/// More rows, requests or blocks than any step has.
const COUNT_MOST: u64 = 1 << 40;

/// Lines of a file, from some place on.
#[derive(Debug)]
pub(super) struct Lines {
    path: PathBuf,
    file: BufReader<File>,
    /// The line that is read next, from 1.
    line: u64,
    /// Where it begins.
    at: u64,
    text: Vec<u8>,
}

/// A place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Bytes before it.
    pub at: u64,
    /// Its line, from 1.
    pub line: u64,
}

/// One line.
#[derive(Debug)]
pub(super) struct Line<'a> {
    /// Without the line break.
    pub text: &'a [u8],
    /// Where it begins.
    pub place: Place,
    /// Whether it ends with a line break: only the last one may lack it.
    pub is_whole: bool,
}

impl Lines {
    /// The lines from a place on.
    pub(super) fn open(path: &Path, place: Place) -> Result<Self, RecordingError> {
        let unread = |source| RecordingError::Read { path: path.to_owned(), source };
        let mut file = File::open(path).map_err(unread)?;
        file.seek(SeekFrom::Start(place.at)).map_err(unread)?;
        let file = BufReader::with_capacity(BUFFER_BYTES, file);
        Ok(Self { path: path.to_owned(), file, line: place.line, at: place.at, text: Vec::new() })
    }

    /// The next line; `None` behind the last.
    pub(super) fn next(&mut self) -> Result<Option<Line<'_>>, RecordingError> {
        let place = self.place();
        self.text.clear();
        let read: io::Result<usize> = (&mut self.file).take(LINE_BYTES_MAX).read_until(b'\n', &mut self.text);
        let bytes = read.map_err(|source| RecordingError::Read { path: self.path.clone(), source })? as u64;
        if bytes == 0 {
            return Ok(None);
        }
        let is_whole = self.text.ends_with(b"\n");
        if !is_whole && bytes == LINE_BYTES_MAX {
            return Err(self.wrong(place.line, format!("expected a JSON object in less than {LINE_BYTES_MAX} bytes")));
        }
        self.at += bytes;
        self.line += 1;
        if is_whole {
            self.text.pop();
        }
        Ok(Some(Line { text: &self.text, place, is_whole }))
    }

    /// Where the next line begins.
    pub(super) fn place(&self) -> Place {
        Place { at: self.at, line: self.line }
    }

    /// The refusal of a line.
    pub(super) fn wrong(&self, line: u64, problem: String) -> RecordingError {
        RecordingError::Line { path: self.path.clone(), line, problem, help: WHOLE }
    }
}

impl Line<'_> {
    /// Whether it is a step by its first bytes, as this program writes them: whoever looks for headers need not read it.
    pub(super) fn looks_like_a_step(&self) -> bool {
        self.text.starts_with(br#"{"step":{"#)
    }

    /// What it says.
    ///
    /// # Errors
    /// What was expected instead.
    pub(super) fn parse(&self) -> Result<StepLine, String> {
        if let Ok(Versioned { header: Version { schema } }) = serde_json::from_slice(self.text)
            && schema > u64::from(STEP_SCHEMA)
        {
            return Err(format!(
                "`header.schema` = {schema}: expected {STEP_SCHEMA} or less; watch it with the `sim` that wrote it"
            ));
        }
        let line: StepLine = serde_json::from_slice(self.text).map_err(|error| {
            let problem = object_expected(&error);
            // It is a line by itself to serde; which line of the file it is says the message already.
            let problem = problem.replace(" at line 1 column ", " at column ");
            format!("expected {{\"header\": …}} or {{\"step\": …}} with all fields: {problem}")
        })?;
        match &line {
            StepLine::Header(header) => check_header(header)?,
            StepLine::Step(step) => check_step(step)?,
        }
        Ok(line)
    }
}

/// Enough of a header to see its version, whatever else it holds.
#[derive(Deserialize)]
struct Versioned {
    header: Version,
}

#[derive(Deserialize)]
struct Version {
    schema: u64,
}

fn check_header(header: &StepHeader) -> Result<(), String> {
    if header.schema == 0 {
        return Err(format!("`header.schema` = 0: expected 1 to {STEP_SCHEMA}"));
    }
    if !header.capture_sizes.is_sorted_by(|one, next| one < next) {
        return Err("`header.capture_sizes`: expected ascending sizes, each once".to_owned());
    }
    Ok(())
}

/// What a step cannot be, whoever wrote it.
fn check_step(step: &StepRecord) -> Result<(), String> {
    let StepRecord { start_ns, end_ns, .. } = *step;
    if end_ns < start_ns {
        return Err(format!("`step.end_ns` = {end_ns}: expected at least `step.start_ns` = {start_ns}"));
    }
    let without_graph = step.mode == "NONE";
    if step.descriptor.is_none() != without_graph || step.fallback.is_some() != without_graph {
        return Err(format!(
            "`step.mode` = {}: expected a descriptor and no fallback with a graph, a fallback and no descriptor with NONE",
            printable(&step.mode)
        ));
    }
    let (used, total) = (step.kv_used_blocks, step.kv_total_blocks);
    if used > total || total > COUNT_MOST {
        return Err(format!("`step.kv_used_blocks` = {used}: expected at most `step.kv_total_blocks` = {total}"));
    }
    Ok(())
}

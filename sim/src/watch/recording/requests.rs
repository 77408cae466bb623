//! The rows of requests.csv, found by candidate and seed, read one after the other.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use calibrate::stderr::printable;
use csv::{Position, Reader, StringRecord};
use reports::RequestRecord;

use super::error::{RecordingError, TOGETHER};

/// Where the rows of each candidate and seed lie.
#[derive(Debug)]
pub(super) struct RequestSections {
    path: PathBuf,
    sections: BTreeMap<(String, u64), Section>,
}

#[derive(Clone, Debug)]
struct Section {
    first: Position,
    rows: u64,
}

/// Reads the rows of one candidate and seed.
#[derive(Debug)]
pub(super) struct RequestReader {
    path: PathBuf,
    rows: Reader<File>,
    header: StringRecord,
    left: u64,
}

impl RequestSections {
    /// Finds the rows.
    ///
    /// # Errors
    /// If it cannot be read, or is no request log.
    pub(super) fn find(path: &Path) -> Result<Self, RecordingError> {
        let (mut rows, header) = open(path)?;
        let column = |name: &str| {
            header
                .iter()
                .position(|column| column == name)
                .ok_or_else(|| wrong(path, 1, format!("expected the columns of a request log; `{name}` is missing")))
        };
        let (candidate, seed) = (column("candidate")?, column("seed")?);
        let mut sections: BTreeMap<(String, u64), Section> = BTreeMap::new();
        let mut last: Option<(String, u64)> = None;
        let mut row = StringRecord::new();
        loop {
            let position = rows.position().clone();
            if !rows.read_record(&mut row).map_err(|error| refusal(path, &header, error))? {
                break;
            }
            let line = row.position().map_or(position.line(), Position::line);
            let seed: u64 = row[seed].parse().map_err(|_| {
                wrong(path, line, format!("`seed` = {}: expected a whole number", printable(&row[seed])))
            })?;
            let whose = (row[candidate].to_owned(), seed);
            if last.as_ref() == Some(&whose) {
                if let Some(section) = sections.get_mut(&whose) {
                    section.rows += 1;
                }
                continue;
            }
            if sections.insert(whose.clone(), Section { first: position, rows: 1 }).is_some() {
                let problem = "expected the rows of one candidate and seed without others between them";
                return Err(wrong(path, line, problem.to_owned()));
            }
            last = Some(whose);
        }
        Ok(Self { path: path.to_owned(), sections })
    }

    /// How many there are of one candidate and seed.
    pub(super) fn rows(&self, candidate: &str, seed: u64) -> u64 {
        self.sections.get(&(candidate.to_owned(), seed)).map_or(0, |section| section.rows)
    }

    /// The rows of one candidate and seed; `None` if there are none.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(super) fn read(&self, candidate: &str, seed: u64) -> Result<Option<RequestReader>, RecordingError> {
        let Some(section) = self.sections.get(&(candidate.to_owned(), seed)) else { return Ok(None) };
        let (mut rows, header) = open(&self.path)?;
        rows.seek(section.first.clone()).map_err(|error| refusal(&self.path, &header, error))?;
        Ok(Some(RequestReader { path: self.path.clone(), rows, header, left: section.rows }))
    }
}

impl RequestReader {
    /// The next request; `None` behind the last.
    ///
    /// # Errors
    /// If its row is not what it must be.
    pub(super) fn next(&mut self) -> Result<Option<RequestRecord>, RecordingError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let mut row = StringRecord::new();
        let Self { path, rows, header, .. } = self;
        if !rows.read_record(&mut row).map_err(|error| refusal(path, header, error))? {
            return Ok(None);
        }
        let request: RequestRecord = row.deserialize(Some(header)).map_err(|error| refusal(path, header, error))?;
        let times = [Some(request.arrival_s), request.ttft_ms, request.tpot_ms, request.e2el_ms];
        if times.into_iter().flatten().any(|time| !(0.0..1e15).contains(&time)) {
            let line = row.position().map_or(0, Position::line);
            return Err(wrong(path, line, "expected times that are numbers from zero on".to_owned()));
        }
        Ok(Some(request))
    }
}

fn open(path: &Path) -> Result<(Reader<File>, StringRecord), RecordingError> {
    let file = File::open(path).map_err(|source| RecordingError::Read { path: path.to_owned(), source })?;
    let mut rows = Reader::from_reader(file);
    let header = rows.headers().cloned().map_err(|error| refusal(path, &StringRecord::new(), error))?;
    Ok((rows, header))
}

fn wrong(path: &Path, line: u64, problem: String) -> RecordingError {
    RecordingError::Line { path: path.to_owned(), line, problem, help: TOGETHER }
}

/// What the reader of rows refuses, with its place and the name of its column.
fn refusal(path: &Path, header: &StringRecord, error: csv::Error) -> RecordingError {
    let line = error.position().map_or(1, Position::line);
    let problem = match error.into_kind() {
        csv::ErrorKind::Io(source) => return RecordingError::Read { path: path.to_owned(), source },
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("{len} fields: expected {expected_len}, as in the first line")
        }
        csv::ErrorKind::Utf8 { .. } => "expected UTF-8".to_owned(),
        csv::ErrorKind::Deserialize { err, .. } => {
            let column = err.field().and_then(|field| header.get(field as usize)).unwrap_or("a column");
            format!("`{}`: {}", printable(column), printable(&err.kind().to_string()))
        }
        _ => "expected comma-separated fields".to_owned(),
    };
    wrong(path, line, problem)
}

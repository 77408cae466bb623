//! A step log as a list of its sections: one a candidate and seed. Steps are counted, not read.

use std::path::{Path, PathBuf};

use calibrate::stderr::printable;
use reports::{StepHeader, StepLine, StepRecord};

use super::error::{RecordingError, WHOLE};
use super::lines::{Lines, Place};

/// Where the steps of each candidate and seed lie in a log.
#[derive(Debug)]
pub(super) struct StepSections {
    pub path: PathBuf,
    pub sections: Vec<Section>,
}

/// The steps of one candidate and seed.
#[derive(Clone, Debug)]
pub(super) struct Section {
    pub header: StepHeader,
    /// Where the first step begins.
    first: Place,
    steps: u64,
    /// The line that the log breaks off in, behind these steps.
    broken_line: Option<u64>,
}

/// Reads the steps of one section, one after the other.
#[derive(Debug)]
pub(super) struct StepReader {
    lines: Lines,
    left: u64,
}

impl StepSections {
    /// Finds the sections of a log.
    ///
    /// # Errors
    /// If it cannot be read, or a line is neither a header nor a step.
    pub(super) fn find(path: &Path) -> Result<Self, RecordingError> {
        let mut lines = Lines::open(path, Place { at: 0, line: 1 })?;
        let mut sections: Vec<Section> = Vec::new();
        while let Some(line) = lines.next()? {
            let number = line.place.line;
            let parsed = if line.is_whole && line.looks_like_a_step() { None } else { Some(line.parse()) };
            let is_whole = line.is_whole;
            match (parsed, sections.last_mut()) {
                (Some(Ok(StepLine::Header(header))), _) => {
                    let known = |section: &Section| {
                        (&section.header.candidate, section.header.seed) == (&header.candidate, header.seed)
                    };
                    if sections.iter().any(known) {
                        let whose = format!("`{}` with seed {}", printable(&header.candidate), header.seed);
                        return Err(lines.wrong(number, format!("a second header of {whose}: expected one")));
                    }
                    sections.push(Section { header, first: lines.place(), steps: 0, broken_line: None });
                }
                (None | Some(Ok(StepLine::Step(_))), Some(section)) => section.steps += 1,
                (None | Some(Ok(StepLine::Step(_))), None) => {
                    return Err(lines.wrong(number, "a step before the first header".to_owned()));
                }
                (Some(Err(_)), Some(section)) if !is_whole => section.broken_line = Some(number),
                (Some(Err(problem)), _) => return Err(lines.wrong(number, problem)),
            }
        }
        if sections.is_empty() {
            let problem = "is empty";
            return Err(RecordingError::NoLog { path: path.to_owned(), problem, help: WHOLE });
        }
        Ok(Self { path: path.to_owned(), sections })
    }
}

impl Section {
    /// Its steps.
    pub(super) fn read(&self, path: &Path) -> Result<StepReader, RecordingError> {
        Ok(StepReader { lines: Lines::open(path, self.first)?, left: self.steps })
    }

    /// Its steps, counted.
    pub(super) fn steps(&self) -> u64 {
        self.steps
    }

    /// What is missing behind its steps.
    pub(super) fn missing(&self) -> Option<String> {
        self.broken_line.map(|line| format!("the log breaks off in line {line}: what follows is missing"))
    }
}

impl StepReader {
    /// The next step; `None` behind the last.
    ///
    /// # Errors
    /// If its line is no step.
    pub(super) fn next(&mut self) -> Result<Option<StepRecord>, RecordingError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let Some(line) = self.lines.next()? else { return Ok(None) };
        let number = line.place.line;
        let parsed = line.parse();
        match parsed {
            Ok(StepLine::Step(step)) => Ok(Some(step)),
            Ok(StepLine::Header(_)) => Err(self.lines.wrong(number, "expected a step".to_owned())),
            Err(problem) => Err(self.lines.wrong(number, problem)),
        }
    }
}

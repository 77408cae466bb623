//! A run that was recorded, as sources: `steps.jsonl`, and the requests from the files beside it if they are of the same run.
//!
//! The files are looked through once, to find where each candidate and seed begins; then their lines are read as the clock
//! reaches them, so that a log may be larger than the memory.

mod error;
mod lines;
mod report;
mod requests;
mod sections;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use calibrate::stderr::printable;
use reports::{RequestRecord, SloReport, StepRecord};

pub use self::error::RecordingError;
use self::error::WHOLE;
use self::report::{difference, neighbour, report_in, warm_up};
use self::requests::{RequestReader, RequestSections};
use self::sections::{Section, StepReader, StepSections};
use super::fact::{Fact, request_ns};
use super::source::{Next, Source};
use super::state::{End, Lane, WarmUpCut};

/// A step log with its neighbours.
#[derive(Debug)]
pub struct Recording {
    steps: StepSections,
    requests: Option<RequestSections>,
    slo: Option<SloReport>,
    /// What the report leaves out, and the view does not.
    pub warm_up: Option<WarmUpCut>,
    /// Why requests are not shown although there are files about them.
    pub caution: Option<String>,
}

/// Which of its candidates, and which seed.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Names; all without any.
    pub candidates: Vec<String>,
    /// The seed; the first of the log without one.
    pub seed: Option<u64>,
}

/// The facts of one candidate and seed.
#[derive(Debug)]
pub struct RecordedSource {
    steps: StepReader,
    requests: Option<RequestReader>,
    next_step: Option<StepRecord>,
    next_request: Option<RequestRecord>,
    end: End,
}

/// What a choice comes to.
#[derive(Debug)]
pub struct Chosen {
    /// What the log belongs to: the scenario's name, and the seed.
    pub title: String,
    /// The candidates, of which nothing has happened yet.
    pub lanes: Vec<Lane>,
    /// Their facts, in the same order.
    pub sources: Vec<RecordedSource>,
}

impl Recording {
    /// Opens a step log, or the folder of a run that holds one.
    ///
    /// # Errors
    /// If it cannot be read or is none.
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        let path = log_in(path)?;
        let steps = StepSections::find(&path)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let report = report_in(folder)?;
        let table = neighbour(folder, "requests.csv")?;
        let differs = |requests| report.as_ref().and_then(|report| difference(&steps, report, requests));
        let mut caution = differs(None);
        let mut requests = None;
        // The requests of another run are not even looked at.
        if let (None, Some(path)) = (&caution, table) {
            requests = Some(RequestSections::find(&path)?);
            caution = differs(requests.as_ref());
        }
        if caution.is_some() {
            return Ok(Self { steps, requests: None, slo: None, warm_up: None, caution });
        }
        let warm_up = report.as_ref().and_then(warm_up);
        Ok(Self { steps, requests, slo: report.and_then(|report| report.scenario.slo), warm_up, caution })
    }

    /// The candidates that were asked for, with one seed.
    ///
    /// # Errors
    /// If the log has no such candidate or seed, or cannot be read.
    pub fn choose(&self, choice: &Choice) -> Result<Chosen, RecordingError> {
        let sections = &self.steps.sections;
        let seed = choice.seed.unwrap_or(sections[0].header.seed);
        let mut seeds: Vec<u64> = sections.iter().map(|section| section.header.seed).collect();
        seeds.dedup();
        seeds.sort_unstable();
        seeds.dedup();
        let missing =
            |wanted: String, help: String| RecordingError::Missing { path: self.steps.path.clone(), wanted, help };
        if !seeds.contains(&seed) {
            let words: Vec<String> = seeds.iter().map(ToString::to_string).collect();
            return Err(missing(format!("seed {seed}"), format!("its seeds are {}", words.join(", "))));
        }
        let of_seed: Vec<&Section> = sections.iter().filter(|section| section.header.seed == seed).collect();
        let name = |section: &Section| section.header.candidate.clone();
        if let Some(unknown) = choice.candidates.iter().find(|&wanted| of_seed.iter().all(|of| name(of) != *wanted)) {
            let known: Vec<String> = of_seed.iter().map(|of| format!("`{}`", printable(&name(of)))).collect();
            let wanted = format!("candidate `{}` with seed {seed}", printable(unknown));
            return Err(missing(wanted, format!("its candidates are {}", known.join(", "))));
        }
        let wanted = of_seed.iter().filter(|of| choice.candidates.is_empty() || choice.candidates.contains(&name(of)));
        let mut chosen = Chosen {
            title: format!("{} · seed {seed}", printable(&of_seed[0].header.scenario)),
            lanes: Vec::new(),
            sources: Vec::new(),
        };
        for section in wanted {
            let requests = match &self.requests {
                Some(requests) => requests.read(&section.header.candidate, seed)?,
                None => None,
            };
            chosen.lanes.push(Lane::new(&section.header, self.slo, requests.is_some()));
            chosen.sources.push(RecordedSource {
                steps: section.read(&self.steps.path)?,
                requests,
                next_step: None,
                next_request: None,
                end: End { missing: section.missing() },
            });
        }
        Ok(chosen)
    }
}

/// The step log that a path means.
fn log_in(path: &Path) -> Result<PathBuf, RecordingError> {
    let refuse = |path: &Path, problem, help| Err(RecordingError::NoLog { path: path.to_owned(), problem, help });
    let log = if path.is_dir() { path.join("steps.jsonl") } else { path.to_owned() };
    match fs::metadata(&log) {
        Ok(metadata) if metadata.is_file() => Ok(log),
        Ok(_) => refuse(&log, "is no regular file", WHOLE),
        Err(_) if path.is_dir() => {
            refuse(path, "holds no steps.jsonl", "run again with --steps: `sim run SCENARIO --out DIR --steps`")
        }
        Err(source) => Err(RecordingError::Read { path: log, source }),
    }
}

impl Source for RecordedSource {
    type Error = RecordingError;

    fn next(&mut self, _patience: Duration) -> Result<Next, RecordingError> {
        if self.next_step.is_none() {
            self.next_step = self.steps.next()?;
        }
        if self.next_request.is_none()
            && let Some(requests) = &mut self.requests
        {
            self.next_request = requests.next()?;
        }
        // The step whose output ends a request is told first.
        let step_first = match (&self.next_step, &self.next_request) {
            (None, None) => return Ok(Next::End(self.end.clone())),
            (Some(step), Some(request)) => step.end_ns <= request_ns(request),
            (step, _) => step.is_some(),
        };
        let step = self.next_step.take_if(|_| step_first).map(|step| Fact::Step(Box::new(step)));
        let fact = step.or_else(|| self.next_request.take().map(Fact::Request));
        Ok(fact.map_or(Next::NotYet, Next::Fact))
    }
}

#[cfg(test)]
mod tests;

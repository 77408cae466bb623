//! A recorded step log, as `sim run --steps --out DIR` writes it (`reports/SCHEMA.md`): the fields that a replay needs, read
//! strictly. Other fields are passed over.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use kernels::units::Rows;
use miette::Diagnostic;
use serde_json::{Map, Value};

use crate::graph_mode::Mode;
use crate::probe::step_shape::{GraphKey, ShapeKey};
use crate::stderr::printable;

/// The version of the log that is read.
const SCHEMA: u64 = 1;
/// More rows, requests or tokens of context than any step has: sums of so many fit.
const COUNT_MOST: u64 = 1 << 30;
/// More than ten days: sums over all steps of a log fit.
const NS_MOST: u64 = 1_000_000_000_000_000;
/// Of a value that is shown in a message.
const SHOWN_CHARACTERS: usize = 60;

/// Why a step log cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file could not be read.
    #[error("cannot read the step log {path}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A line is not what it must be.
    #[error("{path}, line {line}: {problem}", path = path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: LineError,
    },
    /// There is no step in it.
    #[error("{path} holds no step", path = path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

impl Diagnostic for LogError {
    fn help<'a>(&'a self) -> Option<Box<dyn std::fmt::Display + 'a>> {
        Some(Box::new(match self {
            Self::Read { .. } => "check the path and its permissions",
            Self::Line { problem: LineError::Schema { .. }, .. } => {
                "record the steps again with the `sim` of this version"
            }
            _ => "give the steps.jsonl that `sim run SCENARIO --out DIR --steps` writes, whole and unchanged",
        }))
    }
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// It is no JSON object.
    #[error("expected a JSON object: {0}")]
    NoObject(String),
    /// It is an object of another kind.
    #[error("expected an object with the one key `header` or `step`")]
    Kind,
    /// A log of another version.
    #[error("`header.schema` = {given}: expected {SCHEMA}")]
    Schema {
        /// Its version.
        given: String,
    },
    /// A step that belongs to no candidate.
    #[error("a step before the first header")]
    NoHeader,
    /// A key is not there.
    #[error("`{key}` is missing")]
    Missing {
        /// The key with those above it.
        key: String,
    },
    /// A key holds something else than it must.
    #[error("`{key}` = {given}: expected {expected}")]
    Value {
        /// The key with those above it.
        key: String,
        /// What it holds.
        given: String,
        /// What it may hold.
        expected: String,
    },
}

/// A log: the steps of one or several candidates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepLog {
    /// Name of the scenario of the first header.
    pub scenario: String,
    /// Name of the cost profile that priced the first candidate.
    pub profile: String,
    /// One for each candidate, in the order of the file; the steps of several seeds are together.
    pub candidates: Vec<Candidate>,
}

/// One candidate's steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its name.
    pub name: String,
    /// Seeds of its runs.
    pub seeds: Vec<u64>,
    /// Different shapes, with what was predicted for them.
    pub groups: Vec<Group>,
    /// Steps that no replay can run, by the reason.
    pub left_out: BTreeMap<LeftOut, u64>,
}

impl Candidate {
    /// All of its steps.
    pub fn steps(&self) -> u64 {
        self.groups.iter().map(|group| group.steps).sum::<u64>() + self.left_out.values().sum::<u64>()
    }
}

/// Steps of one candidate that have the same shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Their shape.
    pub shape: ShapeKey,
    /// How many.
    pub steps: u64,
    /// Index of the first in its run.
    pub first_step: u64,
    /// What was predicted, the sum over these steps.
    pub predicted: Predicted,
}

/// Terms of the predicted cost that a replay can be compared with, in nanoseconds. Dispatch and other work of a Python
/// engine is not among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Predicted {
    /// `dense_ns + head_ns + attention_ns + gap_ns`: device time of everything that a replay runs. Drafting is not among it.
    pub device_ns: u64,
    /// `launch_ns`: host time of launches and replays. Updates of executables that graphs share are not replayed.
    pub launch_ns: u64,
}

/// Why a step is not replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeftOut {
    /// It ran adapters.
    Adapters,
    /// Its graph holds microbatches.
    Microbatches,
    /// Its graph takes chunks of cached prefix of its own.
    PrefixChunks,
    /// It computed nothing but padding.
    OnlyPadding,
}

impl LeftOut {
    /// In words.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Adapters => "adapters, which calibrate's model has not",
            Self::Microbatches => "graphs that hold microbatches",
            Self::PrefixChunks => "graphs captured for chunks of cached prefix",
            Self::OnlyPadding => "nothing but padding, run for other ranks",
        }
    }
}

impl StepLog {
    /// Reads a log, one line after the other.
    ///
    /// # Errors
    /// [`LogError`] names the line and the key at fault.
    pub fn load(path: &Path) -> Result<Self, LogError> {
        let unread = |source| LogError::Read { path: path.to_owned(), source };
        let file = File::open(path).map_err(unread)?;
        let mut reader = Reader::default();
        for (number, line) in BufReader::new(file).lines().enumerate() {
            let line = line.map_err(unread)?;
            let wrong = |problem| LogError::Line { path: path.to_owned(), line: number + 1, problem };
            reader.line(&line).map_err(wrong)?;
        }
        reader.finish().ok_or_else(|| LogError::Empty { path: path.to_owned() })
    }

    /// Steps of all candidates.
    pub fn steps(&self) -> u64 {
        self.candidates.iter().map(Candidate::steps).sum()
    }
}

/// What was read so far.
#[derive(Default)]
struct Reader {
    /// Scenario and profile of the first header.
    first: Option<(String, String)>,
    candidates: Vec<Grouping>,
    /// The candidate whose header was read last.
    current: Option<usize>,
}

/// A candidate whose steps are being grouped.
struct Grouping {
    candidate: Candidate,
    by_shape: BTreeMap<ShapeKey, usize>,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), LineError> {
        let value: Value =
            serde_json::from_str(line).map_err(|error| LineError::NoObject(printable(&error.to_string())))?;
        let Value::Object(object) = &value else { return Err(LineError::NoObject(shown(&value))) };
        let mut keys = object.iter();
        match (keys.next(), keys.next()) {
            (Some((key, Value::Object(header))), None) if key == "header" => {
                self.header(&Fields { object: header, above: "header" })
            }
            (Some((key, Value::Object(step))), None) if key == "step" => {
                self.step(&Fields { object: step, above: "step" })
            }
            _ => Err(LineError::Kind),
        }
    }

    fn header(&mut self, header: &Fields<'_>) -> Result<(), LineError> {
        let schema = header.value("schema")?;
        if schema.as_u64() != Some(SCHEMA) {
            return Err(LineError::Schema { given: shown(schema) });
        }
        let (name, seed) = (header.text("candidate")?, header.count("seed", u64::MAX)?);
        if self.first.is_none() {
            self.first = Some((header.text("scenario")?.to_owned(), header.text("profile")?.to_owned()));
        }
        let known = self.candidates.iter().position(|grouping| grouping.candidate.name == name);
        let at = known.unwrap_or_else(|| {
            let candidate =
                Candidate { name: name.to_owned(), seeds: Vec::new(), groups: Vec::new(), left_out: BTreeMap::new() };
            self.candidates.push(Grouping { candidate, by_shape: BTreeMap::new() });
            self.candidates.len() - 1
        });
        self.candidates[at].candidate.seeds.push(seed);
        self.current = Some(at);
        Ok(())
    }

    fn step(&mut self, step: &Fields<'_>) -> Result<(), LineError> {
        let Some(current) = self.current else { return Err(LineError::NoHeader) };
        let (number, shape) = (step.count("step", u64::MAX)?, shape(step)?);
        let predicted = predicted(&step.object("cost", "step.cost")?)?;
        let Grouping { candidate, by_shape } = &mut self.candidates[current];
        let shape = match shape {
            Ok(shape) => shape,
            Err(reason) => {
                *candidate.left_out.entry(reason).or_default() += 1;
                return Ok(());
            }
        };
        let at = *by_shape.entry(shape.clone()).or_insert(candidate.groups.len());
        if at == candidate.groups.len() {
            candidate.groups.push(Group { shape, steps: 0, first_step: number, predicted: Predicted::default() });
        }
        let group = &mut candidate.groups[at];
        group.steps += 1;
        group.predicted.device_ns = group.predicted.device_ns.saturating_add(predicted.device_ns);
        group.predicted.launch_ns = group.predicted.launch_ns.saturating_add(predicted.launch_ns);
        Ok(())
    }

    fn finish(self) -> Option<StepLog> {
        let (scenario, profile) = self.first?;
        let candidates = self.candidates.into_iter().map(|grouping| grouping.candidate).collect();
        let log = StepLog { scenario, profile, candidates };
        (log.steps() > 0).then_some(log)
    }
}

/// The shape of a step, or why it is not replayed.
fn shape(step: &Fields<'_>) -> Result<Result<ShapeKey, LeftOut>, LineError> {
    let mode = match step.text("mode")? {
        "FULL" => Some(Mode::Full),
        "PIECEWISE" => Some(Mode::Piecewise),
        "NONE" => None,
        other => return Err(step.wrong("mode", other, "FULL, PIECEWISE or NONE")),
    };
    let [real_rows, padded_rows] = ["real_rows", "padded_rows"].map(|key| step.count(key, COUNT_MOST));
    let [requests, context] = ["decode_requests", "decode_context"].map(|key| step.count(key, COUNT_MOST));
    let [drafts, adapters] = ["drafts", "active_loras"].map(|key| step.count(key, COUNT_MOST));
    let (real_rows, padded_rows, requests, context) = (real_rows?, padded_rows?, requests?, context?);
    let (drafts, adapters) = (drafts?, adapters?);
    let prefills = prefills(step)?;
    let chunks: u64 = prefills.iter().map(|[chunk, _]| u64::from(*chunk)).sum();
    if chunks + requests + drafts != real_rows {
        let expected = format!("{}: chunks, decoding requests and drafts together", chunks + requests + drafts);
        return Err(step.wrong("real_rows", &real_rows.to_string(), &expected));
    }
    if context < requests + drafts {
        let expected = format!("at least {}: a token for each decoding request and draft", requests + drafts);
        return Err(step.wrong("decode_context", &context.to_string(), &expected));
    }
    if requests == 0 && drafts > 0 {
        return Err(step.wrong("drafts", &drafts.to_string(), "0: nothing decodes"));
    }
    let rows = real_rows + padded_rows;
    let mut left_out = (adapters > 0).then_some(LeftOut::Adapters);
    let graph = match (mode, step.value("descriptor")?) {
        (None, Value::Null) => None,
        (None, other) => return Err(step.wrong("descriptor", &shown(other), "null: the step ran without a graph")),
        (Some(mode), Value::Object(object)) => {
            let descriptor = Fields { object, above: "step.descriptor" };
            let tokens = descriptor.count("tokens", COUNT_MOST)?;
            if tokens != rows {
                let expected = format!("{rows}: real_rows and padded_rows together");
                return Err(descriptor.wrong("tokens", &tokens.to_string(), &expected));
            }
            if descriptor.count("ubatches", COUNT_MOST)? > 1 {
                left_out = Some(LeftOut::Microbatches);
            }
            if descriptor.optional_count("prefix_chunks", COUNT_MOST)?.is_some() {
                left_out = Some(LeftOut::PrefixChunks);
            }
            let requests = descriptor.optional_count("requests", COUNT_MOST)?.map(|count| count as u32);
            let uniform = descriptor.optional_count("uniform", COUNT_MOST)?.map(|count| count as u32);
            Some(GraphKey { mode, rows: Rows(tokens as u32), requests, uniform })
        }
        (Some(_), other) => return Err(step.wrong("descriptor", &shown(other), "the graph that ran")),
    };
    if real_rows == 0 {
        left_out = left_out.or(Some(LeftOut::OnlyPadding));
    }
    let shape = ShapeKey {
        graph,
        rows: Rows(rows as u32),
        prefills,
        decode_requests: requests as u32,
        decode_context: context,
        drafts: drafts as u32,
    };
    Ok(left_out.map_or(Ok(shape), Err))
}

/// Pairs of chunk and context, in rising order: which request comes first is no part of the shape.
fn prefills(step: &Fields<'_>) -> Result<Vec<[u32; 2]>, LineError> {
    const EXPECTED: &str = "a list of [chunk, context], whole numbers, chunks from 1";
    let value = step.value("prefills")?;
    let pair = |value: &Value| {
        let pair: Vec<u64> = value.as_array()?.iter().map(Value::as_u64).collect::<Option<_>>()?;
        match pair[..] {
            [chunk, context] if (1..=COUNT_MOST).contains(&chunk) && context <= COUNT_MOST => {
                Some([chunk as u32, context as u32])
            }
            _ => None,
        }
    };
    let pairs = value.as_array().and_then(|pairs| pairs.iter().map(pair).collect::<Option<Vec<_>>>());
    let mut pairs = pairs.ok_or_else(|| step.wrong("prefills", &shown(value), EXPECTED))?;
    pairs.sort_unstable();
    Ok(pairs)
}

fn predicted(cost: &Fields<'_>) -> Result<Predicted, LineError> {
    let [dense, head, attention] = ["dense_ns", "head_ns", "attention_ns"].map(|key| cost.count(key, NS_MOST));
    let [drafting, device] = ["drafting_ns", "device_ns"].map(|key| cost.count(key, 4 * NS_MOST));
    let launch = cost.count("launch_ns", NS_MOST)?;
    // Logs of before there were gaps have none.
    let gap = if cost.object.contains_key("gap_ns") { cost.count("gap_ns", NS_MOST)? } else { 0 };
    let (run, drafting, device) = (dense? + head? + attention? + gap, drafting?, device?);
    if run + drafting != device {
        let expected = format!("{}: the sum of its terms", run + drafting);
        return Err(cost.wrong("device_ns", &device.to_string(), &expected));
    }
    Ok(Predicted { device_ns: run, launch_ns: launch })
}

/// The fields of an object of a line.
struct Fields<'a> {
    object: &'a Map<String, Value>,
    /// The keys above them.
    above: &'static str,
}

impl<'a> Fields<'a> {
    fn value(&self, key: &str) -> Result<&'a Value, LineError> {
        self.object.get(key).ok_or_else(|| LineError::Missing { key: self.name(key) })
    }

    fn object(&self, key: &str, above: &'static str) -> Result<Fields<'a>, LineError> {
        match self.value(key)? {
            Value::Object(object) => Ok(Fields { object, above }),
            other => Err(self.wrong(key, &shown(other), "an object")),
        }
    }

    fn text(&self, key: &str) -> Result<&'a str, LineError> {
        let value = self.value(key)?;
        value.as_str().ok_or_else(|| self.wrong(key, &shown(value), "a text"))
    }

    fn count(&self, key: &str, most: u64) -> Result<u64, LineError> {
        let value = self.value(key)?;
        let within = value.as_u64().filter(|count| *count <= most);
        within.ok_or_else(|| self.wrong(key, &shown(value), &format!("a whole number from 0 to {most}")))
    }

    fn optional_count(&self, key: &str, most: u64) -> Result<Option<u64>, LineError> {
        match self.value(key)? {
            Value::Null => Ok(None),
            _ => self.count(key, most).map(Some),
        }
    }

    fn wrong(&self, key: &str, given: &str, expected: &str) -> LineError {
        LineError::Value { key: self.name(key), given: given.to_owned(), expected: expected.to_owned() }
    }

    fn name(&self, key: &str) -> String {
        format!("{}.{key}", self.above)
    }
}

/// A value for a message.
fn shown(value: &Value) -> String {
    let text = printable(&value.to_string());
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str =
        r#"{"header":{"schema":1,"scenario":"S","profile":"p","seed":7,"candidate":"one","more":[1]}}"#;

    /// A step that pads two decodes to four rows.
    const STEP: &str = r#"{"step":{"step":3,"mode":"FULL","descriptor":{"mode":"FULL","tokens":4,"requests":4,"uniform":1,
        "ubatches":1,"prefix_chunks":null},"real_rows":2,"padded_rows":2,"prefills":[],"decode_requests":2,
        "decode_context":90,"drafts":0,"active_loras":0,"cost":{"dense_ns":700,"head_ns":20,"attention_ns":3,
        "drafting_ns":0,"device_ns":723,"launch_ns":50}}}"#;

    fn read(lines: &[&str]) -> Result<Option<StepLog>, LineError> {
        let mut reader = Reader::default();
        for line in lines {
            reader.line(line)?;
        }
        Ok(reader.finish())
    }

    fn refused(change: &str, to: &str) -> String {
        assert!(STEP.contains(change), "{change}");
        read(&[HEADER, &STEP.replace(change, to)]).unwrap_err().to_string()
    }

    #[test]
    fn equal_shapes_are_one_group_and_seeds_of_a_candidate_come_together() {
        let other_seed = HEADER.replace("\"seed\":7", "\"seed\":8");
        let later = STEP.replace("\"step\":3", "\"step\":9").replace("\"launch_ns\":50", "\"launch_ns\":60");
        let another = STEP.replace("\"decode_context\":90", "\"decode_context\":91");
        let log = read(&[HEADER, STEP, &another, &other_seed, &later]).unwrap().unwrap();
        assert_eq!((log.scenario.as_str(), log.profile.as_str(), log.steps()), ("S", "p", 3));
        let [candidate] = &log.candidates[..] else { panic!("{log:?}") };
        assert_eq!((candidate.name.as_str(), &candidate.seeds[..]), ("one", &[7, 8][..]));
        let [pair, single] = &candidate.groups[..] else { panic!("{candidate:?}") };
        assert_eq!((pair.steps, pair.first_step, single.steps), (2, 3, 1));
        assert_eq!(pair.predicted, Predicted { device_ns: 1_446, launch_ns: 50 + 60 });
        let graph = GraphKey { mode: Mode::Full, rows: Rows(4), requests: Some(4), uniform: Some(1) };
        assert_eq!((pair.shape.graph, pair.shape.rows, pair.shape.decode_context), (Some(graph), Rows(4), 90));
    }

    #[test]
    fn gaps_are_device_time_where_a_log_has_them() {
        let with =
            STEP.replace("\"drafting_ns\":0,\"device_ns\":723", "\"drafting_ns\":4,\"gap_ns\":9,\"device_ns\":736");
        let log = read(&[HEADER, &with]).unwrap().unwrap();
        assert_eq!(log.candidates[0].groups[0].predicted, Predicted { device_ns: 732, launch_ns: 50 });
        let text = refused("\"drafting_ns\":0", "\"drafting_ns\":0,\"gap_ns\":-1");
        assert_eq!(text, "`step.cost.gap_ns` = -1: expected a whole number from 0 to 1000000000000000");
    }

    #[test]
    fn what_a_replay_cannot_run_is_counted() {
        let adapters = STEP.replace("\"active_loras\":0", "\"active_loras\":2");
        let microbatches = STEP.replace("\"ubatches\":1", "\"ubatches\":2");
        let chunks = STEP.replace("\"prefix_chunks\":null", "\"prefix_chunks\":3");
        let log = read(&[HEADER, &adapters, &adapters, &microbatches, &chunks]).unwrap().unwrap();
        let left_out = &log.candidates[0].left_out;
        assert_eq!(
            left_out.iter().map(|(why, steps)| (*why, *steps)).collect::<Vec<_>>(),
            [(LeftOut::Adapters, 2), (LeftOut::Microbatches, 1), (LeftOut::PrefixChunks, 1)]
        );
        assert_eq!(log.steps(), 4);
    }

    #[test]
    fn what_is_wrong_is_named_by_its_key() {
        assert_eq!(refused("\"decode_context\":90,", ""), "`step.decode_context` is missing");
        assert_eq!(
            refused("\"launch_ns\":50", "\"launch_ns\":-50"),
            "`step.cost.launch_ns` = -50: expected a whole number from 0 to 1000000000000000"
        );
        assert_eq!(
            refused("\"mode\":\"FULL\",\"descriptor\"", "\"mode\":\"HALF\",\"descriptor\""),
            "`step.mode` = HALF: expected FULL, PIECEWISE or NONE"
        );
        assert_eq!(
            refused("\"real_rows\":2", "\"real_rows\":3"),
            "`step.real_rows` = 3: expected 2: chunks, decoding requests and drafts together"
        );
        assert_eq!(
            refused("\"tokens\":4", "\"tokens\":8"),
            "`step.descriptor.tokens` = 8: expected 4: real_rows and padded_rows together"
        );
        assert_eq!(
            refused("\"device_ns\":723", "\"device_ns\":724"),
            "`step.cost.device_ns` = 724: expected 723: the sum of its terms"
        );
        assert_eq!(
            refused("\"prefills\":[]", "\"prefills\":[[0,5]]"),
            "`step.prefills` = [[0,5]]: expected a list of [chunk, context], whole numbers, chunks from 1"
        );
        assert_eq!(
            refused("\"decode_context\":90", "\"decode_context\":1"),
            "`step.decode_context` = 1: expected at least 2: a token for each decoding request and draft"
        );
    }

    #[test]
    fn lines_that_are_no_log_are_refused() {
        let refused = |lines: &[&str]| read(lines).unwrap_err().to_string();
        assert_eq!(refused(&[STEP]), "a step before the first header");
        assert_eq!(refused(&["[]"]), "expected a JSON object: []");
        assert_eq!(refused(&["{\"header\":{},\"step\":{}}"]), "expected an object with the one key `header` or `step`");
        assert_eq!(refused(&[&HEADER.replace("\"schema\":1", "\"schema\":2")]), "`header.schema` = 2: expected 1");
        assert!(refused(&["{\"step\""]).starts_with("expected a JSON object: "));
        assert_eq!(read(&[HEADER]), Ok(None));
    }
}

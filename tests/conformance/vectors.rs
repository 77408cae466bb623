//! Golden vectors in, tallies out: shared by all file families.

use std::fmt::{Debug, Write as _};
use std::fs;
use std::path::PathBuf;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Names another folder of golden vectors.
const FOLDER_VARIABLE: &str = "RUNGWISE_GOLDEN";

/// Mismatches shown per file.
const SHOWN_MAX: usize = 5;

/// The folder that holds `vllm/` and `sglang/`. A relative `RUNGWISE_GOLDEN` starts at the repository's root.
fn root() -> PathBuf {
    let repository = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let folder = std::env::var_os(FOLDER_VARIABLE).unwrap_or_else(|| "tests/golden".into());
    let root = repository.join(folder);
    assert!(root.is_dir(), "{FOLDER_VARIABLE}: {} is not a folder", root.display());
    root
}

/// The lines of a golden file such as `vllm/keys_v1.jsonl`; `None`, said aloud, if `RUNGWISE_GOLDEN` names a folder
/// without that file.
///
/// # Panics
/// If the file cannot be read, holds no line, or a line is not JSON.
pub(crate) fn vectors(name: &str) -> Option<Vec<Value>> {
    let path = root().join(name);
    if !path.exists() && std::env::var_os(FOLDER_VARIABLE).is_some() {
        println!("skipped: no {name}");
        return None;
    }
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let parse = |(number, line)| {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{name} line {}: {error}", number + 1))
    };
    let lines: Vec<Value> = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(parse).collect();
    assert!(!lines.is_empty(), "{name} holds no vector");
    Some(lines)
}

/// One line of a golden file with a typed configuration and input.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Vector<C, I> {
    /// Options.
    pub(crate) config: C,
    /// What they are applied to.
    pub(crate) input: I,
    /// The engine's answer.
    pub(crate) expected: Value,
}

/// Compares every line of a file with what `answer` makes of it, prints the tally, and fails on any mismatch.
///
/// A line with keys or values that the types do not know is a mismatch.
pub(crate) fn check_lines<C, I>(name: &str, answer: impl Fn(&C, &I) -> Value)
where
    C: DeserializeOwned,
    I: DeserializeOwned,
{
    let Some(lines) = vectors(name) else { return };
    let mut tally = Tally::new(name);
    for line in lines {
        let config = line["config"].to_string();
        let outcome = serde_json::from_value::<Vector<C, I>>(line)
            .map_err(|error| format!("not understood: {error}"))
            .and_then(|vector| same(&answer(&vector.config, &vector.input), &vector.expected));
        tally.count(outcome.map_err(|message| format!("{message}\n  config {config}")));
    }
    tally.finish();
}

/// The input of a file whose lines hold many cases for one configuration.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases<K> {
    cases: Vec<K>,
}

/// As [`check_lines`], for files whose `input.cases[i]` is answered by `expected.results[i]`; tallies lines and cases.
/// A line matches if all its cases do. `build` may answer for the whole line with an error.
pub(crate) fn check_cases<C, K, D>(name: &str, build: impl Fn(&C) -> Result<D, Value>, answer: impl Fn(&D, &K) -> Value)
where
    C: DeserializeOwned,
    K: DeserializeOwned + Debug,
{
    let Some(lines) = vectors(name) else { return };
    let (mut line_tally, mut case_tally) = (Tally::new(name), Tally::of(name, "cases"));
    for line in lines {
        let config = line["config"].to_string();
        let outcomes = serde_json::from_value::<Vector<C, Cases<K>>>(line)
            .map_err(|error| format!("not understood: {error}"))
            .and_then(|vector| case_outcomes(&vector, &build, &answer));
        let line_outcome = match &outcomes {
            Ok(cases) => cases.iter().find(|outcome| outcome.is_err()).cloned().unwrap_or(Ok(())),
            Err(message) => Err(message.clone()),
        };
        line_tally.count(line_outcome.map_err(|message| format!("{message}\n  config {config}")));
        outcomes.into_iter().flatten().for_each(|outcome| case_tally.count(outcome));
    }
    case_tally.print();
    line_tally.finish();
}

fn case_outcomes<C, K: Debug, D>(
    vector: &Vector<C, Cases<K>>,
    build: impl Fn(&C) -> Result<D, Value>,
    answer: impl Fn(&D, &K) -> Value,
) -> Result<Vec<Result<(), String>>, String> {
    let made = match build(&vector.config) {
        Ok(made) => made,
        Err(error) => return same(&error, &vector.expected).map(|()| Vec::new()),
    };
    let results = vector.expected["results"].as_array().ok_or("`expected.results` is a list")?;
    let cases = &vector.input.cases;
    if results.len() != cases.len() {
        return Err(format!("{} cases, {} results", cases.len(), results.len()));
    }
    let outcome = |(case, expected): (&K, &Value)| {
        same(&answer(&made, case), expected).map_err(|message| format!("case {case:?}: {message}"))
    };
    Ok(cases.iter().zip(results).map(outcome).collect())
}

/// Equality of an answer with the expected one. Texts of errors are the engine's own and are not compared.
///
/// # Errors
/// Both sides, if they differ.
pub(crate) fn same(actual: &Value, expected: &Value) -> Result<(), String> {
    let mut wanted = expected.clone();
    if let Some(fields) = wanted.as_object_mut().filter(|fields| fields.contains_key("error")) {
        fields.remove("message_head");
    }
    if *actual == wanted { Ok(()) } else { Err(format!("expected {wanted}\n  answered {actual}")) }
}

/// How many of a file's items matched.
#[derive(Debug)]
pub(crate) struct Tally {
    file: String,
    unit: &'static str,
    matched: usize,
    total: usize,
    mismatches: String,
}

impl Tally {
    /// An empty tally of a file's lines.
    pub(crate) fn new(file: &str) -> Self {
        Self::of(file, "lines")
    }

    /// An empty tally of something else in a file, such as its `cases`.
    pub(crate) fn of(file: &str, unit: &'static str) -> Self {
        Self { file: file.to_owned(), unit, matched: 0, total: 0, mismatches: String::new() }
    }

    /// Counts one item.
    pub(crate) fn count(&mut self, outcome: Result<(), String>) {
        self.total += 1;
        match outcome {
            Ok(()) => self.matched += 1,
            Err(message) if self.total - self.matched <= SHOWN_MAX => {
                writeln!(self.mismatches, "{} {}: {message}", self.unit, self.total).expect("a string takes any text");
            }
            Err(_) => {}
        }
    }

    /// Prints `file: matched/total`.
    pub(crate) fn print(&self) {
        let unit = if self.unit == "lines" { String::new() } else { format!(" {}", self.unit) };
        println!("{}: {}/{}{unit}", self.file, self.matched, self.total);
    }

    /// Prints the tally and closes it.
    ///
    /// # Panics
    /// With the first mismatches, if not everything matched.
    pub(crate) fn finish(self) {
        self.print();
        assert!(self.matched == self.total, "{}: mismatches\n{}", self.file, self.mismatches);
    }
}

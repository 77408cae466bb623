//! The commands through the real binary, and the figures of their answers.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::super::binary;
use super::file::{Ask, Figure};

/// The answers to commands, each run once.
#[derive(Default)]
pub(super) struct Answers(BTreeMap<String, Answer>);

enum Answer {
    /// One JSON document.
    One(Value),
    /// The report of each point of a sweep, with the value of the first key that varies.
    Points(Vec<(i64, Value)>),
}

impl Answers {
    /// The figure as the command gives it, in the unit of the report.
    ///
    /// # Panics
    /// If the command fails, or the figure is not in its answer.
    pub(super) fn figure(&mut self, ask: &Ask, figure: &Figure) -> Value {
        let found = self.value(&ask.command, figure);
        let Some(mut number) = found.as_f64() else {
            return found;
        };
        if let Some(command) = &ask.minus {
            number -= self.value(command, figure).as_f64().expect("a number to subtract");
        }
        in_unit(number, figure).into()
    }

    fn value(&mut self, command: &str, figure: &Figure) -> Value {
        let answer = self.0.entry(command.to_owned()).or_insert_with(|| run(command));
        let document = match (&*answer, figure.at) {
            (Answer::One(document), None) => document,
            (Answer::Points(points), Some(at)) => {
                let of = points.iter().find(|(value, _)| *value == at);
                &of.unwrap_or_else(|| panic!("`{command}` has no point at {at}")).1
            }
            _ => panic!("{}: `at` picks a point of a sweep, and of nothing else", figure.what),
        };
        let of = |candidate| find(document, candidate, &figure.field);
        let missing = || panic!("`{command}`: no {} of {:?}", figure.field, figure.candidate);
        let found = of(figure.candidate.as_deref()).unwrap_or_else(missing);
        match &figure.against {
            None => found,
            Some(other) => {
                let numbers = (found.as_f64(), of(Some(other)).and_then(|other| other.as_f64()));
                let (Some(found), Some(other)) = numbers else { panic!("`{command}`: a change is one of numbers") };
                (100.0 * (found / other - 1.0)).into()
            }
        }
    }
}

fn run(command: &str) -> Answer {
    let mut words = words(command);
    assert_eq!(words.remove(0), "sim", "{command}");
    if words[0] != "sweep" {
        return Answer::One(binary::json_at_root(words));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("sweep");
    words.extend(["--out".to_owned(), out.display().to_string()]);
    binary::json_at_root(words);
    Answer::Points(points(&out))
}

/// The whole report of each point, and the value that it has of the first key that varies.
fn points(out: &Path) -> Vec<(i64, Value)> {
    let lines = fs::read_to_string(out.join("reports.jsonl")).expect("the reports of a sweep");
    let point = |line: &str| {
        let mut point: Value = serde_json::from_str(line).expect("JSON");
        (point["settings"][0]["value"].as_i64().expect("a whole number"), point["report"].take())
    };
    lines.lines().map(point).collect()
}

/// Words as a shell parts them, with double quotes alone.
fn words(command: &str) -> Vec<String> {
    let quoted = |(index, part): (usize, &str)| match index % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    };
    command.split('"').enumerate().flat_map(quoted).collect()
}

/// The figure, of several seeds their mean.
fn find(document: &Value, candidate: Option<&str>, figure: &str) -> Option<Value> {
    let start = match candidate {
        Some(name) => document["candidates"].as_array()?.iter().find(|candidate| candidate["name"] == name)?,
        None => document,
    };
    let found = figure.split('.').try_fold(start, |node, key| match node {
        Value::Array(items) => items.get(key.parse::<usize>().ok()?),
        _ => node.get(key),
    })?;
    Some(found.get("mean").unwrap_or(found).clone())
}

/// From the unit that the figure's name ends in to that of the report.
fn in_unit(number: f64, figure: &Figure) -> f64 {
    let is_of = |unit: &str| figure.field.ends_with(unit);
    let is_share = is_of("share") || is_of("rate") || is_of("over_rung");
    let factor = match figure.unit.as_str() {
        "GiB" if is_of("_bytes") => (1_u64 << 30) as f64,
        "us" if is_of("_ns") => 1e3,
        "%" if is_share && figure.against.is_none() => 0.01,
        _ => 1.0,
    };
    number / factor / figure.divided_by.unwrap_or(1.0)
}

#[test]
fn words_are_parted_as_in_a_shell() {
    assert_eq!(
        words(r#"sim explain --candidate "no graphs" --decodes 9"#),
        ["sim", "explain", "--candidate", "no graphs", "--decodes", "9"]
    );
}

//! `[[expect]]` of a scenario against the answer of the command that it names.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;
use sim::scenario::{Command, Expectation, ExpectedValue, Scenario};

use super::binary::json;

/// How many expectations a scenario has, and one message for each that does not hold.
pub(crate) fn check(path: &Path) -> (usize, Vec<String>) {
    let scenario = Scenario::load(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut answers: BTreeMap<&str, Value> = BTreeMap::new();
    let mut faults = Vec::new();
    for expectation in &scenario.expect {
        let command = word(expectation.command);
        let answer = answers.entry(command).or_insert_with(|| json([command.as_ref(), path.as_os_str()]));
        let found = find(answer, expectation);
        if !found.is_some_and(|found| agrees(found, expectation)) {
            faults.push(fault(&scenario, expectation, found));
        }
    }
    (scenario.expect.len(), faults)
}

fn word(command: Command) -> &'static str {
    match command {
        Command::Run => "run",
        Command::Price => "price",
        Command::Ladder => "ladder",
    }
}

/// The figure: a dot goes one level down, a number picks from a list.
fn find<'a>(answer: &'a Value, expectation: &Expectation) -> Option<&'a Value> {
    let start = match &expectation.candidate {
        Some(name) => answer["candidates"].as_array()?.iter().find(|candidate| candidate["name"] == name.as_str())?,
        None => answer,
    };
    expectation.figure.split('.').try_fold(start, |node, key| match node {
        Value::Array(items) => items.get(key.parse::<usize>().ok()?),
        _ => node.get(key),
    })
}

fn agrees(found: &Value, expectation: &Expectation) -> bool {
    let near =
        |found: &Value, value: f64| found.as_f64().is_some_and(|found| (found - value).abs() <= expectation.within);
    match &expectation.value {
        ExpectedValue::Number(value) => near(found, *value),
        ExpectedValue::Numbers(values) => found.as_array().is_some_and(|found| {
            found.len() == values.len() && found.iter().zip(values).all(|(found, value)| near(found, *value))
        }),
        ExpectedValue::Text(text) => found.as_str() == Some(text),
    }
}

fn fault(scenario: &Scenario, expectation: &Expectation, found: Option<&Value>) -> String {
    let Expectation { command, candidate, figure, value, within, span } = expectation;
    let line = 1 + scenario.source[..span.start].matches('\n').count();
    let whose = candidate.as_ref().map(|name| format!(" of `{name}`")).unwrap_or_default();
    let expected = match value {
        ExpectedValue::Number(value) => format!("{value} within {within}"),
        ExpectedValue::Numbers(values) => format!("{values:?} within {within}"),
        ExpectedValue::Text(text) => format!("\"{text}\""),
    };
    let found = found.map_or_else(|| "no such figure".to_owned(), Value::to_string);
    format!("{}:{line}: sim {}: {figure}{whose}: expected {expected}, found {found}", scenario.file, word(*command))
}

const WRONG: &str = r#"schema = 1
name = "Wrong"
[server.vllm]
max_num_seqs = 32
max_num_batched_tokens = 8192
enable_prefix_caching = false
[profile]
builtin = "textbook"
[traffic]
steps = [{ tokens = 9, requests = 9, count = 1 }]
[[candidate]]
name = "two"
cudagraph_capture_sizes = [8, 16]
[[expect]]
command = "price"
candidate = "two"
figure = "mean_padded_rows"
value = 7
[[expect]]
command = "price"
candidate = "two"
figure = "mean_padded_rows"
value = 6
within = 0.5
[[expect]]
command = "ladder"
candidate = "two"
figure = "capture_sizes"
value = [8, 16, 32]
[[expect]]
command = "price"
figure = "candidates.0.cudagraph_mode"
value = "FULL"
[[expect]]
command = "price"
figure = "candidates.1.step_ms.graph"
value = 1
"#;

#[test]
fn a_wrong_expectation_names_file_line_figure_expected_and_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("wrong.toml");
    fs::write(&path, WRONG).expect("written");
    let (expectations, faults) = check(&path);
    let file = path.display();
    assert_eq!(expectations, 5);
    assert_eq!(
        faults,
        [
            format!("{file}:23: sim price: mean_padded_rows of `two`: expected 6 within 0.5, found 7.0"),
            format!(
                "{file}:29: sim ladder: capture_sizes of `two`: expected [8.0, 16.0, 32.0] within 0.000001, found [8,16]"
            ),
            format!(
                "{file}:33: sim price: candidates.0.cudagraph_mode: expected \"FULL\", found \"FULL_AND_PIECEWISE\""
            ),
            format!(
                "{file}:37: sim price: candidates.1.step_ms.graph: expected 1 within 0.000001, found no such figure"
            ),
        ]
    );
}

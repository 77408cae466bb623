//! `SCHEMA.md` lists every key that is ever written, and no other.

use std::collections::BTreeSet;

use reports::{ProposeReport, SweepSample, SweepShard};
use serde_json::Value;

use crate::samples;

/// Paths of all keys: lists are `[]`, keys of free maps are `*`.
fn paths(prefix: &str, value: &Value, found: &mut BTreeSet<String>) {
    match value {
        // The parts of an interval are described once, for all figures.
        Value::Object(map) if map.len() == 3 && map.contains_key("low") => {}
        Value::Object(map) => {
            for (key, inner) in map {
                let key = if prefix.ends_with("differences") { "*" } else { key };
                let path = if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") };
                found.insert(path.clone());
                paths(&path, inner, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| paths(&format!("{prefix}[]"), item, found)),
        _ => {}
    }
}

/// One row of a table in `SCHEMA.md`.
#[cfg_attr(not(feature = "frames"), expect(dead_code, reason = "the names are for all, the rest for the tables' test"))]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) unit: String,
    pub(crate) definition: String,
}

/// The table rows below the heading `## title`.
pub(crate) fn documented_fields(title: &str) -> Vec<Field> {
    let schema = include_str!("../../SCHEMA.md");
    let heading = format!("## {title}\n");
    let section = schema.split_once(&heading).unwrap_or_else(|| panic!("no section {title}")).1;
    let section = section.split("\n## ").next().expect("a split has a first part");
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let field = |row: &str| {
        let (key, rest) = row.split_once('`').expect("the key is in back quotes");
        let cells: Vec<&str> = rest.split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 5, "{title}: {key} needs key, type, unit and definition");
        assert!(cells[1..4].iter().all(|cell| !cell.is_empty()), "{title}: {key} has an empty cell");
        let [kind, unit, definition] = [cells[1], cells[2], cells[3]].map(str::to_owned);
        Field { name: key.to_owned(), kind, unit, definition }
    };
    rows.map(field).collect()
}

/// The first cell of every table row below the heading `## title`.
fn documented(title: &str) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for field in documented_fields(title) {
        assert!(keys.insert(field.name.clone()), "{title}: {} twice", field.name);
    }
    keys
}

pub(crate) fn check(title: &str, records: &[Value]) {
    let mut written = BTreeSet::new();
    for record in records {
        paths("", record, &mut written);
    }
    let documented = documented(title);
    let missing: Vec<&String> = written.difference(&documented).collect();
    let stale: Vec<&String> = documented.difference(&written).collect();
    assert!(missing.is_empty(), "{title}: not in SCHEMA.md: {missing:#?}");
    assert!(stale.is_empty(), "{title}: in SCHEMA.md but never written: {stale:#?}");
}

pub(crate) fn value(record: &impl serde::Serialize) -> Value {
    serde_json::to_value(record).expect("plain data")
}

/// A record without what another section documents.
fn without(mut record: Value, key: &str) -> Value {
    record[key] = Value::Null;
    record
}

/// A proposal without its choices and the engine's own JSON, and the choices without their figures.
fn proposal(report: &ProposeReport) -> (Value, Vec<Value>) {
    let mut whole = value(report);
    let mut choices = vec![whole["current"].take(), whole["proposal"].take()];
    choices.append(whole["front"].as_array_mut().expect("a list"));
    if whole["one_change"].is_object() {
        choices.push(whole["one_change"]["choice"].take());
    }
    whole["flags"].as_array_mut().expect("a list").iter_mut().for_each(|flags| flags["json"] = Value::Null);
    (whole, choices.into_iter().map(|choice| without(choice, "figures")).collect())
}

#[test]
fn every_key_is_documented() {
    check("`sim run`", &[value(&samples::run()), value(&samples::run_over_seeds())]);
    check("`sim price`", &[value(&samples::price())]);
    check("`sim ladder`", &[value(&samples::ladder())]);
    check("`sim startup`", &[value(&samples::startup())]);
    check("`sim explain`", &[value(&samples::explain())]);
    check("`steps.jsonl`, header", &[value(&samples::step_header())]);
    check("`steps.jsonl`, step", &[value(&samples::step())]);
    check("`history.json`", &[value(&samples::history())]);
    check("`sim report --compare`", &[value(&samples::comparison())]);
    check("`requests.csv`", &[value(&samples::request())]);
    let ((mut manifest, points), (_, over_seeds)) = (samples::sweep_points(&[7]), samples::sweep_points(&[7, 8, 9]));
    manifest.sample = Some(SweepSample { points: 4, seed: 1 });
    manifest.shard = Some(SweepShard { index: 0, of: 2 });
    check("`manifest.json`", &[value(&manifest)]);
    let brief = [samples::sweep(&[7]), samples::sweep(&[7, 8, 9])].map(|report| without(value(&report), "manifest"));
    check("`sim sweep`", &brief);
    check("`reports.jsonl`", &[&points[0], &over_seeds[0]].map(|point| without(value(point), "report")));
    let (whole, choices) = proposal(&samples::propose());
    check("`sim propose`", &[whole]);
    check("`sim propose`, a choice", &choices);
}

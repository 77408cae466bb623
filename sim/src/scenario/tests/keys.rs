//! `scenarios/KEYS.md` against the file form: complete, nothing that is gone, and every example valid.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::form::{Form, walk};
use crate::scenario::file::ScenarioFile;
use crate::scenario::form::{EngineForm, SglangForm, VllmForm};
use crate::scenario::{Scenario, TOP_LEVEL_KEYS};

type FileOf<E> = ScenarioFile<<E as EngineForm>::Server, <E as EngineForm>::Candidate>;

fn form() -> Form {
    Form::of(&[walk::<FileOf<VllmForm>>, walk::<FileOf<SglangForm>>])
}

fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios")
}

fn page() -> String {
    fs::read_to_string(scenarios().join("KEYS.md")).expect("the page")
}

/// The page by the dotted tables that its second-level headings name.
fn sections(page: &str) -> BTreeMap<&str, &str> {
    let mut sections = BTreeMap::new();
    for section in page.split("\n## ").skip(1) {
        let (heading, text) = section.split_once('\n').expect("a heading and its text");
        let tables = heading.split('`').skip(1).step_by(2).map(|table| table.trim_matches(['[', ']']));
        sections.extend(tables.map(|table| (table, text)));
    }
    sections
}

/// The heading under which the page treats a table: its own, or that of the table around it. Arrivals and lengths of a
/// rank are those of all traffic, told once.
fn heading<'page>(sections: &BTreeMap<&'page str, &str>, table: &str) -> &'page str {
    let told_once = table.strip_prefix("traffic.rank.").map(|rest| format!("traffic.{rest}"));
    let table = told_once.as_deref().unwrap_or(table);
    let holds = |outer: &str| table.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let held = sections.keys().filter(|outer| holds(outer) || outer.is_empty());
    held.max_by_key(|outer| outer.len()).expect("the top of the file has a heading")
}

/// The names that a section's tables list as keys: what its first column has in backticks, and under "kind" its first two.
fn listed(section: &str) -> BTreeSet<&str> {
    let mut columns = 0;
    let mut names = BTreeSet::new();
    for row in section.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.split(" | ").collect();
        match cells[0].trim_start_matches('|').trim() {
            "key" => columns = 1,
            "kind" => columns = 2,
            "backend" => columns = 0,
            _ => names.extend(cells.iter().take(columns).flat_map(|cell| cell.split('`').skip(1).step_by(2))),
        }
    }
    names
}

#[test]
fn every_key_and_every_choice_has_its_place() {
    let (page, form) = (page(), form());
    let sections = sections(&page);
    assert!(form.keys.len() > 150 && form.words.len() > 50, "{} keys, {} words", form.keys.len(), form.words.len());
    let rows_of = |table: &str| sections[heading(&sections, table)].lines().filter(|line| line.starts_with('|'));
    let lacks = |table: &str, quoted: String| !rows_of(table).any(|row| row.contains(&quoted));
    let keys = form.keys.iter().filter(|(table, key)| lacks(table, format!("`{key}`")));
    // A candidate's choices are told once, with the server's.
    let is_told_above = |table: &str| table.starts_with("candidate.");
    let words = form.words.iter().filter(|(table, _)| !is_told_above(table));
    let words = words.filter(|(table, word)| lacks(table, format!("`\"{word}\"`")));
    let missing: Vec<_> = keys.chain(words).collect();
    assert!(missing.is_empty(), "KEYS.md does not have {missing:?}");
}

#[test]
fn every_listed_key_is_one() {
    let (page, form) = (page(), form());
    let sections = sections(&page);
    for (table, text) in &sections {
        let known =
            |name: &str| form.keys.iter().any(|(place, key)| *key == name && heading(&sections, place) == *table);
        let unknown: Vec<_> = listed(text).into_iter().filter(|name| !known(name)).collect();
        assert!(unknown.is_empty(), "[{table}] has no {unknown:?}");
    }
}

/// Puts what a scenario needs around the tables of an example.
fn completed(example: &str) -> Table {
    let parse = |text: &str| text.parse::<Table>().unwrap_or_else(|error| panic!("{error}in\n{text}"));
    let mut whole = parse(
        "schema = 1\nname = \"example\"\n[server.vllm]\nmax_num_seqs = 256\nmax_num_batched_tokens = 2048\n\
         max_model_len = 16384\n[profile]\nbuiltin = \"textbook\"\n",
    );
    for (key, value) in parse(example) {
        match (whole.get_mut(&key), value) {
            (Some(Value::Table(server)), Value::Table(more)) if key == "server" && more.contains_key("vllm") => {
                merge(server, more);
            }
            (_, value) => {
                whole.insert(key, value);
            }
        }
    }
    let traffic = whole.entry("traffic").or_insert_with(|| Table::new().into()).as_table_mut().expect("a table");
    let plays_a_trace = traffic.get("arrivals").is_some_and(|arrivals| arrivals.get("trace").is_some());
    if !(plays_a_trace
        || traffic.contains_key("rank")
        || traffic.contains_key("steps")
        || traffic.contains_key("steps_file"))
    {
        let usual = parse("requests = 10\narrivals.poisson.rate = 5\nlengths.fixed = { prompt = 100, output = 20 }");
        for (key, value) in usual {
            traffic.entry(key).or_insert(value);
        }
    }
    whole
}

fn merge(into: &mut Table, more: Table) {
    for (key, value) in more {
        match (into.get_mut(&key), value) {
            (Some(Value::Table(inner)), Value::Table(value)) => merge(inner, value),
            (_, value) => {
                into.insert(key, value);
            }
        }
    }
}

#[test]
fn every_example_is_accepted() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("traces")).expect("writable");
    fs::copy(scenarios().join("traces/example.csv"), folder.path().join("traces/example.csv")).expect("copied");
    let page = page();
    let (mut examples, mut kinds) = (0, BTreeSet::new());
    for block in page.split("\n```").skip(1).step_by(2) {
        let (info, text) = block.split_once('\n').expect("a fence of its own line");
        let Some(("csv" | "json", file)) = info.split_once(' ') else {
            assert_eq!(info, "toml", "a block is an example or a named file");
            let whole = toml::to_string(&completed(text)).expect("it was TOML before");
            let accepted = Scenario::parse(&whole, "example.toml", folder.path());
            let scenario = accepted.unwrap_or_else(|error| panic!("{error} in\n{text}"));
            if scenario.simulable().is_ok() {
                let mut requests = scenario.traffic.open(1).expect("opens");
                assert!(requests.all(|request| request.is_ok()), "{text}");
            }
            examples += 1;
            kinds.extend(text.lines().filter(|line| line.starts_with("[traffic")));
            continue;
        };
        fs::write(folder.path().join(file), text).expect("writable");
    }
    assert!(examples >= 25 && kinds.len() >= 11, "{examples} examples of {kinds:?}");
}

#[test]
fn the_keys_at_the_top_are_those_of_the_form() {
    let form = form();
    let top = form.keys.iter().filter(|(table, _)| table.is_empty()).map(|(_, key)| *key);
    assert_eq!(top.collect::<BTreeSet<_>>(), TOP_LEVEL_KEYS.into_iter().collect());
}

/// Each table is named among those whose keys and defaults have a source.
#[test]
fn every_table_says_where_its_keys_and_defaults_come_from() {
    let page = page();
    let (head, _) = page.split_once("\n## ").expect("sections");
    let rows = head.lines().filter(|line| line.starts_with("| `["));
    let cells = rows.map(|row| row.split(" | ").next().expect("a first cell"));
    let sources: Vec<&str> =
        cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(|table| table.trim_matches(['[', ']'])).collect();
    for table in sections(&page).into_keys() {
        let outermost = |source: &&str| table == *source || table.starts_with(&format!("{source}."));
        assert!(sources.iter().any(outermost), "[{table}] is not among {sources:?}");
    }
}

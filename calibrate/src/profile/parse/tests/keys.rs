//! `scenarios/profiles/KEYS.md` against the file form: complete, nothing that is gone, and every example valid.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

use super::super::super::file::ProfileFile;
use super::super::{Kind, Profile};
use super::GOOD;
use super::form::{Form, walk};

const PAGE: &str = include_str!("../../../../../scenarios/profiles/KEYS.md");

/// The page by the dotted tables that its second-level headings name.
fn sections() -> BTreeMap<&'static str, &'static str> {
    let mut sections = BTreeMap::new();
    for section in PAGE.split("\n## ").skip(1) {
        let (heading, text) = section.split_once('\n').expect("a heading and its text");
        let tables = heading.split('`').skip(1).step_by(2).map(|table| table.trim_matches(['[', ']']));
        sections.extend(tables.map(|table| (table, text)));
    }
    sections
}

/// The heading under which the page treats a table. What every group may hold is told once, and so are the two attentions and
/// what gaps have in common with the staircase.
fn heading(table: &str) -> String {
    for told_once in [".provenance", ".measured"] {
        if let Some((_, rest)) = table.split_once(told_once) {
            return format!("GROUP{told_once}{rest}");
        }
    }
    if let Some(rest) = table.strip_prefix("machine.attention.") {
        return format!("engine.attention.{rest}");
    }
    for gap in ["machine.eager_gap.", "machine.piecewise_gap."] {
        if let Some(rest) = table.strip_prefix(gap) {
            return format!("machine.dense.{rest}");
        }
    }
    table.to_owned()
}

/// Where a key is told: those that every group has are at their own tables.
fn place(table: &str, key: &str) -> String {
    match key {
        "provenance" | "measured" if !table.is_empty() => format!("GROUP.{key}"),
        _ => heading(table),
    }
}

/// Rows of a section's table, without its head.
fn rows(section: &str) -> impl Iterator<Item = &str> {
    section.lines().filter(|line| line.starts_with("| `"))
}

#[test]
fn every_key_and_every_word_has_its_place() {
    let (sections, form) = (sections(), Form::of(&[walk::<ProfileFile>]));
    assert!(form.keys.len() > 150, "{} keys", form.keys.len());
    let lacks = |place: &str, quoted: &str| {
        let section = sections.get(place).unwrap_or_else(|| panic!("no heading [{place}]"));
        !rows(section).any(|row| row.contains(quoted))
    };
    let keys = form.keys.iter().filter(|(_, key)| *key != "*");
    let keys = keys.filter(|(table, key)| lacks(&place(table, key), &format!("| `{key}` | ")));
    let words = form.words.iter().filter(|(table, word)| {
        let (outer, _) = table.rsplit_once('.').unwrap_or_default();
        lacks(&heading(outer), &format!("`\"{word}\"`"))
    });
    let missing: Vec<_> = keys.chain(words).collect();
    assert!(missing.is_empty(), "KEYS.md does not have {missing:?}");
    assert_eq!(
        form.words.iter().filter(|(table, _)| table == "machine.launch.provenance.kind").count(),
        Kind::ALL.len()
    );
}

#[test]
fn every_listed_key_is_one_and_says_its_unit_default_and_source() {
    let form = Form::of(&[walk::<ProfileFile>]);
    let known: BTreeSet<(String, &str)> = form.keys.iter().map(|(table, key)| (place(table, key), *key)).collect();
    for (table, text) in sections() {
        for row in rows(text) {
            let cells: Vec<&str> =
                row.trim_start_matches("| ").trim_end_matches('|').split(" |").map(str::trim).collect();
            let [key, form, _default, meaning, _source] = cells[..] else { panic!("[{table}]: five cells: {row}") };
            let key = key.trim_matches('`');
            assert!(known.contains(&(table.to_owned(), key)), "[{table}] has no {key}");
            assert!(!form.is_empty() && !meaning.is_empty(), "[{table}]: {row}");
        }
    }
}

/// Keys that may be left out say what holds then; those that must be there do not.
#[test]
fn defaults_are_those_of_the_form() {
    let good: Table = GOOD.parse().expect("a profile");
    for (table, key, is_required) in [
        ("machine.launch", "launch_us", true),
        ("machine.update", "node_us", false),
        ("engine.attention", "shared_us", false),
        ("engine.startup", "per_capture_s", false),
        ("engine.dispatch", "compiled_us_range", false),
        ("identity", "driver", false),
        ("identity", "device", true),
    ] {
        let mut without = good.clone();
        let place = table.split('.').fold(&mut without, |table, key| table[key].as_table_mut().expect("a table"));
        place.remove(key);
        let accepted = Profile::from_toml(&toml::to_string(&without).expect("TOML"), "mine.toml").is_ok();
        assert_eq!(accepted, !is_required, "{table}.{key}");
        let row = rows(sections()[table]).find(|row| row.starts_with(&format!("| `{key}` "))).expect("its row");
        let default = row.split(" |").nth(2).expect("five cells").trim();
        assert_eq!(default.is_empty(), is_required, "{row}");
    }
}

/// The profile of the exercise with the groups of an example in place of its own.
fn completed(example: &str) -> Table {
    let mut whole: Table = GOOD.parse().expect("a profile");
    let example: Table = example.parse().unwrap_or_else(|error| panic!("{error} in\n{example}"));
    for (half, groups) in example {
        let Value::Table(groups) = groups else { panic!("{half}: an example holds groups") };
        whole[&half].as_table_mut().expect("a half of a profile").extend(groups);
    }
    whole
}

#[test]
fn every_example_is_accepted() {
    let mut shown = BTreeSet::new();
    for block in PAGE.split("\n```toml\n").skip(1) {
        let example = block.split("\n```").next().expect("a block ends");
        let whole = toml::to_string(&completed(example)).expect("it was TOML before");
        let profile =
            Profile::from_toml(&whole, "example.toml").unwrap_or_else(|error| panic!("{error} in\n{example}"));
        let groups = profile.groups().into_iter().map(|(name, _)| name);
        shown.extend(groups.filter(|name| example.contains(&format!("[{name}."))));
    }
    let all: BTreeSet<&str> = Form::of(&[walk::<ProfileFile>])
        .keys
        .iter()
        .filter(|(table, _)| ["machine", "engine"].contains(&table.as_str()))
        .filter(|(table, key)| !["machine.attention", "machine.piecewise_gap"].contains(&&*format!("{table}.{key}")))
        .map(|(_, key)| *key)
        .collect();
    let shown: BTreeSet<&str> = shown.into_iter().filter_map(|name| name.split('.').nth(1)).collect();
    assert_eq!(all.difference(&shown).collect::<Vec<_>>(), Vec::<&&str>::new());
}

//! Public reports beside this program's answers: `scenarios/field/cases.toml` says what was reported and which command answers,
//! and `scenarios/field/README.md` has both side by side.

mod answer;
mod comparison;
mod file;
mod page;

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::PathBuf;

use self::file::{Cases, Report};
use self::page::{Compared, page};
use super::files::{folder, name, scenarios};

fn read() -> Cases {
    let text = fs::read_to_string(folder().join("field/cases.toml")).expect("the cases");
    toml::from_str(&text).unwrap_or_else(|error| panic!("cases.toml: {error}"))
}

fn path() -> PathBuf {
    folder().join("field/README.md")
}

/// The page is what the commands print, and what misses has a reason, and only that.
#[test]
fn the_page_is_what_the_commands_print() {
    let cases = read();
    let all = Compared::all(&cases);
    let mut faults = Vec::new();
    for row in all.iter().flat_map(Compared::rows) {
        let (what, why) = (&row.figure.what, &row.figure.why);
        match (row.comparison.misses, why) {
            (true, None) => faults.push(format!("{what}: misses without a reason: {:?}", row.comparison)),
            (false, Some(_)) => faults.push(format!("{what}: has a reason and does not miss: {:?}", row.comparison)),
            _ => {}
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
    let (found, expected) = (fs::read_to_string(path()).unwrap_or_default(), page(&all));
    let differing = expected.lines().zip(found.lines()).find(|(expected, found)| expected != found);
    assert!(
        found == expected,
        "scenarios/field/README.md is not what the commands print, first here:\n{differing:#?}\n\
         `cargo test --test scenarios write_the_page -- --ignored` writes it: read what changed"
    );
}

#[test]
#[ignore = "writes scenarios/field/README.md"]
fn write_the_page() {
    fs::write(path(), page(&Compared::all(&read()))).expect("written");
}

/// A report is answered by commands or says why not; each once, in order.
#[test]
fn each_report_is_answered_or_says_why_not() {
    let cases = read();
    let numbers: Vec<&str> = cases.reports.iter().map(|report| report.number.as_str()).collect();
    assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    for Report { number, sources, asks, question, answer, unanswered, .. } in &cases.reports {
        assert!(!sources.is_empty(), "{number} says where it stands");
        let is_answered = !asks.is_empty() && !question.is_empty() && !answer.is_empty();
        assert_eq!(is_answered, unanswered.is_none(), "{number}");
    }
}

/// The numbers are those of the project's collection; what it has besides, once it grows, is named.
#[test]
fn the_reports_are_of_the_collection() {
    let shared = env::var("RUNGWISE_SHARED").unwrap_or_else(|_| "../shared".to_owned());
    let root = folder().join("..");
    let Ok(text) = fs::read_to_string(root.join(&shared).join("field/reports.md")) else {
        println!("skipped: no {shared}/field/reports.md");
        return;
    };
    let collected: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("**")?.split_once("**")).map(|(number, _)| number).collect();
    let cases = read();
    let ours: BTreeSet<&str> = cases.reports.iter().map(|report| report.number.as_str()).collect();
    let unknown: Vec<&&str> = ours.difference(&collected).collect();
    assert!(unknown.is_empty(), "{unknown:?} are not in {shared}/field/reports.md");
    println!("without an entry: {:?}", collected.difference(&ours).collect::<Vec<_>>());
}

/// A scenario of the folder that no command of the page runs would say nothing.
#[test]
fn every_scenario_of_the_folder_is_run() {
    let cases = read();
    let asks = || cases.reports.iter().flat_map(|report| &report.asks);
    let runs =
        |name: &str| asks().any(|ask| ask.command.split_whitespace().any(|word| word == format!("scenarios/{name}")));
    let names = scenarios().into_iter().map(|path| name(&path)).filter(|name| name.starts_with("field/"));
    let idle: Vec<String> = names.filter(|name| !runs(name)).collect();
    assert!(idle.is_empty(), "{idle:?}");
}

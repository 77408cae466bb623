//! Pages of the guide, and parts of them, that are generated from what they tell of.

use std::fs;
use std::path::Path;

/// The file at `path` holds `expected`; with `INSTA_UPDATE=always`, as snapshots have it, it is written.
#[track_caller]
pub(crate) fn is_current(path: &Path, expected: &str) {
    if std::env::var_os("INSTA_UPDATE").is_some_and(|update| update == "always") {
        fs::write(path, expected).expect("a page of the repository can be written");
    }
    let found = fs::read_to_string(path).unwrap_or_default();
    let mut lines = found.lines().zip(expected.lines());
    let differs = lines.position(|(found, expected)| found != expected);
    let line = differs.unwrap_or(found.lines().count().min(expected.lines().count())) + 1;
    assert!(
        found == expected,
        "{}:{line}: not what is generated; run this test again with INSTA_UPDATE=always",
        path.display()
    );
}

/// The help of a program and of each command that it names, as one page. `help` answers for the words before `--help`.
pub(crate) fn command_page(program: &str, head: &str, help: impl Fn(&[&str]) -> String) -> String {
    let whole = help(&[]);
    let section = |name: &str, text: &str| format!("\n## `{name}`\n\n```text\n{}\n```\n", text.trim_end());
    let mut page = format!("# Commands of `{program}`\n\n{head}\n{}", section(program, &whole));
    for command in commands(&whole) {
        page += &section(&format!("{program} {command}"), &help(&[command]));
    }
    page
}

/// The commands that a help text lists, in its order, without `help`.
pub(crate) fn commands(help: &str) -> Vec<&str> {
    let listed = help.split_once("\nCommands:\n").expect("a list of commands").1;
    let lines = listed.lines().take_while(|line| !line.is_empty());
    // Longer descriptions go on in lines that are further in.
    let names = lines.filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
    names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect()
}

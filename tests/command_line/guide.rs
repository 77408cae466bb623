//! The parts of the guide that are generated: commands, figures, exit codes.

use std::fmt::{self, Write};
use std::fs;
use std::path::PathBuf;

use calibrate::exit::Exit;
use calibrate::profile::{BUILTIN, Profile};
use reports::{Better, FIGURES};

use super::{generated, names, root, sim};

fn page(name: &str) -> PathBuf {
    root().join("sim/guide").join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(page(name)).expect("a page of the guide")
}

/// The page with the lines between two marks replaced, each a line of its own: `<!-- NAME -->` and `<!-- end NAME -->`.
fn with_part(page: &str, name: &str, part: &str) -> String {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end {name} -->\n"));
    let (head, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("no {begin}"));
    let (_, tail) = rest.split_once(&end).unwrap_or_else(|| panic!("no {end}"));
    format!("{head}{begin}{part}{end}{tail}")
}

/// Text in memory takes what is written.
fn told(written: fmt::Result) {
    written.expect("memory takes all");
}

/// A build without pages has no `sim report`.
#[cfg(feature = "pages")]
#[test]
fn commands() {
    let head = "What `--help` says of each. This page is generated; a test compares it with the program.";
    let help = |words: &[&str]| sim(&[words, &["--help"]].concat()).done();
    generated::is_current(&page("commands.md"), &generated::command_page("sim", head, help));
}

/// Every figure of a candidate, with its definition from `reports/SCHEMA.md`.
#[test]
fn figures() {
    let schema = fs::read_to_string(root().join("reports/SCHEMA.md")).expect("the fields of all results");
    let definition = |name: &str| {
        let field = format!("| `candidates[].{name}` | ");
        let row = schema.lines().find_map(|line| line.strip_prefix(field.as_str()));
        let cells: Vec<_> = row.unwrap_or_else(|| panic!("SCHEMA.md has no {name}")).split(" | ").collect();
        cells[2].trim_end_matches(" |").to_owned()
    };
    let (mut part, mut group) = (String::new(), None);
    for spec in FIGURES {
        if group.replace(spec.group) != Some(spec.group) {
            let head = "| in tables | in JSON and CSV | unit | better | what it is |\n|---|---|---|---|---|";
            told(writeln!(part, "\n### {}\n\n{head}", spec.group.title()));
        }
        let better = match spec.better {
            Better::Higher => "more",
            Better::Lower => "less",
            Better::Neither => "-",
        };
        let (label, name, unit) = (spec.label.trim_start(), spec.name, spec.unit);
        told(writeln!(part, "| {label} | `{name}` | {unit} | {better} | {} |", definition(name)));
    }
    part.push('\n');
    generated::is_current(&page("figures.md"), &with_part(&text("figures.md"), "figures", &part));
}

/// The codes that a help text lists.
fn listed(help: &str) -> Vec<u8> {
    let codes = help.split("Exit codes:\n").nth(1).expect("a list of exit codes");
    codes
        .lines()
        .take_while(|line| !line.starts_with("```"))
        .filter_map(|line| line.split_whitespace().next()?.parse().ok())
        .collect()
}

#[test]
fn exit_codes() {
    let of_sim = listed(&sim(&["--help"]).done());
    let of_calibrate = listed(&text("calibrate.md"));
    let mut part = "\n| code | meaning | `sim` | `calibrate` |\n|---|---|---|---|\n".to_owned();
    for exit in Exit::ALL {
        let mark = |codes: &[u8]| if codes.contains(&exit.code()) { "yes" } else { "-" };
        let (sim, calibrate) = (mark(&of_sim), mark(&of_calibrate));
        told(writeln!(part, "| {} | {} | {sim} | {calibrate} |", exit.code(), exit.meaning()));
    }
    part.push('\n');
    assert!(of_sim.iter().chain(&of_calibrate).all(|code| Exit::ALL.iter().any(|exit| exit.code() == *code)));
    generated::is_current(&page("exit-codes.md"), &with_part(&text("exit-codes.md"), "exit codes", &part));
}

/// Where each group of each built-in profile comes from.
#[test]
fn builtin_profiles() {
    let profiles: Vec<Profile> = BUILTIN.iter().map(|name| Profile::builtin(name).expect("it is built in")).collect();
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in profiles.iter().flat_map(Profile::groups) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut part = format!("\n| group | `{}` |\n|---{}|\n", BUILTIN.join("` | `"), "|---".repeat(BUILTIN.len()));
    for name in names {
        let kind = |profile: &Profile| {
            let groups = profile.groups();
            groups.iter().find(|(group, _)| *group == name).map_or("-", |(_, provenance)| provenance.kind.as_str())
        };
        told(writeln!(part, "| `{name}` | {} |", profiles.iter().map(kind).collect::<Vec<_>>().join(" | ")));
    }
    part.push('\n');
    generated::is_current(&page("costs.md"), &with_part(&text("costs.md"), "built-in profiles", &part));
}

/// Every file of golden vectors, with what its own page says of it.
#[test]
fn golden_vectors() {
    let golden = root().join("tests/golden");
    let read = |path: PathBuf| fs::read_to_string(path).expect("a readable file");
    let page_of_golden = read(golden.join("README.md"));
    let mut part = "\n| engine | vectors | lines | what they hold |\n|---|---|---|---|\n".to_owned();
    let mut lines_in_all = 0;
    for engine in ["vllm", "sglang"] {
        for file in names(&golden.join(engine)).iter().filter_map(|name| name.strip_suffix(".jsonl")) {
            let quoted = format!("`{file}`");
            let row = page_of_golden.lines().find(|line| line.starts_with('|') && line.contains(&quoted));
            let row = row.unwrap_or_else(|| panic!("tests/golden/README.md does not tell of {quoted}"));
            let held = row.trim_end_matches(" |").rsplit(" | ").next().expect("a cell");
            let lines = read(golden.join(engine).join(format!("{file}.jsonl"))).lines().count();
            told(writeln!(part, "| {engine} | {quoted} | {lines} | {held} |"));
            lines_in_all += lines;
        }
    }
    told(writeln!(part, "| both | all | {lines_in_all} | |\n"));
    let page_text = with_part(&text("exactness.md"), "golden vectors", &part);
    generated::is_current(&page("exactness.md"), &page_text);
}

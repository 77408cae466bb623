//! The README's first screen: its commands run, and its output is the real one.

use super::{root, sim};

/// The commands of the README with the lines shown below them. `cargo run … -p sim -- X` and `sim X` both mean `sim X`; the other
/// programs have tests of their own.
fn commands() -> Vec<(Vec<String>, Vec<String>)> {
    let readme = std::fs::read_to_string(root().join("README.md")).expect("there is a README");
    let mut commands: Vec<(Vec<String>, Vec<String>)> = Vec::new();
    let mut inside = false;
    for line in readme.lines() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if inside && let Some(command) = line.strip_prefix("$ ") {
            let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
            let start = match words[0].as_str() {
                "sim" => 1,
                "cargo" if words[1] == "run" && words.iter().any(|word| word == "sim") => {
                    words.iter().position(|word| word == "--").expect("-- before sim's own") + 1
                }
                _ => continue,
            };
            commands.push((words[start..].to_vec(), Vec::new()));
        } else if inside && let Some((_, shown)) = commands.last_mut() {
            shown.push(line.to_owned());
        }
    }
    commands
}

#[test]
fn every_command_runs_and_shows_what_the_readme_shows() {
    let commands = commands();
    assert!(commands.len() >= 5, "the README shows {} commands of sim", commands.len());
    for (arguments, shown) in commands {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let out = sim(&arguments).done();
        let mut lines = out.lines();
        for line in shown.iter().filter(|line| *line != "...") {
            assert!(lines.any(|printed| printed == line), "sim {arguments:?} no longer prints, in this order:\n{line}");
        }
    }
}

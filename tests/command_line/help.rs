//! Help and version.

use super::{generated, sim};

/// The commands of this build.
fn commands() -> Vec<String> {
    generated::commands(&sim(&["--help"]).done()).into_iter().map(str::to_owned).collect()
}

#[test]
fn help_of_the_program_and_of_every_command() {
    for command in [String::new()].into_iter().chain(commands()) {
        let command = command.as_str();
        let arguments: Vec<&str> = [command, "--help"].into_iter().filter(|word| !word.is_empty()).collect();
        let answer = sim(&arguments);
        assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""));
        assert!(answer.stdout.lines().all(|line| line.chars().count() <= 100), "{}", answer.stdout);
        insta::assert_snapshot!(format!("help_{}", if command.is_empty() { "sim" } else { command }), answer.stdout);
    }
}

#[test]
fn short_help_names_every_option_as_the_long_one_does() {
    let options = |text: &str| -> Vec<String> {
        text.split_whitespace()
            .filter(|word| word.starts_with("--"))
            .map(|word| word.trim_end_matches(',').to_owned())
            .collect()
    };
    for command in &commands() {
        let (short, long) = (sim(&[command, "-h"]).done(), sim(&[command, "--help"]).done());
        assert!(options(&short).iter().all(|option| options(&long).contains(option)), "{command}");
        assert_eq!(sim(&["help", command]).done(), long);
    }
}

/// The examples of the help are command lines that work.
#[test]
fn the_examples_are_accepted() {
    let helps = ["explain", "ladder", "price", "startup"].map(|command| sim(&[command, "--help"]).done());
    let examples: Vec<&str> = helps
        .iter()
        .flat_map(|help| help.split("Examples:").nth(1).expect("there are examples").lines())
        .filter_map(|line| line.trim().strip_prefix("sim "))
        .collect();
    assert!(examples.len() >= 11, "{examples:?}");
    for example in examples {
        sim(&example.split(' ').collect::<Vec<_>>()).done();
    }
}

#[test]
fn version() {
    assert_eq!(sim(&["--version"]).done(), format!("sim {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn no_command_is_wrong_use() {
    let message = sim(&[]).refused(2);
    assert!(message.contains("Usage: sim <COMMAND>"), "{message}");
}

//! What goes to which stream, and streams that cannot be written.

use std::fs::File;
use std::process::Stdio;

use super::{Answer, command_in, root, sim};

const COMMANDS: [&[&str]; 7] = [
    &["run", "scenarios/chunked.toml", "--requests", "50"],
    &["run", "scenarios/chunked.toml", "--requests", "50", "--format", "json"],
    &["ladder", "--format", "csv"],
    &["explain", "--decodes", "13", "--profile", "a100-llama-3-8b"],
    &["check", "scenarios/chunked.toml"],
    &["--help"],
    &["--version"],
];

#[test]
fn stdout_is_the_same_bytes_on_every_run_and_with_any_number_of_threads() {
    for command in COMMANDS {
        let first = sim(command);
        assert_eq!(sim(command), first);
        for threads in ["1", "2", "7"] {
            let output = command_in(&root(), command).env("RAYON_NUM_THREADS", threads).output();
            assert_eq!(Answer::from(output.expect("the binary was built")), first, "{threads} threads");
        }
    }
}

#[test]
fn warnings_go_to_stderr_and_into_the_json_only() {
    let text = sim(COMMANDS[0]);
    assert!(text.stderr.lines().all(|line| line.starts_with("warning[") || line.starts_with("  ")), "{}", text.stderr);
    assert!(text.stderr.contains("warning["));
    assert!(!text.stdout.contains("warning["));
    let json = sim(COMMANDS[1]);
    assert_eq!(json.stderr, text.stderr, "the format changes stdout only");
    let report: serde_json::Value = serde_json::from_str(&json.done()).expect("JSON and nothing else");
    let warnings = report["warnings"].as_array().expect("a list").len();
    assert_eq!(text.stderr.matches("warning[").count(), warnings);
}

/// As in `sim run … | true`: the reader had enough, which is nobody's failure.
#[test]
fn a_closed_stdout_is_no_failure() {
    for command in COMMANDS {
        let mut child = command_in(&root(), command)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary was built");
        drop(child.stdout.take());
        let answer = Answer::from(child.wait_with_output().expect("it ends"));
        assert_eq!(answer.code, Some(0), "{command:?}: {}", answer.stderr);
        assert_eq!(answer.stderr, sim(command).stderr, "warnings, and no word of the pipe");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_stdout_is_a_failure() {
    for command in COMMANDS {
        let full = File::options().write(true).open("/dev/full").expect("every Linux has it");
        let output = command_in(&root(), command).stdout(full).output().expect("the binary was built");
        let message = Answer::from(output).refused(1);
        let last = "  × cannot write to standard output: No space left on device (os error 28)\n";
        assert!(message.ends_with(last), "{command:?}: {message}");
    }
}

/// A standard error that nobody reads changes neither the answer nor the exit code.
#[cfg(unix)]
#[test]
fn a_closed_stderr_is_passed_over() {
    let closed = |arguments: &[&str]| {
        let mut child =
            command_in(&root(), arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("built");
        drop(child.stderr.take());
        child.wait_with_output().expect("it ends")
    };
    let warned = closed(COMMANDS[0]);
    assert_eq!((warned.status.code(), warned.stdout), (Some(0), sim(COMMANDS[0]).stdout.into_bytes()));
    assert_eq!(closed(&["check", "no/such.toml"]).status.code(), Some(3));
    assert_eq!(closed(&["run"]).status.code(), Some(2));
}

//! The `calibrate` binary from outside: what it prints where, and its exit codes.

mod coverage;
mod destination;
mod device;
mod disturbed;
mod double;
#[path = "../generated.rs"]
mod generated;
mod installing;
mod layer;
mod measure;
#[cfg(unix)]
mod on_gpu;
mod probe;
mod probe_rules;
mod profiles;
mod replay;
mod resume;
mod self_check;
mod staircase;
mod state;
mod wild_access;

use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn calibrate(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_calibrate"));
    command.args(arguments).env_remove("NO_COLOR").env_remove("COLUMNS").output().expect("the binary was built")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("output is text")
}

#[test]
fn list_names_every_builtin_with_its_origins() {
    let output = calibrate(&["list"]);
    assert_eq!(output.status.code(), Some(0));
    insta::assert_snapshot!(text(&output.stdout));
}

#[test]
fn show_says_where_each_group_comes_from() {
    let output = calibrate(&["show", "a100-llama-3-8b"]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    insta::assert_snapshot!(text(&output.stdout));
}

/// However long its sentences are.
#[test]
fn shown_profiles_fit_eighty_columns() {
    let folder = tempfile::tempdir().expect("a folder to write to");
    let file = folder.path().join("long.toml");
    let long = include_str!("double.toml").replace("source = \"", &format!("source = \"{}", "word ".repeat(40)));
    fs::write(&file, long).expect("the folder can be written");
    let named = file.to_str().expect("the path is text");
    for arguments in [&["show", named][..], &["report", named], &["check", named], &["diff", named, "textbook"]] {
        let output = calibrate(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
        let is_table = arguments[0] == "diff";
        for line in text(&output.stdout).lines().filter(|line| !is_table && !line.contains(named)) {
            assert!(line.chars().count() <= 80 || line.split_whitespace().count() <= 2, "{arguments:?}: {line}");
        }
    }
}

/// A text that a terminal would obey is refused with its place, whoever reads the profile.
#[test]
fn a_profile_cannot_command_the_terminal() {
    let folder = tempfile::tempdir().expect("a folder to write to");
    let file = folder.path().join("hostile.toml");
    let measured = include_str!("double.toml");
    fs::write(&file, measured.replace("name = \"double-", "name = \"\\u001b[2Jdouble-")).expect("it can be written");
    let named = file.to_str().expect("the path is text");
    for arguments in [&["show", named][..], &["report", named], &["check", named], &["diff", named, "textbook"]] {
        let output = calibrate(arguments);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(3), ""), "{arguments:?}");
        let said = text(&output.stderr);
        assert!(said.split_whitespace().any(|word| word.ends_with("hostile.toml:2:8:")), "{said}");
        assert!(said.contains("name: a control character (U+001B)"), "{said}");
        assert!(!said.chars().any(|c| c.is_control() && c != '\n'), "{said:?}");
    }
}

/// Figures that say that they were measured, and were not, or elsewhere.
#[test]
fn check_believes_no_measurement_that_cannot_be() {
    let folder = tempfile::tempdir().expect("a folder to write to");
    let file = folder.path().join("mine.toml");
    let double = include_str!("double.toml");
    let refused = |profile: &str, reason: &str| {
        fs::write(&file, profile).expect("the folder can be written");
        let output = calibrate(&["check", file.to_str().expect("the path is text")]);
        let said = text(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(output.status.code(), Some(3), "{reason}: {said}");
        assert!(said.contains(reason), "{said}");
    };
    refused(
        &double.replace("2026-01-31T09:30:00Z\"\ncalibrate", "yesterday\"\ncalibrate"),
        "yesterday: expected a date",
    );
    refused(&double.replace("total_bytes = 150323855360", "total_bytes = 1073741824"), "1.00 GiB: expected at least");
    refused(&double.replace("layers = 32", "layers = 999"), "kernel nodes: expected");
    let (start, end) = (double.find("[measurement]"), double.find("[machine.memory]"));
    let (before, after) = (&double[..start.expect("it is there")], &double[end.expect("it is there")..]);
    let alone = format!("{before}{after}").replace("kind = \"double\"", "kind = \"measured\"");
    refused(&alone, "machine.memory.provenance: measured figures without");
}

/// One fault each, with the place, what was expected and the way out.
#[test]
fn check_says_what_cannot_be_measured() {
    let folder = tempfile::tempdir().expect("a folder to write to");
    let file = folder.path().join("mine.toml");
    let double = include_str!("double.toml");
    let faults = [
        ("weight_layers = 8", "weight_layers = 99"),
        ("date = \"2026-01-31T09:30:00Z\"", "date = \"1970-01-01T00:01:15Z\""),
        ("date = \"2026-01-31T09:30:00Z\"", "date = \"2026-01-31T09:30:60Z\""),
        ("cuda_version = \"12.9\"", "cuda_version = \"latest\""),
        ("engine = \"vllm\"", "engine = \"vlm\""),
        ("nodes = [420, 420", "nodes = [420, 26.5"),
        ("total_bytes = 150323855360", "total_bytes = 1000"),
        ("read_gb_per_s = { low = 4288.4, high = 4331.5", "read_gb_per_s = { low = 4288.4, high = 1e9"),
        ("node_us = { low = 0.2425, high = 0.2575, samples = 24 }\n", ""),
        ("worst_percent = 4.7", "worst_percent = 0.1"),
    ];
    let messages = faults.map(|(from, to)| {
        assert!(double.contains(from), "{from}");
        fs::write(&file, double.replacen(from, to, 1)).expect("the folder can be written");
        let output = calibrate(&["check", file.to_str().expect("the path is text")]);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(3), ""), "{to}");
        text(&output.stderr).replace(&format!("{}/", folder.path().display()), "")
    });
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn a_builtin_profile_can_be_checked() {
    let output = calibrate(&["check", "textbook"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "textbook: ok: profile textbook, 14 groups\n"));
}

/// A number that cannot be is said to be that, not taken for an option.
#[test]
fn malformed_numbers_are_named() {
    let wrong = [
        &["--device", "-1"][..],
        &["--device", "1.5"],
        &["--device", "99999"],
        &["--device", ""],
        &["--device", "0", "--tp-shard", "-2"],
        &["--device", "0", "--tp-shard", "2.5"],
        &["--device", "0", "--ladder", "-1,2"],
        &["--device", "0", "--time-limit", "-5s"],
        &["--device", "0", "--time-limit", "5"],
        &["--device", "0", "--time-limit", "0s"],
        &["--device", "0", "--memory-limit", "-4GiB"],
        &["replay", "steps.jsonl", "--limit", "-1"],
        &["probe", "launch", "--layers", "0"],
        &["probe", "launch", "--seed", "-1"],
    ];
    let messages = wrong.map(|arguments| {
        let output = calibrate(arguments);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""), "{arguments:?}");
        text(&output.stderr).lines().next().unwrap_or_default().to_owned()
    });
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn show_toml_gives_a_file_that_check_accepts() {
    let folder = tempfile::tempdir().expect("a folder to write to");
    let file = folder.path().join("mine.toml");
    fs::write(&file, calibrate(&["show", "--toml", "textbook"]).stdout).expect("the folder can be written");
    let checked = calibrate(&["check", file.to_str().expect("the path is text")]);
    assert_eq!(checked.status.code(), Some(0));
    assert!(text(&checked.stdout).ends_with("mine.toml: ok: profile textbook, 14 groups\n"), "{checked:?}");
}

#[test]
fn a_bad_file_is_shown_with_its_faulty_line() {
    let folder = tempfile::tempdir().expect("a folder to write to");
    let file = folder.path().join("bad.toml");
    let good = text(&calibrate(&["show", "--toml", "textbook"]).stdout).to_owned();
    fs::write(&file, good.replace("launch_us = 1100", "launch_us = -1100")).expect("the folder can be written");
    let output =
        Command::new(env!("CARGO_BIN_EXE_calibrate")).current_dir(&folder).args(["check", "bad.toml"]).output();
    let output = output.expect("the binary was built");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(3), ""));
    insta::assert_snapshot!(text(&output.stderr));
}

#[test]
fn unknown_names_and_missing_files_are_bad_input() {
    let unknown = calibrate(&["show", "a100"]);
    assert_eq!(unknown.status.code(), Some(3));
    insta::assert_snapshot!(text(&unknown.stderr), @r"
    × no built-in profile is called `a100`
    help: did you mean a100-llama-3-8b? (the built-in profiles are textbook, textbook-weight-bound,
          a100-llama-3-8b, h100-llama-2-7b, h200-llama-3.1-8b, rtx4090-llama-3.1-8b)
    ");
    let missing = calibrate(&["check", "no/such/file.toml"]);
    assert_eq!(missing.status.code(), Some(3));
    insta::assert_snapshot!(text(&missing.stderr), @r"
    × cannot read the profile no/such/file.toml
    ╰─▶ No such file or directory (os error 2)
    help: check the path and its permissions, or name a built-in profile
    ");
}

/// A machine with a driver would load it: this is about machines without.
#[test]
fn without_a_driver_one_message_says_so_at_once() {
    let timed = || {
        let start = Instant::now();
        (calibrate(&["--self-check"]), start.elapsed())
    };
    // The quickest of a few: the other tests run beside it.
    let runs = [timed(), timed(), timed()];
    let (output, quickest) = (&runs[0].0, runs.iter().map(|(_, elapsed)| *elapsed).min().unwrap_or_default());
    if text(&output.stdout).starts_with("driver") {
        eprintln!("skipped: this machine has a CUDA driver");
        return;
    }
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(4), ""));
    insta::assert_snapshot!(text(&output.stderr), @r"
    × no CUDA driver was found: none of the names of its library (libcuda.so.1) can be loaded
    help: install an NVIDIA driver, or start the container with GPUs (`--gpus all`); on a machine
          without a GPU use a built-in profile (`calibrate list`)
    ");
    assert!(quickest < Duration::from_millis(100), "{quickest:?}");
}

#[test]
fn a_list_without_a_driver_is_the_same_message() {
    let [list, device] = [&["--list"][..], &["--device", "GPU-8932f937"]].map(calibrate);
    if list.status.code() == Some(0) || text(&device.stdout).starts_with("driver") {
        eprintln!("skipped: this machine has a CUDA driver");
        return;
    }
    assert_eq!((list.status.code(), text(&list.stdout)), (Some(4), ""));
    assert_eq!(text(&list.stderr), text(&device.stderr));
}

#[test]
fn a_name_that_no_device_can_have_is_wrong_use() {
    let output = calibrate(&["--device", "GPU-xyz"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""));
    insta::assert_snapshot!(text(&output.stderr), @r"
    error: invalid value 'GPU-xyz' for '--device <GPU>': expected a UUID after GPU-, or its beginning: 8-4-4-4-12 hexadecimal digits

    For more information, try '--help'.
    ");
}

#[test]
fn wrong_use_exits_with_2() {
    let wrong = [
        &[][..],
        &["show"],
        &["frobnicate"],
        &["--device"],
        &["--nvrtc"],
        &["--list", "--self-check"],
        &["--list", "--device", "0"],
        &["--probe-rules=some"],
        &["--quick"],
        &["--self-check", "--device", "0", "--quick"],
        &["--device", "0", "--ladder", "1,x"],
        &["--device", "0", "--time-limit", "90"],
        &["--device", "0", "--memory-limit", "40"],
        &["--device", "0", "--tp-shard", "0"],
        &["--device", "0", "--modes", "none"],
    ];
    for arguments in wrong {
        let output = calibrate(arguments);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""), "{arguments:?}");
    }
}

fn help(words: &[&str]) -> String {
    let help = calibrate(&[words, &["--help"]].concat());
    assert_eq!((help.status.code(), text(&help.stderr)), (Some(0), ""), "{words:?}");
    text(&help.stdout).to_owned()
}

#[test]
fn help_of_the_program_and_of_every_command() {
    for command in [""].into_iter().chain(generated::commands(&help(&[]))) {
        let words: Vec<&str> = [command].into_iter().filter(|word| !word.is_empty()).collect();
        let name = format!("help_{}", if command.is_empty() { "calibrate" } else { command });
        insta::assert_snapshot!(name, help(&words));
    }
    let version = calibrate(&["--version"]);
    assert_eq!(text(&version.stdout), format!("calibrate {}\n", env!("CARGO_PKG_VERSION")));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_stdout_is_a_failure() {
    for arguments in [&["list"][..], &["show", "textbook"], &["--help"]] {
        let full = fs::File::options().write(true).open("/dev/full").expect("every Linux has it");
        let output = Command::new(env!("CARGO_BIN_EXE_calibrate")).args(arguments).stdout(full).output();
        let output = output.expect("the binary was built");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert_eq!(text(&output.stderr), "error: cannot write to stdout: No space left on device (os error 28)\n");
    }
}

#[test]
fn a_closed_stdout_is_no_failure() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_calibrate"))
        .args(["show", "--toml", "rtx4090-llama-3.1-8b"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the binary ends");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
}

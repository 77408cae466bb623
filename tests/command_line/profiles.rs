//! Profiles that cannot be used. Each is the textbook profile with one thing changed, so that the fault is the only one.

use std::fs;

use super::{folder_with, root, scenario, sim, sim_in};

/// What `sim check --profile profile.toml` says of the textbook profile with `from` replaced by `to`.
#[track_caller]
fn refusal(from: &str, to: &str) -> String {
    let textbook = fs::read_to_string(root().join("scenarios/profiles/textbook.toml")).expect("a built-in profile");
    assert_eq!(textbook.matches(from).count(), 1, "`{from}` is there once");
    let folder = folder_with(&scenario("", ""));
    fs::write(folder.path().join("profile.toml"), textbook.replace(from, to)).expect("writable");
    sim_in(folder.path(), &["check", "scenario.toml", "--profile", "profile.toml"]).refused(3)
}

#[test]
fn a_profile_with_one_fault_is_refused_with_its_line() {
    let faults = [
        refusal("schema = 1\n", "schema = 2\n"),
        refusal("valid_rows = [1, 512]", "valid_rows = [512, 1]"),
        refusal("launch_us = 1100", "launch_us = nan"),
        refusal("launch_us = 1100", "launch_us = inf"),
        refusal("launch_us = 1100", "launch_us = -1"),
        refusal("launch_us = 1100", "launch_us = 1100\nlaunch_ms = 1.1"),
        refusal("launch_us = 1100", "launch_us = \"1100\""),
        refusal("[machine.launch]\nlaunch_us = 1100", "[machine.launch"),
    ];
    insta::assert_snapshot!(faults.join("\n"));
}

/// Curves must rise in x, whatever they do in y.
#[test]
fn a_table_with_falling_x_is_refused() {
    let a100 = fs::read_to_string(root().join("scenarios/profiles/a100-llama-3-8b.toml")).expect("a built-in profile");
    let (before, dense) = a100.split_once("[machine.dense.table]").expect("measured as a table");
    let folder = folder_with(&scenario("", ""));
    let falling = format!("{before}[machine.dense.table]{}", dense.replacen("1, 2, 4, 8,", "1, 2, 8, 4,", 1));
    fs::write(folder.path().join("profile.toml"), falling).expect("writable");
    let message = sim_in(folder.path(), &["check", "scenario.toml", "--profile", "profile.toml"]).refused(3);
    insta::assert_snapshot!(message, @r"
     × profile.toml:35:12: machine.dense.table.rows[3]: 4 after 8: knots must rise strictly
       ╭─[profile.toml:35:12]
    34 │ rows = [
    35 │   1, 2, 8, 4, 16, 24, 32, 40, 48, 56, 64, 72,
       ·            ─
    36 │   80, 88, 96, 104, 112, 120, 128, 136, 144, 152, 160, 168,
       ╰────
     help: sort the knots, together with their costs, and keep one of each
    ");
}

#[test]
fn a_profile_that_is_not_there() {
    let scenario = "scenarios/chunked.toml";
    insta::assert_snapshot!(sim(&["run", scenario, "--profile", "h100"]).refused(3), @r"
    × no built-in profile is called `h100`
    help: did you mean h100-llama-2-7b? (the built-in profiles are textbook, textbook-weight-bound,
          a100-llama-3-8b, h100-llama-2-7b, h200-llama-3.1-8b, rtx4090-llama-3.1-8b)
    ");
    insta::assert_snapshot!(sim(&["run", scenario, "--profile", "no/such.toml"]).refused(3), @r"
    × cannot read the profile no/such.toml
    ╰─▶ No such file or directory (os error 2)
    help: check the path and its permissions, or name a built-in profile
    ");
    insta::assert_snapshot!(sim(&["ladder", "--profile", "scenarios"]).refused(3), @r"
    × cannot read the profile scenarios
    ╰─▶ Is a directory (os error 21)
    help: check the path and its permissions, or name a built-in profile
    ");
}

/// A profile in the form that calibrate writes, made up, with `from` replaced by `to`.
fn measured_profile(from: &str, to: &str) -> tempfile::TempDir {
    let measured = fs::read_to_string(root().join("tests/calibrate/double.toml")).expect("it is there");
    assert!(measured.contains(from), "`{from}` is there");
    let folder = folder_with(&scenario("", "").replace("builtin = \"textbook\"", "file = \"double.toml\""));
    fs::write(folder.path().join("double.toml"), measured.replacen(from, to, 1)).expect("writable");
    folder
}

#[test]
fn every_report_repeats_what_a_profile_says_of_its_measurement() {
    let folder = measured_profile("", "");
    let run = sim_in(folder.path(), &["run", "scenario.toml"]).done();
    let stated = run.lines().skip_while(|line| !line.starts_with("Costs: ")).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(stated);
    for command in [&["run", "scenario.toml"][..], &["startup", "scenario.toml"]] {
        let json = sim_in(folder.path(), &[command, &["--format", "json"]].concat()).done();
        assert!(json.contains("\"stated_error\": \"within 3.0 % (95 %)\""), "{command:?}");
    }
}

/// A candidate that captures graphs of a mode that was not captured while measuring.
#[test]
fn a_mode_that_was_not_measured_is_warned_of_where_it_is_used() {
    let whole = fs::read_to_string(root().join("tests/calibrate/double.toml")).expect("it is there");
    let (from, to) = (whole.find("[measurement.piecewise]").expect("it is there"), whole.find("[machine.memory]"));
    let folder = measured_profile(&whole[from..to.expect("it is there")], "");
    let path = folder.path().join("double.toml");
    let text = fs::read_to_string(&path).expect("just written");
    let said = "[[measurement.not_measured]]\nwhat = \"PIECEWISE graphs\"\nwhy = \"only FULL was captured\"\n\n\
                [measurement.full]";
    fs::write(path, text.replace("[measurement.full]", said)).expect("writable");
    let warned = |mode: &str| {
        let text = fs::read_to_string(folder.path().join("scenario.toml")).expect("it is there");
        let candidate = format!("[[candidate]]\nname = \"other\"\ncudagraph_mode = \"{mode}\"\n");
        fs::write(folder.path().join("other.toml"), format!("{text}\n{candidate}")).expect("writable");
        let json = sim_in(folder.path(), &["run", "other.toml", "--format", "json"]).done();
        json.matches("mode_not_measured").count()
    };
    assert_eq!(warned("FULL_AND_PIECEWISE"), warned("FULL_DECODE_ONLY") + 1);
}

/// Every command that uses a profile, as text and as JSON; `check` has no report but its warnings.
#[test]
fn every_command_warns_of_everything_that_a_profile_keeps() {
    let whole = r#"code = "power_limit""#;
    let more = r#"code = "wsl"
what = "this is WSL"

[[measurement.warning]]
code = "governor"
what = "CPUs 4-7: the governor powersave keeps the lowest frequency"

[[measurement.warning]]
code = "shapes_only"
what = "only the shapes of the model were measured: fp8"

[[measurement.warning]]
code = "noise_floor"
what = "head, device: too noisy"

[[measurement.warning]]
code = "power_limit""#;
    let folder = measured_profile(whole, more);
    let path = folder.path().join("double.toml");
    let shard = fs::read_to_string(&path).expect("just written").replace("tensor_parallel = 1", "tensor_parallel = 4");
    fs::write(path, shard).expect("writable");
    let steps = "[[traffic.steps]]\ntokens = 8\nrequests = 8\nquery_len = 1\ncount = 3\n";
    let scenario = fs::read_to_string(folder.path().join("scenario.toml")).expect("just written");
    let (before, _) = scenario.split_once("[traffic]").expect("it has traffic");
    fs::write(folder.path().join("steps.toml"), format!("{before}[traffic]\n{steps}")).expect("writable");
    let codes = [
        "profile_double",
        "profile_wsl",
        "profile_governor",
        "profile_shapes_only",
        "profile_noise_floor",
        "profile_power_limit",
        "profile_own_gemm",
        "profile_shared_weights",
        "collectives_not_measured",
        "captures_without_engine",
    ];
    let commands = [
        &["run", "scenario.toml"][..],
        &["price", "steps.toml"],
        &["startup", "scenario.toml"],
        &["ladder", "scenario.toml"],
        &["ladder", "--profile", "double.toml"],
        &["explain", "--scenario", "scenario.toml", "--step", "3"],
        &["explain", "--decodes", "9", "--profile", "double.toml"],
        &["check", "scenario.toml"],
    ];
    for command in commands {
        let text = sim_in(folder.path(), command);
        assert_eq!(text.code, Some(0), "{command:?}: {}", text.stderr);
        let warned = |code: &str| text.stderr.matches(&format!("warning[{code}]: ")).count();
        for code in codes {
            assert_eq!(warned(code), 1, "{command:?} warns of {code} once:\n{}", text.stderr);
        }
        if command[0] != "check" {
            let json = sim_in(folder.path(), &[command, &["--format", "json"]].concat()).done();
            for code in codes {
                assert_eq!(json.matches(&format!("\"code\": \"{code}\"")).count(), 1, "{command:?} names {code} once");
            }
        }
    }
}

/// What the engine half declares of each capture is in the start-up, and no warning says that it is missing.
#[test]
fn an_engines_part_of_captures_can_be_declared() {
    let capture_s = |folder: &tempfile::TempDir| {
        let answer = sim_in(folder.path(), &["startup", "scenario.toml", "--format", "json"]);
        let warns = answer.stderr.contains("captures_without_engine");
        let text = sim_in(folder.path(), &["startup", "scenario.toml"]).done();
        assert_eq!(text.contains("driver's alone"), warns, "{text}");
        let json: serde_json::Value = serde_json::from_str(&answer.done()).expect("JSON");
        let candidate = &json["candidates"][0];
        let captures = candidate["captures"].as_array().map_or(0, Vec::len);
        (candidate["startup_s"].as_f64().expect("a number"), captures, warns)
    };
    let (without_s, captures, warns) = capture_s(&measured_profile("", ""));
    assert!(warns && captures > 1);
    let (with_s, same, warns) = capture_s(&measured_profile("other_s = ", "per_capture_s = 0.5\nother_s = "));
    assert!(!warns && captures == same);
    let more_s = with_s - without_s;
    assert!((more_s - 0.5 * captures as f64).abs() < 1e-6, "{more_s} s for {captures} captures");
}

/// A text that a terminal would obey is refused with its place, whichever of them it is.
#[test]
fn a_profile_cannot_command_the_terminal() {
    let hostile = [
        ("what = \"the power", "what = \"\\u001b[2J\\u0007the power", "measurement.warning[0].what"),
        ("source = \"", "source = \"\\u001b]0;x\\u0007", "machine.memory.provenance.source"),
        ("device = \"", "device = \"\\u009b1m", "identity.device"),
    ];
    for (from, to, key) in hostile {
        let folder = measured_profile(from, to);
        for command in [&["run", "scenario.toml"][..], &["startup", "scenario.toml"], &["check", "scenario.toml"]] {
            let answer = sim_in(folder.path(), command);
            assert_eq!(answer.code, Some(3), "{command:?}: {}", answer.stderr);
            assert!(answer.stderr.contains(&format!("{key}: a control character (U+")), "{}", answer.stderr);
            for shown in [answer.stdout, answer.stderr] {
                assert!(!shown.chars().any(|c| c.is_control() && c != '\n'), "{command:?}: {shown:?}");
            }
        }
    }
}

#[test]
fn a_rank_measured_alone_is_flagged() {
    let folder = measured_profile("tensor_parallel = 1", "tensor_parallel = 2");
    let json = sim_in(folder.path(), &["run", "scenario.toml", "--format", "json"]).done();
    assert!(json.contains("\"code\": \"collectives_not_measured\""), "{json}");
    assert!(json.contains("tensor_parallel_size = 1: costs, weights and KV are those of one of 2 ranks"), "{json}");
    let whole = measured_profile("", "");
    let json = sim_in(whole.path(), &["run", "scenario.toml", "--format", "json"]).done();
    assert!(!json.contains("collectives_not_measured"), "{json}");
}

#[test]
fn a_profile_is_named_or_a_file() {
    let folder = folder_with(&scenario("", ""));
    fs::copy(root().join("scenarios/profiles/textbook.toml"), folder.path().join("mine.toml")).expect("copied");
    let run = |profile: &str| {
        let text = sim_in(folder.path(), &["run", "scenario.toml", "--format", "csv", "--profile", profile]);
        text.done()
    };
    assert_eq!(run("textbook"), run("mine.toml"));
    assert_ne!(run("textbook"), run("a100-llama-3-8b"));
}

/// A scenario for an A100 on other cards; without a statement, and of a card that nobody knows, nothing is said.
#[test]
fn attention_of_another_card_is_warned_of() {
    let scenario = fs::read_to_string(root().join("scenarios/chunked.toml")).expect("it is there");
    let folder = tempfile::tempdir().expect("a folder to write to");
    let warnings = |text: &str, profile: &str| {
        fs::write(folder.path().join("scenario.toml"), text).expect("writable");
        let answer = sim_in(folder.path(), &["check", "scenario.toml", "--profile", profile]);
        assert_eq!(answer.code, Some(0), "{}", answer.stderr);
        let said = answer.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        let ours = said.split("warning[").filter_map(|warning| warning.strip_prefix("attention_support]: "));
        ours.map(|warning| warning.trim().to_owned()).collect::<Vec<_>>()
    };
    insta::assert_snapshot!(
        warnings(&scenario, "h200-llama-3.1-8b").join("\n"),
        @r#"attention_support = "UNIFORM_BATCH" is stated, and on the profile's device (NVIDIA H200) vLLM takes FlashAttention 3 unless told otherwise, which is ALWAYS: which steps run as FULL graphs depends on it; set what the server's log says"#
    );
    for (profile, count) in [("a100-llama-3-8b", 0), ("textbook", 0), ("h100-llama-2-7b", 1)] {
        assert_eq!(warnings(&scenario, profile).len(), count, "{profile}");
    }
    let silent = scenario.replace("attention_support = \"UNIFORM_BATCH\"\n", "");
    assert_ne!(silent, scenario);
    assert!(warnings(&silent, "h200-llama-3.1-8b").is_empty());
    let right = scenario.replace("\"UNIFORM_BATCH\"", "\"ALWAYS\"");
    assert!(warnings(&right, "h200-llama-3.1-8b").is_empty());
    // A measured profile states its device's compute capability.
    fs::copy(root().join("tests/calibrate/double.toml"), folder.path().join("double.toml")).expect("it is there");
    assert_eq!((warnings(&scenario, "double.toml").len(), warnings(&right, "double.toml").len()), (1, 0));
}

/// The steps that `calibrate replay` is shipped with are what the command in GPU.md makes today.
#[test]
fn the_committed_steps_are_those_of_their_command() {
    let gpu = fs::read_to_string(root().join("calibrate/GPU.md")).expect("it is there");
    let (_, section) = gpu.split_once("## The committed steps").expect("GPU.md says how they are made");
    let (_, command) = section.split_once("$ sim ").expect("by one run of sim");
    let (command, _) = command.split_once("\n$").expect("and then awk");
    let folder = tempfile::tempdir().expect("a folder to write to");
    let mut arguments: Vec<String> = Vec::new();
    for (place, part) in command.replace("\\\n", " ").split('"').enumerate() {
        if place % 2 == 1 {
            arguments.push(part.to_owned());
        } else {
            arguments.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    let scenario = root().join("scenarios/chunked.toml").canonicalize().expect("it is there");
    assert_eq!(arguments[..2], ["run", "scenarios/chunked.toml"]);
    arguments[1] = scenario.to_str().expect("the path is text").to_owned();
    sim_in(folder.path(), &arguments.iter().map(String::as_str).collect::<Vec<_>>()).done();
    let made = fs::read_to_string(folder.path().join("run/steps.jsonl")).expect("it was written");
    assert!(section.contains("NR % 97 == 0"));
    let kept = made.lines().enumerate().filter(|(at, line)| line.starts_with("{\"header\"") || (at + 1) % 97 == 0);
    let committed = fs::read_to_string(root().join("calibrate/steps.jsonl")).expect("it is there");
    let (kept, committed): (Vec<&str>, Vec<&str>) = (kept.map(|(_, line)| line).collect(), committed.lines().collect());
    assert_eq!(kept.len(), committed.len());
    for (made, committed) in kept.iter().zip(committed) {
        assert_eq!(*made, committed, "make them again by the command in calibrate/GPU.md");
    }
}

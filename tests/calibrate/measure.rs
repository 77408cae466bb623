//! `calibrate --device` end to end on the driver double: options, profile, kills, refusals. The kernels take time there and
//! compute nothing.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use kernels::random::Random;

use crate::double::{Double, Run};

/// A Qwen3 of two narrow layers.
pub(crate) const TINY: &str = r#"{
    "model_type": "qwen3", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 1024, "rms_norm_eps": 1e-6
}"#;

/// The double and a folder with a tiny model's configuration.
pub(crate) struct Bench {
    pub(crate) double: Double,
    pub(crate) folder: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new(double: Double) -> Self {
        let folder = tempfile::tempdir().expect("a folder to write to");
        fs::create_dir(folder.path().join("tiny")).expect("the folder can be written");
        fs::write(folder.path().join("tiny/config.json"), TINY).expect("the folder can be written");
        Self { double, folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn profile(&self, name: &str) -> toml::Value {
        toml::from_str(&self.text(name)).expect("a profile is TOML")
    }

    pub(crate) fn command(&self, more: &[&str], variables: &[(&str, &str)]) -> Command {
        let mut command = self.double.command(&arguments(more), variables);
        command.current_dir(&self.folder);
        command
    }

    pub(crate) fn run(&self, more: &[&str], variables: &[(&str, &str)]) -> Run {
        let output = self.command(more, variables).output().expect("the binary was built");
        Run { output, report: String::new() }
    }

    /// What a user reads when nothing is measured: the exit code and standard error.
    pub(crate) fn refusal(&self, more: &[&str], variables: &[(&str, &str)]) -> String {
        let run = self.run(more, variables);
        format!("exit {}\n{}", run.code().unwrap_or(-1), run.stderr())
    }
}

/// The tiny model, four rungs, two seconds of virtual time.
fn arguments<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let fixed = ["--device", "0", "--quick", "--model", "tiny", "--ladder", "1,2,4,8", "--time-limit", "2s"];
    [&fixed, more].concat()
}

/// Tables and keys of a file, without values.
fn structure(text: &str) -> BTreeSet<String> {
    fn walk(value: &toml::Value, place: &str, found: &mut BTreeSet<String>) {
        found.insert(place.to_owned());
        if let toml::Value::Table(table) = value {
            for (key, value) in table {
                walk(value, &format!("{place}.{key}"), found);
            }
        }
    }
    let mut found = BTreeSet::new();
    walk(&toml::from_str(text).expect("a profile is TOML"), "", &mut found);
    found
}

/// The structure without what the machine that tests run on has to say.
fn steady_structure(text: &str) -> BTreeSet<String> {
    structure(text).into_iter().filter(|place| !place.starts_with(".measurement.warning")).collect()
}

#[test]
fn one_command_gives_one_profile() {
    let bench = Bench::new(Double::driver_and_nvml());
    let report = bench.path("report");
    let run = bench.run(&[], &[("RUNGWISE_DOUBLE_REPORT", report.to_str().expect("folders of tests are text"))]);
    assert_eq!(run.code(), Some(0), "{}{}", run.stdout(), run.stderr());
    let lines: Vec<&str> = run.stdout().lines().collect();
    assert_eq!(lines.last(), Some(&"sim run scenarios/chunked.toml --profile driver-double-tiny.toml"));
    assert!(run.stdout().contains("ladder   1,2,4,8; PIECEWISE and FULL\n"), "{}", run.stdout());
    assert_eq!(run.stderr().lines().filter(|line| line.starts_with('[')).count(), 10, "{}", run.stderr());
    let complaints: Vec<String> = bench
        .text("report")
        .lines()
        .filter(|line| line.contains("violation:") || line.contains("leak:"))
        .map(str::to_owned)
        .collect();
    assert_eq!(complaints, [""; 0]);
    assert!(!bench.path("driver-double-tiny.toml.partial").exists());

    let profile = bench.profile("driver-double-tiny.toml");
    for (group, table) in profile["machine"].as_table().expect("a table") {
        assert_eq!(table["provenance"]["kind"].as_str(), Some("double"), "machine.{group}");
    }
    for (group, table) in profile["engine"].as_table().expect("a table") {
        assert_ne!(table["provenance"]["kind"].as_str(), Some("measured"), "engine.{group}");
    }
    assert_eq!(profile["identity"]["model_name"].as_str(), Some("tiny"));
    assert_eq!(profile["identity"]["model"]["qk_norm"].as_bool(), Some(true));
    assert_eq!(profile["measurement"]["full"]["rows"].as_array().map(Vec::len), Some(4));
    check(&bench, "driver-double-tiny.toml");
}

/// `calibrate check` takes the file.
pub(crate) fn check(bench: &Bench, file: &str) {
    let path = bench.path(file);
    let mut command = Command::new(env!("CARGO_BIN_EXE_calibrate"));
    let output = command.args([Path::new("check"), &path]).output().expect("the binary was built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The double's own costs come back as figures: launches of 2.6 us, replays of 3.5 us and 12 ns a node.
#[test]
fn figures_are_those_of_the_double() {
    let bench = Bench::new(Double::driver_and_nvml());
    let run = bench.run(&["--out", "mine.toml", "--no-progress"], &[("RUNGWISE_DOUBLE_LAUNCH_NS", "4000")]);
    assert_eq!((run.code(), run.stderr()), (Some(0), ""), "{}", run.stdout());
    let profile = bench.profile("mine.toml");
    let figure = |group: &str, key: &str| {
        let value = &profile["machine"][group][key];
        value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64)).expect("a number")
    };
    let near = |figure: f64, planted: f64| (figure / planted - 1.0).abs() < 0.05;
    assert!(near(figure("launch", "launch_us"), 4.0), "{}", figure("launch", "launch_us"));
    assert!(near(figure("replay", "fixed_us"), 3.5) && near(figure("replay", "node_us"), 0.012));
    // Update and upload: 3 us and 0.35 us a node, 5 us and 0.06 us a node.
    assert!(near(figure("update", "update_us"), 8.0), "{}", figure("update", "update_us"));
    assert!(near(figure("update", "node_us"), 0.41), "{}", figure("update", "node_us"));
}

/// Whatever stood under the profile's name is still there, and a name need not be Unicode.
#[cfg(unix)]
#[test]
fn an_earlier_file_is_kept() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let bench = Bench::new(Double::driver_and_nvml());
    let [name, copy] =
        [b"\xff.toml".as_slice(), b"\xff.toml.1"].map(|name| bench.folder.path().join(OsStr::from_bytes(name)));
    fs::write(&name, "earlier").expect("the folder can be written");
    let output = bench.command(&["--out"], &[]).arg(&name).output().expect("the binary was built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read_to_string(copy).expect("it was kept"), "earlier");
    assert!(fs::read_to_string(name).expect("it is there").starts_with("schema = 1"));
}

#[test]
fn a_reader_that_leaves_does_not_end_it() {
    let bench = Bench::new(Double::driver_and_nvml());
    let mut command = bench.command(&["--out", "mine.toml", "--no-progress"], &[]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the binary was built");
    drop(child.stdout.take());
    assert!(child.wait().expect("it is our child").success());
    check(&bench, "mine.toml");
}

#[test]
fn a_rank_and_one_mode_are_stated_in_the_profile() {
    let bench = Bench::new(Double::driver_and_nvml());
    let run = bench.run(&["--tp-shard", "2", "--modes", "full", "--engine", "sglang"], &[]);
    assert_eq!(run.code(), Some(0), "{}", run.stderr());
    assert!(run.stdout().contains("one of 2 tensor-parallel ranks: collectives are not measured"), "{}", run.stdout());
    let profile = bench.profile("driver-double-tiny-tp2.toml");
    assert_eq!(profile["measurement"]["tensor_parallel"].as_integer(), Some(2));
    assert_eq!(profile["identity"]["model"]["query_heads"].as_integer(), Some(2));
    assert_eq!(profile["identity"]["engine"].as_str(), Some("sglang"));
    assert!(profile["measurement"].get("piecewise").is_none());
    let list = |key: &str, name: &str| -> Vec<String> {
        let entries = profile["measurement"][key].as_array().expect("a list").iter();
        entries.map(|entry| entry[name].as_str().expect("text").to_owned()).collect()
    };
    assert!(list("not_measured", "what").contains(&"PIECEWISE graphs".to_owned()));
    assert!(!list("not_measured", "what").contains(&"FULL graphs".to_owned()));
    assert!(list("warning", "code").contains(&"own_gemm".to_owned()), "the double has no cuBLASLt");
    let method = profile["machine"]["dense"]["provenance"]["method"].as_str().expect("text");
    assert!(method.contains(" % of the copy bandwidth at 1 row, "), "{method}");
    check(&bench, "driver-double-tiny-tp2.toml");
}

#[test]
fn layers_share_weights_where_memory_is_short() {
    let bench = Bench::new(Double::driver_and_nvml());
    let limit = ["--model", "llama-3.1-8b", "--ladder", "1,2", "--memory-limit", "15GiB", "--out", "shared.toml"];
    let arguments = [&["--device", "0", "--quick", "--time-limit", "1s"], &limit[..]].concat();
    let mut command = bench.double.command(&arguments, &[]);
    let output = command.current_dir(&bench.folder).output().expect("the binary was built");
    let run = Run { output, report: String::new() };
    assert_eq!(run.code(), Some(0), "{}", run.stderr());
    assert!(run.stdout().contains("32 layers share the weights of "), "{}", run.stdout());
    let profile = bench.profile("shared.toml");
    let own = profile["measurement"]["weight_layers"].as_integer().expect("it is stated");
    assert!((1..32).contains(&own), "{own}");
}

/// What `calibrate diff` says of two profiles.
pub(crate) fn diff(one: &Path, other: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_calibrate"));
    let output = command.args([Path::new("diff"), one, other]).output().expect("the binary was built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("output is text")
}

/// Of a difference: figures whose intervals do not overlap, and figures with intervals.
pub(crate) fn intervals_apart(diff: &str) -> (usize, usize) {
    let single = |word: &str| diff.lines().filter(|line| line.split_whitespace().last() == Some(word)).count();
    let knots = diff.lines().filter_map(|line| {
        let (held, all) = line.split_once("; ")?.1.strip_suffix(" intervals overlap")?.split_once(" of ")?;
        Some((held.parse::<usize>().ok()?, all.parse::<usize>().ok()?))
    });
    // The heading of the table ends with another word: `intervals`. A figure's line ends with one of these two.
    let (mut apart, mut compared) = (single("apart"), single("apart") + single("overlap"));
    for (held, all) in knots {
        apart += all - held;
        compared += all;
    }
    // Lines of knots end with `overlap` too.
    (apart, compared - diff.lines().filter(|line| line.ends_with(" intervals overlap")).count())
}

/// Killed again and again, at random moments of all that a whole run takes; the last time it is left alone. What was kept
/// and what was measured afterwards are one profile, no other than an undisturbed run's.
#[test]
fn a_run_that_is_killed_at_any_moment_goes_on() {
    const NOISE: [(&str, &str); 2] =
        [("RUNGWISE_DOUBLE_NOISE_PERMILLE", "20"), ("RUNGWISE_DOUBLE_HOST_NOISE_PERMILLE", "20")];
    let bench = Bench::new(Double::driver_and_nvml());
    let start = Instant::now();
    assert_eq!(bench.run(&["--out", "whole.toml"], &NOISE).code(), Some(0));
    let mut longest = start.elapsed();
    let mut random = Random::named("kills", 0);
    for seed in ["1", "2", "3", "4"] {
        let variables = [&NOISE[..], &[("RUNGWISE_DOUBLE_SEED", seed)]].concat();
        let _ = fs::remove_file(bench.path("killed.toml"));
        let mut kills = 0;
        while kills < 4 {
            let mut child = bench
                .command(&["--out", "killed.toml", "--resume"], &variables)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("the binary was built");
            thread::sleep(longest.mul_f64(f64::midpoint(random.signed(), 1.0)));
            let is_running = child.try_wait().expect("it is our child").is_none();
            // SIGKILL, where there are signals.
            child.kill().expect("it is our child");
            child.wait().expect("it is our child");
            if is_running {
                kills += 1;
            } else {
                // It was over: runs take less now, for others that ran beside the first have ended.
                longest = longest.mul_f64(0.8);
            }
        }
        let last = bench.run(&["--out", "killed.toml", "--resume"], &variables);
        assert_eq!(last.code(), Some(0), "{}", last.stderr());
        assert_eq!(steady_structure(&bench.text("killed.toml")), steady_structure(&bench.text("whole.toml")));
        check(&bench, "killed.toml");
        let diff = diff(&bench.path("whole.toml"), &bench.path("killed.toml"));
        let (apart, compared) = intervals_apart(&diff);
        assert!(compared > 30 && apart * 50 <= compared, "{apart} of {compared} apart\n{diff}");
        let left: Vec<_> =
            fs::read_dir(&bench.folder).expect("it is there").flatten().map(|entry| entry.file_name()).collect();
        assert!(!left.iter().any(|name| name.to_string_lossy().ends_with(".partial")), "{left:?}");
    }
}

/// Another process takes and gives back memory while it is measured.
#[test]
fn memory_that_another_process_moves_is_named() {
    let bench = Bench::new(Double::driver_and_nvml());
    let moving = [("RUNGWISE_DOUBLE_OTHERS_MOVE", "7000000:1073741824")];
    let run = bench.run(&["--out", "none.toml", "--no-progress"], &moving);
    assert_eq!(run.code(), Some(6), "{}{}", run.stdout(), run.stderr());
    assert!(!bench.path("none.toml").exists());
    let error = run.stderr().lines().find(|line| line.contains('×')).expect("an error has its sign");
    assert!(error.contains("moved memory: free device memory moved by "), "{}", run.stderr());
}

#[cfg(unix)]
#[test]
fn an_interrupt_keeps_what_was_measured() {
    let bench = Bench::new(Double::driver_and_nvml());
    let mut command = bench.command(&["--out", "mine.toml"], &[]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary was built");
    // Until the first result is kept.
    let partial = bench.path("mine.toml.partial");
    for _ in 0..600 {
        if partial.exists() {
            break;
        }
        thread::sleep(Duration::from_millis(50));
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("every Unix has kill");
    assert!(sent.success());
    let output = child.wait_with_output().expect("it is our child");
    let run = Run { output, report: String::new() };
    assert_eq!(run.code(), Some(130), "{}", run.stderr());
    assert!(run.stderr().contains("× interrupted"), "{}", run.stderr());
    assert!(run.stderr().contains("kept: the same command with --resume goes on"), "{}", run.stderr());
    assert!(partial.exists() && !bench.path("mine.toml").exists());
    let resumed = bench.run(&["--out", "mine.toml", "--resume"], &[]);
    assert_eq!(resumed.code(), Some(0), "{}", resumed.stderr());
    assert!(resumed.stderr().contains("[1/10] launches and graph nodes: kept from before"), "{}", resumed.stderr());
}

#[test]
fn what_disturbs_ends_with_its_name_and_no_profile() {
    let bench = Bench::new(Double::driver_and_nvml());
    let ended = |variable: (&str, &str)| {
        let run = bench.run(&["--out", "none.toml", "--no-progress"], &[variable]);
        assert!(!bench.path("none.toml").exists(), "{variable:?}");
        assert_eq!(run.code(), Some(6), "{variable:?}: {}{}", run.stdout(), run.stderr());
        run.stderr().to_owned()
    };
    insta::assert_snapshot!("throttled", ended(("RUNGWISE_DOUBLE_NVML_REASONS", "64")));
    let drift = ended(("RUNGWISE_DOUBLE_DRIFT_PERMILLE_PER_S", "900"));
    assert!(drift.contains("drift: times changed by +"), "{drift}");
    assert!(!bench.path("none.toml.partial").exists(), "it shows in the first part: {drift}");
    // Not even the first part can be timed: nothing is kept, and nothing is said to be.
    let noisy = ended(("RUNGWISE_DOUBLE_NOISE_PERMILLE", "900"));
    assert!(!bench.path("none.toml.partial").exists() && !noisy.contains("kept"), "{noisy}");
}

/// Captures, updates and loading count too, by the clock of the double.
#[test]
fn a_time_limit_is_kept_to_a_tenth_or_the_run_says_so() {
    let bench = Bench::new(Double::driver_and_nvml());
    let took_s = |limit: &str, dear: &[(&str, &str)]| {
        let fixed = ["--device", "0", "--quick", "--model", "tiny", "--ladder", "1,2,4,8,16,32", "--out", "mine.toml"];
        let arguments = [&fixed[..], &["--no-progress", "--time-limit", limit]].concat();
        let output = bench.double.command(&arguments, dear).current_dir(&bench.folder).output();
        let run = Run { output: output.expect("the binary was built"), report: String::new() };
        assert_eq!(run.code(), Some(0), "{}{}", run.stdout(), run.stderr());
        let took = &bench.profile("mine.toml")["measurement"]["took_s"];
        let took_s = took.as_float().or_else(|| took.as_integer().map(|whole| whole as f64)).expect("a number");
        (took_s, run.stderr().to_owned())
    };
    // Each capture and each executable takes milliseconds: a second and more in all.
    let dear = [("RUNGWISE_DOUBLE_CAPTURE_NS", "4000000"), ("RUNGWISE_DOUBLE_INSTANTIATE_NS", "3000000")];
    for (limit, limit_s) in [("4s", 4.0), ("8s", 8.0)] {
        for dear in [&[][..], &dear] {
            let (took_s, said) = took_s(limit, dear);
            assert!((0.4 * limit_s..=1.1 * limit_s).contains(&took_s), "{limit} {dear:?}: took {took_s} s");
            assert_eq!(said, "", "{limit} {dear:?}");
        }
    }
    let (took_s, said) = took_s("1s", &[("RUNGWISE_DOUBLE_INSTANTIATE_NS", "20000000")]);
    assert!(took_s > 1.1 && said.contains("longer than the 1s of its limit"), "{took_s}: {said}");
}

#[test]
fn models_and_options_that_cannot_be_measured_say_why() {
    let bench = Bench::new(Double::driver_and_nvml());
    let write = |name: &str, text: &str| fs::write(bench.path(name), text).expect("the folder can be written");
    write("fp8.json", &TINY.replacen('{', r#"{ "quantization_config": { "quant_method": "fp8" },"#, 1));
    write("wide.json", &TINY.replace("\"head_dim\": 64", "\"head_dim\": 256"));
    write("cut.json", &TINY[..40]);
    let refusal = |model: &str, more: &[&str]| {
        let arguments = [&["--device", "0", "--model", model], more].concat();
        let mut command = bench.double.command(&arguments, &[]);
        let output = command.current_dir(&bench.folder).output().expect("the binary was built");
        let run = Run { output, report: String::new() };
        format!("exit {}\n{}", run.code().unwrap_or(-1), run.stderr())
    };
    let other = r#"{ "sliding_window": 1000, "max_position_embeddings": 1000, "layer_types": ["linear_attention", "full_attention"],"#;
    write("linear.json", &TINY.replace("qwen3", "mistral").replacen('{', other, 1));
    write("small.json", &TINY.replace("1e-6", "1e-60"));
    for (file, reason) in [
        ("linear.json", "layer_types holds linear_attention"),
        ("small.json", "rms_norm_eps = 1e-60: expected a number"),
    ] {
        let said = refusal(file, &[]);
        assert!(said.starts_with("exit 3\n") && said.contains(reason), "{said}");
    }
    insta::assert_snapshot!("unknown_model", refusal("lama-3.1-8b", &[]));
    insta::assert_snapshot!("fp8_model", refusal("fp8.json", &[]));
    insta::assert_snapshot!("wide_heads", refusal("wide.json", &[]));
    insta::assert_snapshot!("cut_config", refusal("cut.json", &[]));
    insta::assert_snapshot!("uneven_ranks", refusal("llama-3.1-8b", &["--tp-shard", "3"]));
    insta::assert_snapshot!("no_room", refusal("llama-3.1-8b", &["--memory-limit", "2GiB"]));
    insta::assert_snapshot!("no_folder", refusal("tiny", &["--out", "no/such/folder.toml"]));
}

#[test]
fn results_of_another_run_are_not_gone_on_with() {
    let bench = Bench::new(Double::driver_and_nvml());
    // The second result cannot be measured: the first is kept.
    let failing = [("RUNGWISE_DOUBLE_FAIL", "cuGraphLaunch:4000=700")];
    let failed = bench.run(&["--out", "mine.toml"], &failing);
    assert!(bench.path("mine.toml.partial").exists(), "{}{}", failed.stdout(), failed.stderr());
    insta::assert_snapshot!("another_run", bench.refusal(&["--out", "mine.toml", "--resume", "--modes", "full"], &[]));
    let other = TINY.replace("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3");
    fs::create_dir(bench.path("other")).expect("the folder can be written");
    fs::write(bench.path("other/config.json"), other).expect("the folder can be written");
    let arguments = ["--device", "0", "--model", "other", "--ladder", "1,2", "--out", "mine.toml", "--resume"];
    let output =
        bench.double.command(&arguments, &[]).current_dir(&bench.folder).output().expect("the binary was built");
    insta::assert_snapshot!("another_model", String::from_utf8_lossy(&output.stderr));
    fs::write(bench.path("mine.toml.partial"), "garbage").expect("the folder can be written");
    insta::assert_snapshot!("corrupt_partial", bench.refusal(&["--out", "mine.toml", "--resume"], &[]));
}

#[test]
fn shapes_alone_are_said_to_be_that() {
    let bench = Bench::new(Double::driver_and_nvml());
    let config = TINY.replacen('{', r#"{ "quantization_config": { "quant_method": "awq" },"#, 1);
    fs::write(bench.path("tiny/config.json"), config).expect("the folder can be written");
    assert_eq!(bench.run(&[], &[]).code(), Some(3));
    let run = bench.run(&["--shapes-only"], &[]);
    assert_eq!(run.code(), Some(0), "{}", run.stderr());
    let profile = bench.profile("driver-double-tiny.toml");
    let warnings = profile["measurement"]["warning"].as_array().expect("there is one");
    assert!(warnings.iter().any(|warning| warning["code"].as_str() == Some("shapes_only")), "{warnings:?}");
    assert!(run.stdout().contains("only its shapes, in bf16: quantization_config: weights are quantized (awq)"));
}

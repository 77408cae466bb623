//! Runs in several pieces: what is kept of each, and what must be the same.

use std::fs;

use crate::double::{Double, Run};
use crate::measure::{Bench, check};

/// Ends a run in one of its last parts.
const FAILING: (&str, &str) = ("RUNGWISE_DOUBLE_FAIL", "cuGraphExecUpdate_v2:5=700");

/// A piece that fails, under these variables too; the message says what is kept.
fn failed_piece(bench: &Bench, variables: &[(&str, &str)]) -> Run {
    let run = bench.run(&["--out", "mine.toml", "--no-progress"], &[&[FAILING], variables].concat());
    assert_ne!(run.code(), Some(0), "{}", run.stdout());
    assert!(bench.path("mine.toml.partial").exists(), "{}", run.stderr());
    run
}

#[test]
fn a_failure_of_the_driver_says_what_is_kept() {
    let bench = Bench::new(Double::driver_and_nvml());
    let run = failed_piece(&bench, &[]);
    let said = run.stderr().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("parts are kept: the same command with --resume goes on, without it"), "{said}");
}

#[test]
fn every_piece_keeps_its_warnings_date_options_and_time() {
    let bench = Bench::new(Double::driver_and_nvml());
    failed_piece(&bench, &[("RUNGWISE_DOUBLE_NVML_PROCESSES", "4242:1000000")]);
    let partial = bench.text("mine.toml.partial");
    let body = partial.split_once('\n').expect("the first line holds the checksum").1;
    let piece = toml::from_str::<toml::Value>(body).expect("it is TOML")["pieces"][0].clone();
    let resumed = bench.run(&["--out", "mine.toml", "--resume"], &[]);
    assert_eq!(resumed.code(), Some(0), "{}", resumed.stderr());
    let measurement = bench.profile("mine.toml")["measurement"].clone();
    assert_eq!(measurement["date"], piece["date"]);
    let options = measurement["options"].as_str().expect("text");
    assert!(options.contains("--no-progress, then ") && options.ends_with("--resume"), "{options}");
    let seconds = |value: &toml::Value| value.as_float().or(value.as_integer().map(|whole| whole as f64));
    let (whole, first) = (seconds(&measurement["took_s"]), seconds(&piece["took_s"]));
    assert!(whole > first && first > Some(0.0), "{whole:?} {first:?}");
    let warnings = measurement["warning"].as_array().expect("there are some");
    let what = |code: &str| {
        let found: Vec<_> = warnings.iter().filter(|warning| warning["code"].as_str() == Some(code)).collect();
        assert_eq!(found.len(), 1, "{code}: {warnings:?}");
        found[0]["what"].as_str().expect("text").to_owned()
    };
    assert!(what("other_processes").contains("4242"));
    assert!(what("resumed").starts_with("measured in 2 pieces, which began "));
    check(&bench, "mine.toml");
}

/// Nodes took four times as long when the first parts were measured.
#[test]
fn another_machine_is_noticed_before_anything_is_measured() {
    let bench = Bench::new(Double::driver_and_nvml());
    failed_piece(&bench, &[("RUNGWISE_DOUBLE_NODE_NS", "1500")]);
    let before = bench.text("mine.toml.partial");
    for _ in 0..2 {
        let resumed = bench.run(&["--out", "mine.toml", "--resume", "--no-progress"], &[]);
        let said = resumed.stderr().split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(resumed.code(), Some(6), "{said}");
        assert!(said.contains("the kept parts were measured when this machine was another one: "), "{said}");
        assert!(said.contains("without it everything is measured anew"), "{said}");
        assert_eq!(bench.text("mine.toml.partial"), before);
    }
    let anew = bench.run(&["--out", "mine.toml", "--no-progress"], &[]);
    assert_eq!(anew.code(), Some(0), "{}", anew.stderr());
    check(&bench, "mine.toml");
}

/// What no empty kernel shows: memory that became slower, and a host. Nothing of such a piece is measured, so that a later one
/// on the machine as it was goes on as if it had not been.
#[test]
fn another_host_and_slower_memory_are_noticed_too() {
    let bench = Bench::new(Double::driver_and_nvml());
    failed_piece(&bench, &[]);
    let before = bench.text("mine.toml.partial");
    for (variable, value, named) in [
        ("LAUNCH_NS", "4000", "slowed: launches on the host took +"),
        ("REPLAY_NS", "6000", "slowed: replays on the host took +"),
        ("BANDWIDTH_GB_PER_S", "2000", "slowed: copies within the device took +"),
        ("BANDWIDTH_GB_PER_S", "9000", "faster: copies within the device took -"),
    ] {
        let variable = format!("RUNGWISE_DOUBLE_{variable}");
        let resumed = bench.run(&["--out", "mine.toml", "--resume", "--no-progress"], &[(&variable, value)]);
        let said = resumed.stderr().split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ");
        assert_eq!(resumed.code(), Some(6), "{variable}: {said}");
        assert!(said.contains(named), "{variable}: {said}");
        assert_eq!(bench.text("mine.toml.partial"), before, "{variable}");
    }
    let resumed = bench.run(&["--out", "mine.toml", "--resume", "--no-progress"], &[]);
    assert_eq!(resumed.code(), Some(0), "{}", resumed.stderr());
    let profile = bench.profile("mine.toml");
    let warnings = profile["measurement"]["warning"].as_array().expect("there are some");
    let what = warnings.iter().find(|warning| warning["code"].as_str() == Some("resumed"));
    let what = what.and_then(|warning| warning["what"].as_str()).expect("it says so");
    assert!(what.contains("when each began, device and host were within 10 % and 15 % of what they were"), "{what}");
}

/// On fewer CPUs launches may cost something else.
#[cfg(target_os = "linux")]
#[test]
fn a_piece_on_other_cpus_is_another_run() {
    use std::process::Command;

    let bench = Bench::new(Double::driver_and_nvml());
    failed_piece(&bench, &[]);
    let resumed = bench.command(&["--out", "mine.toml", "--resume"], &[]);
    let mut bound = Command::new("taskset");
    bound.args(["-c", "0"]).arg(resumed.get_program()).args(resumed.get_args()).current_dir(&bench.folder);
    bound.envs(resumed.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let Some(output) = bound.output().ok().filter(|_| cpus > 1) else {
        println!("skipped: no taskset, or one CPU only");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains(&format!("CPUs that calibrate may run on: `{cpus}` there, `1` now")), "{said}");
}

#[test]
fn what_changes_the_measuring_must_be_the_same() {
    let bench = Bench::new(Double::driver_and_nvml());
    failed_piece(&bench, &[]);
    let refused = |more: &[&str], variables: &[(&str, &str)]| {
        let all = [&["--out", "mine.toml", "--resume"], more].concat();
        let refusal = bench.refusal(&all, variables);
        assert!(refusal.starts_with("exit 3\n"), "{refusal}");
        refusal
    };
    let limit = refused(&["--memory-limit", "20GiB"], &[]);
    assert!(limit.contains("memory at most (--memory-limit): `all` there, `20.00 GiB` now"), "{limit}");
    assert!(refused(&[], &[("RUNGWISE_DOUBLE_SMS", "114")]).contains("multiprocessors: `132` there, `114` now"));
    let memory = refused(&[], &[("RUNGWISE_DOUBLE_MEMORY_BYTES", "85899345920")]);
    assert!(memory.contains("device memory: `140.00 GiB` there, `80.00 GiB` now"), "{memory}");
}

/// As calibrate computes it: somebody who changes the file may know how.
fn sealed(body: &str) -> String {
    let hash = body
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("# rungwise: partial results of calibrate, checksum {hash:016x}\n{body}")
}

/// Every number by its key is made absurd in turn: no panic, and no profile that `check` does not take.
#[test]
fn absurd_results_make_no_profile() {
    let bench = Bench::new(Double::driver_and_nvml());
    failed_piece(&bench, &[]);
    let partial = bench.text("mine.toml.partial");
    let body = partial.split_once('\n').expect("the first line holds the checksum").1;
    assert_eq!(sealed(body), partial);
    let count = |line: &str| {
        let (key, value) = line.split_once(" = ")?;
        value.parse::<u64>().ok().map(|_| key.to_owned())
    };
    let mut keys: Vec<String> = body.lines().filter_map(count).collect();
    keys.sort();
    keys.dedup();
    assert!(keys.len() > 10, "{keys:?}");
    let counts = keys.iter().flat_map(|key| ["4294967295", "9223372036854775807"].map(|value| (key.as_str(), value)));
    let absurd: Vec<(&str, &str)> = counts.chain([("value", "nan"), ("value", "1e300"), ("rows", "0")]).collect();
    let mut made = 0;
    for &(key, value) in &absurd {
        let changed: Vec<String> = body
            .lines()
            .map(|line| match line.split_once(" = ") {
                Some((found, _)) if found == key => format!("{key} = {value}"),
                _ => line.to_owned(),
            })
            .collect();
        fs::write(bench.path("mine.toml.partial"), sealed(&(changed.join("\n") + "\n"))).expect("it can be written");
        let run = bench.run(&["--out", "mine.toml", "--resume", "--no-progress"], &[]);
        assert!(matches!(run.code(), Some(0 | 1 | 3 | 6)), "{key} = {value}: {:?} {}", run.code(), run.stderr());
        assert!(!run.stderr().contains("panicked"), "{key} = {value}: {}", run.stderr());
        assert_eq!(run.code() == Some(0), bench.path("mine.toml").exists(), "{key} = {value}: {}", run.stderr());
        if run.code() == Some(0) {
            check(&bench, "mine.toml");
            fs::remove_file(bench.path("mine.toml")).expect("it is there");
            made += 1;
        }
    }
    // What stands in no profile may be anything.
    assert!((1..absurd.len()).contains(&made), "{made} of {}", absurd.len());
}

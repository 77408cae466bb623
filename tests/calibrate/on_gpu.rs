//! `calibrate/on-gpu.sh`: every part runs, under its own limit, whatever became of the others.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::double::Double;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/on-gpu.sh");

/// A Llama of one narrow layer.
const TINY: &str = r#"{
    "model_type": "llama", "hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 64, "vocab_size": 512, "rms_norm_eps": 1e-5
}"#;

/// The script's answer, and its files.
struct Ran {
    output: Output,
    folder: tempfile::TempDir,
}

impl Ran {
    /// Runs the script with a binary.
    fn with(binary: &Path, variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder to write to");
        let output = Self::command(binary, variables, folder.path()).output().expect("there is a bash");
        Self { output, folder }
    }

    /// Its command, for results in `out` of the folder. It finds no Python, so that no PyTorch of the machine counts, and
    /// obeys Ctrl-C even where the tests do not.
    fn command(binary: &Path, variables: &[(&str, &str)], folder: &Path) -> Command {
        fs::create_dir(folder.join("commands")).expect("the folder can be written");
        let programs = [
            "bash", "sed", "dirname", "mkdir", "rm", "mktemp", "date", "uname", "timeout", "cat", "head", "tail", "mv",
            "grep", "sleep", "env",
        ];
        for program in programs {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let found = std::env::split_paths(&path).map(|path| path.join(program)).find(|path| path.exists());
            let link = folder.join("commands").join(program);
            std::os::unix::fs::symlink(found.unwrap_or_else(|| panic!("no {program}")), link)
                .expect("a link can be made");
        }
        let mut command = Command::new("env");
        command.args(["--default-signal=INT,TERM", "bash", SCRIPT]).arg(folder.join("out"));
        command.env("PATH", folder.join("commands")).env("CALIBRATE", binary).envs(variables.iter().copied());
        command
    }

    fn file(&self, name: &str) -> String {
        let path = self.folder.path().join("out").join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}\n{self:?}"))
    }

    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path().join("out")).expect("the script makes it").flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        names
    }

    /// Part and what became of it.
    fn parts(&self) -> Vec<(String, String)> {
        let text = self.file("summary.txt");
        let table = text.lines().skip(5).take_while(|line| !line.is_empty());
        let split = |line: &str| {
            let (name, rest) = line.split_at(24.min(line.len()));
            let result = rest.rsplit_once(' ').map_or(rest, |(result, _)| result);
            (name.trim().to_owned(), result.trim().to_owned())
        };
        table.map(split).collect()
    }
}

impl std::fmt::Debug for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [stdout, stderr] = [&self.output.stdout, &self.output.stderr].map(|text| String::from_utf8_lossy(text));
        write!(f, "{stdout}{stderr}")
    }
}

/// A program in calibrate's place.
fn stand_in(folder: &Path, script: &str) -> PathBuf {
    let path = folder.join("stand-in");
    fs::write(&path, format!("#!/usr/bin/env bash\n{script}\n")).expect("the folder can be written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    path
}

/// The double's kernels compute nothing, so the self-check must fail; all that follows runs all the same.
#[test]
fn one_failure_stops_no_other_part() {
    let double = Double::driver_and_nvml();
    let folder = double.folder();
    fs::write(folder.join("tiny.json"), TINY).expect("the folder can be written");
    let path = |name: &str| folder.join(name).to_str().expect("folders of tests are text").to_owned();
    let (library, model) = (folder.to_str().expect("folders of tests are text"), path("tiny.json"));
    let variables = [
        ("LD_LIBRARY_PATH", library),
        ("RUNGWISE_CUBLASLT", "none"),
        ("MODEL", &model),
        ("LADDER", "1,2"),
        ("FULL_LIMIT", "1s"),
        ("FULL_OPTIONS", "--quick"),
        ("QUICK_LIMIT", "1s"),
        ("REPLAY_LIMIT", "1s"),
        ("PART_LIMIT", "300"),
        ("TOTAL_LIMIT", "3000"),
    ];
    let ran = Ran::with(Path::new(env!("CARGO_BIN_EXE_calibrate")), &variables);
    assert_eq!(ran.output.status.code(), Some(1), "{ran:?}");
    let parts = ran.parts();
    let expected = [
        ("self-check", "FAILED, exit code 1"),
        ("probe-rules", "passed"),
        ("quick calibration", "passed"),
        ("full calibration", "passed"),
        ("full calibration again", "passed"),
        ("replay", "passed"),
        ("PyTorch cross-check", "skipped: python3 has no torch"),
    ];
    assert_eq!(parts, expected.map(|(part, result)| (part.to_owned(), result.to_owned())), "{}", ran.file("log.txt"));
    assert_eq!(
        ran.files(),
        ["log.txt", "profile-a.toml", "profile-b.toml", "replay.json", "rules.toml", "summary.txt"]
    );
    assert!(ran.file("summary.txt").contains("The tests' driver double answered: nothing here comes from a GPU."));
    assert!(ran.file("summary.txt").ends_with(" s in all\n"));
    let replay: serde_json::Value = serde_json::from_str(&ran.file("replay.json")).expect("the document is JSON");
    assert_eq!(replay["steps"].as_u64(), Some(140), "the committed steps are replayed, all of them");
}

/// All is well, or nothing comes to an end: by the exit code.
#[test]
fn the_exit_code_says_whether_all_parts_passed() {
    let folder = tempfile::tempdir().expect("a folder to write to");
    let well = r#"while [ $# -gt 0 ]; do if [ "$1" = --out ]; then echo > "$2"; fi; shift; done"#;
    let ran = Ran::with(&stand_in(folder.path(), well), &[]);
    assert_eq!(ran.output.status.code(), Some(0), "{ran:?}");
    assert_eq!(ran.parts().iter().filter(|(_, result)| result == "passed").count(), 6, "{ran:?}");

    let hangs = r"case $1 in --version) exit 0 ;; --probe-rules) exit 0 ;; esac; exec sleep 600";
    let ran = Ran::with(&stand_in(folder.path(), hangs), &[("PART_LIMIT", "1")]);
    assert_eq!(ran.output.status.code(), Some(1), "{ran:?}");
    assert_eq!(ran.parts().iter().filter(|(_, result)| result == "TIMED OUT after 1s").count(), 5, "{ran:?}");
    assert_eq!(ran.files(), ["log.txt", "summary.txt"]);
}

/// What stands there is somebody's minutes on a card.
#[test]
fn results_of_an_earlier_run_are_refused_and_stay() {
    let folder = tempfile::tempdir().expect("a folder to write to");
    let stand_in = stand_in(folder.path(), "exit 1");
    let out = folder.path().join("out");
    fs::create_dir(&out).expect("the folder can be written");
    fs::write(out.join("profile-a.toml"), "measured").expect("the folder can be written");
    let output = Ran::command(&stand_in, &[], folder.path()).output().expect("there is a bash");
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("out holds results of an earlier run: profile-a.toml\n  help: name another folder"),
        "{said}"
    );
    assert_eq!(fs::read_to_string(out.join("profile-a.toml")).expect("it stays"), "measured");
    assert_eq!(fs::read_dir(&out).expect("it stays").count(), 1, "nothing was written");
}

/// Ctrl-C goes to the script's process group: the part that runs ends, no other begins, and the summary says so.
#[test]
fn an_interruption_ends_the_running_part_and_all_others() {
    for signal in ["INT", "TERM"] {
        let folder = tempfile::tempdir().expect("a folder to write to");
        let pid = folder.path().join("pid");
        let hangs = format!(
            "case $1 in --version | --list | --self-check) exit 0 ;; esac\necho $$ >'{0}.new'\nmv '{0}.new' '{0}'\nexec sleep 600",
            pid.display()
        );
        let mut command = Ran::command(&stand_in(folder.path(), &hangs), &[], folder.path());
        command.process_group(0).stdout(Stdio::null()).stderr(Stdio::null());
        let mut script = command.spawn().expect("there is a bash");
        let since = Instant::now();
        while !pid.exists() {
            assert!(since.elapsed() < Duration::from_mins(1), "the second part begins");
            std::thread::sleep(Duration::from_millis(10));
        }
        let kill = |arguments: &[&str]| Command::new("kill").args(arguments).output().expect("there is a kill");
        assert!(kill(&["-s", signal, "--", &format!("-{}", script.id())]).status.success());
        let ended = script.wait().expect("the script ends");
        assert_eq!(ended.code(), Some(130), "{signal}");
        assert!(since.elapsed() < Duration::from_mins(1), "long before the part would have ended");
        let running = fs::read_to_string(&pid).expect("it was written");
        assert!(!kill(&["-s", "0", running.trim()]).status.success(), "the part was ended too");
        let summary = fs::read_to_string(folder.path().join("out/summary.txt")).expect("it is written all the same");
        let has =
            |part: &str, result: &str| summary.lines().any(|line| line.starts_with(part) && line.contains(result));
        assert!(has("self-check", "passed") && has("probe-rules", "INTERRUPTED"), "{summary}");
        assert!(
            !summary.contains("calibration") && summary.contains("\nInterrupted: what is missing above"),
            "{summary}"
        );
    }
}

/// A part gets what is left of the time for all, and nothing begins after it.
#[test]
fn all_parts_together_have_a_limit() {
    let folder = tempfile::tempdir().expect("a folder to write to");
    let hangs = r"case $1 in --version | --list) exit 0 ;; esac; exec sleep 600";
    let since = Instant::now();
    let ran = Ran::with(&stand_in(folder.path(), hangs), &[("TOTAL_LIMIT", "2")]);
    assert!(since.elapsed() < Duration::from_secs(30), "self-check alone would have had 45 seconds");
    assert_eq!(ran.output.status.code(), Some(1), "{ran:?}");
    let parts = ran.parts();
    assert!(parts[0].1.starts_with("TIMED OUT after "), "{parts:?}");
    assert_eq!(parts.iter().filter(|(_, result)| result == "NOT RUN, no time was left").count(), 5, "{parts:?}");
}

/// Every part would fail alike: the reason is told once.
#[test]
fn without_a_gpu_it_ends_at_once_and_says_why() {
    let folder = tempfile::tempdir().expect("a folder to write to");
    let none = r"case $1 in --version) exit 0 ;; --list) echo 'no driver here' >&2; exit 4 ;; esac; exit 1";
    let ran = Ran::with(&stand_in(folder.path(), none), &[]);
    assert_eq!(ran.output.status.code(), Some(4), "{ran:?}");
    assert_eq!(format!("{ran:?}"), "no driver here\n");
    assert!(!ran.folder.path().join("out").exists(), "nothing stands in the way of the next run");
}

#[test]
fn without_a_binary_or_with_a_wrong_one_it_says_so() {
    let folder = tempfile::tempdir().expect("a folder to write to");
    let ran = Ran::with(&folder.path().join("missing"), &[]);
    assert_eq!(ran.output.status.code(), Some(4), "{ran:?}");
    assert!(format!("{ran:?}").starts_with("error: no calibrate that runs here: "), "{ran:?}");
    let usage = Command::new("bash").arg(SCRIPT).output().expect("there is a bash");
    assert_eq!(usage.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&usage.stderr).contains("calibrate/on-gpu.sh OUTDIR"), "{usage:?}");
    let help = Command::new("bash").args([SCRIPT, "--help"]).output().expect("there is a bash");
    assert_eq!((help.status.code(), help.stdout, help.stderr.as_slice()), (Some(0), usage.stderr, &b""[..]));
}

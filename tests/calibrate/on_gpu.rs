//! `calibrate/on-gpu.sh`: every part runs, under its own limit, whatever became of the others.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

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
    /// Runs the script with a binary. It finds no Python, so that no PyTorch of the machine counts.
    fn with(binary: &Path, variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder to write to");
        fs::create_dir(folder.path().join("commands")).expect("the folder can be written");
        let programs = [
            "bash", "sed", "dirname", "mkdir", "rm", "mktemp", "date", "uname", "timeout", "cat", "head", "tail", "mv",
            "grep", "sleep", "env",
        ];
        for program in programs {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let found = std::env::split_paths(&path).map(|path| path.join(program)).find(|path| path.exists());
            let link = folder.path().join("commands").join(program);
            std::os::unix::fs::symlink(found.unwrap_or_else(|| panic!("no {program}")), link)
                .expect("a link can be made");
        }
        let mut command = Command::new("bash");
        command.arg(SCRIPT).arg(folder.path().join("out")).env("PATH", folder.path().join("commands"));
        command.env("CALIBRATE", binary).envs(variables.iter().copied());
        Self { output: command.output().expect("there is a bash"), folder }
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

/// Every part would fail alike: the reason is told once.
#[test]
fn without_a_gpu_it_ends_at_once_and_says_why() {
    let folder = tempfile::tempdir().expect("a folder to write to");
    let none = r"case $1 in --version) exit 0 ;; --list) echo 'no driver here' >&2; exit 4 ;; esac; exit 1";
    let ran = Ran::with(&stand_in(folder.path(), none), &[]);
    assert_eq!(ran.output.status.code(), Some(4), "{ran:?}");
    assert_eq!(format!("{ran:?}"), "no driver here\n");
    assert_eq!(ran.file("summary.txt"), "no driver here\n");
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
}

//! Where a profile goes: everything that could fail behind minutes of measuring fails before them.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::double::Double;
use crate::measure::{Bench, TINY, check};

/// Refused at once and with this, and nothing is left behind.
#[cfg(unix)]
#[test]
fn what_is_no_file_is_refused_before_anything_is_measured() {
    use std::os::unix::fs::symlink;

    let bench = Bench::new(Double::driver_and_nvml());
    let fifo = bench.path("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status().expect("every Unix has mkfifo");
    assert!(made.success());
    symlink("nothing", bench.path("link.toml")).expect("the folder can be written");
    fs::create_dir(bench.path("taken.toml.partial")).expect("the folder can be written");
    let before = fs::read_dir(&bench.folder).expect("it is there").count();
    let long = "n".repeat(250);
    for (out, reason) in [
        ("/dev/full", "it is no file, and would be replaced by one"),
        ("/dev/null", "it is no file, and would be replaced by one"),
        ("fifo", "it is no file, and would be replaced by one"),
        ("tiny", "it is a folder"),
        ("link.toml", "it is a link to a file that is not there"),
        ("taken.toml", "taken.toml.partial: it is a folder"),
        (&long, "File name too long"),
    ] {
        let start = Instant::now();
        let run = bench.run(&["--out", out], &[]);
        assert_eq!((run.code(), run.stdout()), (Some(1), ""), "{out}: {}", run.stderr());
        assert!(run.stderr().starts_with("error: cannot write ") && run.stderr().contains(reason), "{}", run.stderr());
        assert!(start.elapsed() < Duration::from_secs(20), "{out}");
    }
    assert_eq!(fs::read_dir(&bench.folder).expect("it is there").count(), before);
}

#[cfg(unix)]
#[test]
fn a_link_stays_a_link() {
    let bench = Bench::new(Double::driver_and_nvml());
    fs::write(bench.path("file.toml"), "earlier").expect("the folder can be written");
    std::os::unix::fs::symlink("file.toml", bench.path("link.toml")).expect("the folder can be written");
    assert_eq!(bench.run(&["--out", "link.toml"], &[]).code(), Some(0));
    assert!(fs::symlink_metadata(bench.path("link.toml")).expect("it is there").is_symlink());
    check(&bench, "file.toml");
    let earlier = fs::symlink_metadata(bench.path("link.toml.1")).expect("it was kept");
    assert!(earlier.is_file());
    assert_eq!(bench.text("link.toml.1"), "earlier");
}

#[test]
fn a_long_name_of_a_model_makes_no_long_name_of_a_file() {
    let bench = Bench::new(Double::driver_and_nvml());
    let config = TINY.replacen('{', &format!(r#"{{ "_name_or_path": "{}","#, "long ".repeat(80)), 1);
    fs::write(bench.path("tiny/config.json"), config).expect("the folder can be written");
    let run = bench.run(&[], &[]);
    assert_eq!(run.code(), Some(0), "{}", run.stderr());
    let written = fs::read_dir(&bench.folder).expect("it is there").flatten();
    let names: Vec<String> = written.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let profile = names.iter().find(|name| name.starts_with("driver-double-long-long-")).expect("it is there");
    assert!(profile.len() < 120, "{profile}");
    check(&bench, profile);
}

/// What takes the profile's place while it is measured: the parts are kept, and the message says so.
#[test]
fn a_profile_that_cannot_be_written_is_not_measured_again() {
    let bench = Bench::new(Double::driver_and_nvml());
    let mut command = bench.command(&["--out", "mine.toml"], &[]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the binary was built");
    let partial = bench.path("mine.toml.partial");
    for _ in 0..3_000 {
        if partial.exists() {
            break;
        }
        thread::sleep(Duration::from_millis(10));
    }
    fs::create_dir(bench.path("mine.toml")).expect("the folder can be written");
    let output = child.wait_with_output().expect("it is our child");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let said = stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot write the profile mine.toml"), "{said}");
    assert!(said.contains("9 parts are kept: the same command with --resume goes on"), "{said}");
    assert!(!bench.path("mine.toml.1").exists());
    fs::remove_dir(bench.path("mine.toml")).expect("it is empty");
    let resumed = bench.run(&["--out", "mine.toml", "--resume"], &[]);
    assert_eq!(resumed.code(), Some(0), "{}", resumed.stderr());
    assert_eq!(resumed.stderr().matches("kept from before").count(), 9, "{}", resumed.stderr());
    check(&bench, "mine.toml");
}

/// Memory that nobody else holds cannot be given back by anybody.
#[test]
fn who_holds_the_memory_decides_what_to_do() {
    let bench = Bench::new(Double::driver_and_nvml());
    let small = ("RUNGWISE_DOUBLE_MEMORY_BYTES", "1200000000");
    let alone = bench.refusal(&["--out", "mine.toml"], &[small]);
    assert!(alone.starts_with("exit 3\n") && alone.contains("measure a smaller model, one rank of it"), "{alone}");
    let others = [
        ("RUNGWISE_DOUBLE_MEMORY_BYTES", "20000000000"),
        ("RUNGWISE_DOUBLE_OTHERS_BYTES", "19000000000"),
        ("RUNGWISE_DOUBLE_NVML_MEMORY_USED", "19000000000"),
        ("RUNGWISE_DOUBLE_NVML_PROCESSES", "4242:19000000000"),
    ];
    let beside = bench.refusal(&["--out", "mine.toml"], &others);
    assert!(beside.starts_with("exit 6\n") && beside.contains("end what else uses this GPU"), "{beside}");
    assert!(!Path::new(&bench.path("mine.toml")).exists());
}

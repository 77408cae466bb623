//! The `sim` binary from outside: what it prints where, what it leaves on the disk, and its exit codes.

mod bad_files;
#[cfg(unix)]
mod documentation;
mod explain;
mod fit;
#[path = "../generated.rs"]
mod generated;
mod guide;
mod help;
mod import;
mod installing;
mod invalid;
mod output;
mod parquet;
mod profiles;
mod propose;
#[cfg(feature = "pages")]
mod report;
mod sglang;
mod streams;
mod sweep;
mod trace;
mod usage;
mod validate;
mod watch;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What one run of the binary came to.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    /// The exit code; `None` if a signal ended it.
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Answer {
    /// Refused: a message on stderr, nothing on stdout, this exit code. Gives the message.
    #[track_caller]
    fn refused(self, code: i32) -> String {
        assert_eq!((self.code, self.stdout.as_str()), (Some(code), ""), "{}", self.stderr);
        assert!(!self.stderr.is_empty(), "a refusal says why");
        self.stderr
    }

    /// Done. Gives stdout.
    #[track_caller]
    fn done(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        self.stdout
    }
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("all output is UTF-8");
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// The top of the repository: paths in messages start there.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The binary in `folder`, with nothing in its environment that could change what it prints.
fn command_in(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sim"));
    command
        .args(arguments)
        .current_dir(folder)
        .env_remove("NO_COLOR")
        .env_remove("COLUMNS")
        .env_remove("RAYON_NUM_THREADS")
        .env_remove("RUST_BACKTRACE");
    command
}

fn sim_in(folder: &Path, arguments: &[&str]) -> Answer {
    command_in(folder, arguments).output().expect("the binary was built").into()
}

/// The binary at the top of the repository.
fn sim(arguments: &[&str]) -> Answer {
    sim_in(&root(), arguments)
}

/// A sound scenario of 20 requests, with more lines under `[server.vllm]` and at its end. Its profile is that of the
/// exercise, whose figures never change.
fn scenario(server: &str, rest: &str) -> String {
    format!(
        r#"schema = 1
name = "A sound scenario"
[server.vllm]
max_num_seqs = 64
max_num_batched_tokens = 2048
max_model_len = 4096
enable_prefix_caching = false
{server}
[profile]
builtin = "textbook"
[traffic]
seed = 7
requests = 20
[traffic.arrivals.poisson]
rate = 5.0
[traffic.lengths.fixed]
prompt = 100
output = 20
[slo]
ttft = "500ms"
{rest}"#
    )
}

/// A folder of its own with `scenario.toml` in it.
fn folder_with(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("scenario.toml"), text).expect("writable");
    folder
}

/// The names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a readable folder");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

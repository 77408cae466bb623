//! The real `sim`.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Runs `sim` to its end.
pub(crate) fn sim<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sim")).args(arguments).output().expect("the binary starts")
}

/// The JSON that `sim` answers with.
///
/// # Panics
/// If it fails; with what it said.
pub(crate) fn json<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Value {
    let arguments = arguments.into_iter().map(|argument| argument.as_ref().to_owned());
    answer(&sim(arguments.chain(["--format=json".into()])))
}

/// The same of a command as it is typed in the root of the repository.
///
/// # Panics
/// If it fails; with what it said.
pub(crate) fn json_at_root(arguments: impl IntoIterator<Item = String>) -> Value {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut command = Command::new(env!("CARGO_BIN_EXE_sim"));
    command.args(arguments).arg("--format=json").current_dir(root);
    answer(&command.output().expect("the binary starts"))
}

fn answer(output: &Output) -> Value {
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON on standard output")
}

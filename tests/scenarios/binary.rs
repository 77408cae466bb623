//! The real `sim`.

use std::ffi::OsStr;
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
    let output =
        sim(arguments.into_iter().map(|argument| argument.as_ref().to_owned()).chain(["--format=json".into()]));
    assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON on standard output")
}

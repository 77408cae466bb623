//! Conformance with the real engines: every golden vector, line by line.

mod scheduler_trace;

use std::path::PathBuf;

use serde_json::Value;

/// The lines of one golden file, say `"vllm/scheduler_trace.jsonl"`; `RUNGWISE_GOLDEN` names another folder.
fn vectors(file: &str) -> Vec<Value> {
    let folder = std::env::var_os("RUNGWISE_GOLDEN")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden")), PathBuf::from);
    let path = folder.join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).expect("a golden line is JSON")).collect()
}

//! Which graph flags SGLang's command line takes, and in which words it refuses others.

use serde::Deserialize;
use serde_json::json;
use sim::import::sglang::command_line::read;

use super::check_answers;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    argv: Vec<String>,
}

#[test]
fn cli() {
    check_answers("sglang/cli.jsonl", |input: &Input| match read(&input.argv) {
        Ok(set) => json!({ "ok": true, "set": set }),
        Err(refusal) => json!({ "ok": false, "error": format!("sglang: error: {refusal}") }),
    });
}

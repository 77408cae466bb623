//! SGLang's vectors: lines of `{"in", "out"}`.

mod capture_bs;
mod command_line;
mod dedup;
mod dispatch;
mod log_lines;
mod scheduler;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::vectors::{Tally, same, vectors};

/// One line of an SGLang file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<I> {
    #[serde(rename = "in")]
    input: I,
    out: Value,
}

/// Compares every line of a file with what `answer` makes of its input, prints the tally, and fails on any mismatch.
///
/// A line with keys or values that the types do not know is a mismatch.
fn check_answers<I: DeserializeOwned>(name: &str, answer: impl Fn(&I) -> Value) {
    let Some(lines) = vectors(name) else { return };
    let mut tally = Tally::new(name);
    for line in lines {
        let input = line["in"].to_string();
        let outcome = serde_json::from_value::<Line<I>>(line)
            .map_err(|error| format!("not understood: {error}"))
            .and_then(|line| same(&answer(&line.input), &line.out));
        tally.count(outcome.map_err(|message| format!("{message}\n  in {input}")));
    }
    tally.finish();
}

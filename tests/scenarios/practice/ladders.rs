//! Ladders that vLLM 0.33.0 makes from its flags. (The request and token grids of later releases are not simulated yet.)

use serde_json::Value;

use super::tally::Tally;
use crate::binary::json;

fn sizes(flags: &str) -> Vec<u64> {
    let answer = json(["ladder"].into_iter().chain(flags.split_whitespace()));
    let sizes = answer["candidates"][0]["capture_sizes"].as_array().expect("a list");
    sizes.iter().filter_map(Value::as_u64).collect()
}

/// How many rungs, and the last of them.
fn compare(tally: &mut Tally, flags: &str, count: usize, last: &[u64]) {
    let found = sizes(flags);
    tally.equal(&format!("rungs with {flags}"), found.len(), count);
    tally.equal(&format!("last rungs with {flags}"), found[found.len().saturating_sub(last.len())..].to_vec(), last);
}

#[test]
fn one_token_per_request() {
    let mut tally = Tally::new("ladders");
    compare(&mut tally, "--max-num-seqs=256 --max-num-batched-tokens=8192", 51, &[496, 512]);
    compare(&mut tally, "--max-num-seqs=100 --max-num-batched-tokens=8192", 29, &[192, 200]);
    compare(&mut tally, "--max-num-seqs=12 --max-num-batched-tokens=8192", 7, &[1, 2, 4, 8, 12, 16, 24]);
    compare(&mut tally, "--max-num-seqs=1 --max-num-batched-tokens=8192", 2, &[1, 2]);
    compare(&mut tally, "--max-num-seqs=1024 --max-num-batched-tokens=8192", 51, &[496, 512]);
    compare(&mut tally, "--max-num-seqs=1024 --max-num-batched-tokens=8192 --data-center-blackwell", 83, &[1008, 1024]);
    compare(
        &mut tally,
        "--max-num-seqs=256 --max-num-batched-tokens=700 --max-cudagraph-capture-size=2048",
        63,
        &[688, 700],
    );
    compare(&mut tally, "--max-num-seqs=256 --max-num-batched-tokens=2048", 51, &[496, 512]);
    tally.finish();
}

#[test]
fn drafts() {
    let mut tally = Tally::new("ladders with drafts");
    let v1 = "--runner=v1 --max-num-batched-tokens=8192";
    let seven_42 = "--max-num-seqs=6 --num-speculative-tokens=6 --max-cudagraph-capture-size=42";
    // 42 is missing: the last raw rung, 40, is rounded up to it, and what ends above that rung is dropped.
    compare(&mut tally, &format!("{v1} {seven_42}"), 5, &[7, 14, 21, 28, 35]);
    let four_6 = "--max-num-seqs=6 --num-speculative-tokens=3 --max-cudagraph-capture-size=6";
    compare(&mut tally, &format!("{v1} {four_6}"), 1, &[4]);
    let seven = "--max-num-seqs=6 --num-speculative-tokens=6";
    compare(&mut tally, &format!("{v1} {seven}"), 10, &[7, 14, 21, 28, 35, 42, 49, 56, 70, 77]);
    let five = "--max-num-seqs=16 --num-speculative-tokens=4";
    compare(&mut tally, &format!("{v1} {five}"), 21, &[155, 160]);
    let four = "--max-num-seqs=128 --num-speculative-tokens=3";
    compare(&mut tally, &format!("{v1} {four}"), 49, &[496, 512]);

    let v2 = "--runner=v2 --max-num-batched-tokens=8192";
    compare(&mut tally, &format!("{v2} {seven_42}"), 8, &[1, 2, 4, 8, 16, 24, 32, 40]);
    compare(&mut tally, &format!("{v2} {five}"), 26, &[152, 160]);
    compare(&mut tally, &format!("{v2} {four}"), 51, &[496, 512]);
    tally.finish();
}

//! The practice exercise as worked by hand: every figure that `sim price` and `sim ladder` cover, to six decimals.
//!
//! The device step is one straight line for real and padded rows alike: 4.0 ms at eight rows and 0.24 ms a row, or 0.02 ms
//! where the step is bound by weights. (The other reading of the exercise, flat for real rows, moves all levels alike
//! and no saving; it is not priced.)

mod choice;
mod ladders;
mod prices;
mod sheet;
mod specimen;
mod tally;

use std::iter;

use serde_json::Value;

/// The two profiles: 0.24 and 0.02 ms a row.
const PROFILES: [&str; 2] = ["textbook", "textbook-weight-bound"];

/// The exercise's rungs.
const RUNGS: [u32; 5] = [1, 4, 8, 16, 32];

/// The exercise's batches, as 4,800 steps: 8, 17, 31, 29 and 15 %.
fn distribution() -> Vec<(u32, u64)> {
    let ranges = [(1..=1, 384), (2..=4, 272), (5..=8, 372), (9..=16, 174), (17..=32, 45)];
    ranges.into_iter().flat_map(|(batches, count)| batches.zip(iter::repeat(count))).collect()
}

/// Milliseconds per step as dispatched.
fn graph_ms(priced: &Value) -> f64 {
    priced["step_ms"]["graph"].as_f64().expect("a number")
}

/// Milliseconds per step if eager wherever replay loses.
fn best_ms(priced: &Value) -> f64 {
    priced["step_ms"]["best_of_both"].as_f64().expect("a number")
}

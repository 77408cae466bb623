//! The log that `own_trace.toml` plays.

use std::fs;

use super::files::folder;

/// The rows are those of the formula in the scenario's header.
#[test]
fn the_example_is_made_by_the_formula_that_its_scenario_states() {
    let text = fs::read_to_string(folder().join("traces/example.csv")).expect("the trace");
    let row = |i: u32| format!("{},{},{}\n", 150 * i + 37 * i % 101, 64 + 13 * i * i % 1473, 16 + 29 * i % 233);
    let rows: String = (0..200).map(row).collect();
    assert_eq!(text, format!("ts,prompt_len,gen_len\n{rows}"));
}

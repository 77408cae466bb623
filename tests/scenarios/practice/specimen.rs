//! The 512-token ceiling: 256 requests, 8,192 tokens, the engine's own ladder.

use serde_json::Value;

use super::sheet::Sheet;
use super::tally::Tally;
use super::{PROFILES, distribution, graph_ms};
use crate::binary::json;

fn ladder() -> Value {
    json(["ladder", "--max-num-seqs=256", "--max-num-batched-tokens=8192", "--profile=textbook"])
}

/// Every size up to the ceiling with the size that it runs at.
fn padded_table(candidate: &Value) -> Vec<(u32, u32)> {
    let field = |span: &Value, name: &str| span[name].as_u64().expect("a size") as u32;
    let spans = candidate["padded"].as_array().expect("a list");
    spans
        .iter()
        .flat_map(|span| (field(span, "first")..=field(span, "last")).map(move |size| (size, field(span, "padded"))))
        .collect()
}

#[test]
fn the_ladder() {
    let mut tally = Tally::new("specimen, ladder");
    let answer = ladder();
    let candidate = &answer["candidates"][0];
    let sizes: Vec<u32> = [1, 2, 4].into_iter().chain((8..=256).step_by(8)).chain((272..=512).step_by(16)).collect();
    tally.equal("sizes", candidate["capture_sizes"].clone(), sizes);
    for (name, expected) in [("sizes", 51), ("piecewise", 51), ("full", 35), ("descriptors", 86)] {
        tally.equal(name, candidate["counts"][name].clone(), expected);
    }
    tally.number("capture seconds", candidate["capture_s"].clone(), 60.2);
    // The engine's look-up table has an entry for nothing as well.
    let table = padded_table(candidate);
    tally.equal("table", 1 + table.len(), 513);
    assert!(table.iter().zip(1..).all(|(&(size, _), expected)| size == expected), "each size once");
    tally.equal("most padding", table.iter().map(|(size, padded)| padded - size).max(), 15);
    let relative = |&(size, padded): &(u32, u32)| f64::from(padded - size) / f64::from(size);
    let worst = table.iter().max_by(|a, b| relative(a).total_cmp(&relative(b))).expect("a table");
    tally.equal("worst size", worst.0, 9);
    tally.number("its padding", relative(worst), 0.777_778);
    let number = |value: &Value| value.as_f64().expect("a number");
    let budget = number(&answer["engine"]["max_num_batched_tokens"]);
    tally.number("budget / ceiling", budget / number(&candidate["ceiling"]), 16.0);
    tally.finish();
}

#[test]
fn its_padding() {
    let mut tally = Tally::new("specimen, padding");
    let price = |sheet: Sheet| sheet.on_the_specimen().price(PROFILES[0]).remove(0);

    let any = price(Sheet::prefills(1..=512));
    tally.number("1 to 512: padded rows", any["mean_padded_rows"].clone(), 5.458_984);
    tally.number("1 to 512: exact", any["exact_hit_rate"].clone(), 0.099_609);
    tally.number("1 to 512: padded / real", any["padding_ratio"].clone(), 0.021_283);
    tally.number("1 to 512: padded / batch", any["mean_padding_over_batch"].clone(), 0.037_395);
    tally.number("1 to 512: no graph", any["fallback_rate"].clone(), 0.0);

    let above = price(Sheet::prefills(1..=8192));
    tally.number("1 to 8192: no graph", above["fallback_rate"].clone(), 0.937_5);

    let decodes: Vec<(u32, u64)> = (1..=256).map(|batch| (batch, 1)).collect();
    let decodes = price(Sheet::decodes(&decodes));
    tally.number("decodes: padded rows", decodes["mean_padded_rows"].clone(), 3.417_969);
    tally.number("decodes: exact", decodes["exact_hit_rate"].clone(), 0.136_719);
    tally.number("decodes: padded / real", decodes["padding_ratio"].clone(), 0.026_599);
    tally.finish();
}

#[test]
fn the_exercise_on_it() {
    let mut tally = Tally::new("specimen, exercise");
    let sglang_to_32 = [1, 2, 4, 8, 12, 16, 24, 32];
    for (profile, own_ms, sglang_ms) in [(PROFILES[0], 5.302, 5.162_8), (PROFILES[1], 4.429_333, 4.417_733)] {
        let priced = Sheet::decodes(&distribution()).on_the_specimen().ladder(&sglang_to_32).price(profile);
        let [own, sglang] = [&priced[0], &priced[1]];
        tally.number("padded rows", own["mean_padded_rows"].clone(), 2.061_667);
        tally.number("exact", own["exact_hit_rate"].clone(), 0.325_833);
        tally.number("graph", graph_ms(own), own_ms);
        tally.number("SGLang's list: padded rows", sglang["mean_padded_rows"].clone(), 1.481_667);
        tally.number("SGLang's list: exact", sglang["exact_hit_rate"].clone(), 0.362_083);
        tally.number("SGLang's list: graph", graph_ms(sglang), sglang_ms);
    }
    tally.finish();
}

#[test]
fn single_steps() {
    let mut tally = Tally::new("specimen, single steps");
    let decode = &Sheet::decodes(&[(100, 1)]).on_the_specimen().price(PROFILES[0])[0];
    tally.number("100 decodes: rung", decode["mean_rung_rows"].clone(), 104.0);
    tally.number("100 decodes: graph", graph_ms(decode), 27.39);
    tally.number("100 decodes: eager", decode["step_ms"]["eager"].clone(), 27.18);
    tally.number("100 decodes: replay loses", decode["losing_share"].clone(), 1.0);

    let above = &Sheet::prefills(513..=513).on_the_specimen().price(PROFILES[0])[0];
    tally.number("513 tokens: no graph", above["fallback_rate"].clone(), 1.0);
    let explained = json(["explain", "--prefill=513", "--max-num-seqs=256", "--max-num-batched-tokens=8192"]);
    tally.equal("513 tokens: mode", explained["chosen"]["mode"].clone(), "NONE");
    tally.finish();
}

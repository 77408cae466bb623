//! What `sim propose` answers to the questions of public reports, `scenarios/field/`: the change that helped the reporter.

use serde_json::Value;

use super::binary::json;
use super::files::folder;

/// The proposal for the report of this number, chosen on two seeds and checked on so many others.
fn propose(report: &str, check_seeds: &str) -> Value {
    let path = folder().join(format!("field/{report}.toml"));
    json(["propose", path.to_str().expect("a path in UTF-8"), "--seeds", "2", "--check-seeds", check_seeds])
}

/// The sizes of a choice for a phase.
#[track_caller]
fn sizes(choice: &Value, phase: &str) -> Vec<u64> {
    let lists = choice["lists"].as_array().expect("a list");
    let of = lists.iter().find(|list| list["phase"] == phase).expect("a list of this phase");
    of["sizes"].as_array().expect("a list").iter().map(|size| size.as_u64().expect("a size")).collect()
}

/// A figure of a choice, mean over the check seeds.
#[track_caller]
fn mean(choice: &Value, figure: &str) -> f64 {
    let value = &choice["figures"][figure];
    value.as_f64().or(value["mean"].as_f64()).expect("a figure")
}

/// Proposal minus current: mean and verdict of a figure.
#[track_caller]
fn against_current<'a>(answer: &'a Value, figure: &str) -> (f64, &'a str) {
    let difference = &answer["proposal"]["against_current"]["differences"][figure];
    (difference["mean"].as_f64().expect("a difference"), difference["verdict"].as_str().expect("a verdict"))
}

/// Nine requests run sixteen rows: the best single change puts a size at nine.
#[test]
fn r01_gets_a_size_for_nine() {
    let answer = propose("r01", "4");
    assert!(!sizes(&answer["current"], "all").contains(&9));
    assert_eq!(answer["one_change"]["to"], 9, "{}", answer["one_change"]["kind"]);
    let changed = &answer["one_change"]["choice"];
    assert!(mean(changed, "p99_tpot_ms") < 0.85 * mean(&answer["current"], "p99_tpot_ms"));
}

/// Steps with a chunk of 4,096 tokens run without a graph, and the host takes longer for them than the device: they get one.
#[test]
fn r18_gets_a_graph_for_its_chunks() {
    let answer = propose("r18", "2");
    assert_eq!(answer["verdict"]["kind"], "change", "{}", answer["verdict"]["sentence"]);
    assert_eq!(sizes(&answer["current"], "all").last(), Some(&1024));
    assert_eq!(sizes(&answer["proposal"], "all").last(), Some(&4096));
    let (tpot_ms, verdict) = against_current(&answer, "p99_tpot_ms");
    assert!(tpot_ms < -0.2 * mean(&answer["current"], "p99_tpot_ms"), "{tpot_ms} ms, {verdict}");
}

/// Batches of 97 to 100 have no full graph: size 100 is added, and no single change is better.
#[test]
fn r11_gets_the_full_batch_of_100() {
    let answer = propose("r11", "4");
    assert_eq!(answer["verdict"]["kind"], "change", "{}", answer["verdict"]["sentence"]);
    assert!(!sizes(&answer["current"], "all").contains(&100));
    assert!(sizes(&answer["proposal"], "all").contains(&100), "{:?}", sizes(&answer["proposal"], "all"));
    assert_eq!(answer["one_change"]["to"], 100, "{}", answer["one_change"]["kind"]);
    let (tpot_ms, verdict) = against_current(&answer, "p99_tpot_ms");
    assert!(tpot_ms < -0.2 * mean(&answer["current"], "p99_tpot_ms"), "{tpot_ms} ms, {verdict}");
    // What it costs to be without that size is said of the rung.
    let rungs = answer["rungs"].as_array().expect("a list");
    let full = rungs.iter().find(|rung| rung["size"] == 100).expect("the rung");
    assert_eq!(full["p99_tpot_ms"]["verdict"], "better");
}

/// Six requests with six drafts each are 42 tokens, the ceiling of 42 ends at 40: the proposal holds them.
#[test]
fn r09_gets_the_batch_of_42() {
    let answer = propose("r09", "4");
    assert_eq!(answer["verdict"]["kind"], "change", "{}", answer["verdict"]["sentence"]);
    assert_eq!(sizes(&answer["current"], "all").last(), Some(&40));
    assert_eq!(sizes(&answer["proposal"], "all").last(), Some(&42));
    assert_eq!((&answer["one_change"]["kind"], &answer["one_change"]["to"]), (&"shift".into(), &42.into()));
    assert_eq!(against_current(&answer, "p99_tpot_ms").1, "better");
    assert!(mean(&answer["current"], "fallback_rate") > 0.9);
    assert!(mean(&answer["proposal"], "fallback_rate") < 0.1);
}

/// The load visits batches above the ceiling of 32: the proposal holds them, and the batch stays small.
#[test]
fn r05_gets_a_ceiling_above_the_load() {
    let answer = propose("r05", "4");
    assert_eq!(answer["verdict"]["kind"], "change", "{}", answer["verdict"]["sentence"]);
    assert_eq!(sizes(&answer["current"], "decode").last(), Some(&32));
    let ceiling = *sizes(&answer["proposal"], "decode").last().expect("decode graphs");
    assert!(ceiling as f64 >= mean(&answer["proposal"], "max_decode_rows"), "{ceiling}");
    assert!((18.0..=22.0).contains(&mean(&answer["proposal"], "median_decode_rows")));
    assert!(mean(&answer["current"], "running_at_last_sent") > 48.0);
    let (tpot_ms, verdict) = against_current(&answer, "p99_tpot_ms");
    assert!(tpot_ms < -0.5 * mean(&answer["current"], "p99_tpot_ms"), "{tpot_ms} ms, {verdict}");
}

/// Batches of nine ran on 16: a size of the proposal pads them less than the reporter's 12.
#[test]
fn r03_gets_sizes_where_the_batches_are() {
    let answer = propose("r03", "4");
    assert_eq!(answer["verdict"]["kind"], "change", "{}", answer["verdict"]["sentence"]);
    let smallest_for_nine = |choice| sizes(choice, "decode").into_iter().find(|&size| size >= 9);
    assert_eq!(smallest_for_nine(&answer["current"]), Some(16));
    assert!(smallest_for_nine(&answer["proposal"]) <= Some(12), "{:?}", sizes(&answer["proposal"], "decode"));
    assert!(mean(&answer["proposal"], "waste_share") < 0.25);
    assert!(mean(&answer["current"], "waste_share") > 0.4);
    assert!(mean(&answer["proposal"], "graph_memory_bytes") <= mean(&answer["current"], "graph_memory_bytes"));
}

/// No step lands on what is above the largest batch: it goes, and nothing gets worse. (Without a budget the search would put
/// more sizes below it instead.)
#[test]
fn r31_loses_what_no_step_lands_on() {
    let path = folder().join("field/r31.toml");
    let path = path.to_str().expect("a path in UTF-8");
    let answer = json(["propose", path, "--seeds", "2", "--check-seeds", "4", "--graph-memory", "400MiB"]);
    let largest = mean(&answer["current"], "max_decode_rows");
    assert_eq!(sizes(&answer["current"], "decode").last(), Some(&128));
    let ceiling = *sizes(&answer["proposal"], "decode").last().expect("decode graphs");
    assert!(ceiling <= 72 && largest < 72.0, "{ceiling}, the largest batch is {largest}");
    assert!(mean(&answer["proposal"], "graph_memory_bytes") < 0.9 * mean(&answer["current"], "graph_memory_bytes"));
    assert_ne!(against_current(&answer, "p99_tpot_ms").1, "worse");
}

/// The card is all but full: the KV cache is worth more than the graphs. How long requests wait varies much by seed.
#[test]
fn r53_gets_few_graphs_or_none() {
    let answer = propose("r53", "8");
    assert!(sizes(&answer["current"], "decode").len() > 20);
    let kept = sizes(&answer["proposal"], "decode");
    assert!(kept.len() <= 5, "{kept:?}: {}", answer["verdict"]["sentence"]);
    assert!(mean(&answer["proposal"], "kv_tokens") > 1.1 * mean(&answer["current"], "kv_tokens"));
    assert!(mean(&answer["proposal"], "p99_ttft_ms") < mean(&answer["current"], "p99_ttft_ms"));
}

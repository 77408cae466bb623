//! What is written reads back as it was.

use reports::{RunReport, StepLine, StepLog, json};
use serde::{Serialize, de::DeserializeOwned};

use crate::samples;

fn pretty(report: &impl Serialize) -> String {
    let mut bytes = Vec::new();
    json::write(report, &mut bytes).expect("a vector takes it all");
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

fn round_trip<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(report: &T) -> String {
    let text = pretty(report);
    assert_eq!(&serde_json::from_str::<T>(&text).expect("reads back"), report);
    assert_eq!(pretty(report), text, "the same record gives the same bytes");
    assert!(text.ends_with("}\n"));
    text
}

#[test]
fn every_report_reads_back() {
    round_trip(&samples::run());
    round_trip(&samples::run_over_seeds());
    insta::assert_snapshot!("json_price", round_trip(&samples::price()));
    insta::assert_snapshot!("json_ladder", round_trip(&samples::ladder()));
    round_trip(&samples::history());
    round_trip(&samples::comparison());
    round_trip(&samples::startup());
    for seeds in [&[7][..], &[7, 8, 9]] {
        round_trip(&samples::sweep(seeds));
        let (manifest, points) = samples::sweep_points(seeds);
        round_trip(&manifest);
        for point in &points {
            round_trip(point);
        }
    }
    round_trip(&samples::propose());
    round_trip(&samples::propose_for_steps());
    insta::assert_snapshot!("json_propose", round_trip(&samples::propose_nothing()));
    insta::assert_snapshot!("json_explain", round_trip(&samples::explain()));
}

#[test]
fn a_run_has_exactly_the_promised_keys_at_its_top() {
    let keys = |report: &RunReport| -> Vec<String> {
        let value: serde_json::Value = serde_json::from_str(&pretty(report)).expect("JSON");
        value.as_object().expect("an object").keys().cloned().collect()
    };
    let mut expected =
        ["version", "command", "scenario", "seed", "engine", "profile", "warnings", "candidates"].to_vec();
    expected.sort_unstable();
    assert_eq!(keys(&samples::run()), expected);
    expected.extend(["seeds", "pairs"]);
    expected.sort_unstable();
    assert_eq!(keys(&samples::run_over_seeds()), expected);
}

#[test]
fn keys_come_in_the_order_of_the_fields() {
    let mut report = samples::run();
    report.candidates.truncate(2);
    insta::assert_snapshot!("json_run", round_trip(&report));
    let text = pretty(&samples::run());
    let position = |key: &str| text.find(&format!("\n  \"{key}\"")).expect("a top-level key");
    let order = ["scenario", "seed", "engine", "profile", "warnings", "candidates"].map(position);
    assert!(order.is_sorted(), "{order:?}");
}

#[test]
fn numbers_that_are_not_finite_come_out_as_null() {
    let mut report = samples::price();
    report.candidates[0].step_ms.graph = f64::NAN;
    report.candidates[0].saving_graph.percent = f64::NEG_INFINITY;
    let text = pretty(&report).to_lowercase();
    assert!(text.contains("\"graph\": null"));
    assert!(!text.contains("nan") && !text.contains("inf"), "{text}");
}

#[test]
fn the_step_log_is_one_object_a_line() {
    let mut log = StepLog::new(Vec::new());
    log.header(&samples::step_header()).expect("written");
    log.step(&samples::step()).expect("written");
    let mut eager = samples::step();
    eager.descriptor = None;
    eager.mode = "NONE".into();
    eager.fallback = Some("above_ceiling".into());
    eager.prefills.clear();
    (eager.padded_rows, eager.relaxed, eager.artifact) = (0, false, "compiled eager".into());
    log.step(&eager).expect("written");
    let text = String::from_utf8(log.finish().expect("flushed")).expect("UTF-8");
    let lines: Vec<StepLine> = text.lines().map(|line| serde_json::from_str(line).expect("a line")).collect();
    let expected = [StepLine::Header(samples::step_header()), StepLine::Step(samples::step()), StepLine::Step(eager)];
    assert_eq!(lines, expected);
    insta::assert_snapshot!("steps_jsonl", text);
}

#[test]
fn a_reader_of_this_version_ignores_fields_it_does_not_know() {
    let line = serde_json::to_string(&StepLine::Step(samples::step())).expect("plain data");
    let newer = line.replacen("\"step\":41", "\"step\":41,\"colour\":\"red\"", 1);
    assert_ne!(line, newer);
    assert_eq!(serde_json::from_str::<StepLine>(&newer).expect("read"), StepLine::Step(samples::step()));
}

//! `sim run --trace`.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use super::{folder_with, names, scenario, sim_in};

const CANDIDATES: &str = "[[candidate]]\nname = \"few\"\ncudagraph_capture_sizes = [1, 8]\n[[candidate]]\n\
                          name = \"none\"\ncudagraph_mode = \"NONE\"\n";

/// Complete events by process and thread, as `[begin, end]` in ns, in the order written.
fn spans(events: &[Value]) -> BTreeMap<(u64, u64), Vec<[u64; 2]>> {
    let mut spans: BTreeMap<(u64, u64), Vec<[u64; 2]>> = BTreeMap::new();
    for event in events.iter().filter(|event| event["ph"] == "X") {
        let number = |key: &str| event[key].as_u64().expect("a whole number");
        let ns = |key: &str| (event[key].as_f64().expect("a time") * 1e3).round() as u64;
        spans.entry((number("pid"), number("tid"))).or_default().push([ns("ts"), ns("ts") + ns("dur")]);
    }
    spans
}

/// The events of one process whose phase is `ph`.
fn of<'a>(events: &'a [Value], pid: u64, ph: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["pid"] == pid && event["ph"] == ph).collect()
}

#[test]
fn a_trace_shows_start_up_captures_and_every_step() {
    let folder = folder_with(&scenario("", CANDIDATES));
    let seeds = ["run", "scenario.toml", "--seeds", "2", "--format", "json"];
    let plain = sim_in(folder.path(), &seeds).done();
    let out = ["--trace", "trace.json", "--out", "out", "--steps"];
    assert_eq!(sim_in(folder.path(), &[&seeds[..], &out].concat()).done(), plain, "the report is the same");

    let trace = fs::read_to_string(folder.path().join("trace.json")).expect("written");
    let trace: Value = serde_json::from_str(&trace).expect("JSON");
    let report: Value = serde_json::from_str(&plain).expect("JSON");
    assert_eq!(trace["otherData"]["command"], report["command"]);
    let events = trace["traceEvents"].as_array().expect("a list");
    let mut processes = of(events, 1, "M");
    processes.extend((2..=4).flat_map(|pid| of(events, pid, "M")));
    let named: Vec<&str> = processes
        .iter()
        .filter(|event| event["name"] == "process_name")
        .map(|event| event["args"]["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(named, ["few, seed 7", "few, seed 8", "none, seed 7", "none, seed 8"]);

    let spans = spans(events);
    for (thread, spans) in &spans {
        let in_order = spans.windows(2).all(|pair| pair[0][1] <= pair[1][0]);
        assert!(in_order, "the spans of {thread:?} overlap, or are out of order");
    }
    let serving_from_ns = trace["otherData"]["serving_from_ns"].as_u64().expect("whole");
    for pid in 1..=4 {
        assert_eq!(spans[&(pid, 1)].last().expect("phases")[1], serving_from_ns, "start-up ends when serving begins");
    }
    let descriptors = report["candidates"][0]["descriptors_captured"]["mean"].as_f64().expect("a figure");
    assert_eq!(spans[&(1, 2)].len(), descriptors as usize);
    assert!(!spans.contains_key(&(3, 2)), "nothing is captured without graphs");

    // Steps, device ends and causes are those of the step log.
    let log = fs::read_to_string(folder.path().join("out/steps.jsonl")).expect("written");
    let mut pid = 0;
    let mut logged: BTreeMap<u64, Vec<Value>> = BTreeMap::new();
    for line in log.lines() {
        let mut line: Value = serde_json::from_str(line).expect("JSON");
        if let Some(step) = line.get_mut("step") {
            logged.get_mut(&pid).expect("a header came before").push(step.take());
        } else {
            pid += 1;
            logged.insert(pid, Vec::new());
        }
    }
    assert_eq!(logged.len(), 4);
    for (pid, steps) in logged {
        let ends: Vec<u64> =
            steps.iter().map(|step| serving_from_ns + step["end_ns"].as_u64().expect("whole")).collect();
        assert_eq!(spans[&(pid, 4)].iter().map(|span| span[1]).collect::<Vec<_>>(), ends);
        assert_eq!(spans[&(pid, 3)].len(), steps.len());
        let causes = |steps: &[Value]| steps.iter().filter(|step| !step["fallback"].is_null()).count();
        let mut flagged = of(events, pid, "i");
        flagged.retain(|event| event["name"].as_str().expect("text").starts_with("no graph"));
        assert_eq!(flagged.len(), causes(&steps));
        let counters = of(events, pid, "C");
        assert!(["requests", "rows", "KV blocks"].iter().all(|name| counters.iter().any(|at| at["name"] == *name)));
    }
}

#[test]
fn a_trace_that_cannot_be_written_is_refused_before_the_work() {
    let folder = folder_with(&scenario("", CANDIDATES));
    fs::create_dir(folder.path().join("taken")).expect("writable");
    insta::assert_snapshot!(sim_in(folder.path(), &["run", "scenario.toml", "--trace", "taken"]).refused(1), @r"
    × cannot create taken: it is a folder; check that its folder exists and that you may write
    │ there, or choose another place
    ");
    insta::assert_snapshot!(sim_in(folder.path(), &["run", "scenario.toml", "--trace", "no/t.json"]).refused(1), @r"
    × cannot create no/t.json: there is no such folder; check that its folder exists and that you
    │ may write there, or choose another place
    ");
    assert_eq!(names(folder.path()), ["scenario.toml", "taken"]);
}

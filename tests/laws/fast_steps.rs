//! Fast stepping is plain stepping: every field of every step and request, and every figure of the report.

use sim::engine::scheduler::Stepping;
use sim::record::{self, RequestLogger, StepLogger};

use crate::house::{House, for_all, require};

/// The logs and the report of a run, as text.
struct Run {
    steps: String,
    requests: String,
    report: String,
    count: u64,
}

fn run(house: &House, candidate: usize, stepping: Stepping) -> Result<Run, String> {
    let (scenario, setup) = (&house.scenario, &house.setups[candidate]);
    let name = &scenario.candidates[candidate].name;
    let header = record::step_header(scenario, &house.profile, "law", scenario.traffic.seed, name, setup);
    let told = |error: std::io::Error| error.to_string();
    let steps = StepLogger::new(Vec::new(), &header, setup).map_err(told)?;
    let requests = RequestLogger::new(Vec::new(), name, scenario.traffic.seed, scenario.slo, true).map_err(told)?;
    let mut logs = (steps, requests);
    let outcome = house.serve_stepping(candidate, stepping, &mut logs)?;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("logs are text");
    Ok(Run {
        steps: text(logs.0.finish().map_err(told)?),
        requests: text(logs.1.finish().map_err(told)?),
        report: format!("{:?} {}", outcome.end, serde_json::to_string(&outcome.report).expect("a report is JSON")),
        count: outcome.end.steps,
    })
}

/// The first line that differs.
fn same(what: &str, plain: &str, fast: &str) -> Result<(), String> {
    let differs = plain.lines().zip(fast.lines()).find(|(plain, fast)| plain != fast);
    require(plain == fast, || {
        format!("{what} differ:\nplain {:?}\nfast  {:?}", differs.map(|d| d.0), differs.map(|d| d.1))
    })
}

/// `PROPTEST_CASES=10000 cargo test --release -p sim --test laws fast_steps -- --nocapture` is the long run.
#[test]
fn fast_steps_are_plain_steps() {
    for_all("fast steps", 192, &["steps"], |case, seen| {
        let house = case.open()?;
        for candidate in 0..house.setups.len() {
            let plain = run(&house, candidate, Stepping::Plain)?;
            let fast = run(&house, candidate, Stepping::Fast)?;
            same("steps", &plain.steps, &fast.steps)?;
            same("requests", &plain.requests, &fast.requests)?;
            same("reports", &plain.report, &fast.report)?;
            seen.add("steps", plain.count);
        }
        Ok(())
    });
}

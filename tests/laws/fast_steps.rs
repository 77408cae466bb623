//! Fast stepping is plain stepping: every field of every step and request, and every figure of the report.

use std::path::Path;

use calibrate::profile::Profile;
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

/// Runs a candidate both ways; its steps.
fn alike(house: &House, candidate: usize) -> Result<u64, String> {
    let plain = run(house, candidate, Stepping::Plain)?;
    let fast = run(house, candidate, Stepping::Fast)?;
    same("steps", &plain.steps, &fast.steps)?;
    same("requests", &plain.requests, &fast.requests)?;
    same("reports", &plain.report, &fast.report)?;
    Ok(plain.count)
}

/// A lockstep that ends in a schedule without tokens: found by the long run.
#[test]
fn a_lockstep_that_ends_without_tokens_is_told() {
    let text = "schema = 1\nname = \"random\"\n[profile]\nbuiltin = \"textbook\"\n[server.vllm]\nversion = \"0.31.0\"\n\
        runner = \"v1\"\nattention_support = \"ALWAYS\"\nmax_num_seqs = 2\nmax_num_batched_tokens = 18\n\
        max_model_len = 55\nblock_size = 3\nasync_scheduling = false\nscheduler_reserve_full_isl = false\n\
        policy = \"priority\"\nnum_gpu_blocks_override = 20\n[traffic]\nseed = 13\nrequests = 54\n\
        [traffic.arrivals.poisson]\nrate = 13.205\n[traffic.lengths.lognormal]\n\
        prompt = { p50 = 1, sigma = 0.100, max = 75 }\noutput = { p50 = 22, sigma = 0.7, max = 200 }\n\
        [[traffic.priorities]]\npriority = -1\nshare = 0.2599627538938085\n[[traffic.priorities]]\npriority = 3\n\
        share = 0.7400372461061915\n[[candidate]]\nname = \"0\"\n";
    let profile = Profile::builtin("textbook").expect("built in");
    let house = House::open(text, Path::new(""), profile).expect("a scenario");
    alike(&house, 0).expect("alike");
}

/// `PROPTEST_CASES=10000 cargo test --release -p sim --test laws fast_steps -- --nocapture` is the long run.
#[test]
fn fast_steps_are_plain_steps() {
    for_all("fast steps", 192, &["steps"], |case, seen| {
        let house = case.open()?;
        for candidate in 0..house.setups.len() {
            seen.add("steps", alike(&house, candidate)?);
        }
        Ok(())
    });
}

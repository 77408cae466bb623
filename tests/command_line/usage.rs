//! Wrong use of the command line: exit code 2 and a message that helps.

use super::{folder_with, scenario, sim, sim_in};

const CHUNKED: &str = "scenarios/chunked.toml";

#[test]
fn numbers_out_of_range_and_missing_companions() {
    let refusals = [
        &["run"][..],
        &["run", CHUNKED, "--seeds", "0"],
        &["run", CHUNKED, "--seeds", "many"],
        &["run", CHUNKED, "--requests", "0"],
        &["run", CHUNKED, "--requests", "99999999999"],
        &["run", CHUNKED, "--seed", "-1"],
        &["run", CHUNKED, "--steps"],
        &["run", CHUNKED, "--format", "yaml"],
        &["run", CHUNKED, "--candidat", "textbook"],
        &["ladder", "--max-num-seqs", "0"],
        &["ladder", "--max-num-seqs", "1000000000"],
        &["ladder", "--cudagraph-capture-sizes", "0,1"],
        &["ladder", "--cudagraph-mode", "HALF"],
        &["ladder", "--engine-version", "0.32.0"],
        &["ladder", "--specialize-active-lora"],
        &["explain", "--decodes", "3", "--context", "0"],
        &["explain", "--prefill", "0"],
        &["explain", "--prefill", "10:x"],
        &["explain", "--step", "3"],
        &["explain", "--decodes", "3", "--seed", "3"],
    ]
    .map(|arguments| format!("$ sim {}\n{}", arguments.join(" "), sim(arguments).refused(2)));
    insta::assert_snapshot!(refusals.join("\n"));
}

#[test]
fn flags_that_exclude_each_other() {
    let refusals = [
        &["ladder", CHUNKED, "--runner", "v1"][..],
        &["explain", "--scenario", CHUNKED, "--decodes", "3", "--max-num-seqs", "8"],
        &["explain", "--scenario", CHUNKED, "--decodes", "3", "--step", "8"],
    ]
    .map(|arguments| format!("$ sim {}\n{}", arguments.join(" "), sim(arguments).refused(2)));
    insta::assert_snapshot!(refusals.join("\n"));
}

#[test]
fn what_the_scenario_does_not_have() {
    insta::assert_snapshot!(sim(&["run", CHUNKED, "--candidate", "texbook"]).refused(2), @r"
    × scenarios/chunked.toml has no candidate named `texbook`
    help: its candidates are `engine default`, `no graphs`, `textbook`, `decode only`, `ceiling
          8192`
    ");
    insta::assert_snapshot!(sim(&["price", CHUNKED]).refused(2), @r"
    × scenarios/chunked.toml describes requests, not a histogram of step shapes
    help: run it with `sim run`, or give [[traffic.steps]] rows of tokens, requests, query_len and
          count
    ");
    insta::assert_snapshot!(sim(&["explain", "--scenario", CHUNKED]).refused(2), @r"
    × there is no step to explain
    help: give --step N with --scenario, or describe a step with --decodes N and --prefill
          CHUNK[:CONTEXT]
    ");
    insta::assert_snapshot!(sim(&["explain", "--decodes", "3", "--active-loras", "1"]).refused(2), @r"
    × --active-loras 1: the server has no LoRA slots
    help: raise max_loras (--max-loras without a scenario), or lower --active-loras
    ");
    insta::assert_snapshot!(sim(&["explain", "--decodes", "3", "--active-loras", "3", "--max-loras", "2"]).refused(2), @r"
    × --active-loras 3: the server has 2 LoRA slots
    help: raise max_loras (--max-loras without a scenario), or lower --active-loras
    ");
    insta::assert_snapshot!(sim(&["explain", "--decodes", "1000000", "--query-len", "1000"]).refused(2), @r"
    × the step has too many tokens
    help: a step has at most 4194304 tokens
    ");
}

/// The command line's number of requests is held to what the scenario's own is held to.
#[test]
fn requests_that_leave_nothing_or_never_end() {
    let folder = folder_with(&scenario("", "[warm_up]\nrequests = 10\n"));
    let run = |requests: &str| sim_in(folder.path(), &["run", "scenario.toml", "--requests", requests]);
    insta::assert_snapshot!(run("10").refused(2), @r"
    × --requests 10: leaving out the first 10 leaves nothing to measure
    help: raise it, or lower warm_up.requests in the scenario
    ");
    run("11").done();
    let slow = folder_with(&scenario("", "").replace("rate = 5.0", "rate = 1e-6"));
    let run = |requests: &str| sim_in(slow.path(), &["run", "scenario.toml", "--requests", requests]);
    insta::assert_snapshot!(run("1001").refused(2), @r"
    × --requests 1001: at 0.000001 a second they take more than 1000000000 seconds
    help: lower it, or raise the rate in the scenario
    ");
    run("1000").done();
}

#[test]
fn flags_with_which_the_engine_would_not_start() {
    let refusals = [
        &["ladder", "--runner", "v1", "--num-speculative-tokens", "3", "--cudagraph-capture-sizes", "1,2"][..],
        &["ladder", "--cudagraph-capture-sizes", "1,2,4", "--max-cudagraph-capture-size", "8"],
        &["ladder", "--cudagraph-mode", "FULL", "--attention-support", "NEVER", "--runner", "v1"],
    ]
    .map(|arguments| format!("$ sim {}\n{}", arguments.join(" "), sim(arguments).refused(3)));
    insta::assert_snapshot!(refusals.join("\n"));
}

#[test]
fn seeds_over_traffic_that_draws_nothing() {
    let fixed = scenario("", "").replace("[traffic.arrivals.poisson]", "[traffic.arrivals.constant]");
    let folder = folder_with(&fixed);
    insta::assert_snapshot!(sim_in(folder.path(), &["run", "scenario.toml", "--seeds", "3"]).refused(2), @r"
    × --seeds 3: the traffic draws nothing at random, so every seed gives the same run
    help: leave --seeds out
    ");
    sim_in(folder.path(), &["run", "scenario.toml", "--seeds", "1"]).done();
}

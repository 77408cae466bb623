//! Scenario and trace files that are no files, no text, empty or huge, and what is accepted with a warning.

use std::fmt::Write;
use std::fs::{self, File};
use std::path::Path;

use super::{folder_with, scenario, sim_in};

/// Checks `scenario.toml` of a folder that holds these bytes.
fn check_bytes(bytes: &[u8]) -> String {
    let folder = folder_with("");
    fs::write(folder.path().join("scenario.toml"), bytes).expect("writable");
    sim_in(folder.path(), &["check", "scenario.toml"]).refused(3)
}

#[test]
fn a_scenario_that_is_not_there_or_no_file() {
    let folder = folder_with("");
    insta::assert_snapshot!(sim_in(folder.path(), &["check", "no/such.toml"]).refused(3), @r"
    × cannot read the scenario no/such.toml
    ╰─▶ No such file or directory (os error 2)
    help: give the path of a .toml file
    ");
    insta::assert_snapshot!(sim_in(folder.path(), &["run", "."]).refused(3), @r"
    × cannot read the scenario .
    ╰─▶ Is a directory (os error 21)
    help: give the path of a .toml file
    ");
}

#[test]
fn a_scenario_that_is_no_text() {
    insta::assert_snapshot!(check_bytes(b"schema = 1\nname = \"\xff\xfe\"\n"), @r"
    × cannot read the scenario scenario.toml
    ╰─▶ stream did not contain valid UTF-8
    help: give the path of a .toml file
    ");
    insta::assert_snapshot!(check_bytes(b""), @r"
    × schema is missing
     ╭─[scenario.toml:1:1]
     ╰────
    help: add schema = 1 as the first line
    ");
    insta::assert_snapshot!(check_bytes(b"\0\0\0"), @r"
     × this is not TOML: key with no value, expected `=`
      ╭─[scenario.toml:1:4]
    1 │ ???
      ╰────
    ");
}

#[test]
fn a_huge_scenario_is_refused_unread() {
    let folder = folder_with("");
    let huge = File::create(folder.path().join("scenario.toml")).expect("writable");
    huge.set_len(100_000_000).expect("a file of holes");
    insta::assert_snapshot!(sim_in(folder.path(), &["check", "scenario.toml"]).refused(3), @r"
    × scenario.toml is larger than 16 MiB
    help: give the path of a scenario; traces and histograms are files of their own
    ");
}

#[test]
fn a_ladder_of_a_million_rungs() {
    let rungs = |separator: &str| {
        let rungs = (1..=1_000_000).fold(String::new(), |mut text, rung| {
            write!(text, "{rung},{separator}").expect("strings take everything");
            text
        });
        scenario("", &format!("[[candidate]]\nname = \"a\"\ncudagraph_capture_sizes = [{rungs}]\n"))
    };
    // Neither the endless line nor the million lines are repeated in the message.
    insta::assert_snapshot!(check_bytes(rungs("").as_bytes()), @r"
    × scenario.toml:23: candidate.cudagraph_capture_sizes: expected at most 65536 sizes, found
    │ 1000000
    help: each rung costs memory and start-up time; a few dozen are usual
    ");
    insta::assert_snapshot!(check_bytes(rungs("\n").as_bytes()), @r#"
     × candidate.cudagraph_capture_sizes: expected at most 65536 sizes, found 1000000
       ╭─[scenario.toml:23:27]
    22 │ name = "a"
    23 │ cudagraph_capture_sizes = [1,
       ·                           ───
    24 │ 2,
       ╰────
     help: each rung costs memory and start-up time; a few dozen are usual
    "#);
}

#[test]
fn a_fault_beside_an_endless_line_names_its_place() {
    let long = "x".repeat(100_000);
    insta::assert_snapshot!(check_bytes(format!("# {long}\nschema = 2\n").as_bytes()), @r"
    × scenario.toml:2: schema: this is another version of the scenario form
    help: this program reads schema = 1
    ");
}

#[test]
fn surprising_ladders_are_accepted_with_a_warning() {
    let candidate =
        |name: &str, sizes: &str| format!("[[candidate]]\nname = \"{name}\"\ncudagraph_capture_sizes = {sizes}\n");
    let candidates = [
        candidate("unsorted", "[64, 1, 2, 8]"),
        candidate("repeats", "[1, 2, 2, 64]"),
        candidate("above the budget", "[1, 64, 9000, 10000]"),
        candidate("none left", "[9000]"),
    ]
    .concat();
    let folder = folder_with(&scenario("", &candidates));
    let answer = sim_in(folder.path(), &["check", "scenario.toml"]);
    assert_eq!(answer.stdout, "scenario.toml: ok: 4 candidates on profile textbook\n");
    insta::assert_snapshot!(answer.stderr, @r"
    warning[scenario]: scenario.toml:23: candidate.cudagraph_capture_sizes: 1 comes after 64; the engine sorts the
      sizes
    warning[scenario]: scenario.toml:26: candidate.cudagraph_capture_sizes: 2 is there twice; the engine drops
      repeats
    warning[sizes_above_budget]: above the budget: 2 of cudagraph_capture_sizes lie above max_num_batched_tokens =
      2048 and are not captured
    warning[sizes_above_budget]: none left: 1 of cudagraph_capture_sizes lie above max_num_batched_tokens = 2048
      and are not captured
    warning[ladder_empty]: none left: cudagraph_mode is FULL_AND_PIECEWISE, but no capture size is left: every
      step runs without a graph
    ");
    let ladders = sim_in(folder.path(), &["ladder", "scenario.toml", "--format", "json"]).done();
    let ladders: serde_json::Value = serde_json::from_str(&ladders).expect("JSON");
    let sizes = |candidate: usize| ladders["candidates"][candidate]["capture_sizes"].to_string();
    assert_eq!([sizes(0), sizes(1), sizes(2), sizes(3)], ["[1,2,8,64]", "[1,2,64]", "[1,64]", "[]"]);
}

#[test]
fn drafts_off_the_stride_are_rounded_by_runner_v1_with_a_warning() {
    let ladder = |runner: &str| {
        let drafts =
            ["ladder", "--runner", runner, "--num-speculative-tokens", "2", "--cudagraph-capture-sizes", "4,8,16"];
        sim_in(Path::new("."), &drafts)
    };
    insta::assert_snapshot!(ladder("v1").stderr, @r"
    warning[ladder_rounded]: flags: runner v1 rounds the ladder to multiples of 3 tokens: the ceiling goes from 16
      to 9
    warning[full_batch_above_ceiling]: flags: a full decode batch has 768 tokens, above the ceiling 9: it runs
      without a graph
    ");
    assert!(ladder("v1").stdout.contains("capture sizes  6 9\n"), "{}", ladder("v1").stdout);
    insta::assert_snapshot!(ladder("v2").stderr, @r"
    warning[full_batch_above_ceiling]: flags: a full decode batch has 768 tokens, above the ceiling 16: it runs
      without a graph
    ");
}

/// A scenario that plays `trace.csv`.
fn trace_scenario(options: &str) -> String {
    scenario("", "").replace(
        "[traffic.arrivals.poisson]\nrate = 5.0\n[traffic.lengths.fixed]\nprompt = 100\noutput = 20\n",
        &format!("[traffic.arrivals.trace]\nfile = \"trace.csv\"\n{options}\n"),
    )
}

fn run_trace(options: &str, trace: &[u8], arguments: &[&str]) -> super::Answer {
    let folder = folder_with(&trace_scenario(options));
    fs::write(folder.path().join("trace.csv"), trace).expect("writable");
    sim_in(folder.path(), &[&["run", "scenario.toml"], arguments].concat())
}

const ROWS: &[u8] = b"arrived_at,num_prefill_tokens,num_decode_tokens\n0,10,2\nx,10,2\n1,10,2\n2,0,2\n3,10";

#[test]
fn bad_rows_are_skipped_on_request_and_counted() {
    insta::assert_snapshot!(run_trace("", ROWS, &[]).refused(3), @r#"
    × trace.csv:3: arrived_at: expected a number of seconds, found `x`
    │   in x,10,2
    help: mend the row, or set `bad_rows = "skip"` to leave such rows out and count them
    "#);
    let skipped = run_trace("bad_rows = \"skip\"", ROWS, &["--format", "json"]);
    insta::assert_snapshot!(skipped.stderr, @"
    warning[fewer_requests]: 20 requests were asked for, the trace gives 2
    warning[replay_loses]: engine default: by the profile's figures replay cost more than running without a graph
      in 2 steps (50.0 % of graph steps), and all graph steps together saved -12.7 ms
    warning[trace_rows_skipped]: 3 rows of the trace were skipped as bad, the first one in line 3
    ");
    let report: serde_json::Value = serde_json::from_str(&skipped.done()).expect("JSON");
    assert_eq!(report["candidates"][0]["completed"], 2);
    let warnings = report["warnings"].as_array().expect("a list");
    assert!(warnings.iter().any(|warning| warning["code"] == "trace_rows_skipped"));
}

#[test]
fn a_trace_that_ends_early_says_so() {
    let rows = b"arrived_at,num_prefill_tokens,num_decode_tokens\n0,10,2\n1,10,2\n";
    let answer = run_trace("", rows, &["--requests", "4"]);
    assert_eq!(answer.code, Some(0));
    insta::assert_snapshot!(answer.stderr, @"
    warning[fewer_requests]: 4 requests were asked for, the trace gives 2
    warning[replay_loses]: engine default: by the profile's figures replay cost more than running without a graph
      in 2 steps (50.0 % of graph steps), and all graph steps together saved -12.7 ms
    ");
    assert!(!run_trace("", rows, &["--requests", "2"]).stderr.contains("fewer_requests"));
}

#[test]
fn a_trace_of_nothing_but_bad_rows_is_refused() {
    let rows = b"arrived_at,num_prefill_tokens,num_decode_tokens\n0,0,0\n";
    insta::assert_snapshot!(run_trace("bad_rows = \"skip\"", rows, &[]).refused(3), @r"
    × trace.csv holds no requests (1 row was skipped)
    help: a header line and at least one row are needed
    ");
}

#[test]
fn an_unsorted_trace_is_sorted_on_request() {
    let rows = b"arrived_at,num_prefill_tokens,num_decode_tokens\n5,10,2\n3,10,2\n";
    insta::assert_snapshot!(run_trace("", rows, &[]).refused(3), @r#"
    × trace.csv:3: this row arrives 2 s before the row above it
    help: sort the file by time, or set `unsorted = "sort"` (which holds the whole trace in memory)
    "#);
    run_trace("unsorted = \"sort\"", rows, &[]).done();
}

#[test]
fn requests_beyond_the_model_are_refused_and_counted_not_fatal() {
    let rows = b"arrived_at,num_prefill_tokens,num_decode_tokens\n0,5000,2\n1,10,2\n";
    let answer = run_trace("", rows, &["--format", "json"]);
    insta::assert_snapshot!(answer.stderr, @"
    warning[fewer_requests]: 20 requests were asked for, the trace gives 2
    warning[replay_loses]: engine default: by the profile's figures replay cost more than running without a graph
      in 1 step (50.0 % of graph steps), and all graph steps together saved -6.3 ms
    warning[requests_refused]: engine default: 1 request was refused: a prompt as long as max_model_len = 4096
      leaves no room for a token
    ");
    let report: serde_json::Value = serde_json::from_str(&answer.done()).expect("JSON");
    assert_eq!((&report["candidates"][0]["refused"], &report["candidates"][0]["completed"]), (&1.into(), &1.into()));
}

/// What the engine's own arithmetic does not check is said: a KV pool that is given may not fit the device.
#[test]
fn a_pool_larger_than_the_device_is_warned_of() {
    let budget = "[budget]\ngraph_memory = \"1MiB\"\nstartup = \"1s\"\n";
    let folder = folder_with(&scenario("kv_cache_memory_bytes = \"500GiB\"", budget));
    let answer = sim_in(folder.path(), &["check", "scenario.toml"]);
    for code in ["memory_exceeds_device", "over_budget"] {
        assert!(answer.stderr.contains(code), "{code}: {}", answer.stderr);
    }
    answer.done();
}

/// More traffic than the server serves: the queue at the end says so, whatever the warm-up leaves out; a closed loop has
/// none.
#[test]
fn a_load_beyond_the_server_is_warned_of() {
    let stderr = |arrivals: &str, rest: &str| {
        let text = scenario("", rest)
            .replace("requests = 20", "requests = 400")
            .replace("[traffic.arrivals.poisson]\nrate = 5.0", arrivals);
        assert!(text.contains(arrivals) && text.contains("requests = 400"), "{text}");
        sim_in(folder_with(&text).path(), &["run", "scenario.toml"]).stderr
    };
    let constant = |rate: &str| format!("[traffic.arrivals.constant]\nrate = {rate}");
    assert!(stderr(&constant("5000.0"), "").contains("overloaded"));
    let all_at_once = stderr(&constant("1000000.0"), "[warm_up]\nrequests = 390\n");
    assert!(all_at_once.contains("399 of 400 requests were waiting"), "{all_at_once}");
    assert!(!stderr(&constant("1.0"), "").contains("overloaded"));
    assert!(!stderr("[traffic.arrivals.closed_loop]\nconcurrency = 200", "").contains("overloaded"));
    let too_late = stderr(&constant("100.0"), "[warm_up]\ntime = \"1000s\"\n");
    assert!(too_late.contains("nothing_measured"), "{too_late}");
}

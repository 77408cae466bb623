//! `sim propose`: budgets, histograms, other settings, what is refused before the search, and its end by a signal.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Answer, command_in, folder_with, root, scenario, sim, sim_in};

const FEW_SEEDS: [&str; 4] = ["--seeds", "2", "--check-seeds", "3"];

/// Up to eight requests at once, with costs of a server that waits for its launches.
fn busy() -> String {
    scenario("", "[[candidate]]\nname = \"as it is\"\ncudagraph_capture_sizes = [1, 8, 16, 64]\n")
        .replace("\"textbook\"", "\"textbook-weight-bound\"")
        .replace("rate = 5.0", "rate = 50.0")
        .replace("requests = 20", "requests = 60")
}

fn propose(folder: &Path, arguments: &[&str]) -> Answer {
    sim_in(folder, &[&["propose", "scenario.toml"], &FEW_SEEDS[..], arguments].concat())
}

#[track_caller]
fn proposed(folder: &Path, arguments: &[&str]) -> Value {
    parsed(propose(folder, &[arguments, &["--format", "json"]].concat()))
}

#[track_caller]
fn parsed(answer: Answer) -> Value {
    serde_json::from_str(&answer.done()).expect("JSON and nothing else")
}

/// The sizes of a choice, list by list.
fn lists(choice: &Value) -> Vec<Vec<u64>> {
    let sizes = |list: &Value| list["sizes"].as_array().expect("sizes").iter().filter_map(Value::as_u64).collect();
    choice["lists"].as_array().expect("lists").iter().map(sizes).collect()
}

fn mean(choice: &Value, figure: &str) -> f64 {
    choice["figures"][figure]["mean"].as_f64().expect("a figure over seeds")
}

#[test]
fn a_start_that_takes_too_long_without_any_graph_is_said() {
    let folder = folder_with(&busy().replace("textbook-weight-bound", "a100-llama-3-8b"));
    let message = propose(folder.path(), &["--startup", "1s"]).refused(3);
    assert!(
        message.contains("without any graph the server needs") && message.contains("the budget is 1 s"),
        "{message}"
    );
}

/// Three budgets that are tighter than the ladder in force.
#[test]
fn budgets_are_kept() {
    let folder = folder_with(&busy().replace("textbook-weight-bound", "a100-llama-3-8b"));
    let none = proposed(folder.path(), &["--graph-memory", "1MiB"]);
    assert_eq!(lists(&none["proposal"]), [Vec::<u64>::new()]);
    assert!(mean(&none["proposal"], "graph_memory_bytes") <= 1_048_576.0);
    assert!(mean(&none["current"], "graph_memory_bytes") > 1_048_576.0);
    assert!(none["verdict"]["sentence"].as_str().expect("words").contains("budget"), "{}", none["verdict"]);
    let text = busy().replace("textbook-weight-bound", "a100-llama-3-8b") + "[budget]\ngraph_memory = \"1MiB\"\n";
    let of_scenario = proposed(folder_with(&text).path(), &[]);
    assert_eq!(of_scenario["asked"], none["asked"]);
    assert_eq!(lists(&of_scenario["proposal"]), lists(&none["proposal"]));
    let wider = proposed(folder_with(&text).path(), &["--graph-memory", "1GiB"]);
    assert_eq!(wider["asked"]["graph_memory_bytes"], 1 << 30, "the command line comes first");

    let few = proposed(folder.path(), &["--max-descriptors", "3"]);
    assert!(mean(&few["current"], "descriptors_captured") > 3.0);
    let front = few["front"].as_array().expect("a list");
    for choice in front.iter().chain([&few["proposal"]]) {
        assert!(mean(choice, "descriptors_captured") <= 3.0, "{:?}", lists(choice));
    }

    let in_force = mean(&none["current"], "startup_s");
    let short = proposed(folder.path(), &["--startup", &format!("{}ms", (1e3 * in_force) as u64 - 100)]);
    assert!(mean(&short["proposal"], "startup_s") <= in_force - 0.1);
}

#[test]
fn traffic_of_which_nothing_is_served_is_said() {
    let arrivals = "[traffic.arrivals.poisson]\nrate = 5.0\n[traffic.lengths.fixed]\nprompt = 100\noutput = 20\n";
    let text = scenario("", "");
    assert!(text.contains(arrivals));
    let folder = folder_with(
        &text.replace(arrivals, "[traffic.arrivals.trace]\nfile = \"long.csv\"\n").replace("requests = 20\n", ""),
    );
    let rows = "arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,5000,44\n4.3,6000,109\n";
    fs::write(folder.path().join("long.csv"), rows).expect("writable");
    let message = propose(folder.path(), &[]).refused(3);
    assert!(message.contains("no request is served") && message.contains("max_model_len"), "{message}");
}

/// Steps of nine and of forty requests get their own sizes; a prompt of 512 hides its launches.
#[test]
fn steps_of_a_file_are_priced() {
    let folder = folder_with(&busy());
    let path = folder.path().join("steps.csv");
    fs::write(&path, "tokens,requests,query_len,count\n9,9,,300\n40,40,,30\n515,4,512,12\n").expect("writable");
    let answer = proposed(folder.path(), &["--from", "steps.csv"]);
    assert_eq!(lists(&answer["proposal"]), [[9, 40]]);
    assert_eq!(answer["search"]["runs"], 0, "nothing is simulated");
    let rungs = answer["rungs"].as_array().expect("a list");
    let shares: Vec<f64> = rungs.iter().filter_map(|rung| rung["share_of_steps"].as_f64()).collect();
    assert_eq!(shares, [300.0 / 342.0, 30.0 / 342.0]);
    assert!(rungs.iter().all(|rung| rung["mean_step_ms"]["verdict"] == "better"), "{rungs:?}");
}

/// Such a server never runs such a step, and no table has its price.
#[test]
fn steps_beyond_the_server_and_the_profile_are_warned_of() {
    let folder = folder_with(&busy().replace("textbook-weight-bound", "h200-llama-3.1-8b"));
    let path = folder.path().join("steps.csv");
    fs::write(&path, "tokens,requests,query_len,count\n9,9,,300\n50000,50,,3\n").expect("writable");
    let answer = propose(folder.path(), &["--from", "steps.csv", "--format", "json"]);
    for words in
        ["a step of 50000 tokens and 50 requests", "this server never runs it", "outside the range of the profile"]
    {
        assert!(answer.stderr.replace("\n  ", " ").contains(words), "{words}: {}", answer.stderr);
    }
    let report = parsed(answer);
    let warnings = report["warnings"].as_array().expect("a list");
    let has = |code: &str| warnings.iter().any(|warning| warning["code"] == code);
    assert!(has("impossible_step") && has("outside_range"), "{warnings:?}");
}

#[test]
fn files_of_steps_that_cannot_be_read_are_refused() {
    let folder = folder_with(&busy());
    let path = folder.path().join("steps.csv");
    for (text, expected) in [
        (
            "tokens,requests,query_len,count\n9,9,,300\n40,x,,30\n",
            "steps.csv: line 3: requests: expected a whole number",
        ),
        ("tokens,requests,query_len,count\n", "steps.csv: no rows under the header"),
        ("", "steps.csv: line 1: expected the columns tokens"),
        ("tokens,requests,query_len,count\n9,9,,0\n", "steps.csv: line 2"),
    ] {
        fs::write(&path, text).expect("writable");
        let message = propose(folder.path(), &["--from", "steps.csv"]).refused(3);
        assert!(message.contains(expected), "{message}");
    }
    let message = propose(folder.path(), &["--from", "elsewhere.csv"]).refused(3);
    assert!(message.contains("cannot open elsewhere.csv"), "{message}");
}

/// One request at a time is no way to serve fifty a second: the settings come with the proposal, and into its flags' notes.
#[test]
fn other_settings_are_tried() {
    let folder = folder_with(&busy().replace("max_num_seqs = 64", "max_num_seqs = 1"));
    let answer = proposed(folder.path(), &["--also", "max_num_seqs=1,64"]);
    assert_eq!(answer["proposal"]["settings"], serde_json::json!(["server.vllm.max_num_seqs = 64"]));
    assert!(mean(&answer["proposal"], "request_goodput") > 2.0 * mean(&answer["current"], "request_goodput"));
    let notes = answer["flags"][0]["notes"].to_string();
    assert!(notes.contains("max_num_seqs = 64"), "{notes}");

    for (also, expected) in [
        ("rate=3,4", "ladders are compared on the same traffic"),
        ("nonsense=3", "the scenario has no such key"),
        ("max_num_seqs", "--also"),
    ] {
        let message = propose(folder.path(), &["--also", also]).refused(2);
        assert!(message.contains(expected) && !message.contains("--vary"), "{message}");
    }
    let message = propose(folder.path(), &["--also", "max_num_seqs=0"]).refused(3);
    assert!(message.contains("expected a whole number from 1"), "{message}");
}

/// Moving 32 to 12 is the best move of one rung, worked by hand to six digits.
#[test]
fn the_best_single_change_of_the_exercise() {
    let arguments = ["propose", "scenarios/practice.toml", "--one-change", "--format", "json"];
    let answer = parsed(sim(&arguments));
    assert_eq!(lists(&answer["current"]), [[1, 4, 8, 16, 32]]);
    assert_eq!(lists(&answer["proposal"]), [[1, 4, 8, 12, 16]]);
    let step_ms = answer["proposal"]["figures"]["mean_step_ms"].as_f64().expect("one run");
    assert!((step_ms - 5.1765).abs() < 5e-7, "{step_ms}");
    let change = &answer["one_change"];
    assert_eq!((&change["kind"], &change["from"], &change["to"]), (&"shift".into(), &32.into(), &12.into()));
    // The ladder of five sizes that is best from the ground up is another one.
    let answer = parsed(sim(&["propose", "scenarios/practice.toml", "--max-descriptors", "5", "--format", "json"]));
    assert_eq!(lists(&answer["proposal"]), [[2, 5, 8, 12, 16]]);
}

/// The scenario would take hours.
#[test]
fn a_wrong_version_is_refused_before_the_search() {
    let folder = folder_with(&busy().replace("requests = 60", "requests = 100000000"));
    let start = Instant::now();
    for (version, expected) in [
        ("sglang-0.5.23", "sizes of one engine mean nothing to the other"),
        ("vllm-0.99", "vllm-0.33.0"),
        ("", "vllm-0.33.0"),
    ] {
        let message = propose(folder.path(), &["--engine-version", version]).refused(2);
        assert!(message.contains(expected), "{message}");
    }
    let message = propose(folder.path(), &["--candidate", "nobody"]).refused(2);
    assert!(message.contains("as it is"), "{message}");
    assert!(start.elapsed() < Duration::from_mins(1));
}

/// Main has a list for decode batches, in requests, and one for all other steps.
#[test]
fn vllm_main_gets_both_lists() {
    let folder = folder_with(&busy().replace("max_num_seqs = 64", "version = \"main\"\nmax_num_seqs = 64"));
    let answer = proposed(folder.path(), &["--engine-version", "vllm-main", "--engine-version", "tensorrt-llm"]);
    let [decode, prefill] = &lists(&answer["proposal"])[..] else { panic!("two lists: {}", answer["proposal"]) };
    assert!(!decode.is_empty() && *decode.last().expect("a size") <= 64, "{decode:?}");
    let flags = &answer["flags"][0]["json"]["compilation_config"];
    assert_eq!(flags["decode_cudagraph_capture_request_sizes"], serde_json::json!(decode), "{flags}");
    assert_eq!(flags["prefill_cudagraph_capture_token_sizes"], serde_json::json!(prefill), "{flags}");
    assert_eq!((&answer["flags"][0]["exact"], &answer["flags"][1]["exact"]), (&true.into(), &Value::Null));
    assert!(answer["flags"][1]["file"]["text"].as_str().expect("a file").contains("cuda_graph_config"));
}

#[test]
fn an_sglang_server_gets_its_own_flags() {
    let vllm = "[server.vllm]\nmax_num_seqs = 64\nmax_num_batched_tokens = 2048\nmax_model_len = 4096\n\
                enable_prefix_caching = false\n";
    let text = busy().replace("cudagraph_capture_sizes = [1, 8, 16, 64]", "cuda_graph_bs_decode = [1, 8, 16, 64]");
    assert!(text.contains(vllm));
    let folder =
        folder_with(&text.replace(vllm, "[server.sglang]\ncontext_length = 4096\ndisable_prefill_cuda_graph = true\n"));
    let answer = proposed(folder.path(), &[]);
    let phases: Vec<&Value> =
        answer["proposal"]["lists"].as_array().expect("lists").iter().map(|list| &list["phase"]).collect();
    assert_eq!(phases, ["decode", "prefill"]);
    let [decode, prefill] = &lists(&answer["proposal"])[..] else { panic!("two lists: {}", answer["proposal"]) };
    assert!(!decode.is_empty() && prefill.is_empty(), "{decode:?} {prefill:?}");
    let shell = answer["flags"][0]["shell"].as_str().expect("a line");
    let sizes: Vec<String> = decode.iter().map(u64::to_string).collect();
    assert!(shell.contains(&format!("--cuda-graph-bs-decode {}", sizes.join(" "))), "{shell}");
    assert_eq!(answer["flags"][0]["exact"], true);
}

#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    let folder = folder_with(&busy());
    for format in ["text", "json", "csv"] {
        let first = propose(folder.path(), &["--format", format]);
        for threads in ["1", "2"] {
            let arguments = [&["propose", "scenario.toml", "--format", format], &FEW_SEEDS[..]].concat();
            let again = command_in(folder.path(), &arguments).env("RAYON_NUM_THREADS", threads).output();
            assert_eq!(Answer::from(again.expect("built")), first, "{format}, {threads} threads");
        }
        first.done();
    }
}

/// The first signal ends the search, and the answer is whole.
#[cfg(unix)]
#[test]
fn a_signal_ends_the_search_with_the_best_so_far() {
    let folder = folder_with(&busy().replace("requests = 60", "requests = 1000"));
    let arguments = ["propose", "scenario.toml", "--seeds", "300", "--check-seeds", "2", "--format", "json"];
    for wait_s in [2, 10, 60] {
        let child = command_in(folder.path(), &arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary was built");
        sleep(Duration::from_secs(wait_s));
        let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(sent.expect("every Unix has kill").success(), "it was still running");
        let answer = Answer::from(child.wait_with_output().expect("it ends"));
        // On a slow machine not even the ladder in force is known yet.
        assert_eq!(answer.code, Some(130), "{}", answer.stderr);
        if answer.stderr.contains("so there is nothing to say") {
            continue;
        }
        assert!(answer.stderr.contains("interrupted"), "{}", answer.stderr);
        let report: Value = serde_json::from_str(&answer.stdout).expect("a whole report");
        assert_eq!(report["search"]["interrupted"], true);
        assert!(!report["flags"].as_array().expect("a list").is_empty());
        assert!(!lists(&report["proposal"]).is_empty() && report["verdict"]["sentence"].is_string());
        return;
    }
    panic!("nothing was known after a minute");
}

/// `root()` is where the paths of the examples in the help start.
#[test]
fn the_help_has_examples_that_run() {
    let help = sim(&["propose", "--help"]).done();
    let examples: Vec<&str> = help.lines().filter_map(|line| line.trim().strip_prefix("sim propose ")).collect();
    assert_eq!(examples.len(), 3);
    for example in examples {
        let scenario = example.split_whitespace().next().expect("a scenario");
        assert!(root().join(scenario).is_file(), "{scenario}");
    }
}

//! `sim explain`: which rule fired, what ran, what it cost, what else could have run.

use std::path::Path;

use serde_json::Value;

use super::{root, sim, sim_in};

const CHUNKED: &str = "scenarios/chunked.toml";

/// The whole answer, warnings first; provenance left out, which `sim run` prints alike and `calibrate show` tests.
fn explained(arguments: &str) -> String {
    let answer = sim(&[&["explain"], &arguments.split(' ').collect::<Vec<_>>()[..]].concat());
    let text = answer.stdout.split("\nCosts: profile").next().expect("never empty").to_owned();
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    format!("$ sim explain {arguments}\n{}{text}", answer.stderr)
}

#[test]
fn steps_of_an_sglang_server() {
    for (name, arguments) in [
        ("sglang_above_the_ceiling", "--scenario scenarios/sglang_ceiling.toml --decodes 40"),
        ("sglang_prefill", "--scenario scenarios/sglang_dedup.toml --candidate shared|executables --prefill 100"),
    ] {
        let arguments: Vec<String> = arguments.split(' ').map(|word| word.replace('|', " ")).collect();
        let words: Vec<&str> = ["explain"].into_iter().chain(arguments.iter().map(String::as_str)).collect();
        let answer = sim(&words);
        assert_eq!(answer.code, Some(0), "{}", answer.stderr);
        insta::assert_snapshot!(name, answer.stdout.split("\nCosts: profile").next().expect("never empty"));
    }
}

#[test]
fn steps_by_flags() {
    for (name, arguments) in [
        ("exact_hit", "--decodes 16 --profile textbook"),
        ("padded", "--decodes 13 --context 4000 --profile textbook"),
        ("above_the_ceiling", "--prefill 2000 --prefill 300:1700 --decodes 40 --profile textbook"),
        ("mixed_under_decode_only", "--prefill 60 --decodes 3 --cudagraph-mode FULL_DECODE_ONLY"),
        ("mixed_piecewise", "--prefill 60 --decodes 3 --profile textbook"),
        ("lora", "--decodes 3 --max-loras 4 --specialize-active-lora --active-loras 3"),
        ("drafts", "--decodes 3 --num-speculative-tokens 3"),
        ("drafts_cut_short", "--decodes 3 --num-speculative-tokens 3 --query-len 2"),
        ("graphs_off", "--decodes 3 --cudagraph-mode NONE"),
        ("eager", "--decodes 3 --enforce-eager"),
        ("v1_padded", "--decodes 13 --runner v1"),
        ("v1_above_the_ceiling", "--prefill 600 --runner v1"),
        ("v1_mixed_under_decode_only", "--prefill 60 --decodes 3 --runner v1 --cudagraph-mode FULL_DECODE_ONLY"),
        ("v1_lora", "--decodes 3 --runner v1 --max-loras 4 --active-loras 2"),
        ("v1_drafts", "--decodes 3 --runner v1 --num-speculative-tokens 3"),
        ("v1_graphs_off", "--decodes 3 --runner v1 --cudagraph-mode NONE"),
        ("beyond_the_server", "--decodes 300"),
        ("encoder_inputs", "--decodes 3 --encoder-inputs"),
        ("v1_encoder_inputs", "--decodes 3 --encoder-inputs --runner v1"),
        ("main_wide_decode", "--decodes 20 --engine-version main --decode-cudagraph-capture-request-sizes 4,16"),
        ("main_images", "--decodes 3 --engine-version main --images 500,1200,90,2100 --encoder-budget-range 64:2048"),
        (
            "main_decoder_replay",
            "--prefill 900 --decodes 8 --engine-version main --use-breakable-cudagraph --sliding-window 128 \
             --max-prefill-cudagraph-capture-tokens 2048",
        ),
        (
            "images_of_a_scenario",
            "--scenario scenarios/encoder.toml --prefill 900 --decodes 8 --images 500,1200,90,2100",
        ),
    ] {
        insta::assert_snapshot!(format!("explain_{name}"), explained(arguments));
    }
}

#[test]
fn steps_of_a_run() {
    insta::assert_snapshot!(
        "explain_first_step",
        explained(&format!("--scenario {CHUNKED} --profile textbook --step 0"))
    );
    insta::assert_snapshot!(
        "explain_middle_step",
        explained(&format!("--scenario {CHUNKED} --profile textbook --candidate textbook --step 700"))
    );
    let beyond = sim(&["explain", "--scenario", CHUNKED, "--step", "99999999"]).refused(2);
    let help = beyond.lines().last().expect("two lines").trim();
    let last = help.strip_prefix("help: the last one is --step ").expect(&beyond);
    assert!(sim(&["explain", "--scenario", CHUNKED, "--step", last]).done().contains(&format!("step {last}: ")));
}

/// A step by its number is the step that the log of the run holds under that number.
#[test]
fn a_step_of_a_run_is_the_one_in_the_log() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let scenario = root().join(CHUNKED).canonicalize().expect("there");
    let scenario = scenario.to_str().expect("a plain path");
    let run =
        ["run", scenario, "--candidate", "textbook", "--requests", "5000", "--seed", "3", "--out", ".", "--steps"];
    sim_in(folder.path(), &run).done();
    let log = std::fs::read_to_string(folder.path().join("steps.jsonl")).expect("written");
    let mut lines = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.next().expect("a header");
    let steps: Vec<Value> = lines.take(200).collect();
    for number in [0, 1, 57, 199] {
        let number_text = number.to_string();
        let explain = [
            "explain",
            "--scenario",
            scenario,
            "--candidate",
            "textbook",
            "--seed",
            "3",
            "--step",
            &number_text,
            "--format",
            "json",
        ];
        let explained: Value = serde_json::from_str(&sim_in(Path::new("."), &explain).done()).expect("JSON");
        let logged = &steps[number]["step"];
        assert_eq!(explained["chosen"]["mode"], logged["mode"], "step {number}");
        assert_eq!(explained["chosen"]["descriptor"], logged["descriptor"], "step {number}");
        assert_eq!(explained["shape"]["prefills"], logged["prefills"], "step {number}");
        assert_eq!(explained["chosen"]["cost"], logged["cost"], "step {number}");
    }
}

#[test]
fn the_terms_of_a_cost_add_up() {
    let arguments =
        ["explain", "--prefill", "100:50", "--decodes", "13", "--profile", "a100-llama-3-8b", "--format", "json"];
    let report: Value = serde_json::from_str(&sim(&arguments).done()).expect("JSON");
    let alternatives = report["alternatives"].as_array().expect("a list");
    let names: Vec<&str> = alternatives.iter().map(|other| other["name"].as_str().expect("a name")).collect();
    assert_eq!(names, ["one rung lower", "one rung higher", "compiled eager", "eager"]);
    let chosen = report["chosen"]["cost"]["step_ns"].as_i64().expect("priced");
    for other in alternatives.iter().chain([&report["chosen"]]) {
        let cost = &other["cost"];
        let ns = |term: &str| cost[term].as_i64().unwrap_or_else(|| panic!("{term} in {cost}"));
        assert_eq!(ns("dense_ns") + ns("head_ns") + ns("attention_ns") + ns("gap_ns"), ns("device_ns"), "{cost}");
        assert!(ns("step_ns") >= ns("device_ns"), "{cost}");
        if let Some(difference) = other["difference_ns"].as_i64() {
            assert_eq!(ns("step_ns") - chosen, difference, "{other}");
        }
    }
}

/// A step of a run is explained as it ran: what the other data-parallel ranks made of it included. Every kind of step is
/// taken from the log, and what the log says of padding without a graph is the figure of the report.
#[test]
fn steps_of_ranks_are_explained_as_they_ran() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let rank = |rate: f64, prompt: u32| {
        format!(
            "[[traffic.rank]]\nrequests = 40\narrivals = {{ poisson = {{ rate = {rate} }} }}\n\
             lengths = {{ fixed = {{ prompt = {prompt}, output = 30 }} }}\n"
        )
    };
    let text = format!(
        "schema = 1\nname = \"ranks\"\n[server.vllm]\nrunner = \"v1\"\nmax_num_seqs = 32\n\
         max_num_batched_tokens = 1024\nmax_model_len = 2048\nattention_support = \"ALWAYS\"\n\
         data_parallel_size = 2\n[profile]\nbuiltin = \"a100-llama-3-8b\"\n[traffic]\nseed = 1\n{}{}",
        rank(8.0, 900),
        rank(20.0, 50)
    );
    std::fs::write(folder.path().join("ranks.toml"), text).expect("a new file");
    let answer = sim_in(folder.path(), &["run", "ranks.toml", "--out", "out", "--steps", "--format", "json"]);
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    let report: Value = serde_json::from_str(&answer.stdout).expect("JSON");
    let log = std::fs::read_to_string(folder.path().join("out/steps.jsonl")).expect("the log");
    let parsed = log.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let steps: Vec<Value> =
        parsed.map(|line| if line["step"].is_object() { line["step"].clone() } else { line }).collect();
    let steps: Vec<&Value> = steps.iter().filter(|step| step["artifact"].is_string()).collect();

    let padded_without_graph: u64 =
        steps.iter().filter(|step| step["mode"] == "NONE").filter_map(|step| step["padded_rows"].as_u64()).sum();
    assert!(padded_without_graph > 0, "ranks of runner V1 keep the padding of graphs that they give up");
    assert_eq!(report["candidates"][0]["padded_rows_without_graph"].as_u64(), Some(padded_without_graph));

    let given_up = steps.iter().filter(|step| step["fallback"] == "other_rank").take(2);
    let wider = steps.iter().filter(|step| step["mode"] == "FULL" && step["padded_rows"].as_u64() > Some(7)).take(2);
    let mut seen = 0;
    for step in given_up.chain(wider) {
        let number = step["step"].to_string();
        let answer =
            sim_in(folder.path(), &["explain", "--scenario", "ranks.toml", "--step", &number, "--format", "json"]);
        let explained: Value = serde_json::from_str(&answer.stdout).expect("JSON");
        let chosen = &explained["chosen"];
        for field in ["mode", "artifact", "fallback", "real_rows", "padded_rows"] {
            assert_eq!(chosen[field], step[field], "{field} of step {number}");
        }
        let rules = explained["rules"].as_array().expect("a list");
        assert!(rules.iter().any(|rule| rule["rule"] == "other_ranks"), "step {number}: {rules:?}");
        seen += 1;
    }
    assert_eq!(seen, 4);
}

/// The last token of a prompt computed up to there is a decode to runner V2, and a prompt of one token is none.
#[test]
fn the_tail_of_a_prompt_decodes() {
    let ran = |arguments: &str| {
        let words: Vec<&str> = ["explain", "--format", "json"].into_iter().chain(arguments.split(' ')).collect();
        let answer: Value = serde_json::from_str(&sim(&words).stdout).expect("JSON");
        (answer["chosen"]["artifact"].as_str().expect("a name").to_owned(), answer["shape"]["decode_requests"].as_u64())
    };
    assert_eq!(ran("--prefill 1:512 --decodes 3"), ("FULL 4 requests=4 uniform=1".to_owned(), Some(4)));
    assert_eq!(ran("--prefill 1 --decodes 3"), ("PIECEWISE 4".to_owned(), Some(3)));
}

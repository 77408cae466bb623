use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::*;
use crate::engine::sglang::options::Version as SglangVersion;
use crate::engine::vllm::options::Version;
use crate::flags::read;

const CHUNKED: &str = include_str!("../../../scenarios/chunked.toml");
const SPEC_DECODE: &str = include_str!("../../../scenarios/spec_decode.toml");
const CEILING: &str = include_str!("../../../scenarios/sglang_ceiling.toml");
const SHARED_PREFIX: &str = include_str!("../../../scenarios/shared_prefix.toml");
const ON_SGLANG: Target = Target::Sglang(SglangVersion::V0_5_23);
const ON_VLLM: Target = Target::Vllm(Version::V0_33_0);

/// A scenario of the repository with another number of requests, without what its commands must answer.
fn scenario(text: &str, requests: u32) -> Scenario {
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let text = text.split("[[expect]]").next().expect("there is a head");
    let lines: Vec<String> = text
        .lines()
        .map(|line| if line.starts_with("requests = ") { format!("requests = {requests}") } else { line.to_owned() })
        .collect();
    Scenario::parse(&lines.join("\n"), "test.toml", &base).expect("the scenario is valid")
}

/// The candidates of a scenario as sets, with some figures.
fn sets(scenario: &Scenario) -> Vec<Set> {
    let predicted = |factor: f64| {
        let figure =
            |figure: &str, unit: &str, value| Predicted { figure: figure.to_owned(), unit: unit.to_owned(), value };
        vec![
            figure("request_goodput", "requests/s", 5.25 * factor),
            figure("p99_tpot_ms", "ms", 38.125 / factor),
            figure("mean_e2el_ms", "ms", 4321.0),
            figure("fallback_rate", "share of steps", 0.0625),
            figure("graph_memory_bytes", "bytes", 1.5e9),
            figure("worth", "a|b", f64::NAN),
        ]
    };
    let set = |(index, candidate): (usize, &crate::scenario::Candidate)| Set {
        name: candidate.name.clone(),
        options: candidate.options.clone(),
        kv_tokens: Some(400_000),
        predicted: predicted(1.0 + index as f64 / 10.0),
    };
    scenario.candidates.iter().enumerate().map(set).collect()
}

/// All files of a kit, one below the other; long ones cut.
fn shown(kit: &Kit) -> String {
    let cut = |text: &str| text.lines().take(40).collect::<Vec<_>>().join("\n");
    let files = kit.files.iter().map(|file| format!("===== {}\n{}", file.name, cut(&file.text)));
    format!("$ {}\n{}", kit.command, files.collect::<Vec<_>>().join("\n"))
}

fn file<'a>(kit: &'a Kit, name: &str) -> &'a str {
    &kit.files.iter().find(|file| file.name == name).expect("the file is there").text
}

/// Whether a shell can read the script; true where there is no shell to ask.
fn is_a_script(text: &str) -> bool {
    let Ok(mut shell) = Command::new("sh").arg("-n").stdin(Stdio::piped()).stderr(Stdio::null()).spawn() else {
        return true;
    };
    std::io::Write::write_all(&mut shell.stdin.take().expect("it is piped"), text.as_bytes()).expect("it reads");
    shell.wait().expect("it ends").success()
}

#[test]
fn a_sweep_serves_every_set_and_replays_the_requests() {
    let scenario = scenario(CHUNKED, 3);
    let made = kit(&scenario, &sets(&scenario)[..3], ON_VLLM, &[7, 8]).expect("the kit is made");
    assert!(is_a_script(file(&made, "verify.sh")));
    insta::assert_snapshot!(shown(&made));
}

#[test]
fn a_closed_loop_sends_as_answers_come() {
    let scenario = scenario(SPEC_DECODE, 3);
    let made = kit(&scenario, &sets(&scenario)[2..], Target::Vllm(Version::Main), &[7]).expect("the kit is made");
    assert!(is_a_script(file(&made, "verify.sh")));
    insta::assert_snapshot!(shown(&made));
}

#[test]
fn sglang_is_measured_by_its_own_client() {
    let scenario = scenario(CEILING, 400);
    let mut sets = sets(&scenario);
    sets[1].options.sglang_mut().expect("it is SGLang's").graphs.enable_cuda_graph_dedup = true;
    let mut made = kit(&scenario, &sets, ON_SGLANG, &[1, 2]).expect("the kit is made");
    assert!(is_a_script(file(&made, "verify.sh")));
    made.files.retain(|file| !file.name.starts_with("requests"));
    insta::assert_snapshot!(shown(&made));
}

/// What is served is what was advised: the parameters read back as the sweep applies them.
#[test]
fn served_parameters_stand_for_the_sets() {
    let scenario = scenario(CHUNKED, 3);
    let mut sets = sets(&scenario);
    sets[1].options.vllm_mut().expect("it is vLLM's").scheduler.max_num_seqs = 128;
    let made = kit(&scenario, &sets, ON_VLLM, &[7]).expect("the kit is made");
    let served: Vec<Value> = serde_json::from_str(file(&made, "serve_params.json")).expect("it is JSON");
    assert_eq!(served.len(), sets.len());
    for (set, params) in sets.iter().zip(&served) {
        let mut flags = params.as_object().expect("an object").clone();
        assert_eq!(flags.remove("_benchmark_name"), Some(set.name.clone().into()));
        let options = set.options.vllm().expect("it is vLLM's");
        assert_eq!(
            flags.remove("max_num_seqs"),
            Some(options.scheduler.max_num_seqs.into()),
            "it differs between sets"
        );
        let server = read::vllm::server_without_graph_flags(options, Version::V0_33_0);
        let read = read::vllm::json(server, &[], &flags.into()).expect("the flags are vLLM's");
        let plan = |options| crate::engine::vllm::plan::GraphPlan::build(options).expect("it starts");
        assert_eq!(plan(&read).capture_order(), plan(options).capture_order(), "{}", set.name);
    }
    let script = file(&made, "verify.sh");
    assert!(script.contains("--max-num-batched-tokens 8192") && !script.contains("--max-num-seqs"), "{script}");
}

#[test]
fn requests_are_those_of_the_simulation() {
    let scenario = scenario(SHARED_PREFIX, 50);
    let made = kit(&scenario, &sets(&scenario)[..1], ON_VLLM, &[scenario.traffic.seed]).expect("the kit is made");
    let rows = file(&made, &format!("requests-{}.jsonl", scenario.traffic.seed));
    let rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).expect("a row is JSON")).collect();
    let stream = scenario.traffic.open(scenario.traffic.seed).expect("it opens");
    let drawn: Vec<_> = stream.map(|request| request.expect("it is drawn")).collect();
    assert_eq!((rows.len(), drawn.len()), (50, 50));
    let whole = |row: &Value, key: &str| row[key].as_u64().expect("a whole number");
    let mut heads = std::collections::BTreeSet::new();
    for (row, request) in rows.iter().zip(&drawn) {
        assert_eq!(whole(row, "input_length"), u64::from(request.prompt_tokens));
        assert_eq!(whole(row, "output_length"), u64::from(request.output_tokens));
        assert_eq!(row["timestamp"].as_f64(), Some(request.arrival.0 as f64 / 1e9));
        let ids = row["hash_ids"].as_array().expect("a list");
        assert_eq!(ids.len() as u64, whole(row, "input_length").div_ceil(16));
        heads.insert(ids[0].as_u64());
    }
    assert!(heads.len() < rows.len(), "some prompts begin alike");
}

#[test]
fn what_no_kit_is_made_of_is_said() {
    let chunked = scenario(CHUNKED, 3);
    let all = sets(&chunked);
    let fault =
        |sets: &[Set], target, seeds: &[u64]| kit(&chunked, sets, target, seeds).expect_err("no kit").to_string();
    let named = |name: &str| vec![Set { name: name.to_owned(), ..all[0].clone() }];
    let mut refused = all[2].clone();
    let options = refused.options.vllm_mut().expect("it is vLLM's");
    options.graphs.num_speculative_tokens = 2;
    options.runner = Some(crate::engine::vllm::options::Runner::V2);
    let faults = [
        fault(&[], ON_VLLM, &[7]),
        fault(&all, ON_VLLM, &[]),
        fault(&[all[0].clone(), all[0].clone()], ON_VLLM, &[7]),
        fault(&named("../up"), ON_VLLM, &[7]),
        fault(&all, Target::TensorRtLlm, &[7]),
        fault(&all, ON_SGLANG, &[7]),
        fault(&[refused], Target::Vllm(Version::V0_31_0), &[7]),
    ];
    insta::assert_snapshot!(faults.join("\n"), @r#"
    there is no set of flags to measure
    there is no seed to draw the traffic with
    two sets are named `engine default`: results are kept by name
    `../up` cannot name a folder of results: use letters, digits, blanks, and -_.+
    there is no kit for TensorRT-LLM: it is not simulated, so that nothing was predicted for it
    set `engine default`: the options are for vLLM 0.33.0 and the flags are wanted for SGLang 0.5.23: sizes of one engine mean nothing to the other; choose a version of the same engine, or tensorrt-llm, which takes the decode sizes
    set `textbook`: vLLM 0.31.0 does not start with its flags: vLLM 0.31.0 does not run `spec_method = ngram (the method where none is given)` on model runner v2: set runner = "v1"
    "#);
}

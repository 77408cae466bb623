//! `sim validate` on a made-up folder of runs.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::{sim, sim_in};

const META: &str = r#"{
  "model": "meta-llama/Llama-3.1-8B",
  "vllm_version": "0.19.0",
  "engine_kwargs": {"tensor_parallel_size": 1, "max_num_seqs": 8, "max_num_batched_tokens": 512, "max_model_len": 4096},
  "num_requests": 12,
  "kv_cache": {"num_gpu_blocks": 400, "block_size": 16, "enable_prefix_caching": true},
  "hardware": {"device_name": "NVIDIA GeForce RTX 4090"}
}
"#;

/// Kernel tables of straight lines.
fn tables() -> [(&'static str, String); 3] {
    let table = |header: &str, operations: &[&str], sizes: &[u32]| {
        let rows = operations.iter().flat_map(|name| sizes.iter().map(move |size| (name, size)));
        rows.fold(format!("layer,{header},time_us\n"), |mut text, (name, size)| {
            writeln!(text, "{name},{size},{}", 60.0 + 0.3 * f64::from(*size)).expect("a string");
            text
        })
    };
    let of_layer = [
        "layernorm",
        "qkv_proj",
        "rotary_emb",
        "o_proj",
        "gate_up_proj",
        "act_fn",
        "down_proj",
        "embedding",
        "final_layernorm",
    ];
    let mut attention = "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n".to_owned();
    for (chunks, requests) in [(&[0][..], &[1, 8][..]), (&[16, 512], &[0]), (&[16, 512], &[1, 8])] {
        for chunk in chunks {
            for request in requests {
                let [contexts, decode_contexts] =
                    [*chunk, *request].map(|size| if size == 0 { &[0][..] } else { &[16, 4096][..] });
                for context in contexts {
                    for decode_context in decode_contexts {
                        let (context, us) = (context - 16 * u32::from(*chunk > 0), 10 + chunk / 16 + request);
                        writeln!(attention, "{chunk},{context},{request},{decode_context},{us}").expect("a string");
                    }
                }
            }
        }
    }
    [
        ("dense", table("tokens", &of_layer, &[1, 512])),
        ("per_sequence", table("sequences", &["lm_head", "sampler"], &[1, 8])),
        ("attention", attention),
    ]
}

/// Twelve requests, ten a second, and what a server of 22 ms a step could have seen of them.
fn results(folder: &Path, run: &str) {
    let mut requests = String::new();
    for number in 0..12 {
        let (queued_s, output) = (50.0 + f64::from(number) * 0.1, 30 + number);
        let first_s = queued_s + 0.05 + f64::from(number) * 0.06;
        writeln!(
            requests,
            "{{\"request_id\": \"r-{number}\", \"input_toks\": {}, \"output_toks\": {output}, \"queued_ts\": {queued_s}, \
             \"first_token_ts\": {first_s}, \"last_token_ts\": {}}}",
            200 + number * 10,
            first_s + f64::from(output - 1) * 0.022
        )
        .expect("a string");
    }
    let series = "t,prompt_throughput,gen_throughput,running,waiting,kv_cache_pct
0.5,1300,70,5,0,10\n1.0,1200,160,8,1,20\n1.5,500,240,8,3,30\n2.0,0,220,6,0,30\n2.5,0,110,3,0,20\n3.0,0,52,0,0,0
";
    fs::write(folder.join(format!("vllm_run_{run}_requests.jsonl")), requests).expect("writes");
    fs::write(folder.join(format!("vllm_run_{run}_timeseries.csv")), series).expect("writes");
}

/// Three runs: one with all its tables, one that borrows, and one without results.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path();
    for (part, table) in tables() {
        fs::write(path.join(format!("kernels_rtx4090_llama8b_tp1_{part}.csv")), &table).expect("writes");
        if part == "dense" {
            fs::write(path.join("kernels_rtxpro6000_llama8b_tp1_dense.csv"), table).expect("writes");
        }
    }
    for run in ["rtx4090_llama8b_tp1", "rtxpro6000_llama8b_tp1", "h100_other_tp2"] {
        fs::write(path.join(format!("vllm_run_{run}_meta.json")), META).expect("writes");
    }
    results(path, "rtx4090_llama8b_tp1");
    folder
}

#[test]
fn every_run_of_a_folder_in_turn() {
    let folder = folder();
    insta::assert_snapshot!("validate", sim_in(folder.path(), &["validate", "."]).done());
    // The results come later, under the same names, and are taken.
    results(folder.path(), "rtxpro6000_llama8b_tp1");
    let later = sim_in(folder.path(), &["validate", ".", "--run", "rtxpro6000_llama8b_tp1"]).done();
    assert!(later.contains("times the ratio of bandwidths 0.5625") && later.contains("verdict:"), "{later}");
    let json = sim_in(folder.path(), &["validate", ".", "--format", "json"]).done();
    let report: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let runs: Vec<&str> =
        report["runs"].as_array().expect("runs").iter().filter_map(|run| run["run"].as_str()).collect();
    // A run that borrows tables has two answers.
    let names = ["h100_other_tp2", "rtx4090_llama8b_tp1", "rtxpro6000_llama8b_tp1", "rtxpro6000_llama8b_tp1"];
    assert_eq!(runs, names);
}

#[test]
fn a_missed_target_is_a_failure_where_it_was_asked_for() {
    let folder = folder();
    let strict = sim_in(folder.path(), &["validate", ".", "--strict"]);
    assert_eq!(strict.code, Some(7), "{}", strict.stderr);
    assert!(strict.stderr.contains("missed: rtx4090_llama8b_tp1: wall"), "{}", strict.stderr);
    assert_eq!(strict.stdout, sim_in(folder.path(), &["validate", "."]).done(), "the comparison is written");
    let without = ["validate", ".", "--strict", "--run", "rtxpro6000_llama8b_tp1"];
    assert_eq!(sim_in(folder.path(), &without).code, Some(0), "nothing is judged");
}

#[test]
fn what_cannot_be_validated_is_refused() {
    let folder = folder();
    let refused =
        |arguments: &[&str], code| sim_in(folder.path(), &[&["validate", "."], arguments].concat()).refused(code);
    let mut messages = refused(&["--run", "rtx4080"], 2);
    messages += &refused(&["--heads", "none.csv"], 3);
    messages += &refused(&["--bandwidth-ratio", "0"], 2);
    fs::write(folder.path().join("heads.csv"), "request,begins_as,tokens\n3,2\n").expect("writes");
    messages += &refused(&["--heads", "heads.csv"], 3);
    let requests = folder.path().join("vllm_run_rtx4090_llama8b_tp1_requests.jsonl");
    let text = fs::read_to_string(&requests).expect("reads");
    fs::write(&requests, &text[..text.len() - 40]).expect("writes");
    messages += &refused(&[], 3);
    fs::write(folder.path().join("kernels_rtx4090_llama8b_tp1_dense.csv"), "layer,tokens,time_us\nqkv_proj,1,x\n")
        .expect("writes");
    fs::write(&requests, text).expect("writes");
    messages += &refused(&[], 3);
    insta::assert_snapshot!("validate_refused", messages);
    assert!(sim(&["validate", "scenarios"]).refused(3).contains("no run in this folder"));
}

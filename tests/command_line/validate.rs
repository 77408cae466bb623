//! `sim validate` on a made-up folder of runs.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::{sim, sim_in};

/// The run that has everything.
const RUN: &str = "rtx4090_llama8b_tp1";

const META: &str = r#"{
  "model": "meta-llama/Llama-3.1-8B",
  "vllm_version": "0.19.0",
  "engine_kwargs": {"tensor_parallel_size": 1, "max_num_seqs": 8, "max_num_batched_tokens": 512, "max_model_len": 4096},
  "num_requests": 12,
  "kv_cache": {"num_gpu_blocks": 400, "block_size": 16, "enable_prefix_caching": true},
  "hardware": {"device_name": "NVIDIA GeForce RTX 4090"}
}
"#;

const CARD: &str = "NVIDIA GeForce RTX 4090";

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
    let two_ranks = META.replace("\"tensor_parallel_size\": 1", "\"tensor_parallel_size\": 2");
    for (run, meta) in [
        (RUN, META.to_owned()),
        ("rtxpro6000_llama8b_tp1", META.replace(CARD, "NVIDIA RTX PRO 6000 Blackwell Workstation Edition")),
        ("h100_other_tp2", two_ranks.replace(CARD, "NVIDIA H100 80GB HBM3")),
    ] {
        fs::write(path.join(format!("vllm_run_{run}_meta.json")), meta).expect("writes");
    }
    results(path, RUN);
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
    let without = sim_in(folder.path(), &["validate", ".", "--strict", "--run", "rtxpro6000_llama8b_tp1"]);
    assert_eq!(without.code, Some(7), "what compares nothing is no check that was passed");
    assert!(without.stderr.contains("missed: no run was compared"), "{}", without.stderr);
    // Which of two answers missed is said.
    results(folder.path(), "rtxpro6000_llama8b_tp1");
    let two = sim_in(folder.path(), &["validate", ".", "--strict", "--run", "rtxpro6000_llama8b_tp1"]);
    let said: String = two.stderr.split_whitespace().filter(|word| *word != "│").collect::<Vec<_>>().join(" ");
    for carry in ["the bandwidths of both data sheets", "the bandwidths that both dense tables achieve"] {
        assert!(said.contains(&format!("rtxpro6000_llama8b_tp1, carried over by {carry}: ")), "{said}");
    }
}

/// The names of the runs that were answered.
fn answered(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.split_once(": meta-llama/").map(|(run, _)| run)).collect()
}

#[test]
fn a_run_that_cannot_be_used_takes_no_other_answer_away() {
    let folder = folder();
    results(folder.path(), "rtxpro6000_llama8b_tp1");
    let file = |end: &str| folder.path().join(format!("vllm_run_{RUN}_{end}"));
    let whole = fs::read_to_string(file("requests.jsonl")).expect("reads");
    fs::write(file("requests.jsonl"), &whole[..whole.len() - 40]).expect("writes");
    fs::write(folder.path().join("vllm_run_torn_meta.json"), &META[..90]).expect("writes");
    let answer = sim_in(folder.path(), &["validate", "."]);
    assert_eq!(answer.code, Some(3), "{}", answer.stderr);
    // Two answers for the one that borrows tables.
    assert_eq!(answered(&answer.stdout), ["h100_other_tp2", "rtxpro6000_llama8b_tp1", "rtxpro6000_llama8b_tp1"]);
    for bad in ["vllm_run_torn_meta.json", "vllm_run_rtx4090_llama8b_tp1_requests.jsonl:12"] {
        assert!(answer.stderr.contains(bad), "{}", answer.stderr);
    }
    let json = sim_in(folder.path(), &["validate", ".", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&json.stdout).expect("JSON");
    assert_eq!((json.code, report["runs"].as_array().map(Vec::len)), (Some(3), Some(3)));
    // Results without their meta.json are nothing to another run.
    fs::write(file("requests.jsonl"), &whole).expect("writes");
    fs::rename(file("meta.json"), folder.path().join("meta")).expect("renames");
    sim_in(folder.path(), &["validate", ".", "--run", "rtxpro6000_llama8b_tp1"]).done();
    let alone = sim_in(folder.path(), &["validate", ".", "--run", RUN]).refused(3);
    assert!(alone.contains("results without the meta.json"), "{alone}");
}

#[test]
fn half_of_the_results_is_refused_by_the_name_of_the_other_half() {
    for (end, strict) in [("requests.jsonl", None), ("timeseries.csv", Some("--strict"))] {
        let folder = folder();
        fs::remove_file(folder.path().join(format!("vllm_run_{RUN}_{end}"))).expect("was there");
        let arguments: Vec<&str> = ["validate", ".", "--run", RUN].into_iter().chain(strict).collect();
        let refused = sim_in(folder.path(), &arguments);
        assert_eq!(refused.code, Some(3), "{}", refused.stderr);
        assert!(refused.stderr.contains(&format!("{end}: not there")), "{}", refused.stderr);
    }
}

/// Every setting of a run is simulated, named or refused: none leaves the answer as it was.
#[test]
fn no_setting_of_a_run_is_passed_over() {
    let folder = folder();
    let path = folder.path().join(format!("vllm_run_{RUN}_meta.json"));
    let base: serde_json::Value = serde_json::from_str(META).expect("JSON");
    let answer = |pointer: &[&str], value: &serde_json::Value| {
        let mut meta = base.clone();
        let mut place = &mut meta;
        for key in pointer {
            place = &mut place[*key];
        }
        *place = value.clone();
        fs::write(&path, meta.to_string()).expect("writes");
        sim_in(folder.path(), &["validate", ".", "--run", RUN])
    };
    let as_it_was = answer(&["num_requests"], &12.into()).done();
    let (compilation, scheduler) = ("compilation_config", "scheduler_config");
    let resolved = "resolved_config";
    let simulated = [
        (&["engine_kwargs", "enforce_eager"][..], serde_json::json!(true)),
        (&[resolved, "model_config", "enforce_eager"], serde_json::json!(true)),
        (&[resolved, compilation, "cudagraph_mode"], serde_json::json!([0, 0])),
        (&[resolved, compilation, "cudagraph_mode"], serde_json::json!("NONE")),
        (&["engine_kwargs", "long_prefill_token_threshold"], serde_json::json!(64)),
        (&[resolved, scheduler, "long_prefill_token_threshold"], serde_json::json!(64)),
    ];
    let figures = |text: &str| text.lines().find(|line| line.starts_with("predicted alone")).map(str::to_owned);
    for (pointer, value) in simulated {
        let simulated = answer(pointer, &value).done();
        assert!(figures(&simulated) != figures(&as_it_was), "{pointer:?} = {value}: {simulated}");
        assert!(!simulated.contains("NOT SIMULATED"), "{pointer:?} = {value}: {simulated}");
    }
    for (pointer, value, named) in [
        (&["engine_kwargs", "kv_cache_dtype"][..], serde_json::json!("fp8"), "engine_kwargs.kv_cache_dtype = fp8"),
        (&["engine_kwargs", "quantization"], serde_json::json!("fp8"), "engine_kwargs.quantization = fp8"),
        (&[resolved, "quant_config"], serde_json::json!("<Fp8Config>"), "quant_config = <Fp8Config>"),
        (&[resolved, scheduler, "policy"], serde_json::json!("priority"), "scheduler_config.policy = priority"),
        (&["vllm_version"], serde_json::json!("0.6.0"), "the engine V0"),
        (&["schema_version"], serde_json::json!(2), "schema_version = 2"),
        (&["hardware", "device_name"], serde_json::json!("NVIDIA X1"), "the device is recorded as NVIDIA X1"),
    ] {
        let noted = answer(pointer, &value).done();
        assert!(noted.contains(named), "{pointer:?} = {value}: {noted}");
    }
    let mut messages = String::new();
    for (pointer, value) in [
        (&[resolved, "speculative_config"][..], serde_json::json!({"num_speculative_tokens": 3})),
        (&["engine_kwargs", "pipeline_parallel_size"], serde_json::json!(2)),
        (&["engine_kwargs", "tensor_parallel_size"], serde_json::json!(4)),
        (&["engine_kwargs", "data_parallel_size"], serde_json::json!(2)),
        (&["engine_kwargs", "enable_chunked_prefill"], serde_json::json!(false)),
        (&[resolved, scheduler, "enable_chunked_prefill"], serde_json::json!(false)),
        (&[resolved, compilation, "cudagraph_mode"], serde_json::json!([3, 0])),
        (&[resolved, scheduler, "max_num_seqs"], serde_json::json!(16)),
        (&["hardware", "device_name"], serde_json::json!("NVIDIA H100 80GB HBM3")),
    ] {
        messages += &answer(pointer, &value).refused(3);
    }
    insta::assert_snapshot!("validate_settings_refused", messages);
}

#[test]
fn a_series_of_another_run_is_refused() {
    let folder = folder();
    let path = folder.path().join(format!("vllm_run_{RUN}_timeseries.csv"));
    let series = fs::read_to_string(&path).expect("reads");
    let cells = |change: &dyn Fn(usize, f64) -> f64| {
        let rows = series.lines().skip(1).map(|row| {
            let cells = row.split(',').enumerate();
            let cells = cells.map(|(column, cell)| change(column, cell.parse().expect("a number")).to_string());
            cells.collect::<Vec<_>>().join(",") + "\n"
        });
        series.lines().next().expect("a header").to_owned() + "\n" + &rows.collect::<String>()
    };
    let slower = |column: usize, value: f64| match column {
        0 => value * 10.0,
        1 | 2 => value / 10.0,
        _ => value,
    };
    let mut messages = String::new();
    for other in [
        cells(&slower),
        cells(&|column, value| if column == 4 { value * 20.0 } else { value }),
        cells(&|column, value| if column == 5 { value / 100.0 } else { value }),
        cells(&|column, value| if column == 5 { value * 10.0 } else { value }),
    ] {
        fs::write(&path, other).expect("writes");
        messages += &sim_in(folder.path(), &["validate", ".", "--run", RUN]).refused(3);
    }
    insta::assert_snapshot!("validate_series_refused", messages);
}

/// A second run of the same server is priced by the same tables, whatever it is called.
#[test]
fn tables_are_found_by_card_model_and_ranks() {
    let folder = folder();
    let figures = |text: &str| text.lines().filter(|line| line.starts_with("TPOT")).fold(String::new(), |a, b| a + b);
    let first = sim_in(folder.path(), &["validate", ".", "--run", RUN]).done();
    for run in ["rtx4090_llama8b_tp1_night", "night_rtx4090_llama8b_tp1", "my run x"] {
        results(folder.path(), run);
        fs::write(folder.path().join(format!("vllm_run_{run}_meta.json")), META).expect("writes");
        let second = sim_in(folder.path(), &["validate", ".", "--run", run]).done();
        assert!(second.contains("the table of rtx4090_llama8b_tp1, 32 layers"), "{second}");
        assert!(!second.contains("attention backend is not known"), "{second}");
        assert_eq!(figures(&second), figures(&first));
    }
    // Other ranks or another model have none.
    for (key, other) in
        [("\"tensor_parallel_size\": 1", "\"tensor_parallel_size\": 2"), ("Llama-3.1-8B", "Llama-3.1-70B")]
    {
        fs::write(folder.path().join("vllm_run_my run x_meta.json"), META.replace(key, other)).expect("writes");
        let fitted = sim_in(folder.path(), &["validate", ".", "--run", "my run x"]).done();
        assert!(fitted.contains("no kernels_my run x_dense.csv, and no other table of this card"), "{fitted}");
        assert!(fitted.contains("(queue only, 1 target)"), "{fitted}");
    }
}

/// A run that took no time has no rates: what is no number is left out.
#[test]
fn a_run_without_time_gives_numbers_alone() {
    let folder = folder();
    let request = "{\"request_id\": \"r-0\", \"input_toks\": 20, \"output_toks\": 1, \"queued_ts\": 5, \
                   \"first_token_ts\": 5, \"last_token_ts\": 5}\n";
    let at = |end: &str| folder.path().join(format!("vllm_run_{RUN}_{end}"));
    fs::write(at("requests.jsonl"), request).expect("writes");
    fs::write(at("meta.json"), META.replace("\"num_requests\": 12", "\"num_requests\": 1")).expect("writes");
    fs::write(at("timeseries.csv"), "t,prompt_throughput,gen_throughput,running,waiting\n1,20,1,0,0\n")
        .expect("writes");
    let json = sim_in(folder.path(), &["validate", ".", "--run", RUN, "--format", "json"]).done();
    let report: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let figures = report["runs"][0]["figures"].as_array().expect("figures").clone();
    let numbers =
        |figure: &serde_json::Value| ["measured", "predicted", "difference"].iter().all(|key| figure[*key].is_number());
    assert!(!figures.is_empty() && figures.iter().all(numbers), "{figures:#?}");
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
    messages += &refused(&["--run", RUN], 3);
    fs::write(folder.path().join("kernels_rtx4090_llama8b_tp1_dense.csv"), "layer,tokens,time_us\nqkv_proj,1,x\n")
        .expect("writes");
    fs::write(&requests, text).expect("writes");
    messages += &refused(&["--run", RUN], 3);
    insta::assert_snapshot!("validate_refused", messages);
    assert!(sim(&["validate", "scenarios"]).refused(3).contains("no run in this folder"));
}

#[test]
fn a_model_that_is_not_built_in_is_described() {
    let folder = folder();
    let meta = META.replace("meta-llama/Llama-3.1-8B", "someone/Llama-8B-of-ours");
    fs::write(folder.path().join(format!("vllm_run_{RUN}_meta.json")), meta).expect("writes");
    let refused = sim_in(folder.path(), &["validate", ".", "--run", RUN]).refused(3);
    assert!(refused.contains("give --model with the model's config.json"), "{refused}");
    let config = r#"{"model_type": "llama", "num_hidden_layers": 16, "hidden_size": 4096, "intermediate_size": 14336,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128256, "hidden_act": "silu",
        "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "torch_dtype": "bfloat16", "tie_word_embeddings": false}"#;
    fs::write(folder.path().join("config.json"), config).expect("writes");
    let described = sim_in(folder.path(), &["validate", ".", "--run", RUN, "--model", "config.json"]).done();
    assert!(described.contains("its own table, 16 layers"), "{described}");
    let absent = sim_in(folder.path(), &["validate", ".", "--run", RUN, "--model", "none.json"]).refused(3);
    assert!(absent.contains("none.json"), "{absent}");
}

//! `sim fit`: tables in, a profile out, and what is said of tables that cannot be.

use std::fs;
use std::path::Path;

use super::{root, sim_in};

/// A table of Vidur's linear operations, all of them as long: `ms` of each by rows.
fn linear(sizes: &[(u32, f64)], timing: Option<&str>) -> String {
    let operations = [
        "input_layernorm",
        "attn_pre_proj",
        "attn_rope",
        "attn_post_proj",
        "post_attention_layernorm",
        "mlp_up_proj",
        "mlp_act",
        "mlp_down_proj",
        "add",
    ];
    let columns: Vec<String> = operations.iter().map(|name| format!("time_stats.{name}.median")).collect();
    let said = timing.map_or("", |_| ",measurement_type");
    let names = "n_head,n_kv_head,n_embd,n_expanded_embd,num_tokens,num_tensor_parallel_workers";
    let mut text = format!("{},{names}{said}\n", columns.join(","));
    text.extend(sizes.iter().map(|(rows, ms)| {
        let times = vec![ms.to_string(); operations.len()].join(",");
        let timing = timing.map(|timing| format!(",{timing}")).unwrap_or_default();
        format!("{times},32,32,4096,11008,{rows},1{timing}\n")
    }));
    text
}

/// A table of Vidur's attention.
fn attention() -> String {
    let mut text = "time_stats.attn_kv_cache_save.median,time_stats.attn_prefill.median,time_stats.attn_decode.median,\
                    n_embd,n_q_head,n_kv_head,num_tensor_parallel_workers,batch_size,prefill_chunk_size,kv_cache_size,\
                    is_prefill,attention_backend\n"
        .to_owned();
    let model = "4096,32,32,1";
    text.extend([(1, 32), (1, 64), (2, 32), (2, 64), (4, 32), (4, 64)].map(|(batch, kv)| {
        let ms = 0.01 + 0.0001 * f64::from(batch * kv);
        format!("0.003,0,{ms},{model},{batch},0,{kv},False,AttentionBackend.FLASHINFER\n")
    }));
    text.extend([(64, 0), (64, 64), (128, 0), (128, 64)].map(|(chunk, kv)| {
        let ms = 0.0002 * f64::from(chunk + kv);
        format!("0.042,{ms},0,{model},1,{chunk},{kv},True,AttentionBackend.FLASHINFER\n")
    }));
    text
}

const SIZES: [(u32, f64); 4] = [(1, 0.02), (8, 0.021), (64, 0.025), (72, 0.03)];

const STEPS: &str = "\
mode,rows,requests,context,milliseconds
FULL,8,8,100,6.1
FULL,8,8,1100,6.5
FULL,16,13,100,6.3
FULL,16,16,600,6.7
NONE,13,13,100,9.9
";

fn write(folder: &Path, name: &str, text: &str) {
    fs::write(folder.join(name), text).expect("a folder of the test's own");
}

#[test]
fn tables_of_operations_give_a_profile() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    write(folder, "mlp.csv", &linear(&SIZES, Some("CUDA_EVENT")));
    let kernels = SIZES.map(|(rows, ms)| (rows, ms - 0.01));
    write(folder, "kernels.csv", &linear(&kernels, Some("KERNEL_ONLY")));
    write(folder, "attention.csv", &attention());
    let files = ["fit", "mlp.csv", "kernels.csv", "attention.csv", "--device", "A100", "--licence", "MIT"];
    let out = ["--out", "mine.toml"];
    insta::assert_snapshot!("fit_operations", sim_in(folder, &[&files[..], &out].concat()).done());
    insta::assert_snapshot!("fit_operations_profile", fs::read_to_string(folder.join("mine.toml")).expect("written"));
    // The profile is one: it prices a step.
    let explained = sim_in(folder, &["explain", "--decodes", "13", "--profile", "mine.toml"]).done();
    assert!(explained.contains("FULL"), "{explained}");
    // It is not replaced unless it should be, and no table is.
    insta::assert_snapshot!("fit_exists", sim_in(folder, &[&files[..], &out].concat()).refused(2));
    assert!(sim_in(folder, &[&files[..], &["--out", "mlp.csv", "--force"]].concat()).refused(2).contains("is read"));
    let before = fs::read(folder.join("mine.toml")).expect("there");
    sim_in(folder, &[&files[..], &out, &["--force"]].concat()).done();
    assert_eq!(before, fs::read(folder.join("mine.toml")).expect("there"), "the same bytes again");
}

#[test]
fn whole_steps_give_a_profile() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    write(folder, "steps.csv", &STEPS.replace('\n', "\r\n"));
    let words = ["fit", "steps.csv", "--model", "llama-3.1-8b", "--device-memory", "80GiB", "--name", "mine"];
    insta::assert_snapshot!("fit_steps", sim_in(folder, &words).done());
    let report = sim_in(folder, &[&words[..], &["--format", "json"]].concat()).done();
    assert!(report.contains("\"verdict\"") || report.contains("\"figures\": []"), "{report}");
}

/// Graphs up to 16 requests, none above.
const SERVER: &str = "\
schema = 1
name = \"mine\"
[server.vllm]
version = \"0.33.0\"
max_num_seqs = 64
max_num_batched_tokens = 2048
max_model_len = 4096
attention_support = \"ALWAYS\"
[profile]
builtin = \"h200-llama-3.1-8b\"
[traffic]
seed = 7
requests = 10
[traffic.arrivals.poisson]
rate = 5.0
[traffic.lengths.fixed]
prompt = 100
output = 100
[[candidate]]
name = \"default\"
[[candidate]]
name = \"small\"
cudagraph_capture_sizes = [1, 2, 4, 8, 16]
";

/// A server's log: its start, then decode steps of few requests on graphs, of many without any, and one with a prompt.
fn server_log() -> String {
    let mut log = "\
Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): 100%|###| 5/5 [00:02<00:00,  4.77it/s]\r
Capturing CUDA graphs (decode, FULL): 100%|##########| 5/5 [00:01<00:00,  4.10it/s]\r
(EngineCore_DP0 pid=1) INFO 04-16 16:59:23 [a.py:1] CUDA graph pool memory: 0.34 GiB (actual), 0.30 GiB (estimated), difference: 0.04 GiB (11.8%).\r
(EngineCore_DP0 pid=1) INFO 04-16 16:59:24 [core.py:285] init engine (profile, create kv cache, warmup model) took 39.52 seconds\r
"
    .to_owned();
    let line = |number: u32, prompts: u32, requests: u32, ms: f64| {
        format!(
            "(EngineCore_DP0 pid=1) INFO 04-16 17:00:00 [core.py:359] Iteration({number}): {} context requests, {prompts} context \
             tokens, {requests} generation requests, {requests} generation tokens, iteration elapsed time: {ms:.2} ms\r\n",
            u32::from(prompts > 0)
        )
    };
    log += &line(0, 300, 0, 21.0);
    log.extend((1..120).map(|number| {
        let jitter = f64::from(number % 7) * 0.01;
        match number % 4 {
            0 => line(number, 0, 8, 5.3 + jitter),
            1 => line(number, 0, 13, 5.5 + jitter),
            2 => line(number, 0, 40, 11.9 + jitter),
            _ => line(number, 0, 48, 12.0 + jitter + if number == 51 { 30.0 } else { 0.0 }),
        }
    }));
    log
}

#[test]
fn forward_passes_of_vllm_give_a_profile() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let case = |requests: u32, rows: u32, kv: u32, us: f64| {
        format!(
            "{{\"case\": \"decode{requests}\", \"requests\": [{{\"query_len\": 1, \"kv_len\": {kv}, \"num_draft_tokens\": 0, \
             \"chunked\": false}}], \"median_us\": {us}, \"ranks\": [{{\"num_tokens\": {requests}, \
             \"num_tokens_after_padding\": {rows}, \"latency_us\": {{\"median\": {us}}}}}]}}"
        )
    };
    // A row of 8 KV tokens costs 0.01 us each on top of 5,000 and 5,400 us.
    let cases = [case(8, 8, 1000, 5080.0), case(8, 8, 3000, 5240.0), case(13, 16, 1000, 5530.0)];
    write(folder, "forward.json", &format!("[{}]", cases.join(",\n")));
    let words = ["fit", "forward.json", "--model", "llama-3.1-8b", "--device-memory", "80GiB", "--out", "mine.toml"];
    sim_in(folder, &words).done();
    let profile = fs::read_to_string(folder.join("mine.toml")).expect("written");
    assert!(profile.contains("rows = [8, 16]\nus = [5000, 5400]\n"), "{profile}");
    assert!(profile.contains("0.01000 us for each KV token"), "{profile}");
}

#[test]
fn logs_are_fitted_onto_a_profile() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    write(folder, "server.toml", SERVER);
    write(folder, "server.log", &server_log());
    let onto = ["fit", "server.log", "--onto", "h200-llama-3.1-8b"];
    let words = [&onto[..], &["--server", "server.toml", "--candidate", "small", "--context", "600"]].concat();
    let out = ["--out", "mine.toml"];
    insta::assert_snapshot!("fit_onto", sim_in(folder, &[&words[..], &out].concat()).done());
    let profile = fs::read_to_string(folder.join("mine.toml")).expect("written");
    let engine = profile.split_once("[engine.ops]").expect("an engine half").1;
    insta::assert_snapshot!("fit_onto_engine", engine);
    let first = sim_in(folder, &[&words[..], &["--format", "json"]].concat());
    assert_eq!(first, sim_in(folder, &[&words[..], &["--format", "json"]].concat()), "the same bytes");
    assert!(first.done().contains("\"verdict\": \"fitted\""));
    // What is missing is said.
    let mut messages = String::new();
    let all: [&[&str]; 6] = [
        &onto,
        &["fit", "server.log", "--onto", "textbook"],
        &[&onto[..], &["--server", "server.toml"]].concat(),
        &[&onto[..], &["--server", "server.toml", "--candidate", "large"]].concat(),
        &["fit", "server.toml", "--onto", "h200-llama-3.1-8b"],
        &[&onto[..], &["--model", "llama-3-8b"]].concat(),
    ];
    for words in all {
        let answer = sim_in(folder, words);
        let code = answer.code.unwrap_or_default();
        messages += &answer.refused(code);
    }
    insta::assert_snapshot!("fit_onto_refused", messages);
    // Steps of one's own need no server.
    let mut csv = "mode,rows,requests,context,milliseconds\n".to_owned();
    for (mode, ms) in [("NONE", 14.0), ("FULL", 6.5)] {
        csv.extend((0..40).map(|step| format!("{mode},32,32,500,{}\n", ms + f64::from(step % 5) * 0.01)));
    }
    write(folder, "steps.csv", &csv);
    let report = sim_in(folder, &["fit", "steps.csv", "--onto", "h200-llama-3.1-8b", "--synchronous"]).done();
    insta::assert_snapshot!("fit_onto_steps", report.split_once("\nCosts").expect("a profile").0);
}

/// SGLang's log: its arguments and decode lines of eight requests.
fn sglang_log(arguments: &str, accepted: &str) -> String {
    let line = |second: u32| {
        format!(
            "[2025-11-30 09:01:{second:02}] Decode batch, #running-req: 8, #token: 4800, token usage: 0.10, {accepted}cuda graph: True, \
             gen throughput (token/s): 1300.00, #queue-req: 0\n"
        )
    };
    let mut log =
        format!("[2025-11-30 09:00:00] server_args=ServerArgs(model_path='meta-llama/Llama-3.1-8B', {arguments})\n");
    log.extend((0..40).map(line));
    log
}

/// Logs that are not those of the profile's device, engine, model or ranks, or of the server that is named.
#[test]
fn logs_of_something_else_are_refused_or_doubted() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let (version, length) = ("version = \"0.33.0\"\n", "max_num_batched_tokens = 2048\nmax_model_len = 4096\n");
    let sglang = SERVER
        .replace("[server.vllm]", "[server.sglang]")
        .replace(version, "version = \"0.5.23\"\n")
        .replace(
            &format!("max_num_seqs = 64\n{length}attention_support = \"ALWAYS\"\n"),
            "context_length = 4096\nmax_running_requests = 64\n",
        )
        .replace("cudagraph_capture_sizes", "cuda_graph_bs_decode");
    write(folder, "server.toml", SERVER);
    write(folder, "sglang.toml", &sglang);
    let profile =
        fs::read_to_string(root().join("scenarios/profiles/l40-qwen2.5-0.5b.toml")).expect("a profile of SGLang");
    write(folder, "sglang_profile.toml", &profile);
    let log = server_log();
    let scaled = |factor: f64| -> String {
        log.lines()
            .map(|line| match line.split_once("iteration elapsed time: ") {
                Some((head, ms)) => {
                    let ms: f64 = ms.trim_end().trim_end_matches(" ms").parse().expect("a time");
                    format!("{head}iteration elapsed time: {:.2} ms\n", ms * factor)
                }
                None => format!("{line}\n"),
            })
            .collect()
    };
    let config = "(EngineCore_DP0 pid=1) INFO 04-16 16:58:04 [core.py:107] Initializing a V1 LLM engine (v0.33.0) with config: \
                  model='meta-llama/Llama-3-70B', speculative_config=None, max_seq_len=4096, tensor_parallel_size=4, \
                  pipeline_parallel_size=1, data_parallel_size=1\n";
    let drafts = config
        .replace("speculative_config=None", "speculative_config=SpeculativeConfig(method='mtp', num_spec_tokens=3)");
    let two_each = log
        .replace("48 generation tokens", "96 generation tokens")
        .replace("8 generation tokens", "16 generation tokens");
    for (name, text) in [
        ("server.log", log.clone()),
        ("again.log", log.clone()),
        ("seconds.log", scaled(1e-3)),
        ("fast.log", scaled(0.1)),
        // As slow in the median as before: the steps without a graph are more than those on graphs.
        ("fast_graphs.log", log.replace("elapsed time: 5.", "elapsed time: 0.")),
        ("faster.log", scaled(0.8)),
        ("slow.log", scaled(10.0)),
        ("other.log", format!("{config}{log}")),
        ("drafts.log", format!("{drafts}{log}")),
        ("two_each.log", two_each.replace("13 generation tokens", "26 generation tokens")),
        ("sglang.log", sglang_log("tp_size=1", "")),
        ("sglang_drafts.log", sglang_log("tp_size=1, speculative_algorithm='EAGLE'", "accept len: 2.50, ")),
    ] {
        write(folder, name, &text);
    }
    let words = |files: &[&str]| -> Vec<String> {
        let of_server =
            ["--onto", "h200-llama-3.1-8b", "--server", "server.toml", "--candidate", "small", "--context", "600"];
        ["fit"].iter().chain(files).chain(&of_server).map(|&word| word.to_owned()).collect()
    };
    let fit = |files: &[&str]| {
        let words = words(files);
        sim_in(folder, &words.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let onto =
        |file: &str, profile: &str, more: &[&str]| sim_in(folder, &[&["fit", file, "--onto", profile], more].concat());
    let refused = [
        fit(&["seconds.log"]),
        fit(&["fast.log"]),
        fit(&["fast_graphs.log"]),
        fit(&["drafts.log"]),
        fit(&["two_each.log"]),
        fit(&["server.log", "again.log"]),
        fit(&["server.log", "server.log"]),
        fit(&["sglang.log"]),
        onto("sglang.log", "h200-llama-3.1-8b", &[]),
        onto("server.log", "h200-llama-3.1-8b", &["--server", "sglang.toml", "--context", "600"]),
        onto("sglang_drafts.log", "sglang_profile.toml", &[]),
    ];
    let messages: String = refused.into_iter().map(|answer| answer.refused(3)).collect();
    insta::assert_snapshot!("fit_onto_something_else", messages);
    let mut said = String::new();
    for file in ["server.log", "faster.log", "slow.log", "other.log"] {
        let answer = fit(&[file]);
        said.extend(["== ", file, "\n", answer.stderr.as_str()]);
        let report = answer.stdout.split_once("\n\npredicted").expect("steps").0;
        said += report.split_once("\n\n").expect("sources").1.split_once("\n  engine").expect("figures").0;
        said += "\n";
    }
    insta::assert_snapshot!("fit_onto_doubted", said);
    // The profile is called after its file.
    let written = [&words(&["server.log"])[..], &["--out".to_owned(), "mine.toml".to_owned()]].concat();
    sim_in(folder, &written.iter().map(String::as_str).collect::<Vec<_>>());
    let profile = fs::read_to_string(folder.join("mine.toml")).expect("written");
    assert!(profile.contains("\nname = \"mine\"\n"), "{}", &profile[..400]);
}

#[test]
fn what_is_no_table_is_refused_with_its_place() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let good = linear(&SIZES, None);
    let bad = [
        ("foreign", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023,374,44\n".to_owned()),
        ("empty", String::new()),
        ("truncated", good[..good.len() - 12].to_owned()),
        ("nan", good.replacen("0.021", "NaN", 1)),
        ("negative", good.replacen("0.025", "-0.025", 1)),
        ("no_column", good.replacen("time_stats.mlp_up_proj.median", "time_stats.mlp_up_proj.mean", 1)),
        ("no_rows", linear(&[], None)),
        ("one_size", linear(&[(8, 0.02)], None)),
        ("several_ranks", good.replacen("64,1\n", "64,2\n", 1)),
        ("another_model", good.replace(",4096,11008,", ",4096,12000,")),
        ("mode", STEPS.replacen("FULL", "GRAPH", 1)),
        ("seconds", STEPS.replacen(",6.1", ",0.0061", 1)),
        ("outlier", linear(&SIZES.map(|(rows, ms)| (rows, if rows == 8 { 10.0 * ms } else { ms })), None)),
        ("few_rows", STEPS.replacen("FULL,8,", "FULL,4,", 1)),
        ("json", "[{\"case\": \"decode8\", \"requests\": [".to_owned()),
        ("case", "[{\"case\": \"a\", \"requests\": [], \"median_us\": 5, \"ranks\": []}]".to_owned()),
    ];
    let mut messages = String::new();
    for (name, text) in bad {
        let file = format!("{name}.csv");
        write(folder, &file, &text);
        messages += &sim_in(folder, &["fit", &file, "--device", "A100"]).refused(3);
        assert!(messages.lines().all(|line| !line.contains("panicked")));
    }
    // Microseconds and seconds where milliseconds should be.
    for factor in [1e3, 1e-3] {
        write(folder, "unit.csv", &linear(&SIZES.map(|(rows, ms)| (rows, ms * factor)), None));
        messages += &sim_in(folder, &["fit", "unit.csv", "--device", "A100"]).refused(3);
    }
    let steps = [
        ("no_graph", STEPS.replace("FULL", "NONE")),
        ("reversed", STEPS.replacen("FULL,16,16,600,6.7", "FULL,64,64,600,3.1", 1)),
        ("flat", STEPS.replacen("FULL,16,16,600,6.7", "FULL,65536,65536,0,40", 1)),
    ];
    for (name, text) in steps {
        let file = format!("{name}.csv");
        write(folder, &file, &text);
        messages += &sim_in(folder, &["fit", &file, "--model", "llama-3.1-8b", "--device", "A100"]).refused(3);
    }
    write(folder, "mlp.csv", &good);
    for more in [
        &["--device", "Z9"][..],
        &["--device", "A10"],
        &[],
        &["--device", "A100", "--model", "llama-3-8b"],
        &["mlp.csv", "--device", "A100"],
    ] {
        messages += &sim_in(folder, &[&["fit", "mlp.csv"], more].concat()).refused(3);
    }
    insta::assert_snapshot!("fit_refused", messages);
    assert_eq!(fs::read_dir(folder).expect("ours").count(), 21, "nothing is left behind");
}

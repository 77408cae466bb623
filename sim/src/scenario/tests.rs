#[path = "../../../tests/form.rs"]
mod form;
mod keys;
mod sglang;

use std::path::Path;

use super::*;
use crate::engine::options::EngineOptions;
use crate::engine::vllm::decoder_replay::ReplayOptions;
use crate::engine::vllm::encoder::{EncoderModel, EncoderOptions};
use crate::engine::vllm::options::{
    AttentionSupport, CaptureOrder, CompileCache, CudagraphMode, Drafter, GraphPool, Runner, SchedulingPolicy,
    SpeculativeMethod, Version, VllmOptions, WhatIf,
};
use crate::time::SimTime;
use crate::traffic::{
    Acceptance, Adapters, Arrivals, Clip, Labels, Lengths, PrefixGroup, PrefixGroups, PrefixLevel, Priorities, Request,
    Shares, Spread, StepRow,
};

fn vllm(options: &EngineOptions) -> &VllmOptions {
    options.vllm().expect("a vLLM server")
}

fn parse(text: &str) -> Result<Scenario, ScenarioError> {
    Scenario::parse(text, "test.toml", Path::new(""))
}

/// A complete scenario with more lines in two of its places.
fn scenario(server: &str, rest: &str) -> String {
    format!(
        "schema = 1\nname = \"test\"\n[profile]\nbuiltin = \"textbook\"\n[traffic]\nseed = 7\nrequests = 10\n\
         [traffic.arrivals.poisson]\nrate = 5\n[traffic.lengths.fixed]\nprompt = 100\noutput = 20\n\
         [server.vllm]\nmax_num_seqs = 256\nmax_num_batched_tokens = 8192\nmax_model_len = 16384\n\
         enable_prefix_caching = false\n{server}\n{rest}"
    )
}

#[test]
fn the_form_in_full() {
    let text = r#"
schema = 1
name = "Chunked prefill against a 512-token ceiling"

[server.vllm]
version = "0.31.0"
runner = "v1"
max_num_seqs = 256
max_num_batched_tokens = 8192
max_model_len = 16384
attention_support = "UNIFORM_BATCH"
enable_prefix_caching = false
policy = "fcfs"
watermark = 0.01
async_scheduling = false
performance_mode = "interactivity"
kv_cache_memory_bytes = "20GiB"

[model]
name = "Llama-3-8B"
max_position_embeddings = 16384

[profile]
file = "profiles/my-gpu.toml"

[traffic]
seed = 7
requests = 20000
[traffic.arrivals.gamma]
rate = 12
burstiness = 0.5
[traffic.lengths.lognormal]
prompt = { p50 = 1000, mean = 1200, max = 8192 }
output = { mean = 200, sigma = 0.5, min = 2, max = 1024 }

[slo]
ttft = "500ms"
tpot = "40ms"

[[candidate]]
name = "engine default"
[[candidate]]
name = "no graphs"
cudagraph_mode = "NONE"
[[candidate]]
name = "textbook"
cudagraph_capture_sizes = [1, 4, 8, 16, 32]
compile_sizes = ["cudagraph_capture_sizes", 64]

[budget]
graph_memory = "2GiB"
startup = "60s"

[warm_up]
time = "30s"

[[expect]]
command = "ladder"
candidate = "textbook"
figure = "capture_sizes"
value = [1, 4, 8, 16, 32]
[[expect]]
command = "price"
figure = "exact_hit_rate"
value = 0.259792
within = 1e-6
"#;
    let scenario = Scenario::parse(text, "scenarios/chunked.toml", Path::new("scenarios")).expect("accepted");
    assert_eq!(scenario.warnings, [] as [String; 0]);
    assert_eq!((vllm(&scenario.server).version, vllm(&scenario.server).runner), (Version::V0_31_0, Some(Runner::V1)));
    assert_eq!(
        (vllm(&scenario.server).scheduler.max_num_seqs, vllm(&scenario.server).scheduler.watermark),
        (256, 0.01)
    );
    assert!(!vllm(&scenario.server).scheduler.async_scheduling);
    assert_eq!(vllm(&scenario.server).kv.kv_cache_memory_bytes, Some(Bytes(20 << 30)));
    assert_eq!(vllm(&scenario.server).graphs.attention_support, AttentionSupport::UniformBatch);
    assert_eq!(scenario.profile, ProfileSource::File("scenarios/profiles/my-gpu.toml".into()));
    assert_eq!(&text[scenario.profile_span.clone()], "\"profiles/my-gpu.toml\"");
    assert_eq!(scenario.slo.tpot, Some(SimDuration(40_000_000)));
    assert_eq!(
        scenario.budget,
        Budget { graph_memory: Some(Bytes(2 << 30)), startup: Some(SimDuration::from_s(60.0)) }
    );
    assert_eq!(scenario.warm_up, WarmUp::Time(SimDuration::from_s(30.0)));
    let TrafficKind::Synthetic { arrivals, lengths: Lengths::LogNormal { prompt, output } } = &scenario.traffic.kind
    else {
        panic!("{:?}", scenario.traffic.kind)
    };
    assert_eq!(*arrivals, Arrivals::Gamma { rate: 12.0, burstiness: 0.5, spread: Spread::Rescaled });
    assert_eq!((prompt.clip, output.clip), (Clip { min: 1, max: 8192 }, Clip { min: 2, max: 1024 }));
    // The mean of a lognormal is exp(mu + sigma²/2).
    assert!(((prompt.mu + prompt.sigma * prompt.sigma / 2.0).exp() - 1200.0).abs() < 1e-9);
    assert!(((output.mu + output.sigma * output.sigma / 2.0).exp() - 200.0).abs() < 1e-9);
    let [default, none, textbook] = &scenario.candidates[..] else { panic!("three candidates") };
    assert_eq!(vllm(&default.options).graphs, vllm(&scenario.server).graphs);
    assert_eq!(vllm(&none.options).graphs.cudagraph_mode, Some(CudagraphMode::None));
    assert_eq!(vllm(&none.options).graphs.performance_mode, vllm(&scenario.server).graphs.performance_mode);
    assert_eq!(vllm(&textbook.options).graphs.cudagraph_capture_sizes.as_deref(), Some(&[1, 4, 8, 16, 32][..]));
    assert_eq!(&text[textbook.span.clone()], "[1, 4, 8, 16, 32]");
    assert_eq!(scenario.expect[0].value, ExpectedValue::Numbers(vec![1.0, 4.0, 8.0, 16.0, 32.0]));
    assert_eq!(scenario.expect[1].command, Command::Price);
    assert!(scenario.simulable().is_ok());
}

#[test]
fn what_is_left_out_takes_the_engines_defaults() {
    let text = "schema = 1\nname = \"test\"\n[server.vllm]\nmax_model_len = 4\n[profile]\nbuiltin = \"textbook\"\n\
                [traffic]\nrequests = 3\n[traffic.arrivals.closed_loop]\nconcurrency = 2\n\
                [traffic.lengths.fixed]\nprompt = 2\noutput = 2\n";
    let scenario = parse(text).expect("accepted");
    let scheduler = &vllm(&scenario.server).scheduler;
    // The token budget is never above what the sequences can fill: 1024 of 4 tokens.
    assert_eq!((scheduler.max_num_seqs, scheduler.max_num_batched_tokens), (1024, 4096));
    assert_eq!((vllm(&scenario.server).version, vllm(&scenario.server).runner), (Version::V0_33_0, None));
    assert!((vllm(&scenario.server).kv.gpu_memory_utilization - 0.92).abs() < 1e-12);
    assert_eq!(scenario.candidates.len(), 1);
    assert_eq!(scenario.candidates[0].name, "engine default");
    assert!(scheduler.enable_prefix_caching && scheduler.policy == SchedulingPolicy::Fcfs);
    assert_eq!(scenario.warnings, [] as [String; 0]);
}

#[test]
fn limits_left_out_are_the_engines_on_the_profiles_device() {
    let text = |profile: &str, keys: &str| {
        format!(
            "schema = 1\nname = \"test\"\n[server.vllm]\nmax_model_len = 8192\nenable_prefix_caching = false\n{keys}\n\
             [profile]\nbuiltin = \"{profile}\"\n[traffic]\nrequests = 3\n[traffic.arrivals.closed_loop]\n\
             concurrency = 2\n[traffic.lengths.fixed]\nprompt = 2\noutput = 2\n"
        )
    };
    let limits = |profile: &str, keys: &str| {
        let scenario = parse(&text(profile, keys)).expect("accepted");
        assert_eq!(scenario.warnings, [] as [String; 0]);
        let scheduler = &vllm(&scenario.server).scheduler;
        (scheduler.max_num_seqs, scheduler.max_num_batched_tokens)
    };
    assert_eq!(limits("h200-llama-3.1-8b", ""), (1024, 8192));
    assert_eq!(limits("h200-llama-3.1-8b", "usage = \"offline\""), (1024, 16_384));
    assert_eq!(limits("a100-llama-3-8b", ""), (256, 2048));
    assert_eq!(limits("a100-llama-3-8b", "max_num_batched_tokens = 100"), (100, 100));
    assert_eq!(limits("rtx4090-llama-3.1-8b", "performance_mode = \"throughput\""), (512, 4096));
    assert_eq!(limits("rtx4090-llama-3.1-8b", "enable_chunked_prefill = false"), (256, 8192));
    // Another profile brings its own device.
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("scenario.toml");
    std::fs::write(&file, text("a100-llama-3-8b", "")).expect("written");
    let profile = Profile::builtin("h100-llama-2-7b").expect("built in");
    let elsewhere = Scenario::load_on(&file, Some(&profile)).expect("accepted");
    assert_eq!(vllm(&elsewhere.server).scheduler.max_num_seqs, 1024);
}

#[test]
fn attention_backends_settle_the_level() {
    let level = |keys: &str, tables: &str| {
        let text = scenario(keys, tables);
        parse(&text).map(|scenario| vllm(&scenario.server).graphs.clone()).map_err(|error| error.to_string())
    };
    let support = |keys: &str, tables: &str| level(keys, tables).map(|graphs| graphs.attention_support);
    let hopper = "[machine]\ncompute_capability = \"9.0\"\n";
    assert_eq!(support("attention_backend = \"FLASH_ATTN\"", hopper), Ok(AttentionSupport::Always));
    let hybrid = "attention_backend = [\"FLASH_ATTN\", \"MAMBA2\"]";
    assert_eq!(support(hybrid, hopper), Ok(AttentionSupport::UniformBatch));
    let flashinfer = "attention_backend = \"FLASHINFER\"\ndecode_context_parallel_size = 2";
    assert_eq!(support(flashinfer, ""), Ok(AttentionSupport::UniformSingleTokenDecode));
    let blackwell = "[machine]\ncompute_capability = \"10.0\"\n";
    assert!(level("", blackwell).is_ok_and(|graphs| graphs.data_center_blackwell));
    assert!(level("data_center_blackwell = true", hopper).is_err());
    let moe = "[model]\nname = \"m\"\narchitecture = \"DeepseekV32ForCausalLM\"\n";
    assert!(level("", moe).is_ok_and(|graphs| graphs.use_breakable_cudagraph));
    assert!(level("use_breakable_cudagraph = false", moe).is_ok_and(|graphs| !graphs.use_breakable_cudagraph));
    assert!(
        level("kv_connector = \"LMCacheConnectorV1\"", "").is_ok_and(|graphs| !graphs.kv_connector_needs_piecewise)
    );
    let layerwise = "kv_connector = \"LMCacheConnectorV1\"\nkv_connector_use_layerwise = true";
    assert!(level(layerwise, "").is_ok_and(|graphs| graphs.kv_connector_needs_piecewise));
    let pooling = "[model]\nname = \"m\"\ntask = \"pooling\"\n";
    let embeddings = parse(&scenario("", pooling)).expect("accepted");
    assert!(!vllm(&embeddings.server).scheduler.async_scheduling && embeddings.simulable().is_err());
}

#[test]
fn surprising_ladders_are_accepted_with_a_warning() {
    let warnings = |sizes: &str| {
        let text = scenario("", &format!("[[candidate]]\nname = \"a\"\ncudagraph_capture_sizes = {sizes}\n"));
        parse(&text).expect("accepted").warnings.join("\n")
    };
    assert_eq!(warnings("[1, 2, 4]"), "");
    insta::assert_snapshot!(warnings("[8, 1, 2, 8]"), @r"
    test.toml:21: candidate.cudagraph_capture_sizes: 1 comes after 8; the engine sorts the sizes
    test.toml:21: candidate.cudagraph_capture_sizes: 8 is there twice; the engine drops repeats
    ");
    assert_eq!(warnings("[1, 9000, 10000]"), "", "the graphs made from it warn of these, for each candidate");
}

#[test]
fn a_candidate_may_ask_what_the_engine_cannot_do() {
    let text = scenario(
        "compile_cache = \"warm\"\nmemory_profiler_estimate_cudagraphs = false\n",
        "[[candidate]]\nname = \"own\"\n[[candidate]]\nname = \"other\"\ncompile_cache = \"cold\"\n\
         [candidate.what_if]\ncapture_order = \"ascending\"\n",
    );
    let scenario = parse(&text).expect("accepted");
    assert!(!vllm(&scenario.server).kv.memory_profiler_estimate_cudagraphs);
    let [own, other] = [0, 1].map(|candidate| &vllm(&scenario.candidates[candidate].options).graphs);
    assert_eq!((own.compile_cache, own.what_if), (CompileCache::Warm, WhatIf::default()));
    assert_eq!(other.compile_cache, CompileCache::Cold);
    let asked = WhatIf { capture_order: CaptureOrder::Ascending, graph_pool: GraphPool::Shared };
    assert_eq!(other.what_if, asked);
}

#[test]
fn lengths_beyond_the_model_are_accepted_with_a_warning() {
    let warnings = |prompt: u32, output: u32| {
        let text = scenario("", "").replace("prompt = 100", &format!("prompt = {prompt}"));
        let text = text.replace("output = 20", &format!("output = {output}"));
        parse(&text).expect("accepted").warnings.join("\n")
    };
    assert_eq!(warnings(16000, 384), "");
    insta::assert_snapshot!(warnings(16000, 385), @"test.toml:12: traffic.lengths.fixed.output: prompt and output of up to 16385 tokens are longer than max_model_len (16384); outputs are cut there");
}

#[test]
fn steps_are_priced_and_not_simulated() {
    let text = "schema = 1\nname = \"test\"\n[server.vllm]\nmax_num_seqs = 64\nmax_num_batched_tokens = 512\n\
                enable_prefix_caching = false\n[profile]\nbuiltin = \"textbook\"\n\
                [[traffic.steps]]\ntokens = 9\nrequests = 9\ncount = 3\n\
                [[traffic.steps]]\ntokens = 520\nrequests = 9\nquery_len = 512\ncount = 1\n";
    let scenario = parse(text).expect("accepted");
    let TrafficKind::Steps(histogram) = &scenario.traffic.kind else { panic!("steps") };
    assert_eq!(histogram.rows[0], StepRow { tokens: 9, requests: 9, query_len: 1, count: 3, images: vec![] });
    assert_eq!(histogram.rows[1].query_len, 512);
    insta::assert_snapshot!(scenario.warnings.join("\n"), @"test.toml:9: traffic.steps: a step of 520 tokens and 9 requests is beyond max_num_batched_tokens (512) or max_num_seqs (64): this server never runs it");
    let fault = scenario.simulable().expect_err("no requests").to_string();
    assert_eq!(fault, "traffic: a histogram of step shapes has no requests to simulate");
}

#[test]
fn encoder_and_replay_graphs_of_main() {
    let text = |version: &str, images: &str| {
        format!(
            "schema = 1\nname = \"test\"\n[model]\nname = \"llama-3-8b\"\nencoder_budget_range = [64, 2048]\n\
             sliding_window = 128\n[server.vllm]\n{version}max_num_seqs = 64\nmax_num_batched_tokens = 4096\n\
             [profile]\nbuiltin = \"textbook\"\n[traffic]\n\
             steps = [{{ tokens = 900, requests = 1, count = 3{images} }}, {{ tokens = 900, requests = 1, count = 1 }}]\n"
        )
    };
    let main = "version = \"main\"\ncudagraph_mm_encoder = true\nencoder_cudagraph_max_frames_per_batch = 8\n\
                decoder_replay_trim_threshold = 900\n";
    let candidates = "[[candidate]]\nname = \"own\"\nencoder_cudagraph_token_budgets = [512, 1024]\n\
                      encoder_cudagraph_max_vision_items_per_batch = 4\ncudagraph_decoder_replay = false\n\
                      decoder_replay_cudagraph_capture_sizes = [256]\n";
    let made = parse(&(text(main, ", images = [500, 1200]") + candidates)).expect("accepted");
    let TrafficKind::Steps(histogram) = &made.traffic.kind else { panic!("steps") };
    assert_eq!((&histogram.rows[0].images[..], &histogram.rows[1].images[..]), (&[500, 1200][..], &[][..]));
    let graphs = &vllm(&made.candidates[0].options).graphs;
    let encoder = EncoderOptions {
        cudagraph_mm_encoder: true,
        encoder_cudagraph_token_budgets: vec![512, 1024],
        encoder_cudagraph_max_vision_items_per_batch: 4,
        encoder_cudagraph_max_frames_per_batch: Some(8),
    };
    let replay = ReplayOptions {
        cudagraph_decoder_replay: false,
        decoder_replay_cudagraph_capture_sizes: vec![256],
        decoder_replay_trim_threshold: 900,
    };
    assert_eq!((&graphs.encoder, &graphs.decoder_replay), (&encoder, &replay));
    let model = EncoderModel { min_budget: 64, max_budget: 2048, max_frames_per_video: 0 };
    assert_eq!((graphs.encoder_model, graphs.sliding_window), (Some(model), Some(128)));

    // What the model says stays a fact of the model; what asks for such graphs is refused before main.
    let fault = |text: String| parse(&text).expect_err("refused").to_string();
    let twice = "this shape has a row already";
    assert!(fault(text("version = \"0.33.0\"\n", "")).contains(twice), "without images the rows are one shape");
    let since = "known since vLLM main, not of vLLM 0.33.0";
    assert!(fault(text("", ", images = [500]")).contains(since));
    for key in ["cudagraph_decoder_replay = true", "encoder_cudagraph_max_frames_per_batch = 8"] {
        assert!(fault(text(&format!("{key}\n"), "")).contains(since), "{key}");
    }
}

#[test]
fn bad_rows_can_be_skipped_and_are_counted() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/invalid");
    let text = std::fs::read_to_string(folder.join("trace_bad_row.toml")).expect("a readable file");
    let text = text.replace("[traffic.arrivals.trace]", "[traffic.arrivals.trace]\nbad_rows = \"skip\"");
    let scenario = Scenario::parse(&text, "test.toml", &folder).expect("accepted");
    let mut stream = scenario.traffic.open(scenario.traffic.seed).expect("opens");
    let requests: Vec<Request> = stream.by_ref().collect::<Result<_, _>>().expect("reads");
    assert_eq!(requests.len(), 2);
    assert_eq!((stream.skipped_rows().count, stream.skipped_rows().first_line), (2, Some(3)));
}

#[test]
fn a_trace_without_a_unit_of_time_is_read_as_seconds_with_a_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("own.csv"), "ts,in,out\n1,5,6\n").expect("writes");
    let warnings = |trace: &str| {
        let text = scenario("", "");
        let traffic = text.find("[traffic.arrivals").expect("there")..text.find("[server").expect("there");
        let columns = "file = \"own.csv\"\ncolumns = { arrival = \"ts\", prompt = \"in\", output = \"out\" }\n";
        let text = text.replace(&text[traffic], &trace.replace("COLUMNS", columns));
        Scenario::parse(&text, "test.toml", folder.path()).expect("accepted").warnings.join("\n")
    };
    insta::assert_snapshot!(warnings("[traffic.arrivals.trace]\nCOLUMNS"), @"test.toml:10: traffic.arrivals.trace.columns: time_unit is not set: `ts` is read as seconds");
    assert_eq!(warnings("[traffic.arrivals.trace]\ntime_unit = \"s\"\nCOLUMNS"), "");
    assert_eq!(warnings("[traffic.arrivals.poisson]\nrate = 5\n[traffic.lengths.trace]\nCOLUMNS"), "", "no times");
}

/// Every place where `value` or something in it can be of another type, with the text of the whole then.
fn with_wrong_types(value: &toml::Value, rebuild: &dyn Fn(toml::Value) -> String, found: &mut Vec<String>) {
    use toml::Value;
    let mut table = toml::Table::new();
    table.insert("z".to_owned(), Value::Integer(1));
    for wrong in [
        Value::Integer(1),
        Value::Float(0.5),
        Value::Boolean(true),
        Value::String("poisson".to_owned()),
        Value::Array(vec![Value::Integer(1)]),
        Value::Array(vec![Value::Boolean(true)]),
        Value::Table(table),
        Value::Table(toml::Table::new()),
    ] {
        found.push(rebuild(wrong));
    }
    match value {
        Value::Table(table) => {
            for (key, inner) in table {
                let replace = |new: Value| {
                    let mut table = table.clone();
                    table.insert(key.clone(), new);
                    rebuild(Value::Table(table))
                };
                with_wrong_types(inner, &replace, found);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let replace = |new: Value| {
                let mut items = items.clone();
                items[0] = new;
                rebuild(Value::Array(items))
            };
            with_wrong_types(&items[0], &replace, found);
        }
        _ => {}
    }
}

/// An SGLang server with a candidate and its part of the traffic.
const SGLANG_TABLES: &str = r#"
[server.sglang]
version = "0.5.23"
context_length = 8192
schedule_conservativeness = 1.0
enable_mixed_chunk = false
disable_radix_cache = true
page_size = 1
disaggregation_mode = "null"
moe_a2a_backend = "none"
speculative_algorithm = "EAGLE"
speculative_num_draft_tokens = 4
model_family = "plain"
prefill_graph_blockers = ["lora"]
cuda_graph_backend_decode = "full"
cuda_graph_bs_decode = [1]
mem_fraction_static = 0.8
enable_post_capture_kv_sizing = true
cuda_graph_config.decode = { backend = "full", max_bs = 8, bs = [1] }
cuda_graph_config.prefill = { backend = "full", full_prefill_max_req = 8 }
[traffic]
requests = 10
output_end.eos.max_new_tokens = 8
return_logprob = true
[[candidate]]
name = "a"
cuda_graph_max_bs_prefill = 8
cuda_graph_config = { decode = { max_bs = 8 } }
"#;

#[test]
fn no_message_speaks_of_the_types_of_this_program() {
    let whole = r#"
schema = 1
name = "all keys"
profile.builtin = "textbook"
model = { name = "m", max_position_embeddings = 10 }
machine = { device = "d", driver = "r", host_cpu = "c" }
slo = { ttft = "1s", tpot = "1s", e2el = "1s" }
budget = { graph_memory = "1GiB", startup = "1s" }
warm_up.time = "1s"
[server.vllm]
max_num_seqs = 8
watermark = 0.01
policy = "fcfs"
version = "0.33.0"
runner = "v2"
cudagraph_mode = "NONE"
compilation_mode = "NONE"
splitting_ops = "default"
performance_mode = "balanced"
attention_support = "ALWAYS"
attention_backend = "TRITON_ATTN"
enforce_eager = false
enable_sp = false
enable_prefix_caching = false
kv_cache_memory_bytes = "1GiB"
compile_sizes = [1]
cudagraph_capture_sizes = [1]
dynamic_sd_schedule = [[1, 2, 3]]
ubatch = { num_ubatches = 2, decode_threshold = 1, prefill_threshold = 1 }
[traffic]
requests = 10
steps_file = "steps.csv"
priorities = [{ priority = 0, share = 1 }]
adapters = { count = 2, without = 0.1, popularity = { shares = [0.5, 0.5] } }
prefixes = [{ share = 0.5, tokens = 9, count = 2, within = [{ tokens = 9, count = 2 }] }]
acceptance.rates = [0.5]
[[traffic.steps]]
tokens = 1
requests = 1
count = 1
[[candidate]]
name = "a"
cudagraph_capture_sizes = [1]
[[expect]]
command = "run"
figure = "a"
value = 1
within = 0.1
"#;
    let vllm_tables = whole.find("[server.vllm]").expect("there");
    let sglang = format!("{}{SGLANG_TABLES}", &whole[..vllm_tables]);
    let mut documents = Vec::new();
    let arrivals = [
        "poisson = { rate = 1.0 }",
        "constant = { rate = 1.0 }",
        "gamma = { rate = 1.0, burstiness = 1.0, rescale = true }",
        "on_off = { on = \"1s\", off = \"1s\", rate_on = 1.0, rate_off = 1.0 }",
        "closed_loop = { concurrency = 1 }",
        "trace = { file = \"no.csv\", format = \"csv\", columns = { arrival = \"a\" }, time_unit = \"s\", \
         unsorted = \"sort\", bad_rows = \"skip\" }",
    ];
    let lengths = [
        "fixed = { prompt = 1, output = 1 }",
        "uniform = { prompt = [1, 2], output = [1, 2] }",
        "lognormal = { prompt = { p50 = 1, sigma = 1.0, max = 5 }, output = { p50 = 1, sigma = 1.0, max = 5 } }",
        "histogram = [{ prompt = 1, output = 1, count = 1 }]",
        "trace = { file = \"no.csv\", repeat = true }",
        "trace = { file = \"no.csv\", repeat = true }",
    ];
    let wholes = std::iter::once(sglang.as_str()).chain(std::iter::repeat(whole));
    for ((arrivals, lengths), whole) in arrivals.iter().zip(lengths).zip(wholes) {
        let text = format!("{whole}\n[traffic.arrivals]\n{arrivals}\n[traffic.lengths]\n{lengths}\n");
        let table: toml::Table = toml::from_str(&text).expect("TOML");
        let rebuild = |value: toml::Value| toml::to_string(&value).unwrap_or_default();
        with_wrong_types(&toml::Value::Table(table), &rebuild, &mut documents);
    }
    let mut seen = std::collections::BTreeSet::new();
    for text in documents {
        let Err(fault) = parse(&text) else { continue };
        let message = fault.to_string();
        for ours in
            ["struct ", "enum ", "variant", "File", "i64", "f64", "u32", "spanned", "Spanned", "newtype", "identifier"]
        {
            assert!(!message.contains(ours), "{message}\n{text}");
        }
        seen.insert(message);
    }
    assert!(seen.len() > 300, "{}", seen.len());
}

#[test]
fn drafts_need_somebody_who_says_how_many_are_accepted() {
    let drafting = "num_speculative_tokens = 3\nspec_method = \"eagle\"\ndrafting_time = \"400us\"\n\
                    dynamic_sd_schedule = [[1, 8, 3], [9, 256, 1]]";
    let fault = parse(&scenario(drafting, "")).expect("ladders can be computed").simulable().expect_err("refused");
    assert_eq!(fault.to_string(), "traffic: how many of the drafts are accepted is not given");
    let accepted = parse(&scenario(drafting, "[traffic.acceptance]\nrates = [0.7]")).expect("accepted");
    assert!(accepted.simulable().is_ok());
    assert_eq!(accepted.warnings, [] as [String; 0]);
    let Drafter { method, parallel_drafting, drafting_time } = vllm(&accepted.server).scheduler.drafter;
    assert_eq!((method, parallel_drafting), (SpeculativeMethod::Eagle, false));
    assert_eq!(drafting_time, Some(SimDuration(400_000)));
}

#[test]
fn what_is_odd_about_drafts_and_labels_is_said() {
    let warnings = |server: &str, rest: &str| parse(&scenario(server, rest)).expect("accepted").warnings.join("\n");
    let rates = "[traffic.acceptance]\nrates = [0.7]";
    insta::assert_snapshot!(warnings("num_speculative_tokens = 2\nvarlen_decode = true", rates), @r"
    test.toml:18: server.vllm.num_speculative_tokens: spec_method is not given: n-gram drafts are assumed, which take no room in a step, no KV blocks, and leave async_scheduling off unless it is set
    test.toml:18: server.vllm.num_speculative_tokens: drafting_time is not given: making the drafts costs nothing here, and steps are that much too short
    test.toml:19: server.vllm.varlen_decode: which drafts adaptive verification leaves out is not simulated: every request verifies all of them
    ");
    let draft_model = "num_speculative_tokens = 2\nspec_method = \"draft_model\"\ndrafting_time = \"1ms\"";
    insta::assert_snapshot!(warnings(draft_model, rates), @"test.toml:19: server.vllm.spec_method: with this drafter vLLM leaves async_scheduling off unless it is set: it is off here (set it to drop this warning)");
    insta::assert_snapshot!(warnings("", rates), @"test.toml:19: traffic.acceptance: num_speculative_tokens is 0: there are no drafts to accept");
    insta::assert_snapshot!(warnings("max_loras = 4", ""), @"test.toml:5: traffic: max_loras is set, but requests carry no adapters: every step runs without one");
    insta::assert_snapshot!(warnings("", "[[traffic.priorities]]\npriority = 1\nshare = 1"), @r#"test.toml:19: traffic.priorities: policy is "fcfs": priorities decide nothing"#);
    let asynchronous = |server: &str| {
        let scenario = parse(&scenario(server, rates)).expect("accepted");
        vllm(&scenario.server).scheduler.async_scheduling
    };
    assert!(!asynchronous(draft_model) && asynchronous(&format!("{draft_model}\nasync_scheduling = true")));
    assert!(
        asynchronous("num_speculative_tokens = 2\nspec_method = \"mtp\"")
            && !asynchronous("num_speculative_tokens = 2")
            && asynchronous("num_speculative_tokens = 0")
    );
}

#[test]
fn what_changes_nothing_is_said() {
    let warnings = |server: &str, rest: &str| parse(&scenario(server, rest)).expect("accepted").warnings.join("\n");
    let (rates, drafts) = ("[traffic.acceptance]\nrates = [0.7]", "num_speculative_tokens = 2\nspec_method = \"mtp\"");
    let schedule =
        |tiers: &str| warnings(&format!("{drafts}\ndrafting_time = \"1ms\"\ndynamic_sd_schedule = {tiers}"), rates);
    assert_eq!(schedule("[[1, 8, 2], [9, 16, 0]]"), "");
    assert!(schedule("[[2, 8, 1]]").contains("dynamic_sd_schedule: vLLM drops this schedule without a word"));
    assert!(schedule("[[1, 8, 9]]").contains("dynamic_sd_schedule: [1, 8, 9] drafts 2: no tier"));
    let prefix = |tokens: u32| format!("[[traffic.prefixes]]\ntokens = {tokens}");
    for (server, rest, said) in [
        ("dynamic_sd_schedule = [[1, 8, 1]]", "", "dynamic_sd_schedule: changes nothing"),
        ("spec_method = \"eagle\"", "", "spec_method: changes nothing"),
        ("parallel_drafting = true", "", "parallel_drafting: changes nothing"),
        ("max_num_scheduled_tokens = 4000000", "", "max_num_scheduled_tokens: changes nothing"),
        ("version = \"0.31.0\"\nprefill_schedule_interval = 4", "", "prefill_schedule_interval: changes nothing"),
        ("policy = \"priority\"", "", "all requests carry the same one"),
        ("", &prefix(64), "traffic.prefixes: enable_prefix_caching is false"),
    ] {
        let warnings = warnings(server, rest);
        assert!(warnings.contains(said), "{server}: {warnings}");
    }
    let priorities =
        "[[traffic.priorities]]\npriority = 0\nshare = 0.5\n[[traffic.priorities]]\npriority = 1\nshare = 0.5";
    assert_eq!(warnings("policy = \"priority\"\nprefill_schedule_interval = 4\nblock_size = 64", priorities), "");
    let cached = |block_size: u32| {
        let text = scenario(&format!("block_size = {block_size}"), &prefix(64));
        parse(&text.replace("enable_prefix_caching = false", "")).expect("accepted").warnings.join(
            "
",
        )
    };
    assert_eq!(cached(64), "");
    assert!(cached(128).contains("64 tokens are less than a block (block_size = 128)"));
}

#[test]
fn a_warm_up_leaves_requests_of_some_rank_to_measure() {
    let ranks = |warm_up: u32| {
        let rank =
            "[[traffic.rank]]\nrequests = 2\narrivals.poisson.rate = 5\nlengths.fixed = { prompt = 9, output = 2 }\n";
        let server = "[server.vllm]\nmax_model_len = 4096\nmax_num_seqs = 8\nmax_num_batched_tokens = 512\ndata_parallel_size = 2";
        parse(&format!(
            "schema = 1\nname = \"ranks\"\n{server}\n[profile]\nbuiltin = \"textbook\"\n[warm_up]\nrequests = {warm_up}\n\
             [traffic]\n{rank}{rank}"
        ))
    };
    assert!(ranks(3).is_ok());
    let fault = ranks(4).expect_err("both ranks are warm-up").to_string();
    assert!(fault.contains("leaving out 4 of 4 requests leaves nothing to measure"), "{fault}");
}

#[test]
fn labels_and_accepted_drafts() {
    let text = scenario(
        "max_loras = 2\npolicy = \"priority\"",
        r"
[[traffic.priorities]]
priority = 0
share = 0.9
[[traffic.priorities]]
priority = -5
share = 0.1
[traffic.adapters]
count = 3
without = 0.2
popularity = { zipf = 1.0 }
[[traffic.prefixes]]
share = 0.5
tokens = 40
within = [{ tokens = 20, count = 8 }, { tokens = 10 }]
[[traffic.prefixes]]
share = 0.25
tokens = 30
count = 2
[traffic.acceptance]
rates = [0.8, 0.8, 0]
",
    );
    let Traffic { labels, acceptance, .. } = parse(&text).expect("accepted").traffic;
    assert_eq!(labels.priorities, Some(Priorities { values: vec![0, -5], shares: Shares::new(&[0.9, 0.1]) }));
    assert_eq!(labels.adapters, Some(Adapters { without: 0.2, popularity: Shares::zipf(3, 1.0) }));
    let level = |tokens, count| PrefixLevel { tokens, count };
    let groups = vec![
        PrefixGroup { levels: vec![level(40, 1), level(20, 8), level(10, 1)] },
        PrefixGroup { levels: vec![level(30, 2)] },
    ];
    assert_eq!(labels.prefixes, Some(PrefixGroups { groups, shares: Shares::new(&[0.5, 0.25]) }));
    assert_eq!(acceptance, Some(Acceptance::Rates(vec![0.8, 0.8, 0.0])));
    let cycle = parse(&scenario("", "[traffic.acceptance]\ncycle = [2, 0]")).expect("accepted").traffic.acceptance;
    assert_eq!(cycle, Some(Acceptance::Cycle(vec![2, 0])));
    let empty = scenario("", "").replace("seed = 7", "seed = 7\npriorities = []\nprefixes = []");
    assert_eq!(parse(&empty).expect("accepted").traffic.labels, Labels::default());
}

#[test]
fn an_unreadable_scenario_says_so() {
    let fault = Scenario::load(Path::new("no/such.toml")).expect_err("refused");
    assert_eq!(fault.to_string(), "cannot read the scenario no/such.toml");
}

proptest::proptest! {
    /// Whatever one line of a scenario is replaced with, the answer is a scenario or an error.
    #[test]
    fn no_line_makes_the_checks_panic(line in 0_usize..18, value in "[-+0-9a-z\"\\[\\]{}.,= _\u{e9}]{0,24}", keep in proptest::bool::ANY) {
        let text = scenario("cudagraph_capture_sizes = [1, 2]", "[slo]\nttft = \"1s\"");
        let lines: Vec<String> = text.lines().enumerate().map(|(number, old)| match old.split_once('=') {
            Some((key, _)) if number == line && keep => format!("{key}= {value}"),
            _ if number == line => value.clone(),
            _ => old.to_owned(),
        }).collect();
        if let Err(fault) = parse(&lines.join("\n")) {
            proptest::prop_assert!(!calibrate::stderr::render(&fault, false).is_empty());
        }
    }
}

#[test]
fn a_trace_with_named_columns() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("own.csv"), "when,in,out\n2024-05-10 00:00:01,5,6\n2024-05-10 00:00:03.5,7,8\n")
        .expect("writes");
    let text = scenario("", "");
    let traffic = text.find("[traffic.arrivals").expect("there")..text.find("[server").expect("there");
    let text = text.replace(
        &text[traffic],
        "[traffic.arrivals.trace]\nfile = \"own.csv\"\ntime_unit = \"date\"\nrate_multiplier = 2\n\
         columns = { arrival = \"when\", prompt = \"in\", output = \"out\" }\n",
    );
    let scenario = Scenario::parse(&text, "test.toml", folder.path()).expect("accepted");
    let requests: Vec<Request> = scenario.traffic.open(7).expect("opens").collect::<Result<_, _>>().expect("reads");
    let expected = |ns, prompt_tokens, output_tokens| Request::plain(SimTime(ns), prompt_tokens, output_tokens);
    assert_eq!(requests, [expected(0, 5, 6), expected(1_250_000_000, 7, 8)]);
}

#[test]
fn what_is_known_to_ladders_only_is_not_simulated() {
    for option in [
        "ubatch = { num_ubatches = 2, decode_threshold = 32, prefill_threshold = 512 }",
        "data_parallel_size = 2\nprefill_schedule_interval = 4",
        "tensor_parallel_size = 2",
    ] {
        let accepted = parse(&scenario(option, "")).expect("ladders can be computed");
        let fault = accepted.simulable().expect_err("not simulated").to_string();
        assert!(fault.ends_with("not simulated yet"), "{fault}");
    }
    assert!(
        parse(&scenario("num_speculative_tokens = 0\ndata_parallel_size = 2\ntensor_parallel_size = 1", ""))
            .expect("accepted")
            .simulable()
            .is_ok()
    );
}

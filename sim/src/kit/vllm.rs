//! vLLM's kit: `vllm bench sweep serve` over the sets of flags, with the files that it reads.
//!
//! Forms as in vLLM's documentation of parameter sweeps: parameters are a list of objects whose `_benchmark_name` names
//! the results; what is true becomes a switch, an object becomes JSON.

use serde_json::{Map, Value, json};

use super::requests::{Lengths, Requests};
use super::{Flagged, KitFile, RUNS, SCRIPT, client, lines};
use crate::engine::options::EngineOptions;
use crate::engine::vllm::options::{KvOptions, Runner, SchedulerOptions, SchedulingPolicy, VllmOptions};
use crate::flags::Target;
use crate::flags::shell;
use crate::scenario::Scenario;
use crate::traffic::{Arrivals, TrafficKind};

/// The script, the parameters of the servers and of the client, and the requests.
pub(super) fn files(
    scenario: &Scenario,
    sets: &[Flagged<'_>],
    target: Target,
    requests: &[Requests],
    not_reproduced: &mut Vec<String>,
) -> Vec<KitFile> {
    let servers: Vec<Map<String, Value>> = sets.iter().map(|flagged| server_parameters(&flagged.set.options)).collect();
    let shared: Map<String, Value> = servers[0]
        .clone()
        .into_iter()
        .filter(|(key, value)| servers.iter().all(|own| own.get(key) == Some(value)))
        .collect();
    let serve_params: Vec<Value> = sets
        .iter()
        .zip(&servers)
        .map(|(flagged, server)| {
            let mut own = Map::from_iter([("_benchmark_name".to_owned(), Value::from(flagged.set.name.clone()))]);
            own.extend(server.clone().into_iter().filter(|(key, _)| !shared.contains_key(key)));
            own.extend(flagged.advice.json.as_object().cloned().unwrap_or_default());
            Value::Object(own)
        })
        .collect();
    let bench_params: Vec<Value> = requests
        .iter()
        .map(|drawn| {
            json!({
                "_benchmark_name": format!("seed {}", drawn.seed),
                "seed": drawn.seed,
                "dataset_path": drawn.file_name(),
                "timed_trace_chunk_hash_size": drawn.chunk_tokens,
                "num_prompts": drawn.count(),
            })
        })
        .collect();
    by_hand(sets, not_reproduced);
    let first = &requests[0];
    not_reproduced.push(format!(
        "A client without the dataset timed_trace (see `vllm bench serve --help`) comes near with: {}",
        shell::line(&near(scenario, first))
    ));
    let mut files = vec![
        KitFile { name: SCRIPT.to_owned(), text: script(scenario, sets, target, &shared, first) },
        KitFile { name: "serve_params.json".to_owned(), text: pretty(&serve_params) },
        KitFile { name: "bench_params.json".to_owned(), text: pretty(&bench_params) },
    ];
    files.extend(requests.iter().map(Requests::file));
    files
}

fn script(
    scenario: &Scenario,
    sets: &[Flagged<'_>],
    target: Target,
    server: &Map<String, Value>,
    requests: &Requests,
) -> String {
    let mut serve = vec!["vllm serve $MODEL".to_owned()];
    serve.extend(server.iter().map(|(name, value)| argument(name, value)));
    serve.push("--cudagraph-metrics ${SERVER_FLAGS:-}".to_owned());
    let mut bench = vec!["vllm bench serve --model $MODEL".to_owned()];
    bench.push(shell::line(&exact(requests)));
    bench.extend(
        Some(client::goodput(&scenario.slo)).filter(|words| !words.is_empty()).map(|words| shell::line(&words)),
    );
    bench.push("--metric-percentiles 50,90,99".to_owned());
    let runner = sets[0].set.options.vllm().and_then(|options| options.runner);
    let runner = runner.map(|runner| format!("export VLLM_USE_V2_MODEL_RUNNER={}", u8::from(runner == Runner::V2)));
    let variables = sets[0].advice.environment.iter().map(|(name, value)| format!("export {name}={value}"));
    let environment = lines(runner.into_iter().chain(variables));
    format!(
        "#!/bin/sh\n\
         # Serves each set of flags with {target} and sends it the same requests, {RUNS} times for each seed.\n\
         # MODEL is what the server loads; SERVER_FLAGS is what it needs beside these flags.\n\
         set -eu\n\
         : \"${{MODEL:?name the model that the server loads}}\"\n\
         {environment}\
         vllm bench sweep serve \\\n    \
             --serve-cmd \"{}\" \\\n    \
             --bench-cmd \"{}\" \\\n    \
             --serve-params serve_params.json \\\n    \
             --bench-params bench_params.json \\\n    \
             --num-runs {RUNS} \\\n    \
             --show-stdout \\\n    \
             -o results > sweep.log 2>&1\n",
        serve.join(" "),
        bench.join(" ")
    )
}

/// The client's options that send exactly these requests.
fn exact(requests: &Requests) -> Vec<String> {
    let mut words: Vec<String> =
        ["--dataset-name", "timed_trace", "--timed-trace-sec-multiplier", "1"].map(str::to_owned).into();
    words.extend(["--no-oversample", "--ignore-eos"].map(str::to_owned));
    match requests.concurrency {
        None => words.push("--self-timed".to_owned()),
        Some(clients) => {
            words.extend(["--no-self-timed", "--request-rate", "inf", "--max-concurrency"].map(str::to_owned));
            words.push(clients.to_string());
        }
    }
    words
}

/// The client's own generator, as near to the traffic as it comes: its gamma arrivals, its uniform lengths.
fn near(scenario: &Scenario, requests: &Requests) -> Vec<String> {
    let (prompts, outputs) = (requests.prompts(), requests.outputs());
    let whole = |lengths: Lengths| format!("{:.0}", lengths.mean.max(1.0));
    let mut words: Vec<String> =
        ["--dataset-name", "random", "--ignore-eos", "--random-input-len"].map(str::to_owned).into();
    words.extend([whole(prompts), "--random-output-len".to_owned(), whole(outputs)]);
    // One ratio for both: outputs decide how decode batches grow.
    words.extend(["--random-range-ratio".to_owned(), format!("{:.2}", outputs.half_width)]);
    words.extend(["--num-prompts".to_owned(), requests.count().to_string()]);
    if let Some(clients) = requests.concurrency {
        words.extend(["--request-rate", "inf", "--max-concurrency"].map(str::to_owned));
        words.push(clients.to_string());
        return words;
    }
    let burstiness = match &scenario.traffic.kind {
        TrafficKind::Synthetic { arrivals: Arrivals::Poisson { .. }, .. } => Some(1.0),
        TrafficKind::Synthetic { arrivals: Arrivals::Gamma { burstiness, .. }, .. } => Some(*burstiness),
        TrafficKind::Synthetic { arrivals: Arrivals::Constant { .. }, .. } => Some(f64::INFINITY),
        TrafficKind::Synthetic { .. } | TrafficKind::Trace(_) | TrafficKind::Ranks(_) | TrafficKind::Steps(_) => None,
    };
    let rate = client::mean_rate(scenario, requests);
    words.extend(rate.map(|rate| ["--request-rate".to_owned(), client::significant(rate)]).into_iter().flatten());
    words.extend(burstiness.map(|shape| ["--burstiness".to_owned(), shape.to_string()]).into_iter().flatten());
    words
}

/// The server's own flags, those that the engine would not set by itself.
fn server_parameters(options: &EngineOptions) -> Map<String, Value> {
    let EngineOptions::Vllm(VllmOptions { scheduler, kv, graphs, .. }) = options else { return Map::new() };
    let (default, kv_default) = (SchedulerOptions::default(), KvOptions::default());
    let mut all: Vec<(&str, Option<Value>)> = vec![
        ("max_num_seqs", Some(scheduler.max_num_seqs.into())),
        ("max_num_batched_tokens", Some(scheduler.max_num_batched_tokens.into())),
        ("max_model_len", Some(scheduler.max_model_len.into())),
    ];
    let mut differs = |name, differs: bool, value: Value| all.push((name, differs.then_some(value)));
    differs("block_size", scheduler.block_size != default.block_size, scheduler.block_size.into());
    let utilization = kv.gpu_memory_utilization;
    let is_default = (utilization - kv_default.gpu_memory_utilization).abs() < f64::EPSILON;
    differs("gpu_memory_utilization", !is_default, utilization.into());
    differs("num_gpu_blocks_override", kv.num_gpu_blocks_override.is_some(), kv.num_gpu_blocks_override.into());
    let bytes = kv.kv_cache_memory_bytes.map(|bytes| bytes.0);
    differs("kv_cache_memory_bytes", bytes.is_some(), bytes.into());
    differs("enable_chunked_prefill", !scheduler.enable_chunked_prefill, false.into());
    differs("async_scheduling", !scheduler.async_scheduling, false.into());
    differs("enable_prefix_caching", !scheduler.enable_prefix_caching, false.into());
    differs("scheduling_policy", scheduler.policy == SchedulingPolicy::Priority, "priority".into());
    let threshold = scheduler.long_prefill_token_threshold;
    differs("long_prefill_token_threshold", threshold > 0, threshold.into());
    differs("tensor_parallel_size", graphs.tensor_parallel_size > 1, graphs.tensor_parallel_size.into());
    differs("data_parallel_size", graphs.data_parallel_size > 1, graphs.data_parallel_size.into());
    differs("enable_lora", graphs.max_loras.is_some(), true.into());
    differs("max_loras", graphs.max_loras.is_some(), graphs.max_loras.into());
    all.into_iter().filter_map(|(name, value)| value.map(|value| (name.to_owned(), value))).collect()
}

/// What of the server no parameter of this kit sets.
fn by_hand(sets: &[Flagged<'_>], not_reproduced: &mut Vec<String>) {
    let EngineOptions::Vllm(options) = &sets[0].set.options else { return };
    let (scheduler, graphs, default) = (&options.scheduler, &options.graphs, SchedulerOptions::default());
    if graphs.num_speculative_tokens > 0 {
        not_reproduced.push(format!(
            "Speculative decoding is yours to turn on: --speculative-config in SERVER_FLAGS, with method {} and \
             num_speculative_tokens {}.",
            scheduler.drafter.method, graphs.num_speculative_tokens
        ));
    }
    let set = [
        ("max_num_scheduled_tokens", scheduler.max_num_scheduled_tokens.is_some()),
        ("max_num_active_seqs", scheduler.max_num_active_seqs.is_some()),
        ("long_prefill_token_threshold_adaptive", scheduler.long_prefill_token_threshold_adaptive),
        ("prefill_schedule_interval", scheduler.prefill_schedule_interval != default.prefill_schedule_interval),
        ("scheduler_reserve_full_isl", scheduler.scheduler_reserve_full_isl != default.scheduler_reserve_full_isl),
        ("watermark", scheduler.watermark > 0.0),
    ];
    let names: Vec<&str> = set.into_iter().filter(|(_, set)| *set).map(|(name, _)| name).collect();
    if !names.is_empty() {
        not_reproduced.push(format!("The scenario also sets {}: put them into SERVER_FLAGS.", names.join(", ")));
    }
    let shared = &sets[0].advice.environment;
    if sets.iter().any(|flagged| flagged.advice.environment != *shared) {
        not_reproduced.push(
            "The sets need different environment variables, which a sweep cannot change: run it once for each and take the \
             other sets out of serve_params.json."
                .to_owned(),
        );
    }
}

/// A parameter as `vllm serve` takes it.
fn argument(name: &str, value: &Value) -> String {
    let flag = name.replace('_', "-");
    match value {
        Value::Bool(true) => format!("--{flag}"),
        Value::Bool(false) => format!("--no-{flag}"),
        Value::String(word) => format!("--{flag} {word}"),
        other => format!("--{flag} {other}"),
    }
}

fn pretty(values: &[Value]) -> String {
    serde_json::to_string_pretty(values).expect("a value in memory can be written") + "\n"
}

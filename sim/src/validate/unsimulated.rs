//! Settings of a run that the simulated server does not have. They are named with every answer, so that no figure hides one.

use calibrate::stderr::printable;
use serde_json::Value;

use super::run::Meta;

/// Flags that are simulated, or that change neither steps nor queues.
const FLAGS: [&str; 30] = [
    "async_scheduling",
    "block_size",
    "data_parallel_size",
    "disable_log_requests",
    "disable_log_stats",
    "download_dir",
    "enable_chunked_prefill",
    "enable_prefix_caching",
    "enforce_eager",
    "gpu_memory_utilization",
    "hf_token",
    "host",
    "load_format",
    "long_prefill_token_threshold",
    "max_model_len",
    "max_num_batched_tokens",
    "max_num_seqs",
    "model",
    "num_gpu_blocks_override",
    "pipeline_parallel_size",
    "port",
    "revision",
    "scheduler_reserve_full_isl",
    "seed",
    "served_model_name",
    "speculative_config",
    "tensor_parallel_size",
    "tokenizer",
    "tokenizer_mode",
    "trust_remote_code",
];

/// Keys of `meta.json` with the values that they have in what is simulated.
const AS_SIMULATED: [(&str, &[&str]); 30] = [
    ("schema_version", &["1"]),
    ("engine_kwargs.dtype", DTYPES),
    ("engine_kwargs.kv_cache_dtype", DTYPES),
    ("resolved_config.optimization_level", &["2"]),
    ("resolved_config.performance_mode", &["balanced"]),
    ("resolved_config.lora_config", &["null"]),
    ("resolved_config.quant_config", &["null"]),
    ("resolved_config.kv_transfer_config", &["null"]),
    ("resolved_config.ec_transfer_config", &["null"]),
    ("resolved_config.attention_config.backend", &["null", "FLASH_ATTN"]),
    ("resolved_config.cache_config.cache_dtype", DTYPES),
    ("resolved_config.cache_config.kv_offloading_size", &["null"]),
    ("resolved_config.cache_config.kv_sharing_fast_prefill", &["false"]),
    ("resolved_config.cache_config.sliding_window", &["null"]),
    ("resolved_config.compilation_config.compile_sizes", &["null", "[]"]),
    ("resolved_config.compilation_config.mode", &["3"]),
    ("resolved_config.compilation_config.use_inductor_graph_partition", &["false"]),
    ("resolved_config.model_config.dtype", DTYPES),
    ("resolved_config.model_config.quantization", &["null"]),
    ("resolved_config.parallel_config.decode_context_parallel_size", &["1"]),
    ("resolved_config.parallel_config.enable_dbo", &["false"]),
    ("resolved_config.parallel_config.enable_expert_parallel", &["false"]),
    ("resolved_config.parallel_config.prefill_context_parallel_size", &["1"]),
    ("resolved_config.parallel_config.ubatch_size", &["0"]),
    ("resolved_config.scheduler_config.is_multimodal_model", &["false"]),
    ("resolved_config.scheduler_config.max_num_partial_prefills", &["1"]),
    ("resolved_config.scheduler_config.max_num_scheduled_tokens", &["null"]),
    ("resolved_config.scheduler_config.policy", &["fcfs"]),
    ("resolved_config.scheduler_config.runner_type", &["generate"]),
    ("resolved_config.scheduler_config.scheduler_cls", &["null"]),
];

/// Types of two bytes, as the weights and the KV cache of kernel tables have.
const DTYPES: &[&str] = &["auto", "bfloat16", "float16", "half", "torch.bfloat16", "torch.float16"];

/// The first release whose only engine by default is the one that is simulated.
const V1_SINCE: (u32, u32) = (0, 8);

/// What a `meta.json` says that is not simulated: `key = value` each.
#[must_use]
pub fn unsimulated(meta: &Meta) -> Vec<String> {
    let differs = AS_SIMULATED.iter().filter_map(|(path, simulated)| {
        let value = meta.at(path).map(text)?;
        (!simulated.contains(&value.as_str())).then(|| named(path, &value))
    });
    let flags = meta.at("engine_kwargs").and_then(Value::as_object).into_iter().flatten();
    let is_unknown = |flag: &str| {
        let of_table = |path: &str| path.strip_prefix("engine_kwargs.") == Some(flag);
        !FLAGS.contains(&flag) && !AS_SIMULATED.iter().any(|(path, _)| of_table(path))
    };
    let unknown = flags.filter(|(flag, value)| {
        let is_off = value.is_null() || value.as_bool() == Some(false);
        !is_off && is_unknown(flag)
    });
    let unknown = unknown.map(|(flag, value)| named(&format!("engine_kwargs.{flag}"), &text(value)));
    let version = &meta.vllm_version;
    let old =
        is_before_v1(version).then(|| format!("the engine V0, which vLLM {} runs by default", printable(version)));
    differs.chain(unknown).chain(old).collect()
}

fn is_before_v1(version: &str) -> bool {
    let mut numbers = version.trim_start_matches('v').split('.').map(|number| number.parse::<u32>().ok());
    let version = numbers.next().flatten().zip(numbers.next().flatten());
    version.is_some_and(|version| version < V1_SINCE)
}

/// A string as it is, anything else as JSON.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn named(path: &str, value: &str) -> String {
    /// More of a value than this tells nobody what it is.
    const CHARACTERS_MAX: usize = 80;
    let cut: String = value.chars().take(CHARACTERS_MAX).collect();
    let dots = if cut.len() < value.len() { "..." } else { "" };
    format!("{} = {}{dots}", printable(path), printable(&cut))
}

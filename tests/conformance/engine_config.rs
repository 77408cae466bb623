//! The graph part of a whole engine configuration, before any attention backend is known.

use serde::Deserialize;
use serde_json::{Value, json};
use sim::engine::vllm::config::GraphConfig;
use sim::engine::vllm::options::{
    CompilationMode, CudagraphMode, GraphOptions, KvOptions, OptimizationLevel, Runner, SchedulerOptions, SplittingOps,
    Version, VllmOptions,
};

use crate::modes::splitting_ops;
use crate::vectors::check_lines;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    vllm: Version,
    use_v2_model_runner: bool,
    max_num_seqs: u32,
    max_num_batched_tokens: u32,
    num_speculative_tokens: u32,
    data_center_blackwell: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    optimization_level: usize,
    enforce_eager: bool,
    cudagraph_mode: Option<CudagraphMode>,
    compilation_mode: Option<CompilationMode>,
    #[serde(deserialize_with = "splitting_ops")]
    splitting_ops: SplittingOps,
    cudagraph_capture_sizes: Option<Vec<u32>>,
    max_cudagraph_capture_size: Option<u32>,
}

fn options(config: &Config, input: &Input) -> VllmOptions {
    VllmOptions {
        version: config.vllm,
        runner: Some(if config.use_v2_model_runner { Runner::V2 } else { Runner::V1 }),
        scheduler: SchedulerOptions {
            max_num_seqs: config.max_num_seqs,
            max_num_batched_tokens: config.max_num_batched_tokens,
            ..SchedulerOptions::default()
        },
        kv: KvOptions::default(),
        graphs: GraphOptions {
            optimization_level: OptimizationLevel::ALL[input.optimization_level],
            cudagraph_mode: input.cudagraph_mode,
            compilation_mode: input.compilation_mode,
            enforce_eager: input.enforce_eager,
            splitting_ops: input.splitting_ops.clone(),
            cudagraph_capture_sizes: input.cudagraph_capture_sizes.clone(),
            max_cudagraph_capture_size: input.max_cudagraph_capture_size,
            num_speculative_tokens: config.num_speculative_tokens,
            data_center_blackwell: config.data_center_blackwell,
            ..GraphOptions::default()
        },
    }
}

fn answer(config: &Config, input: &Input) -> Value {
    let options = options(config, input);
    match GraphConfig::build(&options) {
        // pydantic wraps whatever the configuration raises.
        Err(_) => json!({ "error": "ValidationError" }),
        Ok(made) => json!({
            "async_scheduling": options.scheduler.async_scheduling,
            "attention_in_splitting_ops": made.splitting.attention_in_splitting_ops,
            "capture_sizes": made.capture.ladder.sizes,
            "compilation_mode": made.compilation,
            "cudagraph_mode": made.mode,
            "max_capture_size": made.capture.ladder.ceiling,
            "num_of_warmups": made.cudagraph_num_of_warmups,
            "num_splitting_ops": made.splitting.ops.len(),
        }),
    }
}

#[test]
fn engine_config() {
    check_lines("vllm/engine_config.jsonl", answer);
}

//! The capture ladder and runner V1's rounding of it.

use serde::Deserialize;
use serde_json::{Value, json};
use sim::engine::vllm::error::EngineError;
use sim::engine::vllm::ladder::{CaptureLadder, Ladder};
use sim::engine::vllm::options::{
    CompileSize, CudagraphMode, GraphOptions, KvOptions, PerformanceMode, Runner, SchedulerOptions, Version,
    VllmOptions,
};

use crate::vectors::check_lines;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LadderConfig {
    vllm: Version,
    max_num_seqs: u32,
    max_num_batched_tokens: u32,
    num_speculative_tokens: u32,
    data_center_blackwell: bool,
    cudagraph_mode: CudagraphMode,
    enforce_eager: bool,
    performance_mode: PerformanceMode,
    tensor_parallel_size: u32,
    dynamic_sd_schedule: Option<Vec<(u32, u32, u32)>>,
    #[serde(default)]
    enable_sp: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LadderInput {
    cudagraph_capture_sizes: Option<Vec<u32>>,
    max_cudagraph_capture_size: Option<u32>,
    compile_sizes: Option<Vec<Value>>,
}

/// The engine's exception for a refusal.
pub(crate) fn python_error(error: &EngineError) -> Value {
    json!({ "error": error.class().python_name().unwrap_or("none of the engine's") })
}

fn compile_size(value: &Value) -> CompileSize {
    match value {
        Value::String(word) => CompileSize::Word(word.clone()),
        number => CompileSize::Tokens(
            number.as_u64().and_then(|size| u32::try_from(size).ok()).expect("compile sizes are words or sizes"),
        ),
    }
}

fn capture_sizes(config: &LadderConfig, input: &LadderInput) -> Value {
    let options = VllmOptions {
        version: config.vllm,
        runner: Some(Runner::V2),
        scheduler: SchedulerOptions {
            max_num_seqs: config.max_num_seqs,
            max_num_batched_tokens: config.max_num_batched_tokens,
            ..SchedulerOptions::default()
        },
        kv: KvOptions::default(),
        graphs: GraphOptions {
            num_speculative_tokens: config.num_speculative_tokens,
            data_center_blackwell: config.data_center_blackwell,
            enforce_eager: config.enforce_eager,
            performance_mode: config.performance_mode,
            tensor_parallel_size: config.tensor_parallel_size,
            dynamic_sd_schedule: config.dynamic_sd_schedule.clone(),
            enable_sp: config.enable_sp,
            cudagraph_capture_sizes: input.cudagraph_capture_sizes.clone(),
            max_cudagraph_capture_size: input.max_cudagraph_capture_size,
            compile_sizes: input.compile_sizes.iter().flatten().map(compile_size).collect(),
            ..GraphOptions::default()
        },
    };
    match CaptureLadder::generate(&options, config.cudagraph_mode) {
        Err(error) => python_error(&error),
        Ok(made) => {
            let mut compile_sizes = made.compile_sizes;
            compile_sizes.sort_unstable();
            json!({
                "capture_sizes": made.ladder.sizes,
                "max_capture_size": made.ladder.ceiling,
                "num_sizes": made.ladder.sizes.len(),
                "compile_sizes": compile_sizes,
            })
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RoundingConfig {
    #[serde(rename = "vllm")]
    _vllm: Version,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RoundingInput {
    capture_sizes: Vec<u32>,
    max_capture_size: u32,
    uniform_decode_query_len: u32,
}

fn rounding(_: &RoundingConfig, input: &RoundingInput) -> Value {
    let ladder = Ladder { sizes: input.capture_sizes.clone(), ceiling: input.max_capture_size };
    match ladder.rounded(input.uniform_decode_query_len) {
        Err(error) => python_error(&error),
        Ok(rounded) => json!({ "capture_sizes": rounded.sizes, "max_capture_size": rounded.ceiling }),
    }
}

#[test]
fn capture_sizes_v1() {
    check_lines("vllm/capture_sizes_v1.jsonl", capture_sizes);
}

#[test]
fn adjust_spec_v1() {
    check_lines("vllm/adjust_spec_v1.jsonl", rounding);
}

//! The graph part of a whole engine configuration, before any attention backend is known.

use serde::Deserialize;
use serde_json::{Value, json};
use sim::engine::vllm::config::GraphConfig;
use sim::engine::vllm::options::{
    CompilationMode, CudagraphMode, GraphOptions, KvOptions, Runner, SchedulerOptions, SplittingOps, Version,
    VllmOptions,
};

use crate::vectors::{Tally, Vector, same, vectors};

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
    optimization_level: u32,
    enforce_eager: bool,
    cudagraph_mode: Option<CudagraphMode>,
    compilation_mode: Option<CompilationMode>,
    splitting_ops: SplittingOps,
    cudagraph_capture_sizes: Option<Vec<u32>>,
    max_cudagraph_capture_size: Option<u32>,
}

/// Options as a user on another optimization level has to write them for this program, which knows the default level.
fn options(config: &Config, input: &Input) -> VllmOptions {
    let (mode, compilation) = match input.optimization_level {
        0 => (CudagraphMode::None, CompilationMode::None),
        1 => (CudagraphMode::Piecewise, CompilationMode::VllmCompile),
        2 | 3 => (CudagraphMode::FullAndPiecewise, CompilationMode::VllmCompile),
        other => panic!("optimization_level {other}"),
    };
    let is_default = input.optimization_level == 2;
    VllmOptions {
        version: config.vllm,
        runner: if config.use_v2_model_runner { Runner::V2 } else { Runner::V1 },
        scheduler: SchedulerOptions {
            max_num_seqs: config.max_num_seqs,
            max_num_batched_tokens: config.max_num_batched_tokens,
            ..SchedulerOptions::default()
        },
        kv: KvOptions::default(),
        graphs: GraphOptions {
            cudagraph_mode: input.cudagraph_mode.or(Some(mode).filter(|_| !is_default)),
            compilation_mode: input.compilation_mode.or(Some(compilation).filter(|_| !is_default)),
            enforce_eager: input.enforce_eager,
            splitting_ops: input.splitting_ops,
            cudagraph_capture_sizes: input.cudagraph_capture_sizes.clone(),
            max_cudagraph_capture_size: input.max_cudagraph_capture_size,
            num_speculative_tokens: config.num_speculative_tokens,
            data_center_blackwell: config.data_center_blackwell,
            ..GraphOptions::default()
        },
    }
}

fn answer(config: &Config, input: &Input) -> Value {
    match GraphConfig::build(&options(config, input)) {
        // pydantic wraps whatever the configuration raises.
        Err(_) => json!({ "error": "ValidationError" }),
        Ok(made) => json!({
            "attention_in_splitting_ops": made.splitting.attention_in_splitting_ops,
            "capture_sizes": made.capture.ladder.sizes,
            "compilation_mode": made.compilation,
            "cudagraph_mode": made.mode,
            "max_capture_size": made.capture.ladder.ceiling,
        }),
    }
}

#[test]
fn engine_config() {
    const FILE: &str = "vllm/engine_config.jsonl";
    let Some(lines) = vectors(FILE) else { return };
    let mut tally = Tally::new(FILE);
    for mut line in lines {
        // Not the graphs' business: the scheduler's stepping, warm-up runs, and the length of a list of names.
        for field in ["async_scheduling", "num_of_warmups", "num_splitting_ops"] {
            if let Some(fields) = line["expected"].as_object_mut() {
                fields.remove(field);
            }
        }
        let text = line.to_string();
        let outcome = serde_json::from_value::<Vector<Config, Input>>(line)
            .map_err(|error| format!("not understood: {error}"))
            .and_then(|vector| same(&answer(&vector.config, &vector.input), &vector.expected));
        tally.count(outcome.map_err(|message| format!("{message}\n  {text}")));
    }
    tally.finish();
}

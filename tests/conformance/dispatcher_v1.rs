//! Runner V1's dispatcher: its keys, and its answers.

use serde::Deserialize;
use serde_json::{Value, json};
use sim::engine::shape::RuntimeMode;
use sim::engine::vllm::dispatch::explain::{NoTrace, RuleCheck};
use sim::engine::vllm::dispatch::lora::LoraSlots;
use sim::engine::vllm::dispatch::v1::{CudagraphDispatcher, DispatcherOptions, Key, ModeSet, Query};
use sim::engine::vllm::error::EngineError;
use sim::engine::vllm::ladder::Ladder;
use sim::engine::vllm::options::{CudagraphMode, Version};

use crate::ladder::python_error;
use crate::vectors::{check_cases, check_lines};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(rename = "vllm")]
    _vllm: Version,
    capture_sizes: Vec<u32>,
    max_capture_size: Option<u32>,
    max_num_seqs: u32,
    num_speculative_tokens: u32,
    cudagraph_mode: CudagraphMode,
    max_loras: Option<u32>,
    specialize_active_lora: bool,
    cudagraph_specialize_lora: bool,
    #[serde(default)]
    compile_sizes: Option<Vec<u32>>,
    #[serde(default = "yes")]
    initialize: bool,
}

const fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoInput {}

/// `[num_tokens, uniform_decode, has_lora, num_active_loras, valid_modes, invalid_modes]`
type Case = (u32, u8, u8, u32, Option<Vec<RuntimeMode>>, Option<Vec<RuntimeMode>>);

fn dispatcher(config: &Config) -> Result<CudagraphDispatcher, EngineError> {
    let options = DispatcherOptions {
        max_num_seqs: config.max_num_seqs,
        query_len: config.num_speculative_tokens + 1,
        lora: LoraSlots {
            max_loras: config.max_loras,
            specialize_active_lora: config.specialize_active_lora,
            cudagraph_specialize_lora: config.cudagraph_specialize_lora,
        },
        compile_sizes: config.compile_sizes.clone().unwrap_or_default(),
    };
    // The vectors' models are always cut at attention.
    let made = CudagraphDispatcher::new(config.cudagraph_mode, true, options)?;
    let ladder = Ladder { sizes: config.capture_sizes.clone(), ceiling: config.max_capture_size.unwrap_or(0) };
    if config.initialize { made.initialize(config.cudagraph_mode, &ladder) } else { Ok(made) }
}

fn key(key: &Key) -> Value {
    json!([key.tokens, key.requests, u8::from(key.uniform), u8::from(key.has_lora), key.loras])
}

fn keys(config: &Config, _: &NoInput) -> Value {
    let made = match dispatcher(config) {
        Err(error) => return python_error(&error),
        Ok(made) => made,
    };
    let sorted = |mode| {
        let mut keys = made.capture_order(mode);
        keys.sort_unstable_by_key(|key| (key.tokens, key.requests, key.uniform, key.has_lora, key.loras));
        keys.iter().map(key).collect::<Vec<_>>()
    };
    let order: Vec<Value> = [RuntimeMode::Piecewise, RuntimeMode::Full]
        .into_iter()
        .filter(|&mode| !made.capture_order(mode).is_empty())
        .map(|mode| json!([mode, made.capture_order(mode).iter().map(key).collect::<Vec<_>>()]))
        .collect();
    json!({
        "keys": { "PIECEWISE": sorted(RuntimeMode::Piecewise), "FULL": sorted(RuntimeMode::Full) },
        "capture_order": order,
        "lora_counts": made.lora_counts(),
    })
}

fn dispatch(made: &CudagraphDispatcher, case: &Case) -> Value {
    let (tokens, uniform, has_lora, active_loras, valid, invalid) = case;
    let set = |modes: &Option<Vec<RuntimeMode>>| modes.iter().flatten().copied().collect::<ModeSet>();
    let valid = Some(set(valid)).filter(|&set| set != ModeSet::EMPTY).unwrap_or(ModeSet::ALL);
    let query = Query {
        tokens: *tokens,
        uniform: *uniform != 0,
        has_lora: *has_lora != 0,
        active_loras: *active_loras,
        allowed: valid.without(set(invalid)),
    };
    let answer = made.dispatch(&query, &mut NoTrace);
    assert_eq!(answer, made.dispatch(&query, &mut Vec::<RuleCheck>::new()), "a traced answer is the same answer");
    match answer {
        Err(fault) => json!({ "error": fault.class().python_name() }),
        Ok((mode, key)) => {
            json!([mode, key.tokens, key.requests, u8::from(key.uniform), u8::from(key.has_lora), key.loras])
        }
    }
}

#[test]
fn keys_v1() {
    check_lines("vllm/keys_v1.jsonl", keys);
}

#[test]
fn dispatch_v1() {
    let build = |config: &Config| dispatcher(config).map_err(|error| python_error(&error));
    check_cases("vllm/dispatch_v1.jsonl", build, dispatch);
}

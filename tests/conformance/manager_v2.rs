//! Model runner V2's graph manager: its descriptors, and its answers.

use serde::Deserialize;
use serde_json::{Value, json};
use sim::engine::shape::{Descriptor, RuntimeMode};
use sim::engine::vllm::dispatch::explain::{NoTrace, RuleCheck};
use sim::engine::vllm::dispatch::lora::LoraSlots;
use sim::engine::vllm::dispatch::v2::{CudaGraphManager, DecodeSizes, ManagerOptions, Query};
use sim::engine::vllm::ladder::Ladder;
use sim::engine::vllm::options::{CudagraphMode, Ubatch, Version};

use crate::vectors::{check_cases, check_lines};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "the fields of the vectors")]
struct Config {
    #[serde(rename = "vllm")]
    _vllm: Version,
    capture_sizes: Vec<u32>,
    max_capture_size: Option<u32>,
    captured: bool,
    cudagraph_mode: CudagraphMode,
    max_num_seqs: u32,
    num_speculative_tokens: u32,
    decode_query_len: u32,
    dynamic_sd_schedule: Option<Vec<(u32, u32, u32)>>,
    varlen_decode: bool,
    max_loras: Option<u32>,
    specialize_active_lora: bool,
    cudagraph_specialize_lora: bool,
    ubatch: Option<Ubatch>,
    use_kda_recoverssm: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoInput {}

/// `[num_reqs, num_tokens, uniform_token_count, num_active_loras, max_query_len, num_ubatches]`
type Case = (u32, u32, Option<u32>, u32, Option<u32>, u32);

fn manager(config: &Config) -> CudaGraphManager {
    CudaGraphManager::new(&ManagerOptions {
        mode: config.cudagraph_mode,
        ladder: Ladder { sizes: config.capture_sizes.clone(), ceiling: config.max_capture_size.unwrap_or(0) },
        decode_sizes: DecodeSizes::Ladder,
        max_num_seqs: config.max_num_seqs,
        num_speculative_tokens: config.num_speculative_tokens,
        decode_query_len: config.decode_query_len,
        dynamic_sd_schedule: config.dynamic_sd_schedule.clone(),
        varlen_decode: config.varlen_decode,
        lora: LoraSlots {
            max_loras: config.max_loras,
            specialize_active_lora: config.specialize_active_lora,
            cudagraph_specialize_lora: config.cudagraph_specialize_lora,
        },
        ubatch: config.ubatch,
        use_kda_recoverssm: config.use_kda_recoverssm,
        captured: config.captured,
    })
}

fn descriptor(graph: &Descriptor) -> Value {
    let Descriptor { mode, tokens, requests, uniform, max_query, loras, ubatches, prefix_chunks: _ } = graph;
    json!([mode, tokens, requests, uniform, max_query, loras, ubatches])
}

fn keys(config: &Config, _: &NoInput) -> Value {
    let made = manager(config);
    let graphs = |mode| made.capture_order(mode).iter().map(descriptor).collect::<Vec<_>>();
    let order: Vec<(RuntimeMode, Vec<Value>)> = [RuntimeMode::Piecewise, RuntimeMode::Full]
        .into_iter()
        .map(|mode| (mode, graphs(mode)))
        .filter(|(_, graphs)| !graphs.is_empty())
        .collect();
    let num_keys: usize = order.iter().map(|(_, graphs)| graphs.len()).sum();
    json!({
        "capture_order": order,
        "lora_cases": made.lora_cases(),
        "needs_capture": num_keys > 0,
        "num_keys": num_keys,
    })
}

fn dispatch(made: &CudaGraphManager, case: &Case) -> Value {
    let &(requests, tokens, uniform, active_loras, max_query, ubatches) = case;
    let query = Query { requests, tokens, uniform, active_loras, max_query, ubatches };
    let answer = made.dispatch(&query, &mut NoTrace);
    assert_eq!(answer, made.dispatch(&query, &mut Vec::<RuleCheck>::new()), "a traced answer is the same answer");
    descriptor(&answer)
}

#[test]
fn mrv2_keys() {
    check_lines("vllm/mrv2_keys.jsonl", keys);
}

#[test]
fn mrv2_dispatch() {
    check_cases("vllm/mrv2_dispatch.jsonl", |config| Ok(manager(config)), dispatch);
}

//! What data-parallel ranks agree on, under both runners.

use serde::Deserialize;
use serde_json::{Value, json};
use sim::engine::shape::{Descriptor, RuntimeMode};
use sim::engine::vllm::dispatch::agreement::{v1, v2};
use sim::engine::vllm::dispatch::lora::LoraSlots;
use sim::engine::vllm::dispatch::v2::{CudaGraphManager, DecodeSizes, ManagerOptions, Query};
use sim::engine::vllm::ladder::Ladder;
use sim::engine::vllm::options::{CudagraphMode, Version};

use crate::vectors::check_lines;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigV1 {
    #[serde(rename = "vllm")]
    _vllm: Version,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RanksV1 {
    unpadded: Vec<u32>,
    padded: Vec<u32>,
    modes: Vec<RuntimeMode>,
}

fn runner_v1(_: &ConfigV1, input: &RanksV1) -> Value {
    let proposals: Vec<v1::Proposal> = (0..input.modes.len())
        .map(|rank| v1::Proposal {
            unpadded: input.unpadded[rank],
            padded: input.padded[rank],
            mode: input.modes[rank],
            wants_ubatches: false,
        })
        .collect();
    let v1::Agreement { mode, tokens, ubatches } = v1::agree(&proposals, 1);
    let rank = json!({ "mode": mode, "tokens": tokens, "ubatch": ubatches > 1 });
    json!({ "ranks": vec![rank; proposals.len()] })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigV2 {
    #[serde(rename = "vllm")]
    _vllm: Version,
    capture_sizes: Vec<u32>,
    cudagraph_mode: CudagraphMode,
    decode_query_len: u32,
    max_num_seqs: u32,
}

/// `[num_reqs, num_tokens, uniform_token_count, max_query_len]`
type Rank = (u32, u32, Option<u32>, Option<u32>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RanksV2 {
    ranks: Vec<Rank>,
}

fn runner_v2(config: &ConfigV2, input: &RanksV2) -> Value {
    let manager = CudaGraphManager::new(&ManagerOptions {
        mode: config.cudagraph_mode,
        ladder: Ladder {
            sizes: config.capture_sizes.clone(),
            ceiling: config.capture_sizes.last().copied().unwrap_or(0),
        },
        decode_sizes: DecodeSizes::Ladder,
        max_num_seqs: config.max_num_seqs,
        num_speculative_tokens: config.decode_query_len.saturating_sub(1),
        decode_query_len: config.decode_query_len,
        dynamic_sd_schedule: None,
        varlen_decode: false,
        lora: LoraSlots { max_loras: None, specialize_active_lora: false, cudagraph_specialize_lora: false },
        ubatch: None,
        use_kda_recoverssm: false,
        captured: true,
    });
    let query = |&(requests, tokens, uniform, max_query): &Rank| Query {
        requests,
        tokens,
        uniform,
        active_loras: 0,
        max_query,
        ubatches: 1,
    };
    let steps: Vec<Query> = input.ranks.iter().map(query).collect();
    let v2::Agreement { local, synced } = v2::agree(&manager, &steps);
    let graph =
        |Descriptor { mode, tokens, requests, uniform, .. }: &Descriptor| json!([mode, tokens, requests, uniform]);
    let local: Vec<Value> = local.iter().map(graph).collect();
    let synced: Vec<Value> = match synced {
        None => local.iter().map(|own| json!({ "desc": own, "eager": null, "tokens_across_dp": null })).collect(),
        Some(synced) => {
            // A graph has one size for all; without graphs every rank keeps its own count.
            let tokens = |own: &Descriptor| -> Vec<u32> {
                let is_eager = own.mode == RuntimeMode::None;
                synced.iter().map(|other| if is_eager { other.tokens } else { own.tokens }).collect()
            };
            let rank = |own: &Descriptor| {
                let is_eager = own.mode == RuntimeMode::None;
                json!({ "desc": graph(own), "eager": is_eager, "tokens_across_dp": tokens(own) })
            };
            synced.iter().map(rank).collect()
        }
    };
    json!({ "local": local, "synced": synced })
}

#[test]
fn dp_sync_v1() {
    check_lines("vllm/dp_sync_v1.jsonl", runner_v1);
}

#[test]
fn dp_sync_v2() {
    check_lines("vllm/dp_sync_v2.jsonl", runner_v2);
}

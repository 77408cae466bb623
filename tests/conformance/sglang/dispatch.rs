//! The can-run rules of the decode and the prefill runner.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::{Value, json};
use sim::engine::sglang::dispatch::decode::{DecodeBatch, DecodeRunner};
use sim::engine::sglang::dispatch::prefill::{FullPrefill, PrefillBatch, PrefillRunner, PrefixChunks};
use sim::engine::sglang::options::GraphBackend;

use super::check_answers;
use crate::vectors::vectors;

/// The lists that both files name.
struct Lists(HashMap<String, Vec<u32>>);

impl Lists {
    fn read() -> Self {
        let given = vectors("sglang/ladders.json").and_then(|lines| lines.into_iter().next());
        let own = || serde_json::from_str(include_str!("../../golden/sglang/ladders.json")).expect("lists of sizes");
        Self(given.map_or_else(own, |lists| serde_json::from_value(lists).expect("lists of sizes")))
    }

    fn get(&self, name: &str) -> Vec<u32> {
        self.0.get(name).unwrap_or_else(|| panic!("ladders.json holds no list {name}")).clone()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "the fields of the file")]
struct DecodeInput {
    capture_bs: String,
    disable_padding: bool,
    raw_bs: u32,
    width: u32,
    width_of_batch: Option<u32>,
    dp_counts: Option<Vec<u32>>,
    #[serde(default = "yes")]
    dp_ok: bool,
    #[serde(default)]
    mlp_sync: bool,
    #[serde(default)]
    mlp_tp_gather: bool,
    #[serde(default)]
    replace_embeds: bool,
    #[serde(default)]
    encoder_decoder: bool,
    #[serde(default = "yes")]
    enc_all_positive: bool,
    #[serde(default)]
    tbo: bool,
    #[serde(default = "yes")]
    tbo_ok: bool,
    #[serde(default)]
    ngram: bool,
    input_tokens: Option<u32>,
    /// Both variants of every size are captured: which one a step wants changes nothing.
    #[serde(default, rename = "lora_variants")]
    _lora_variants: bool,
    #[serde(default, rename = "lora")]
    _lora: Option<String>,
}

fn yes() -> bool {
    true
}

fn decode(lists: &Lists, input: &DecodeInput) -> Value {
    let runner =
        DecodeRunner { sizes: lists.get(&input.capture_bs), width: input.width, padding: !input.disable_padding };
    let ranks = || input.dp_counts.as_ref().and_then(|counts| counts.iter().copied().max());
    let batch = DecodeBatch {
        requests: input.raw_bs,
        width: input.width_of_batch,
        rank_requests_max: if input.mlp_tp_gather { ranks() } else { None },
        ranks_agree: (input.mlp_sync || input.mlp_tp_gather).then_some(input.dp_ok),
        replaces_embeddings: input.replace_embeds,
        all_encoded: !input.encoder_decoder || input.enc_all_positive,
        splittable: !input.tbo || input.tbo_ok,
        ngram_tokens: input.input_tokens.filter(|_| input.ngram),
    };
    if let Ok(size) = runner.can_run(&batch) {
        return json!({ "graph": true, "padded_bs": size, "num_tokens": size * input.width });
    }
    let width = input.width_of_batch.filter(|&width| width > 0).unwrap_or(input.width);
    json!({ "graph": false, "num_tokens": input.raw_bs * width })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "the fields of the file")]
struct PrefillInput {
    capture_num_tokens: String,
    backend: GraphBackend,
    raw_tokens: u32,
    #[serde(default = "one")]
    bs: u32,
    #[serde(default = "unlimited")]
    req_slots: u32,
    attn_metadata_max_bs: Option<u32>,
    #[serde(default)]
    lora_bad: bool,
    #[serde(default)]
    input_embeds: bool,
    #[serde(default)]
    replace: bool,
    #[serde(default)]
    target_verify: bool,
    #[serde(default)]
    mixed: bool,
    #[serde(default)]
    prefer_eager_mixed: bool,
    prefix_max: Option<u32>,
    prefix_chunk_len: Option<u32>,
    #[serde(default)]
    prefix_variants: Vec<u32>,
    seq_max: Option<u32>,
    max_context_size: Option<u32>,
    max_seq_len: Option<u32>,
    /// Neither log-probabilities nor images keep a step from its graph.
    #[serde(default, rename = "logprob")]
    _logprob: bool,
    #[serde(default, rename = "mm")]
    _mm: bool,
}

fn one() -> u32 {
    1
}

fn unlimited() -> u32 {
    u32::MAX
}

fn prefill(lists: &Lists, input: &PrefillInput) -> Value {
    let prefix_chunks = input
        .prefix_chunk_len
        .map(|chunk_tokens| PrefixChunks { chunk_tokens, variants: input.prefix_variants.clone() });
    let full = FullPrefill { request_slots: input.req_slots, prefix_chunks };
    let runner = PrefillRunner {
        sizes: lists.get(&input.capture_num_tokens),
        full: (input.backend == GraphBackend::Full).then_some(full),
        max_context_size: input.max_context_size,
        max_seq_len: input.max_seq_len,
        attention_requests_max: input.attn_metadata_max_bs,
        eager_mixed: input.prefer_eager_mixed,
    };
    let batch = PrefillBatch {
        tokens: input.raw_tokens,
        requests: input.bs,
        mixed: input.mixed,
        longest_prefix: input.prefix_max,
        longest_sequence: input.seq_max,
        lora_ineligible: input.lora_bad,
        embeddings: input.input_embeds || input.replace,
        target_verify: input.target_verify,
    };
    match runner.can_run(&batch) {
        Ok(key) => {
            let variant = key.prefix_chunks.map(|chunks| format!("chunked_prefix:{chunks}"));
            json!({ "graph": true, "num_tokens": key.tokens, "variant": variant })
        }
        Err(_) => json!({ "graph": false, "num_tokens": input.raw_tokens }),
    }
}

#[test]
fn dispatch_decode() {
    let lists = Lists::read();
    check_answers("sglang/dispatch_decode.jsonl", |input| decode(&lists, input));
}

#[test]
fn dispatch_prefill() {
    let lists = Lists::read();
    check_answers("sglang/dispatch_prefill.jsonl", |input| prefill(&lists, input));
}

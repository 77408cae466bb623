//! The grids and decode shapes of vLLM main.

use serde::Deserialize;
use serde_json::{Value, json};
use sim::engine::vllm::grids::{self, QueryLimit};

use crate::vectors::check_lines;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(rename = "vllm")]
    _vllm: String,
}

#[derive(Deserialize)]
#[serde(tag = "fn", deny_unknown_fields)]
enum Grid {
    #[serde(rename = "prefill_grid")]
    Prefill { limit: u32, dense_head: bool },
    #[serde(rename = "varlen_decode_grid")]
    VarlenDecode { limit: u32, dense_head: bool },
    #[serde(rename = "decode_grid")]
    Decode { limit: u32 },
    #[serde(rename = "decode_max_tokens")]
    DecodeMaxTokens { max_cudagraph_capture_size: Option<u32>, max_decode_cudagraph_capture_tokens: Option<u32> },
}

fn grid(_: &Config, input: &Grid) -> Value {
    match *input {
        Grid::Prefill { limit, dense_head } => json!({ "grid": grids::prefill(limit, dense_head) }),
        Grid::VarlenDecode { limit, dense_head } => json!({ "grid": grids::varlen_decode(limit, dense_head) }),
        Grid::Decode { limit } => json!({ "grid": grids::decode(limit) }),
        Grid::DecodeMaxTokens { max_cudagraph_capture_size, max_decode_cudagraph_capture_tokens } => {
            let widest = max_cudagraph_capture_size.unwrap_or(0);
            json!({ "max_tokens": grids::decode_max_tokens(widest, max_decode_cudagraph_capture_tokens) })
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shapes {
    sizes: Vec<u32>,
    query_lens: Vec<(u32, u32)>,
    max_tokens: u32,
}

fn shapes(_: &Config, input: &Shapes) -> Value {
    let lengths: Vec<QueryLimit> =
        input.query_lens.iter().map(|&(query_len, requests_max)| QueryLimit { query_len, requests_max }).collect();
    let made = grids::decode_shapes(&input.sizes, &lengths, input.max_tokens);
    let pairs: Vec<[u32; 2]> = made.iter().map(|shape| [shape.requests, shape.query_len]).collect();
    json!({ "shapes": pairs })
}

#[test]
fn grids_main() {
    check_lines("vllm/grids_main.jsonl", grid);
}

#[test]
fn decode_shapes_main() {
    check_lines("vllm/decode_shapes_main.jsonl", shapes);
}

//! SGLang's graph flags, read.

use serde::Deserialize as _;
use serde_json::Value;

use super::{Kind, ReadFault, arguments, number, numbers, object, switch, word, wrong};
use crate::engine::sglang::options::{CudaGraphConfig, GraphOptions, SglangOptions, Version};
use crate::flags::names::DEDUP_VARIABLE;
use crate::flags::shell;

/// What a backend may be.
const BACKEND: &str = "full, breakable or disabled";

/// The server with every graph flag taken out, under the rules of `version`.
#[must_use]
pub fn server_without_graph_flags(options: &SglangOptions, version: Version) -> SglangOptions {
    let graphs = GraphOptions { enable_lora: options.graphs.enable_lora, ..GraphOptions::default() };
    SglangOptions { version, graphs, ..options.clone() }
}

/// A pasted line laid over a server.
///
/// # Errors
/// What the line says and this program does not know.
pub fn line(server: SglangOptions, environment: &[(String, String)], line: &str) -> Result<SglangOptions, ReadFault> {
    let words = shell::words(line).ok_or(ReadFault::OpenQuote)?;
    let kind = |name: &str| match name {
        "disable_cuda_graph"
        | "disable_decode_cuda_graph"
        | "disable_prefill_cuda_graph"
        | "disable_cuda_graph_padding" => Some(Kind::Switch),
        "cuda_graph_backend_decode" | "cuda_graph_backend_prefill" => Some(Kind::Word),
        "cuda_graph_bs_decode" | "cuda_graph_bs_prefill" => Some(Kind::Numbers),
        "cuda_graph_max_bs_decode"
        | "cuda_graph_max_bs_prefill"
        | "cuda_graph_max_seq_len_prefill"
        | "cuda_graph_prefill_max_context" => Some(Kind::Number),
        "cuda_graph_config" => Some(Kind::Object),
        _ => None,
    };
    json(server, environment, &Value::Object(arguments(&words, kind)?))
}

/// The same flags as an object laid over a server.
///
/// # Errors
/// What it says and this program does not know.
pub fn json(
    mut server: SglangOptions,
    environment: &[(String, String)],
    flags: &Value,
) -> Result<SglangOptions, ReadFault> {
    let graphs = &mut server.graphs;
    for (name, value) in environment {
        match name.as_str() {
            DEDUP_VARIABLE => graphs.enable_cuda_graph_dedup = value == "1",
            _ => return Err(ReadFault::Unknown { name: name.clone() }),
        }
    }
    for (name, value) in object("the flags", flags)? {
        match name.as_str() {
            "disable_cuda_graph" => graphs.disable_cuda_graph = switch(name, value)?,
            "disable_decode_cuda_graph" => graphs.disable_decode_cuda_graph = switch(name, value)?,
            "disable_prefill_cuda_graph" => graphs.disable_prefill_cuda_graph = switch(name, value)?,
            "disable_cuda_graph_padding" => graphs.disable_cuda_graph_padding = switch(name, value)?,
            "cuda_graph_backend_decode" => graphs.cuda_graph_backend_decode = Some(word(name, BACKEND, value)?),
            "cuda_graph_backend_prefill" => graphs.cuda_graph_backend_prefill = Some(word(name, BACKEND, value)?),
            "cuda_graph_bs_decode" => graphs.cuda_graph_bs_decode = Some(numbers(name, value)?),
            "cuda_graph_bs_prefill" => graphs.cuda_graph_bs_prefill = Some(numbers(name, value)?),
            "cuda_graph_max_bs_decode" => graphs.cuda_graph_max_bs_decode = Some(number(name, value)?),
            "cuda_graph_max_bs_prefill" => graphs.cuda_graph_max_bs_prefill = Some(number(name, value)?),
            "cuda_graph_max_seq_len_prefill" => graphs.cuda_graph_max_seq_len_prefill = Some(number(name, value)?),
            "cuda_graph_prefill_max_context" => graphs.cuda_graph_prefill_max_context = Some(number(name, value)?),
            "cuda_graph_config" => {
                let config = CudaGraphConfig::deserialize(value);
                graphs.cuda_graph_config =
                    config.map_err(|_| wrong(name, "decode and prefill with their keys", value))?;
            }
            _ => return Err(ReadFault::Unknown { name: name.clone() }),
        }
    }
    Ok(server)
}

//! vLLM's graph flags, read.

use serde_json::{Map, Value};

use super::{Kind, ReadFault, arguments, number, numbers, object, switch, word, wrong};
use crate::engine::vllm::options::{CompileSize, GraphOptions, OptimizationLevel, SplittingOps, Version, VllmOptions};
use crate::flags::names::{
    BREAKABLE_VARIABLE, COMPILATION_CONFIG, ENFORCE_EAGER, OPTIMIZATION_LEVEL, PERFORMANCE_MODE, SPECIALIZE_ACTIVE_LORA,
};
use crate::flags::shell;

/// The server with every graph flag taken out, under the rules of `version`. What stays is what the model, the machine
/// and the server's other flags decide.
#[must_use]
pub fn server_without_graph_flags(options: &VllmOptions, version: Version) -> VllmOptions {
    // Field by field, so that a new option must be put on one side or the other.
    let GraphOptions {
        optimization_level: _,
        cudagraph_mode: _,
        cudagraph_capture_sizes: _,
        max_cudagraph_capture_size: _,
        prefill_cudagraph_capture_token_sizes: _,
        max_prefill_cudagraph_capture_tokens: _,
        decode_cudagraph_capture_request_sizes: _,
        max_decode_cudagraph_capture_requests: _,
        max_decode_cudagraph_capture_tokens: _,
        compile_sizes: _,
        compile_ranges_endpoints: _,
        compilation_mode: _,
        splitting_ops: _,
        use_inductor_graph_partition: _,
        fuse_attn_quant: _,
        use_breakable_cudagraph: _,
        enforce_eager: _,
        performance_mode: _,
        model_kind,
        kv_connector_needs_piecewise,
        attention_support,
        piecewise_capture_available,
        num_speculative_tokens,
        dynamic_sd_schedule,
        varlen_decode,
        max_loras,
        specialize_active_lora: _,
        cudagraph_specialize_lora: _,
        ubatch,
        extra_graph_breaks,
        use_kda_recoverssm,
        mamba_cache_blocks,
        tensor_parallel_size,
        enable_sp: _,
        data_parallel_size,
        deepep_high_throughput,
        data_center_blackwell,
        encoder: _,
        encoder_model,
        decoder_replay: _,
        sliding_window,
        compile_cache,
        what_if: _,
    } = options.graphs.clone();
    let graphs = GraphOptions {
        model_kind,
        kv_connector_needs_piecewise,
        attention_support,
        piecewise_capture_available,
        num_speculative_tokens,
        dynamic_sd_schedule,
        varlen_decode,
        max_loras,
        ubatch,
        extra_graph_breaks,
        use_kda_recoverssm,
        mamba_cache_blocks,
        tensor_parallel_size,
        data_parallel_size,
        deepep_high_throughput,
        data_center_blackwell,
        encoder_model,
        sliding_window,
        compile_cache,
        ..GraphOptions::default()
    };
    VllmOptions { version, graphs, ..options.clone() }
}

/// A pasted line laid over a server.
///
/// # Errors
/// What the line says and this program does not know.
pub fn line(server: VllmOptions, environment: &[(String, String)], line: &str) -> Result<VllmOptions, ReadFault> {
    let words = shell::words(line).ok_or(ReadFault::OpenQuote)?;
    let kind = |name: &str| match name {
        COMPILATION_CONFIG => Some(Kind::Object),
        ENFORCE_EAGER | SPECIALIZE_ACTIVE_LORA => Some(Kind::Switch),
        OPTIMIZATION_LEVEL => Some(Kind::Number),
        PERFORMANCE_MODE => Some(Kind::Word),
        _ => None,
    };
    json(server, environment, &Value::Object(arguments(&words, kind)?))
}

/// The same flags as an object laid over a server.
///
/// # Errors
/// What it says and this program does not know.
pub fn json(
    mut server: VllmOptions,
    environment: &[(String, String)],
    flags: &Value,
) -> Result<VllmOptions, ReadFault> {
    let graphs = &mut server.graphs;
    for (name, value) in environment {
        match name.as_str() {
            BREAKABLE_VARIABLE => graphs.use_breakable_cudagraph = value == "1",
            _ => return Err(ReadFault::Unknown { name: name.clone() }),
        }
    }
    for (name, value) in object("the flags", flags)? {
        match name.as_str() {
            COMPILATION_CONFIG => compilation_config(graphs, object(name, value)?)?,
            ENFORCE_EAGER => graphs.enforce_eager = switch(name, value)?,
            SPECIALIZE_ACTIVE_LORA => graphs.specialize_active_lora = switch(name, value)?,
            OPTIMIZATION_LEVEL => {
                let level = OptimizationLevel::ALL.get(number(name, value)? as usize);
                graphs.optimization_level = *level.ok_or_else(|| wrong(name, "0, 1, 2 or 3", value))?;
            }
            PERFORMANCE_MODE => graphs.performance_mode = word(name, "balanced, interactivity or throughput", value)?,
            _ => return Err(ReadFault::Unknown { name: name.clone() }),
        }
    }
    Ok(server)
}

/// `--compilation-config`.
fn compilation_config(graphs: &mut GraphOptions, keys: &Map<String, Value>) -> Result<(), ReadFault> {
    for (key, value) in keys {
        match key.as_str() {
            "mode" => graphs.compilation_mode = Some(word(key, "a compilation mode", value)?),
            "cudagraph_mode" => graphs.cudagraph_mode = Some(word(key, "a CUDA graph mode", value)?),
            "cudagraph_capture_sizes" => graphs.cudagraph_capture_sizes = Some(numbers(key, value)?),
            "max_cudagraph_capture_size" => graphs.max_cudagraph_capture_size = Some(number(key, value)?),
            "prefill_cudagraph_capture_token_sizes" => {
                graphs.prefill_cudagraph_capture_token_sizes = Some(numbers(key, value)?);
            }
            "max_prefill_cudagraph_capture_tokens" => {
                graphs.max_prefill_cudagraph_capture_tokens = Some(number(key, value)?);
            }
            "decode_cudagraph_capture_request_sizes" => {
                graphs.decode_cudagraph_capture_request_sizes = Some(numbers(key, value)?);
            }
            "max_decode_cudagraph_capture_requests" => {
                graphs.max_decode_cudagraph_capture_requests = Some(number(key, value)?);
            }
            "max_decode_cudagraph_capture_tokens" => {
                graphs.max_decode_cudagraph_capture_tokens = Some(number(key, value)?);
            }
            "compile_sizes" => graphs.compile_sizes = compile_sizes(key, value)?,
            "compile_ranges_endpoints" => graphs.compile_ranges_endpoints = numbers(key, value)?,
            "splitting_ops" => graphs.splitting_ops = SplittingOps::Listed(word(key, "a list of names", value)?),
            "use_inductor_graph_partition" => graphs.use_inductor_graph_partition = switch(key, value)?,
            "cudagraph_specialize_lora" => graphs.cudagraph_specialize_lora = switch(key, value)?,
            "pass_config" => passes(graphs, object(key, value)?)?,
            _ => other_graphs(graphs, key, value)?,
        }
    }
    Ok(())
}

fn compile_sizes(key: &str, value: &Value) -> Result<Vec<CompileSize>, ReadFault> {
    let list = value.as_array().ok_or_else(|| wrong(key, "a list", value))?;
    let size = |entry: &Value| match entry.as_str() {
        Some(word) => Ok(CompileSize::Word(word.to_owned())),
        None => number(key, entry).map(CompileSize::Tokens),
    };
    list.iter().map(size).collect()
}

fn passes(graphs: &mut GraphOptions, keys: &Map<String, Value>) -> Result<(), ReadFault> {
    for (key, value) in keys {
        match key.as_str() {
            "fuse_attn_quant" => graphs.fuse_attn_quant = switch(key, value)?,
            "enable_sp" => graphs.enable_sp = switch(key, value)?,
            _ => return Err(ReadFault::Unknown { name: format!("pass_config.{key}") }),
        }
    }
    Ok(())
}

/// Main's keys for the graphs of an encoder and of replay layers.
fn other_graphs(graphs: &mut GraphOptions, key: &str, value: &Value) -> Result<(), ReadFault> {
    let (encoder, replay) = (&mut graphs.encoder, &mut graphs.decoder_replay);
    match key {
        "cudagraph_mm_encoder" => encoder.cudagraph_mm_encoder = switch(key, value)?,
        "encoder_cudagraph_token_budgets" => encoder.encoder_cudagraph_token_budgets = numbers(key, value)?,
        "encoder_cudagraph_max_vision_items_per_batch" => {
            encoder.encoder_cudagraph_max_vision_items_per_batch = number(key, value)?;
        }
        "encoder_cudagraph_max_frames_per_batch" => {
            encoder.encoder_cudagraph_max_frames_per_batch = Some(number(key, value)?);
        }
        "cudagraph_decoder_replay" => replay.cudagraph_decoder_replay = switch(key, value)?,
        "decoder_replay_cudagraph_capture_sizes" => {
            replay.decoder_replay_cudagraph_capture_sizes = numbers(key, value)?;
        }
        "decoder_replay_trim_threshold" => replay.decoder_replay_trim_threshold = number(key, value)?,
        _ => return Err(ReadFault::Unknown { name: key.to_owned() }),
    }
    Ok(())
}

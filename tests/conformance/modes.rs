//! Splitting operations, then mode resolution against the attention backend.

use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use sim::engine::vllm::ladder::Ladder;
use sim::engine::vllm::modes::{MambaCache, ResolutionInput, resolve};
use sim::engine::vllm::options::{
    AttentionSupport, CompilationMode, CudagraphMode, GraphOptions, SplittingOps, Version,
};
use sim::engine::vllm::splitting::Splitting;

use crate::ladder::python_error;
use crate::vectors::check_lines;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    cudagraph_mode: CudagraphMode,
    compilation_mode: CompilationMode,
    #[serde(deserialize_with = "splitting_ops")]
    splitting_ops: SplittingOps,
    use_inductor_graph_partition: bool,
    fuse_attn_quant: bool,
    all2all_backend: String,
    data_parallel_size: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Input {
    support: AttentionSupport,
    uniform_decode_query_len: u32,
    use_v2_model_runner: bool,
    piecewise_capture_available: bool,
    mamba: Option<Mamba>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mamba {
    is_profiling: bool,
    max_num_reqs: u32,
    num_blocks: u32,
}

/// A word for a list of splitting operations.
pub(crate) fn splitting_ops<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SplittingOps, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

fn answer(config: &Config, input: &Input) -> Value {
    let graphs = GraphOptions {
        splitting_ops: config.splitting_ops.clone(),
        use_inductor_graph_partition: config.use_inductor_graph_partition,
        fuse_attn_quant: config.fuse_attn_quant,
        deepep_high_throughput: config.all2all_backend == "deepep_high_throughput",
        data_parallel_size: config.data_parallel_size,
        ..GraphOptions::default()
    };
    let normalised = Splitting::normalise(config.cudagraph_mode, config.compilation_mode, &graphs, Version::V0_33_0);
    let splitting = match normalised {
        Ok(splitting) => splitting,
        Err(error) => return python_error(&error),
    };
    let mut answer = json!({
        "mode_after_splitting": splitting.mode,
        "attention_in_splitting_ops": splitting.attention_in_splitting_ops,
        "attention_compiled_piecewise": splitting.attention_compiled_piecewise,
    });
    let resolution = ResolutionInput {
        support: input.support,
        attention_in_splitting_ops: splitting.attention_in_splitting_ops,
        compilation: config.compilation_mode,
        use_inductor_graph_partition: config.use_inductor_graph_partition,
        query_len: input.uniform_decode_query_len,
        piecewise_capture_available: input.piecewise_capture_available,
        mamba: input
            .mamba
            .as_ref()
            .filter(|mamba| !mamba.is_profiling)
            .map(|mamba| MambaCache { max_num_seqs: mamba.max_num_reqs, blocks: mamba.num_blocks }),
    };
    let ladder = Ladder { sizes: vec![1, 2, 4, 8, 16, 24, 32], ceiling: 32 };
    let second_half = resolve(splitting.mode, &resolution).and_then(|mode| {
        let rounds = !input.use_v2_model_runner && mode.has_full();
        let ladder = if rounds { ladder.rounded(input.uniform_decode_query_len)? } else { ladder };
        Ok(json!({ "mode": mode, "capture_sizes": ladder.sizes, "max_capture_size": ladder.ceiling }))
    });
    let added = second_half.unwrap_or_else(|error| python_error(&error));
    let fields = answer.as_object_mut().expect("built as an object above");
    fields.extend(added.as_object().cloned().into_iter().flatten());
    answer
}

#[test]
fn resolve_mode() {
    check_lines("vllm/resolve_mode.jsonl", answer);
}

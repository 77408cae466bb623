//! Where the model is cut, and what that does to the mode (specification section 8).

use super::error::EngineError;
use super::options::{CompilationMode, CudagraphMode, GraphOptions, SplittingOps, Version};

/// The attention-like operations of 0.33.0, at each of which the engine cuts by default. Of 0.31.0 the list is inferred to be the
/// same.
pub const ATTENTION_OPS: [&str; 17] = [
    "vllm::unified_attention_with_output",
    "vllm::unified_mla_attention_with_output",
    "vllm::mamba_mixer2",
    "vllm::mamba_mixer",
    "vllm::short_conv",
    "vllm::qwen4_exp_ple_short_conv",
    "vllm::qwen4_exp_qsa_with_output",
    "vllm::qwen4_exp_qsa_prepare_with_output",
    "vllm::linear_attention",
    "vllm::qwen_gdn_attention_core",
    "vllm::qwen_gdn_attention_core_fused_norm_packed",
    "vllm::gdn_attention_core_xpu",
    "vllm::olmo_hybrid_gdn_full_forward",
    "vllm::sparse_attn_indexer",
    "vllm::rocm_aiter_sparse_attn_indexer",
    "vllm::deepseek_v4_attention",
    "vllm::hpc_rope_norm_forward",
];

/// The one that main has besides.
const STEP5_ATTENTION: &str = "vllm::step5_csa_attention";

/// The operations that write the KV cache: cut off as well, unless inductor does the cutting.
pub const KV_CACHE_UPDATE_OPS: [&str; 2] = ["vllm::unified_kv_cache_update", "vllm::unified_mla_kv_cache_update"];

/// The outcome of the engine's rewrite of `splitting_ops`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splitting {
    /// The mode after the rewrite.
    pub mode: CudagraphMode,
    /// The final list.
    pub ops: Vec<String>,
    /// All attention operations are in the final list.
    pub attention_in_splitting_ops: bool,
    /// The model is compiled in pieces between its attention operations.
    pub attention_compiled_piecewise: bool,
}

impl Splitting {
    /// Normalises the list for a model compiled as `compilation`.
    ///
    /// # Errors
    /// [`EngineError::FusedAttentionSplit`] for a list with attention while attention is fused with quantisation.
    pub fn normalise(
        mode: CudagraphMode,
        compilation: CompilationMode,
        graphs: &GraphOptions,
        version: Version,
    ) -> Result<Self, EngineError> {
        let listed = match &graphs.splitting_ops {
            SplittingOps::Default => None,
            SplittingOps::Listed(ops) => Some(ops.as_slice()),
        };
        let (mode, ops) = if compilation == CompilationMode::VllmCompile {
            Self::rewrite(mode, listed, graphs, version)?
        } else {
            (mode, listed.unwrap_or_default().to_vec())
        };
        let attention_in_splitting_ops = contains_attention(version, &ops);
        let compiled_in_pieces = if graphs.use_inductor_graph_partition {
            compilation != CompilationMode::None
        } else {
            compilation == CompilationMode::VllmCompile
        };
        let attention_compiled_piecewise = attention_in_splitting_ops && compiled_in_pieces;
        Ok(Self { mode, ops, attention_in_splitting_ops, attention_compiled_piecewise })
    }

    /// The rewrite under vLLM's own compilation.
    fn rewrite(
        mode: CudagraphMode,
        listed: Option<&[String]>,
        graphs: &GraphOptions,
        version: Version,
    ) -> Result<(CudagraphMode, Vec<String>), EngineError> {
        let by_inductor = graphs.use_inductor_graph_partition;
        let forced_whole = (graphs.fuse_attn_quant || sequence_parallel(graphs, version)) && !by_inductor;
        let (mut mode, ops) = match listed {
            None if forced_whole => (if mode.has_piecewise() { CudagraphMode::Full } else { mode }, Vec::new()),
            None => (mode, default_ops(version, by_inductor)),
            Some([]) if !forced_whole => (uncut(mode), Vec::new()),
            Some(ops) if graphs.fuse_attn_quant && !by_inductor && contains_attention(version, ops) => {
                return Err(EngineError::FusedAttentionSplit);
            }
            Some(ops) => (mode, ops.to_vec()),
        };
        if graphs.deepep_high_throughput && graphs.data_parallel_size > 1 {
            mode = CudagraphMode::None;
        }
        Ok((mode, ops))
    }
}

/// Whether the sequence-parallel pass runs: it exists in 0.31.0 only and needs ranks to share among.
pub(super) fn sequence_parallel(graphs: &GraphOptions, version: Version) -> bool {
    version == Version::V0_31_0 && graphs.enable_sp && graphs.tensor_parallel_size > 1
}

/// The attention-like operations of a release.
fn attention_ops(version: Version) -> impl Iterator<Item = &'static str> {
    ATTENTION_OPS.into_iter().chain((version == Version::Main).then_some(STEP5_ATTENTION))
}

fn default_ops(version: Version, by_inductor: bool) -> Vec<String> {
    let kv_cache_updates: &[&str] = if by_inductor { &[] } else { &KV_CACHE_UPDATE_OPS };
    attention_ops(version).chain(kv_cache_updates.iter().copied()).map(str::to_owned).collect()
}

/// Every attention operation is listed; a list that lacks one does not count as cutting at attention.
fn contains_attention(version: Version, ops: &[String]) -> bool {
    attention_ops(version).all(|attention| ops.iter().any(|op| op == attention))
}

/// A model that is not cut has no pieces to capture.
const fn uncut(mode: CudagraphMode) -> CudagraphMode {
    match mode {
        CudagraphMode::Piecewise => CudagraphMode::None,
        CudagraphMode::FullAndPiecewise => CudagraphMode::Full,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalised(graphs: &GraphOptions) -> Result<Splitting, EngineError> {
        let (mode, compilation) = (CudagraphMode::FullAndPiecewise, CompilationMode::VllmCompile);
        Splitting::normalise(mode, compilation, graphs, Version::V0_33_0)
    }

    #[test]
    fn inductor_keeps_the_kv_cache_updates_inside() {
        let by_fx = normalised(&GraphOptions::default()).expect("the default");
        assert_eq!((by_fx.ops.len(), by_fx.attention_compiled_piecewise), (19, true));
        let graphs = GraphOptions { use_inductor_graph_partition: true, ..GraphOptions::default() };
        let by_inductor = normalised(&graphs).expect("the default");
        assert_eq!((by_inductor.ops.len(), by_inductor.attention_compiled_piecewise), (17, true));
    }

    #[test]
    fn main_cuts_at_one_more() {
        let (mode, compilation) = (CudagraphMode::FullAndPiecewise, CompilationMode::VllmCompile);
        let made = Splitting::normalise(mode, compilation, &GraphOptions::default(), Version::Main);
        assert_eq!(made.expect("the default").ops.len(), 20);
    }

    #[test]
    fn a_list_counts_as_attention_only_when_all_of_it_is_there() {
        let mut ops: Vec<String> = ATTENTION_OPS.iter().map(|&op| op.to_owned()).collect();
        let listed = |ops: &[String]| GraphOptions {
            splitting_ops: SplittingOps::Listed(ops.to_vec()),
            ..GraphOptions::default()
        };
        assert!(normalised(&listed(&ops)).expect("complete").attention_in_splitting_ops);
        let fused = GraphOptions { fuse_attn_quant: true, ..listed(&ops) };
        assert_eq!(normalised(&fused), Err(EngineError::FusedAttentionSplit));
        ops.pop();
        let lacking = normalised(&listed(&ops)).expect("the engine takes it");
        assert_eq!((lacking.mode, lacking.attention_in_splitting_ops), (CudagraphMode::FullAndPiecewise, false));
        assert!(normalised(&GraphOptions { fuse_attn_quant: true, ..listed(&ops) }).is_ok());
    }
}

//! Where the model is cut, and what that does to the mode (specification section 8).

use super::options::{CompilationMode, CudagraphMode, GraphOptions, SplittingOps, Version};

/// The outcome of the engine's rewrite of `splitting_ops`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Splitting {
    /// The mode after the rewrite.
    pub mode: CudagraphMode,
    /// All attention operations are in the final list.
    pub attention_in_splitting_ops: bool,
    /// The model is compiled in pieces between its attention operations; inductor's partition alone does not count.
    pub attention_compiled_piecewise: bool,
}

impl Splitting {
    /// Normalises the list for a model compiled as `compilation`.
    #[must_use]
    pub fn normalise(
        mode: CudagraphMode,
        compilation: CompilationMode,
        graphs: &GraphOptions,
        version: Version,
    ) -> Self {
        if compilation != CompilationMode::VllmCompile {
            return Self { mode, attention_in_splitting_ops: false, attention_compiled_piecewise: false };
        }
        let forced_whole = graphs.fuse_attn_quant || sequence_parallel(graphs, version);
        let (mut mode, attention_in_splitting_ops) = if forced_whole && !graphs.use_inductor_graph_partition {
            let rewrite = graphs.splitting_ops == SplittingOps::Default && mode.has_piecewise();
            (if rewrite { CudagraphMode::Full } else { mode }, false)
        } else {
            match graphs.splitting_ops {
                SplittingOps::Default => (mode, true),
                SplittingOps::Custom => (mode, false),
                SplittingOps::Empty => (uncut(mode), false),
            }
        };
        if graphs.deepep_high_throughput && graphs.data_parallel_size > 1 {
            mode = CudagraphMode::None;
        }
        Self { mode, attention_in_splitting_ops, attention_compiled_piecewise: attention_in_splitting_ops }
    }
}

/// Whether the sequence-parallel pass runs: it exists in 0.31.0 only and needs ranks to share among.
pub(super) fn sequence_parallel(graphs: &GraphOptions, version: Version) -> bool {
    version == Version::V0_31_0 && graphs.enable_sp && graphs.tensor_parallel_size > 1
}

/// A model that is not cut has no pieces to capture.
const fn uncut(mode: CudagraphMode) -> CudagraphMode {
    match mode {
        CudagraphMode::Piecewise => CudagraphMode::None,
        CudagraphMode::FullAndPiecewise => CudagraphMode::Full,
        other => other,
    }
}

//! The configured mode: what it means for a batch (specification section 1), and how the attention backend's support
//! changes it (section 5, rules 1 to 5 and 7).

use super::error::EngineError;
use super::options::{AttentionSupport, CompilationMode, CudagraphMode};
use crate::engine::shape::RuntimeMode;

impl CudagraphMode {
    /// How a uniform decode batch runs.
    #[must_use]
    pub const fn decode_mode(self) -> RuntimeMode {
        match self {
            Self::None => RuntimeMode::None,
            Self::Piecewise => RuntimeMode::Piecewise,
            Self::Full | Self::FullDecodeOnly | Self::FullAndPiecewise => RuntimeMode::Full,
        }
    }

    /// How any other batch runs.
    #[must_use]
    pub const fn mixed_mode(self) -> RuntimeMode {
        match self {
            Self::None | Self::FullDecodeOnly => RuntimeMode::None,
            Self::Piecewise | Self::FullAndPiecewise => RuntimeMode::Piecewise,
            Self::Full => RuntimeMode::Full,
        }
    }

    /// Uniform decode batches have graphs of their own.
    #[must_use]
    pub const fn separate_routine(self) -> bool {
        matches!(self, Self::FullDecodeOnly | Self::FullAndPiecewise)
    }

    /// Some batches run a full graph.
    #[must_use]
    pub const fn has_full(self) -> bool {
        matches!(self.decode_mode(), RuntimeMode::Full)
    }

    /// Some batches run piecewise graphs, which need a model cut into pieces.
    #[must_use]
    pub const fn has_piecewise(self) -> bool {
        matches!(self.mixed_mode(), RuntimeMode::Piecewise)
    }

    /// The mode with its piecewise half dropped.
    #[must_use]
    pub const fn without_piecewise(self) -> Self {
        match self {
            Self::Piecewise => Self::None,
            Self::FullAndPiecewise => Self::FullDecodeOnly,
            other => other,
        }
    }
}

/// What mode resolution looks at besides the mode itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResolutionInput {
    /// The weakest support of the attention groups.
    pub support: AttentionSupport,
    /// Attention operations are in `splitting_ops`.
    pub attention_in_splitting_ops: bool,
    /// How the model is compiled.
    pub compilation: CompilationMode,
    /// Inductor cuts the model instead of FX.
    pub use_inductor_graph_partition: bool,
    /// Tokens per request of a decode step: drafts plus one.
    pub query_len: u32,
    /// Piecewise graphs can be captured at all.
    pub piecewise_capture_available: bool,
    /// The Mamba cache, if the model has Mamba layers and this is not the memory-profiling run.
    pub mamba: Option<MambaCache>,
}

/// The state cache of a model with Mamba layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MambaCache {
    /// Most running requests.
    pub max_num_seqs: u32,
    /// Blocks of the cache.
    pub blocks: u32,
}

/// The mode in force once the attention backend is known (specification section 5, rules in order; rule 6 rounds the
/// ladder and is [`Ladder::rounded`](super::ladder::Ladder::rounded)).
///
/// # Errors
/// [`EngineError::FullUnsupported`] for FULL on a backend without full graphs, [`EngineError::MambaBlocks`] for more
/// requests than Mamba blocks.
pub fn resolve(mode: CudagraphMode, input: &ResolutionInput) -> Result<CudagraphMode, EngineError> {
    let mut mode = mode;
    if mode.mixed_mode() == RuntimeMode::Full && input.support != AttentionSupport::Always {
        if input.support == AttentionSupport::Never {
            return Err(EngineError::FullUnsupported { mode, support: input.support });
        }
        mode = if input.attention_in_splitting_ops {
            CudagraphMode::FullAndPiecewise
        } else {
            CudagraphMode::FullDecodeOnly
        };
    }
    if mode.has_full() && input.support == AttentionSupport::Never {
        let pieces = input.attention_in_splitting_ops || input.use_inductor_graph_partition;
        let compiled = input.compilation == CompilationMode::VllmCompile;
        mode = if compiled && pieces { CudagraphMode::Piecewise } else { CudagraphMode::None };
    }
    if mode.has_full() && input.query_len > 1 && input.support < AttentionSupport::UniformBatch {
        // Unlike the rule above, the engine does not look at the compilation mode here.
        mode = if input.attention_in_splitting_ops { CudagraphMode::Piecewise } else { CudagraphMode::None };
    }
    if !input.piecewise_capture_available {
        mode = mode.without_piecewise();
    }
    match input.mamba {
        Some(MambaCache { max_num_seqs, blocks }) if mode.has_full() && max_num_seqs > blocks => {
            Err(EngineError::MambaBlocks { max_num_seqs, blocks })
        }
        _ => Ok(mode),
    }
}

//! What the engine refuses, and how our messages say so.

use thiserror::Error;

use super::decoder_replay::ReplayError;
use super::encoder::EncoderError;
use super::options::{AttentionSupport, CompilationMode, CudagraphMode, Version};

/// Which Python exception the engine raises for a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorClass {
    /// `AssertionError`.
    Assertion,
    /// `ValueError`.
    Value,
    /// The engine has no such exception: this program refuses by itself.
    Ours,
}

impl ErrorClass {
    /// The Python name of the exception; `None` for a refusal of our own.
    #[must_use]
    pub const fn python_name(self) -> Option<&'static str> {
        match self {
            Self::Assertion => Some("AssertionError"),
            Self::Value => Some("ValueError"),
            Self::Ours => None,
        }
    }
}

/// A set of graph flags with which the engine does not start (specification sections 2, 3, 5).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EngineError {
    /// The user's ladder is `[]` while graphs are on.
    #[error(
        "`cudagraph_capture_sizes` is empty while cudagraph_mode is {mode}: list at least one size, leave the flag out \
         for the engine's own ladder, or set cudagraph_mode to NONE"
    )]
    EmptyCaptureSizes {
        /// The mode that asks for graphs.
        mode: CudagraphMode,
    },
    /// The ceiling comes out as zero.
    #[error(
        "the largest capture size comes out as {ceiling} (max_cudagraph_capture_size {}, max_num_batched_tokens \
         {max_num_batched_tokens}, max_num_seqs {max_num_seqs}): give sizes of at least 1, or set cudagraph_mode to NONE",
        asked.map_or("unset".to_owned(), |size| size.to_string())
    )]
    CeilingBelowOne {
        /// The ceiling after all cuts, in tokens.
        ceiling: u32,
        /// The user's `max_cudagraph_capture_size`, in tokens.
        asked: Option<u32>,
        /// Token budget of a step.
        max_num_batched_tokens: u32,
        /// Most running requests.
        max_num_seqs: u32,
    },
    /// The user gave a list and a maximum that do not agree.
    #[error(
        "`max_cudagraph_capture_size` is {asked}, but the largest size left of `cudagraph_capture_sizes` is {last} \
         (sizes above max_num_batched_tokens = {max_num_batched_tokens} are dropped): remove \
         max_cudagraph_capture_size or set it to {last}"
    )]
    CeilingMismatch {
        /// The user's maximum, in tokens.
        asked: u32,
        /// The last size of the user's list after the cut; 0 if none is left.
        last: u32,
        /// Token budget of a step.
        max_num_batched_tokens: u32,
    },
    /// A word in `compile_sizes` that the engine does not know.
    #[error("`compile_sizes` holds `{word}`: only integers and the word `cudagraph_capture_sizes` are known")]
    CompileWord {
        /// The word as written.
        word: String,
    },
    /// An endpoint of compile ranges that is no size.
    #[error("`compile_ranges_endpoints` holds 0: list sizes of at least 1")]
    CompileEndpointZero,
    /// A compile size that dispatch would pad away (runner V1).
    #[error(
        "`compile_sizes` holds {size}, which dispatch pads to {padded}, so the code compiled for it would never run: \
         add {size} to `cudagraph_capture_sizes` or take it out of `compile_sizes`"
    )]
    CompileSizePadded {
        /// The size as written, in tokens.
        size: u32,
        /// What it is padded to, in tokens.
        padded: u32,
    },
    /// Mode FULL on a backend that supports no full graphs.
    #[error(
        "cudagraph_mode {mode} needs full graphs, but attention_support is {support}: choose PIECEWISE or NONE, or \
         another attention backend"
    )]
    FullUnsupported {
        /// The mode asked for.
        mode: CudagraphMode,
        /// The weakest support of the attention groups.
        support: AttentionSupport,
    },
    /// No size is left when the ladder is rounded to whole requests (runner V1).
    #[error(
        "no capture size is left after rounding to multiples of {query_len} (num_speculative_tokens {} + 1) under the \
         ceiling {ceiling}: raise max_cudagraph_capture_size to at least {query_len}, or set cudagraph_mode to PIECEWISE",
        query_len - 1
    )]
    NoSizeAfterRounding {
        /// Tokens per request of a verification step.
        query_len: u32,
        /// The ceiling before rounding, in tokens.
        ceiling: u32,
    },
    /// More requests than Mamba state blocks while full graphs are captured.
    #[error(
        "max_num_seqs is {max_num_seqs}, but the Mamba cache holds {blocks} blocks and every decoding request needs \
         one: set max_num_seqs to at most {blocks}, or raise gpu_memory_utilization"
    )]
    MambaBlocks {
        /// Most running requests.
        max_num_seqs: u32,
        /// Blocks of the Mamba cache.
        blocks: u32,
    },
    /// Runner V1 with piecewise graphs on a model that is not cut at attention.
    #[error(
        "cudagraph_mode {mode} needs a model cut at its attention operations, which `splitting_ops` prevents: leave \
         splitting_ops out, or choose FULL, FULL_DECODE_ONLY or NONE"
    )]
    PiecewiseNotCompiled {
        /// The mode asked for.
        mode: CudagraphMode,
    },
    /// Piecewise graphs on a model that nothing cuts into pieces.
    #[error(
        "cudagraph_mode {mode} needs a model in pieces, but the compilation mode is {compilation}: set compilation_mode \
         to VLLM_COMPILE (optimization_level 1 or more), turn use_breakable_cudagraph on, or set cudagraph_mode to NONE"
    )]
    PiecewiseUncompiled {
        /// The mode that the rewrites led to.
        mode: CudagraphMode,
        /// How the model is compiled.
        compilation: CompilationMode,
    },
    /// Attention is fused with quantisation, and the list cuts it off.
    #[error(
        "fuse_attn_quant fuses attention with what follows it, but `splitting_ops` cuts the model there: leave \
         splitting_ops out, turn use_inductor_graph_partition on, or turn fuse_attn_quant off"
    )]
    FusedAttentionSplit,
    /// A rung that does not hold whole requests (runner V1).
    #[error(
        "capture size {size} is not a multiple of {query_len} tokens (num_speculative_tokens {} + 1), so no full decode \
         graph can hold it: use multiples of {query_len} up to max_num_seqs * {query_len}",
        query_len - 1
    )]
    OffStride {
        /// The rung, in tokens.
        size: u32,
        /// Tokens per request of a verification step.
        query_len: u32,
    },
    /// A rung that the tensor-parallel ranks cannot share evenly (the sequence-parallel pass).
    #[error(
        "capture size {size} is not a multiple of tensor_parallel_size {ranks}, which enable_sp needs after rounding to \
         whole requests: list common multiples of both in `cudagraph_capture_sizes`, or turn enable_sp off"
    )]
    SequenceParallelStride {
        /// The rung, in tokens.
        size: u32,
        /// Tensor-parallel ranks.
        ranks: u32,
    },
    /// Graphs of the encoder (vLLM main).
    #[error(transparent)]
    Encoder(#[from] EncoderError),
    /// Graphs of the replay layers (vLLM main).
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The option does not exist in this release.
    #[error("vLLM {version} has no `{option}`: remove it, or choose another version")]
    NoSuchOption {
        /// The release.
        version: Version,
        /// The option.
        option: &'static str,
    },
    /// The option is younger than this release (specification section 6b).
    #[error(
        "vLLM {version} has no `{option}`, which came after 0.33.0: set version = \"main\", or use `{older}` instead"
    )]
    NewerOption {
        /// The release.
        version: Version,
        /// The option.
        option: &'static str,
        /// What this release has in its place.
        older: &'static str,
    },
    /// The option belongs to model runner V2 (specification section 6b).
    #[error("`{option}` is an option of model runner v2: set runner = \"v2\", or use `{older}` instead")]
    NeedsRunnerV2 {
        /// The option.
        option: &'static str,
        /// What runner V1 has in its place.
        older: &'static str,
    },
    /// A deprecated option beside one of its successors (specification section 6b).
    #[error("`{older}` sets what `{option}` sets as well: keep `{option}`, and remove `{older}`, which is deprecated")]
    OldAndNew {
        /// The deprecated option.
        older: &'static str,
        /// The successor that was given too.
        option: &'static str,
    },
    /// The release runs this feature on the other runner only (specification section 0).
    #[error("vLLM {version} does not run `{option}` on model runner v2: set runner = \"v1\"")]
    NeedsRunnerV1 {
        /// The release.
        version: Version,
        /// The option.
        option: &'static str,
    },
    /// More rungs than this program works with.
    #[error(
        "the ladder would have {rungs} rungs, more than the {most} this program works with: lower \
         max_cudagraph_capture_size or shorten `cudagraph_capture_sizes`"
    )]
    LadderTooLong {
        /// Rungs asked for.
        rungs: u64,
        /// Most rungs accepted.
        most: u64,
    },
}

impl EngineError {
    /// The Python exception of the engine for the same flags.
    #[must_use]
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::EmptyCaptureSizes { .. }
            | Self::CeilingBelowOne { .. }
            | Self::CompileWord { .. }
            | Self::CompileEndpointZero
            | Self::PiecewiseNotCompiled { .. }
            | Self::PiecewiseUncompiled { .. }
            | Self::FusedAttentionSplit
            | Self::OffStride { .. }
            | Self::SequenceParallelStride { .. } => ErrorClass::Assertion,
            Self::CeilingMismatch { .. }
            | Self::CompileSizePadded { .. }
            | Self::FullUnsupported { .. }
            | Self::NoSizeAfterRounding { .. }
            | Self::MambaBlocks { .. }
            | Self::Encoder(EncoderError::ZeroBudget)
            | Self::Replay(ReplayError::ZeroSize) => ErrorClass::Value,
            Self::Encoder(EncoderError::NoRange | EncoderError::EmptyRange { .. })
            | Self::Replay(ReplayError::NoWindow | ReplayError::ThresholdInWindow { .. })
            | Self::NoSuchOption { .. }
            | Self::NewerOption { .. }
            | Self::OldAndNew { .. }
            | Self::NeedsRunnerV1 { .. }
            | Self::NeedsRunnerV2 { .. }
            | Self::LadderTooLong { .. } => ErrorClass::Ours,
        }
    }
}

/// A step on which runner V1's dispatcher stops with an `AssertionError` (specification section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DispatchFault {
    /// Valid minus invalid modes leaves nothing.
    #[error("no mode is both valid and not invalid for this step")]
    NoAllowedMode,
    /// No graph fits and eager is not among the allowed modes.
    #[error("no graph fits this step and NONE is not among its allowed modes")]
    NoneNotAllowed,
    /// The step has adapters and the server was started without LoRA.
    #[error("the step uses LoRA adapters, but the server was started without max_loras")]
    LoraNotConfigured,
    /// The padded size of a uniform batch does not hold whole requests.
    #[error("a uniform batch pads to {padded} tokens, which is not a multiple of its query length {query_len}")]
    OffStride {
        /// The padded size, in tokens.
        padded: u32,
        /// Tokens per request.
        query_len: u32,
    },
}

impl DispatchFault {
    /// The Python exception of the engine: always an `AssertionError`.
    #[must_use]
    pub const fn class(self) -> ErrorClass {
        ErrorClass::Assertion
    }
}

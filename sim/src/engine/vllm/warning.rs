//! What the engine does silently, or in one log line, to the flags it was given.

use std::fmt;

use super::decoder_replay::ReplayOff;
use super::options::{CompilationMode, CudagraphMode, Version};
use crate::engine::options::DecodeBatch;

/// A rewrite of the flags, or a consequence of them, that an operator would want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GraphWarning {
    /// The user's ceiling is not a size of the default ladder and was lowered.
    CeilingCut {
        /// The user's `max_cudagraph_capture_size`, in tokens.
        asked: u32,
        /// The ceiling in force, in tokens.
        last: u32,
    },
    /// Sizes of the user's list above the token budget were dropped.
    SizesAboveBudget {
        /// The list.
        option: &'static str,
        /// How many distinct sizes were dropped.
        dropped: usize,
        /// Token budget of a step.
        max_num_batched_tokens: u32,
    },
    /// Entries of `compile_ranges_endpoints` were dropped.
    EndpointsDropped {
        /// How many.
        dropped: usize,
        /// Token budget of a step.
        max_num_batched_tokens: u32,
    },
    /// Graphs are on, but no size is left to capture.
    LadderEmpty {
        /// The mode that remains configured.
        mode: CudagraphMode,
    },
    /// Nobody asked for a runner, and an option needs the older one.
    RunnerFallback {
        /// The release.
        version: Version,
        /// The option that runner V2 lacks.
        option: &'static str,
    },
    /// The mode in force is not the mode asked for.
    ModeChanged {
        /// Before.
        from: CudagraphMode,
        /// After.
        to: CudagraphMode,
        /// What changed it.
        reason: ModeChange,
    },
    /// Runner V1 rounded the ladder to whole requests.
    LadderRounded {
        /// Tokens per request of a verification step.
        query_len: u32,
        /// The ceiling before, in tokens.
        before: u32,
        /// The ceiling after, in tokens.
        after: u32,
    },
    /// The decode batch of the most tokens has more than the ceiling.
    FullBatchAboveCeiling {
        /// That batch.
        largest: DecodeBatch,
        /// It is the full one: without `dynamic_sd_schedule` it always is.
        is_full: bool,
        /// The ceiling, in tokens.
        ceiling: u32,
    },
    /// Under runner V1 a batch without adapters matches no key.
    LoraFreeStepsEager,
    /// The option still works, under the meaning that its successors give it.
    Deprecated {
        /// The option.
        option: &'static str,
        /// What it sets now.
        instead: &'static str,
    },
    /// The option was given and changes nothing.
    Unused {
        /// The option.
        option: &'static str,
        /// Why.
        reason: &'static str,
    },
    /// A YOCO model has no replay graphs.
    ReplayOff {
        /// Why.
        reason: ReplayOff,
    },
    /// Encoder or replay graphs are captured.
    NotPriced,
    /// A rule that no source states: the most natural reading of what they do state.
    Inferred {
        /// What is inferred, and from what.
        what: &'static str,
    },
}

/// Why the mode in force differs from the one asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModeChange {
    /// `enforce_eager`.
    EnforceEager,
    /// Dynamic speculative decoding on runner V1.
    DynamicSpeculation,
    /// Piecewise graphs need vLLM's own compilation.
    Compilation(CompilationMode),
    /// Embeddings, scores and classes come without full graphs.
    PoolingModel,
    /// Encoder-decoder models have full decode graphs only.
    EncoderDecoder,
    /// A KV connector that works layer by layer.
    KvConnector,
    /// The list of splitting operations, or what forces it.
    SplittingOps,
    /// What the attention backend supports.
    AttentionSupport,
}

impl fmt::Display for ModeChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EnforceEager => f.write_str("enforce_eager is set"),
            Self::DynamicSpeculation => f.write_str("runner v1 has no full graphs with dynamic speculative decoding"),
            Self::Compilation(mode) => write!(f, "the compilation mode is {mode}"),
            Self::PoolingModel => f.write_str("a pooling model has no full graphs"),
            Self::EncoderDecoder => f.write_str("an encoder-decoder model has full decode graphs only"),
            Self::KvConnector => f.write_str("the KV connector works layer by layer, which no full graph can hold"),
            Self::SplittingOps => f.write_str("of splitting_ops and the options that force it"),
            Self::AttentionSupport => f.write_str("of what the attention backend supports"),
        }
    }
}

impl GraphWarning {
    /// A stable code for reports.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::CeilingCut { .. } => "ceiling_cut",
            Self::SizesAboveBudget { .. } => "sizes_above_budget",
            Self::EndpointsDropped { .. } => "endpoints_dropped",
            Self::LadderEmpty { .. } => "ladder_empty",
            Self::ModeChanged { .. } => "mode_changed",
            Self::RunnerFallback { .. } => "runner_fallback",
            Self::LadderRounded { .. } => "ladder_rounded",
            Self::FullBatchAboveCeiling { .. } => "full_batch_above_ceiling",
            Self::LoraFreeStepsEager => "lora_free_steps_eager",
            Self::Deprecated { .. } => "deprecated",
            Self::Unused { .. } => "unused",
            Self::ReplayOff { .. } => "decoder_replay_off",
            Self::NotPriced => "not_priced",
            Self::Inferred { .. } => "inferred",
        }
    }
}

impl fmt::Display for GraphWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CeilingCut { asked, last } => write!(
                f,
                "max_cudagraph_capture_size {asked} is not a size of the default ladder: the ceiling is {last}; list \
                 {asked} in cudagraph_capture_sizes to capture it"
            ),
            Self::SizesAboveBudget { option, dropped, max_num_batched_tokens } => write!(
                f,
                "{dropped} of {option} lie above max_num_batched_tokens = {max_num_batched_tokens} and \
                 are not captured"
            ),
            Self::EndpointsDropped { dropped, max_num_batched_tokens } => write!(
                f,
                "{dropped} of compile_ranges_endpoints change nothing: 1, repeats, and what is not below \
                 max_num_batched_tokens = {max_num_batched_tokens}"
            ),
            Self::LadderEmpty { mode } => {
                write!(f, "cudagraph_mode is {mode}, but no capture size is left: every step runs without a graph")
            }
            Self::RunnerFallback { version, option } => write!(
                f,
                "vLLM {version} does not run {option} on model runner v2 by itself and takes runner v1: set \
                 runner = \"v1\" if that is meant"
            ),
            Self::ModeChanged { from, to, reason } => {
                write!(f, "cudagraph_mode {from} becomes {to} because {reason}")
            }
            Self::LadderRounded { query_len, before, after } => {
                write!(f, "runner v1 rounds the ladder to multiples of {query_len} tokens")?;
                if before == after { Ok(()) } else { write!(f, ": the ceiling goes from {before} to {after}") }
            }
            Self::FullBatchAboveCeiling { largest, is_full: true, ceiling } => write!(
                f,
                "a full decode batch has {} tokens, above the ceiling {ceiling}: it runs without a graph",
                largest.tokens()
            ),
            Self::FullBatchAboveCeiling { largest: DecodeBatch { requests, drafts }, is_full: false, ceiling } => {
                write!(
                    f,
                    "a decode batch of {requests} requests with {drafts} drafts each has {} tokens, above the ceiling {ceiling}: \
                 it runs without a graph",
                    DecodeBatch { requests: *requests, drafts: *drafts }.tokens()
                )
            }
            Self::LoraFreeStepsEager => f.write_str(
                "cudagraph_specialize_lora is off: under runner v1 a step without adapters matches no graph and runs \
                 without one",
            ),
            Self::Deprecated { option, instead } => {
                write!(f, "{option} is deprecated under runner v2 of vLLM main, where it sets {instead}")
            }
            Self::Unused { option, reason } => write!(f, "{option} changes nothing: {reason}"),
            Self::ReplayOff { reason } => write!(f, "the decoder replay layers have no graphs: {reason}"),
            Self::NotPriced => f.write_str(
                "encoder and decoder-replay graphs are counted, not priced: no profile has figures for their captures, \
                 their memory or their replays",
            ),
            Self::Inferred { what } => write!(f, "inferred: {what}"),
        }
    }
}

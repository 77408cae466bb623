//! What the engine does silently, or says only in its log, and an operator should know.

use std::fmt;

use super::options::PrefillBlocker;
use crate::engine::shape::Descriptor;

/// A phase with graphs of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Steps in which every request decodes.
    Decode,
    /// Steps that compute prompts.
    Prefill,
}

impl Phase {
    /// The phase that a graph of this engine belongs to: decode graphs name their common query length.
    #[must_use]
    pub fn of(graph: &Descriptor) -> Self {
        if graph.uniform.is_some() { Self::Decode } else { Self::Prefill }
    }

    /// As messages and reports name it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Decode => "decode",
            Self::Prefill => "prefill",
        }
    }
}

/// Why the engine turned the graphs of a phase off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhaseOff {
    /// The server only prefills.
    PrefillServer,
    /// The server only decodes.
    DecodeServer,
    /// Pipeline parallelism.
    PipelineParallel,
    /// Context-parallel decode.
    DecodeContextParallel,
    /// Two-batch overlap.
    TwoBatchOverlap,
    /// An all-to-all backend without support.
    MoeA2aBackend,
    /// A trait of the model.
    Model(PrefillBlocker),
}

/// Something about a candidate's graphs that its flags do not show (SGLang specification sections 1 to 4 and 7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GraphWarning {
    /// The engine turned a phase off that the flags left on.
    PhaseDisabled {
        /// The phase.
        phase: Phase,
        /// Why.
        reason: PhaseOff,
    },
    /// A maximum beside a list has no effect.
    DecodeMaxIgnored {
        /// The maximum given, in requests.
        asked: u32,
        /// The largest size of the list, in requests.
        largest: u32,
    },
    /// Decode sizes of the list are not captured.
    DecodeSizesDropped {
        /// How many.
        dropped: usize,
        /// Rows must be a multiple of this.
        alignment: u32,
        /// Rows of the request pool, aligned.
        rows: u32,
    },
    /// A size that nobody asked for is captured.
    RequestRowsAdded {
        /// Rows of the request pool, aligned.
        rows: u32,
    },
    /// More requests may run than the largest decode graph holds.
    DecodeCeilingBelowRequests {
        /// The largest captured batch, in requests.
        ceiling: u32,
        /// Rows of the request pool.
        request_rows: u32,
    },
    /// The prefill list is empty although graphs are on.
    PrefillListEmpty {
        /// The maximum, in tokens.
        max_bs: i64,
    },
    /// The largest prefill step has no graph.
    PrefillMaxNotCaptured {
        /// The maximum, in tokens.
        max_bs: u32,
        /// The largest captured step, in tokens.
        largest: u32,
    },
    /// Deduplication is on where nothing uses it.
    DedupIdle,
}

impl GraphWarning {
    /// A stable word for programs.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::PhaseDisabled { .. } => "phase_disabled",
            Self::DecodeMaxIgnored { .. } => "decode_max_ignored",
            Self::DecodeSizesDropped { .. } => "decode_sizes_dropped",
            Self::RequestRowsAdded { .. } => "request_rows_added",
            Self::DecodeCeilingBelowRequests { .. } => "decode_ceiling_below_requests",
            Self::PrefillListEmpty { .. } => "prefill_list_empty",
            Self::PrefillMaxNotCaptured { .. } => "prefill_max_not_captured",
            Self::DedupIdle => "dedup_idle",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for PhaseOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PrefillServer => f.write_str("disaggregation_mode is prefill"),
            Self::DecodeServer => f.write_str("disaggregation_mode is decode"),
            Self::PipelineParallel => f.write_str("pp_size is above 1"),
            Self::DecodeContextParallel => f.write_str("decode is context-parallel"),
            Self::TwoBatchOverlap => f.write_str("enable_two_batch_overlap is on"),
            Self::MoeA2aBackend => f.write_str("moe_a2a_backend has no support for prefill graphs"),
            Self::Model(blocker) => blocker.fmt(f),
        }
    }
}

impl fmt::Display for GraphWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PhaseDisabled { phase, reason } => write!(
                f,
                "there are no {phase} graphs because {reason}; set cuda_graph_backend_{phase} to have them all the same"
            ),
            Self::DecodeMaxIgnored { asked, largest } => write!(
                f,
                "cuda_graph_max_bs_decode = {asked} has no effect beside a list of sizes: the largest listed size, \
                 {largest}, is the maximum"
            ),
            Self::DecodeSizesDropped { dropped, alignment, rows } => {
                let dropped =
                    if *dropped == 1 { "1 decode size is".to_owned() } else { format!("{dropped} decode sizes are") };
                let captured = match alignment {
                    1 => "sizes".to_owned(),
                    _ => format!("multiples of {alignment} rows"),
                };
                write!(
                    f,
                    "{dropped} dropped without a word from the engine: only {captured} up to the request pool's {rows} rows \
                     are captured"
                )
            }
            Self::RequestRowsAdded { rows } => write!(
                f,
                "a decode graph for {rows} requests is captured in addition: the list reaches beyond the request \
                 pool's rows"
            ),
            Self::DecodeCeilingBelowRequests { ceiling, request_rows } => write!(
                f,
                "the largest decode graph holds {ceiling} requests, but up to {request_rows} may run: larger batches \
                 run without a graph; raise cuda_graph_max_bs_decode or lower max_running_requests"
            ),
            Self::PrefillListEmpty { max_bs } if *max_bs < 1 => write!(
                f,
                "no prefill graph is captured: the default maximum is chunked_prefill_size, and that is {max_bs}; set \
                 cuda_graph_max_bs_prefill"
            ),
            Self::PrefillListEmpty { .. } => {
                f.write_str("no prefill graph is captured: no size of the prefill list is left")
            }
            Self::PrefillMaxNotCaptured { max_bs, largest } => write!(
                f,
                "the prefill maximum of {max_bs} tokens is not a size of the engine's list: steps of {} tokens run \
                 without a graph; to capture it, list {max_bs} in cuda_graph_bs_prefill with all other sizes that are \
                 wanted, as a list replaces the engine's",
                if largest + 1 == *max_bs { max_bs.to_string() } else { format!("{} to {max_bs}", largest + 1) }
            ),
            Self::DedupIdle => f.write_str(
                "SGLANG_ENABLE_CUDA_GRAPH_DEDUP has no effect: only breakable graphs are deduplicated, and no phase \
                 captures any",
            ),
        }
    }
}

//! One candidate's graphs, from its flags to the answer for every step.

mod ranks;

use super::compile_ranges::CompileRanges;
use super::config::GraphConfig;
use super::dispatch::explain::{NoTrace, Rule, RuleCheck, RuleTrace};
use super::dispatch::lora::LoraSlots;
use super::dispatch::{v1, v2};
use super::error::EngineError;
use super::ladder::Ladder;
use super::modes::{MambaCache, ResolutionInput, resolve};
use super::options::{CompilationMode, CudagraphMode, Runner, Ubatch, Version, VllmOptions};
use super::other_graphs::OtherGraphs;
use super::separate::SeparateLadders;
use super::splitting::sequence_parallel;
use super::warning::{GraphWarning, ModeChange};
use crate::engine::shape::{Descriptor, Dispatch, EagerKind, FallbackCause, NeighbourRungs, RuntimeMode, StepShape};

/// The graphs that the engine captures with one set of flags, and its choice among them.
#[derive(Clone, Debug)]
pub struct GraphPlan {
    runner: Runner,
    requested: CudagraphMode,
    mode: CudagraphMode,
    ladder: Ladder,
    /// Prefill and decode batches pad to sizes of their own.
    separate: bool,
    /// The largest graph for a batch that does not decode, in tokens.
    mixed_ceiling: u32,
    /// Tokens of a request that decodes with all its drafts.
    query_len: u32,
    compilation: CompilationMode,
    compiled: CompileRanges,
    extra_graph_breaks: u32,
    other: OtherGraphs,
    warnings: Vec<GraphWarning>,
    capture_order: Vec<Descriptor>,
    dispatcher: Dispatcher,
}

/// The dispatcher of either runner, with what its runner does to a step's shape first.
#[derive(Clone, Debug)]
enum Dispatcher {
    V1 {
        graphs: v1::CudagraphDispatcher,
        /// Tokens are rounded up to this multiple first: the ranks of the sequence-parallel pass, else 1.
        token_multiple: u32,
        ubatch: Option<Ubatch>,
    },
    V2 {
        graphs: v2::CudaGraphManager,
        /// The longest query of a decode graph, if decode graphs hold queries of any length up to it.
        varlen_query_max: Option<u32>,
        ubatch: Option<Ubatch>,
    },
}

impl GraphPlan {
    /// Runs the engine's start for one candidate: mode defaults, ladder, splitting operations, resolution against the
    /// attention backend, runner V1's rounding, keys (specification sections 2, 3 and 5 to 8).
    ///
    /// # Errors
    /// The flags with which the engine does not start, and those this program does not take.
    pub fn build(options: &VllmOptions) -> Result<Self, EngineError> {
        let config = GraphConfig::build(options)?;
        let query_len = options.graphs.num_speculative_tokens.saturating_add(1);
        let mode = resolve(config.mode, &resolution_input(options, &config, query_len))?;
        let mut warnings = config.warnings.clone();
        if mode != config.mode {
            let reason = ModeChange::AttentionSupport;
            warnings.push(GraphWarning::ModeChanged { from: config.mode, to: mode, reason });
        }
        let mut ladder = config.capture.ladder.clone();
        let separate = config.capture.separate.as_ref();
        if let Some(separate) = separate {
            ladder = separate.together(mode);
        }
        let dispatcher = match config.runner {
            Runner::V1 => Dispatcher::v1(options, &config, mode, query_len, &mut ladder, &mut warnings)?,
            Runner::V2 => Dispatcher::v2(options, mode, query_len, &ladder, separate),
        };
        let mixed_ceiling = separate.map_or(ladder.ceiling, |own| own.prefill.last().copied().unwrap_or(0));
        warnings.extend(inferred(options.version, config.runner, mode));
        let largest = options.largest_decode_batch();
        if mode != CudagraphMode::None && !ladder.sizes.is_empty() && largest.tokens() > u64::from(ladder.ceiling) {
            let is_full = largest.requests == options.scheduler.max_num_seqs;
            warnings.push(GraphWarning::FullBatchAboveCeiling { largest, is_full, ceiling: ladder.ceiling });
        }
        let breakable_piecewise = config.breakable && mode.has_piecewise();
        let other = OtherGraphs::build(options, breakable_piecewise, ladder.ceiling)?;
        warnings.extend(other.warnings.iter().cloned());
        let capture_order = dispatcher.capture_order();
        Ok(Self {
            runner: config.runner,
            requested: config.requested,
            mode,
            ladder,
            separate: separate.is_some(),
            mixed_ceiling,
            query_len,
            compilation: config.compilation,
            compiled: config.compiled,
            extra_graph_breaks: options.graphs.extra_graph_breaks,
            other,
            warnings,
            capture_order,
            dispatcher,
        })
    }

    /// The graph for a step. One table look-up, no allocation.
    ///
    /// A shape that the runner itself could not produce may meet one of runner V1's assertions (adapters on a server
    /// without LoRA, a uniform batch off the query length): the engine would stop; here the step runs without a graph,
    /// cause `no_key`.
    #[inline]
    #[must_use]
    pub fn dispatch(&self, shape: &StepShape) -> Dispatch {
        self.dispatch_traced(shape, &mut NoTrace)
    }

    /// The guards that [`dispatch`](Self::dispatch) evaluates for this step, in order.
    #[must_use]
    pub fn explain(&self, shape: &StepShape) -> Vec<RuleCheck> {
        let mut trace = Vec::new();
        self.dispatch_traced(shape, &mut trace);
        trace
    }

    #[inline]
    fn dispatch_traced<T: RuleTrace>(&self, shape: &StepShape, trace: &mut T) -> Dispatch {
        let descriptor = self.dispatcher.dispatch(shape, trace);
        let cause = (descriptor.mode == RuntimeMode::None).then(|| self.fallback_cause(shape));
        let relaxed = descriptor.mode == RuntimeMode::Piecewise && self.has_full_set_for(shape);
        Dispatch { descriptor, cause, relaxed }
    }

    fn fallback_cause(&self, shape: &StepShape) -> FallbackCause {
        let decodes = self.dispatcher.is_decode(shape);
        let has_mixed_graphs = self.mode.mixed_mode() != RuntimeMode::None && self.mixed_ceiling > 0;
        if self.mode == CudagraphMode::None || self.ladder.sizes.is_empty() {
            FallbackCause::GraphsOff
        } else if shape.encoder_inputs {
            FallbackCause::EncoderInputs
        } else if shape.tokens > self.ladder.ceiling {
            FallbackCause::AboveCeiling
        } else if !has_mixed_graphs && !decodes {
            FallbackCause::ModeExcluded
        } else if !decodes && shape.tokens > self.mixed_ceiling {
            FallbackCause::AboveCeiling
        } else {
            FallbackCause::NoKey
        }
    }

    /// The mode has full graphs for this kind of batch, whatever sizes exist.
    #[inline]
    fn has_full_set_for(&self, shape: &StepShape) -> bool {
        self.mode == CudagraphMode::Full || self.mode.separate_routine() && self.dispatcher.is_captured_decode(shape)
    }

    /// The captured sizes next to the one that the step runs, among graphs of the same mode, uniform length, adapters
    /// and microbatches. Of a step without a graph: next to its own tokens, among the graphs it would want.
    #[must_use]
    pub fn neighbours(&self, shape: &StepShape) -> NeighbourRungs {
        let ran = self.dispatch(shape).descriptor;
        let like = |graph: &&Descriptor| {
            let (mode, uniform) = if ran.mode != RuntimeMode::None {
                (ran.mode, ran.uniform)
            } else if self.has_full_set_for(shape) && self.mode.separate_routine() {
                (RuntimeMode::Full, self.dispatcher.decode_length(shape))
            } else {
                (self.mode.mixed_mode(), None)
            };
            (graph.mode, graph.uniform, graph.loras, graph.ubatches) == (mode, uniform, ran.loras, ran.ubatches)
        };
        let alike = || self.capture_order.iter().filter(like);
        NeighbourRungs {
            lower: alike().filter(|graph| graph.tokens < ran.tokens).max_by_key(|graph| graph.tokens).copied(),
            higher: alike().filter(|graph| graph.tokens > ran.tokens).min_by_key(|graph| graph.tokens).copied(),
        }
    }

    /// The runner that dispatches steps.
    #[must_use]
    pub fn runner(&self) -> Runner {
        self.runner
    }

    /// The mode asked for, or the engine's default.
    #[must_use]
    pub fn requested_mode(&self) -> CudagraphMode {
        self.requested
    }

    /// The mode in force.
    #[must_use]
    pub fn mode(&self) -> CudagraphMode {
        self.mode
    }

    /// The capture sizes in force, in tokens, ascending.
    #[must_use]
    pub fn capture_sizes(&self) -> &[u32] {
        &self.ladder.sizes
    }

    /// Prefill and decode batches pad to sizes of their own: the capture sizes are those of both together.
    #[must_use]
    pub fn has_separate_ladders(&self) -> bool {
        self.separate
    }

    /// The largest capture size, in tokens; 0 without graphs.
    #[must_use]
    pub fn ceiling(&self) -> u32 {
        self.ladder.ceiling
    }

    /// What a step without a graph runs as.
    #[must_use]
    pub fn eager_kind(&self) -> EagerKind {
        match self.compilation {
            CompilationMode::None => EagerKind::True,
            _ => EagerKind::Compiled,
        }
    }

    /// What the engine changed, and what follows from the flags.
    #[must_use]
    pub fn warnings(&self) -> &[GraphWarning] {
        &self.warnings
    }

    /// All descriptors in the order in which they are captured: PIECEWISE, then FULL, each largest first.
    #[must_use]
    pub fn capture_order(&self) -> &[Descriptor] {
        &self.capture_order
    }

    /// Descriptors captured at start-up.
    #[must_use]
    pub fn descriptors_captured(&self) -> u32 {
        self.capture_order.len() as u32
    }

    /// Which compiled version of the model each row count runs.
    #[must_use]
    pub fn compiled(&self) -> &CompileRanges {
        &self.compiled
    }

    /// Graphs of the encoder and of the replay layers.
    #[must_use]
    pub fn other_graphs(&self) -> &OtherGraphs {
        &self.other
    }

    /// Pieces of one PIECEWISE descriptor of a model of `attention_layers`, each a CUDA graph: one more than the breaks
    /// between them (specification section 8).
    #[must_use]
    pub fn pieces(&self, attention_layers: u32) -> u32 {
        attention_layers.saturating_add(self.extra_graph_breaks).saturating_add(1)
    }

    /// CUDA graphs captured for a model of `attention_layers`: one per FULL descriptor, one per piece of a PIECEWISE
    /// descriptor.
    #[must_use]
    pub fn cuda_graphs(&self, attention_layers: u32) -> u64 {
        let per_descriptor = |graph: &Descriptor| match graph.mode {
            RuntimeMode::None => 0,
            RuntimeMode::Piecewise => self.pieces(attention_layers).into(),
            RuntimeMode::Full => 1,
        };
        self.capture_order.iter().map(per_descriptor).sum()
    }
}

impl Dispatcher {
    fn v1(
        options: &VllmOptions,
        config: &GraphConfig,
        mode: CudagraphMode,
        query_len: u32,
        ladder: &mut Ladder,
        warnings: &mut Vec<GraphWarning>,
    ) -> Result<Self, EngineError> {
        let graphs = v1::CudagraphDispatcher::new(
            config.mode,
            config.splitting.attention_compiled_piecewise || config.breakable,
            v1::DispatcherOptions {
                max_num_seqs: options.scheduler.max_num_seqs,
                query_len,
                lora: lora_slots(options),
                compile_sizes: config.capture.compile_sizes.clone(),
            },
        )?;
        if mode.has_full() {
            let rounded = ladder.rounded(query_len)?;
            if rounded != *ladder {
                let (before, after) = (ladder.ceiling, rounded.ceiling);
                warnings.push(GraphWarning::LadderRounded { query_len, before, after });
                *ladder = rounded;
            }
        }
        let parallel = sequence_parallel(&options.graphs, options.version);
        let ranks = if parallel { options.graphs.tensor_parallel_size } else { 1 };
        if let Some(&size) = ladder.sizes.iter().find(|&size| size % ranks != 0) {
            return Err(EngineError::SequenceParallelStride { size, ranks });
        }
        if mode != CudagraphMode::None
            && options.graphs.max_loras.is_some()
            && !options.graphs.cudagraph_specialize_lora
        {
            warnings.push(GraphWarning::LoraFreeStepsEager);
        }
        let ubatch = voted_ubatch(options);
        Ok(Self::V1 { graphs: graphs.initialize(mode, ladder)?, token_multiple: ranks, ubatch })
    }

    fn v2(
        options: &VllmOptions,
        mode: CudagraphMode,
        query_len: u32,
        ladder: &Ladder,
        separate: Option<&SeparateLadders>,
    ) -> Self {
        let graphs = &options.graphs;
        let (ladder, decode_sizes) = match separate {
            None => (ladder.clone(), v2::DecodeSizes::Ladder),
            Some(own) => (
                Ladder { sizes: own.prefill.clone(), ceiling: own.prefill.last().copied().unwrap_or(0) },
                v2::DecodeSizes::Own { shapes: own.decode.clone(), varlen: own.varlen.clone() },
            ),
        };
        let manager = v2::CudaGraphManager::new(&v2::ManagerOptions {
            mode,
            ladder,
            decode_sizes,
            max_num_seqs: options.scheduler.max_num_seqs,
            num_speculative_tokens: graphs.num_speculative_tokens,
            decode_query_len: query_len,
            dynamic_sd_schedule: graphs.dynamic_sd_schedule.clone(),
            varlen_decode: graphs.varlen_decode,
            lora: lora_slots(options),
            ubatch: graphs.ubatch,
            use_kda_recoverssm: graphs.use_kda_recoverssm,
            captured: true,
        });
        Self::V2 {
            graphs: manager,
            varlen_query_max: graphs.varlen_decode.then_some(query_len),
            ubatch: voted_ubatch(options),
        }
    }

    #[inline]
    fn dispatch<T: RuleTrace>(&self, shape: &StepShape, trace: &mut T) -> Descriptor {
        match self {
            Self::V1 { graphs, token_multiple, .. } => {
                let query = v1::Query {
                    tokens: rounded_up(shape.tokens, *token_multiple),
                    uniform: shape.uniform_v1,
                    has_lora: shape.active_loras > 0,
                    active_loras: shape.active_loras,
                    allowed: if shape.encoder_inputs { WITHOUT_FULL } else { v1::ModeSet::ALL },
                };
                if shape.encoder_inputs {
                    trace.guard(Rule::EncoderInputs, false, || "encoder inputs: no full graph is allowed".to_owned());
                }
                let (mode, key) = answer_v1(graphs, &query, trace);
                graphs.descriptor(mode, &key)
            }
            Self::V2 { graphs, ubatch, .. } => {
                let ubatches =
                    ubatch.filter(|ubatch| wants_ubatches(*ubatch, shape)).map_or(1, |split| split.num_ubatches);
                let query = query_v2(shape, ubatches);
                if shape.encoder_inputs {
                    trace.guard(Rule::EncoderInputs, true, || "encoder inputs: the step is forced eager".to_owned());
                    return graphs.eager(&query);
                }
                graphs.dispatch(&query, trace)
            }
        }
    }

    /// The batch is a decode batch in the runner's sense.
    fn is_decode(&self, shape: &StepShape) -> bool {
        match self {
            Self::V1 { .. } => shape.uniform_v1,
            Self::V2 { varlen_query_max: Some(_), .. } => !shape.prefilling,
            Self::V2 { varlen_query_max: None, .. } => shape.uniform_v2.is_some(),
        }
    }

    /// The batch is a decode batch of a query length that decode graphs are made for.
    #[inline]
    fn is_captured_decode(&self, shape: &StepShape) -> bool {
        match self {
            Self::V1 { .. } => shape.uniform_v1,
            Self::V2 { varlen_query_max: Some(most), .. } => !shape.prefilling && shape.max_query <= *most,
            Self::V2 { graphs, varlen_query_max: None, .. } => {
                shape.uniform_v2.is_some_and(|length| graphs.query_lens().contains(&length))
            }
        }
    }

    /// The uniform length in the keys of the step's decode graphs.
    fn decode_length(&self, shape: &StepShape) -> Option<u32> {
        match self {
            Self::V1 { .. } => Some(shape.max_query),
            Self::V2 { varlen_query_max: Some(_), .. } => None,
            Self::V2 { varlen_query_max: None, .. } => shape.uniform_v2,
        }
    }

    fn capture_order(&self) -> Vec<Descriptor> {
        let modes = [RuntimeMode::Piecewise, RuntimeMode::Full];
        let of_mode = |mode| match self {
            Self::V1 { graphs, .. } => {
                graphs.capture_order(mode).iter().map(|key| graphs.descriptor(mode, key)).collect()
            }
            Self::V2 { graphs, .. } => graphs.capture_order(mode).to_vec(),
        };
        modes.into_iter().flat_map(of_mode).collect()
    }
}

fn resolution_input(options: &VllmOptions, config: &GraphConfig, query_len: u32) -> ResolutionInput {
    let graphs = &options.graphs;
    ResolutionInput {
        support: graphs.attention_support,
        attention_in_splitting_ops: config.splitting.attention_in_splitting_ops,
        compilation: config.compilation,
        use_inductor_graph_partition: graphs.use_inductor_graph_partition,
        query_len,
        piecewise_capture_available: graphs.piecewise_capture_available,
        mamba: graphs
            .mamba_cache_blocks
            .map(|blocks| MambaCache { max_num_seqs: options.scheduler.max_num_seqs, blocks }),
    }
}

/// The ranks vote on microbatching; without data parallelism the engine never splits a step.
fn voted_ubatch(options: &VllmOptions) -> Option<Ubatch> {
    options.graphs.ubatch.filter(|_| options.graphs.data_parallel_size > 1)
}

fn lora_slots(options: &VllmOptions) -> LoraSlots {
    LoraSlots {
        max_loras: options.graphs.max_loras,
        specialize_active_lora: options.graphs.specialize_active_lora,
        cudagraph_specialize_lora: options.graphs.cudagraph_specialize_lora,
    }
}

/// What a plan of this release rests on that no source states.
fn inferred(version: Version, runner: Runner, mode: CudagraphMode) -> Option<GraphWarning> {
    let what = match (version, runner) {
        (Version::V0_31_0 | Version::V0_33_0, _) => return None,
        _ if mode == CudagraphMode::None => "what vLLM main schedules, from the rules of 0.33.0",
        (Version::Main, Runner::V1) => {
            "what runner v1 of vLLM main captures, chooses and schedules, from the rules of 0.33.0"
        }
        (Version::Main, Runner::V2) => {
            "which graphs vLLM main makes of its prefill sizes and decode shapes, how it chooses among them and what it \
             schedules: the grids are its own, the rest follows the rules of 0.33.0"
        }
    };
    Some(GraphWarning::Inferred { what })
}

#[inline]
fn rounded_up(tokens: u32, multiple: u32) -> u32 {
    if multiple == 1 { tokens } else { tokens.checked_next_multiple_of(multiple).unwrap_or(u32::MAX) }
}

/// Runner V1's modes for a step that carries encoder output.
const WITHOUT_FULL: v1::ModeSet = v1::ModeSet::ALL.without(v1::ModeSet::of(RuntimeMode::Full));

/// Runner V1's answer; a step on which the engine would stop runs without a graph.
#[inline]
fn answer_v1<T: RuleTrace>(
    graphs: &v1::CudagraphDispatcher,
    query: &v1::Query,
    trace: &mut T,
) -> (RuntimeMode, v1::Key) {
    graphs.dispatch(query, trace).unwrap_or_else(|fault| {
        trace.guard(Rule::Assertion, true, || fault.to_string());
        (RuntimeMode::None, v1::Key::unpadded(query.tokens))
    })
}

#[inline]
fn query_v2(shape: &StepShape, ubatches: u32) -> v2::Query {
    v2::Query {
        requests: shape.requests,
        tokens: shape.tokens,
        uniform: shape.uniform_v2,
        active_loras: shape.active_loras,
        max_query: (!shape.prefilling).then_some(shape.max_query),
        ubatches,
    }
}

/// A rank's vote for microbatches. Of a step dispatched on its own, all ranks are taken to hold a batch like it and to
/// vote the same.
fn wants_ubatches(ubatch: Ubatch, shape: &StepShape) -> bool {
    let threshold = if shape.uniform_v2.is_some() { ubatch.decode_threshold } else { ubatch.prefill_threshold };
    shape.tokens >= threshold
}

#[cfg(test)]
mod tests;

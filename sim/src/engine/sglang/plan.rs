//! One candidate's graphs, from its flags to the answer for every step.

mod ranks;

use super::dedup::{SegmentLikeness, SharedExecutables};
use super::dispatch::decode::{DecodeBatch, DecodeRefusal, DecodeRunner};
use super::dispatch::prefill::{
    FullPrefill, PREFIX_CHUNK_VARIANTS, PrefillBatch, PrefillKey, PrefillRefusal, PrefillRunner, PrefixChunks,
};
use super::error::EngineError;
use super::ladder::{CaptureRules, prefill_capture_requests};
use super::options::{GraphBackend, MoeA2aBackend, SglangOptions};
use super::settings::GraphSettings;
use super::warning::GraphWarning;
use crate::engine::shape::{
    Descriptor, Dispatch, EagerKind, FallbackCause, Guard, NeighbourRungs, RuntimeMode, StepShape,
};
use crate::engine::step::StepExtent;

/// The graphs that the engine captures with one set of flags, and its choice among them.
///
/// Decode graphs name their requests, prefill graphs do not. Full graphs are mode FULL, breakable ones PIECEWISE: graphs
/// between eager breaks. A full prefill graph that is captured for several lengths of cached prefix stands in
/// [`capture_order`](Self::capture_order) once for each, first without a prefix.
#[derive(Clone, Debug)]
pub struct GraphPlan {
    settings: GraphSettings,
    decode: Option<DecodeRunner>,
    prefill: Option<PrefillRunner>,
    lora: bool,
    /// Ranks that decode can join others in prefill graphs, as prompts of one token.
    recasts_decodes: bool,
    capture_sizes: Vec<u32>,
    capture_order: Vec<Descriptor>,
    warnings: Vec<GraphWarning>,
}

/// Which executables the last replays left behind, for both phases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedGraphs {
    decode: Option<SharedExecutables>,
    prefill: Option<SharedExecutables>,
}

impl GraphPlan {
    /// Runs the engine's start for one candidate whose request pool has `request_rows` rows (see
    /// [`request_rows`](super::memory::request_rows): the KV pool is sized before graphs are captured).
    ///
    /// # Errors
    /// The flags with which the engine does not start, and those this program does not take.
    pub fn build(options: &SglangOptions, request_rows: u32) -> Result<Self, EngineError> {
        let settings = GraphSettings::resolve(options)?;
        let rules = CaptureRules::of(options, request_rows);
        let mut warnings = settings.warnings.clone();
        let prefill = prefill_runner(options, &settings, &rules, &mut warnings);
        let decode = decode_runner(options, &settings, &rules, &mut warnings)?;
        let recasts_decodes = settings.prefill.backend == GraphBackend::Breakable
            && options.speculative.is_none()
            && !options.scheduler.return_logprob
            && options.parallel.moe_a2a_backend == MoeA2aBackend::None;
        let mut plan = Self {
            settings,
            decode,
            prefill,
            lora: options.graphs.enable_lora,
            recasts_decodes,
            capture_sizes: Vec::new(),
            capture_order: Vec::new(),
            warnings,
        };
        plan.capture_order = plan.descriptors();
        plan.capture_sizes = plan.capture_order.iter().map(|graph| graph.tokens).collect();
        plan.capture_sizes.sort_unstable();
        plan.capture_sizes.dedup();
        Ok(plan)
    }

    /// Prefill, then decode, each largest first, with every variant of a size behind one another.
    fn descriptors(&self) -> Vec<Descriptor> {
        let loras: &[u32] = if self.lora { &[1, 0] } else { &[0] };
        let mut descriptors = Vec::new();
        if let Some(runner) = &self.prefill {
            let chunks = runner.full.as_ref().and_then(|full| full.prefix_chunks.as_ref());
            let captured = chunks.map_or(&[][..], |chunks| &chunks.variants);
            let variants = || std::iter::once(None).chain(captured.iter().copied().map(Some));
            for &tokens in runner.sizes.iter().rev() {
                for &loras in loras {
                    let key = |prefix_chunks| PrefillKey { tokens, prefix_chunks };
                    descriptors.extend(variants().map(|chunks| self.prefill_graph(key(chunks), loras)));
                }
            }
        }
        if let Some(runner) = &self.decode {
            for &size in runner.sizes.iter().rev() {
                descriptors.extend(loras.iter().map(|&loras| self.decode_graph(size, runner.width, loras)));
            }
        }
        descriptors
    }

    fn prefill_graph(&self, key: PrefillKey, loras: u32) -> Descriptor {
        let PrefillKey { tokens, prefix_chunks } = key;
        Descriptor { mode: mode(self.settings.prefill.backend), loras, prefix_chunks, ..eager(tokens) }
    }

    fn decode_graph(&self, size: u32, width: u32, loras: u32) -> Descriptor {
        let mode = mode(self.settings.decode.backend);
        Descriptor { mode, requests: Some(size), uniform: Some(width), loras, ..eager(size * width) }
    }

    /// The graph for a step whose lengths are not known: none if its graphs are captured for limited lengths.
    #[inline]
    #[must_use]
    pub fn dispatch(&self, shape: &StepShape) -> Dispatch {
        self.dispatch_extent(shape, StepExtent::default())
    }

    /// The graph for a step, with how far its requests reach. Steps that compute prompts ask the prefill runner, all others the decode runner (SGLang
    /// specification section 5).
    #[must_use]
    pub fn dispatch_extent(&self, shape: &StepShape, extent: StepExtent) -> Dispatch {
        let loras = self.loras_of(shape);
        let graph = if shape.prefilling {
            self.ask_prefill(shape, extent).map(|key| self.prefill_graph(key, loras)).map_err(Refusal::cause)
        } else {
            self.ask_decode(shape).map(|(size, width)| self.decode_graph(size, width, loras)).map_err(Refusal::cause)
        };
        match graph {
            Ok(descriptor) => Dispatch { descriptor, cause: None, relaxed: false },
            Err(cause) => self.without_graph(shape, cause),
        }
    }

    /// Whether [`dispatch_extent`](Self::dispatch_extent) looks at lengths: some prefill graphs are captured for limited
    /// ones.
    #[must_use]
    pub fn asks_for_extent(&self) -> bool {
        self.prefill.as_ref().is_some_and(PrefillRunner::asks_for_lengths)
    }

    /// Steps with adapters run their own variant of a graph.
    fn loras_of(&self, shape: &StepShape) -> u32 {
        u32::from(self.lora && shape.active_loras > 0)
    }

    /// A step that runs without a graph; where there is none at all, the cause is that alone.
    fn without_graph(&self, shape: &StepShape, cause: FallbackCause) -> Dispatch {
        let cause = if self.capture_order.is_empty() { FallbackCause::GraphsOff } else { cause };
        let descriptor = Descriptor { requests: Some(shape.requests), ..eager(shape.tokens) };
        Dispatch { descriptor, cause: Some(cause), relaxed: false }
    }

    fn ask_prefill(&self, shape: &StepShape, extent: StepExtent) -> Result<PrefillKey, Refusal> {
        let runner = self.prefill.as_ref().ok_or(Refusal::PhaseOff)?;
        let batch = PrefillBatch {
            tokens: shape.tokens,
            requests: shape.requests,
            longest_prefix: extent.longest_prefix,
            longest_sequence: extent.longest_sequence,
            ..PrefillBatch::default()
        };
        runner.can_run(&batch).map_err(Refusal::Prefill)
    }

    /// The padded size in requests, and the tokens of each.
    fn ask_decode(&self, shape: &StepShape) -> Result<(u32, u32), Refusal> {
        let runner = self.decode.as_ref().ok_or(Refusal::PhaseOff)?;
        let batch =
            DecodeBatch { ngram_tokens: Some(shape.tokens), ..DecodeBatch::of(shape.requests, shape.max_query) };
        runner.can_run(&batch).map(|size| (size, runner.width)).map_err(Refusal::Decode)
    }

    /// The guards that decide about a step, in words: which runner is asked, and what it answers.
    #[must_use]
    pub fn explain(&self, shape: &StepShape, extent: StepExtent) -> Vec<Guard> {
        let (requests, tokens) = (shape.requests, shape.tokens);
        let mut guards = vec![Guard {
            rule: "runner",
            outcome: if shape.prefilling { "the prefill runner is asked" } else { "the decode runner is asked" },
            compared: if shape.prefilling {
                format!("the step computes prompts: its {tokens} tokens count")
            } else {
                format!("every request decodes: their number counts, {requests}")
            },
        }];
        let answer = if shape.prefilling {
            let sizes = self.prefill.as_ref().map_or(&[][..], |runner| &runner.sizes);
            let compared = format!("{tokens} tokens against {} sizes up to {}", sizes.len(), largest(sizes));
            (self.ask_prefill(shape, extent).err(), compared)
        } else {
            let sizes = self.decode.as_ref().map_or(&[][..], |runner| &runner.sizes);
            let compared = format!("{requests} requests against {} sizes up to {}", sizes.len(), largest(sizes));
            (self.ask_decode(shape).err(), compared)
        };
        let (rule, outcome) =
            answer.0.map_or(("padded_size", "the smallest size that holds the step runs"), Refusal::words);
        guards.push(Guard { rule, outcome, compared: answer.1 });
        guards
    }

    /// The captured sizes next to the one that the step runs, of the same phase and variant.
    #[must_use]
    pub fn neighbours(&self, shape: &StepShape, extent: StepExtent) -> NeighbourRungs {
        let ran = self.dispatch_extent(shape, extent).descriptor;
        let like = |graph: &&Descriptor| {
            let key = (graph.uniform.is_some(), graph.loras, graph.prefix_chunks);
            key == (!shape.prefilling, ran.loras, ran.prefix_chunks)
        };
        let alike = || self.capture_order.iter().filter(like);
        NeighbourRungs {
            lower: alike().filter(|graph| graph.tokens < ran.tokens).max_by_key(|graph| graph.tokens).copied(),
            higher: alike().filter(|graph| graph.tokens > ran.tokens).min_by_key(|graph| graph.tokens).copied(),
        }
    }

    /// The settled flags.
    #[must_use]
    pub fn settings(&self) -> &GraphSettings {
        &self.settings
    }

    /// The backends in force, as `decode full, prefill breakable`.
    #[must_use]
    pub fn mode_name(&self) -> String {
        format!("decode {}, prefill {}", self.settings.decode.backend, self.settings.prefill.backend)
    }

    /// The decode runner; `None` without decode graphs.
    #[must_use]
    pub fn decode(&self) -> Option<&DecodeRunner> {
        self.decode.as_ref()
    }

    /// The prefill runner; `None` without prefill graphs.
    #[must_use]
    pub fn prefill(&self) -> Option<&PrefillRunner> {
        self.prefill.as_ref()
    }

    /// The token counts of all graphs of both phases, ascending.
    #[must_use]
    pub fn capture_sizes(&self) -> &[u32] {
        &self.capture_sizes
    }

    /// The largest of them, in tokens; 0 without graphs.
    #[must_use]
    pub fn ceiling(&self) -> u32 {
        largest(&self.capture_sizes)
    }

    /// Tokens of the largest decode graph; 0 without any.
    #[must_use]
    pub fn decode_ceiling(&self) -> u32 {
        self.decode.as_ref().map_or(0, |runner| largest(&runner.sizes) * runner.width)
    }

    /// What a step without a graph runs as: nothing is compiled.
    #[must_use]
    pub fn eager_kind(&self) -> EagerKind {
        EagerKind::True
    }

    /// What the engine changed, and what follows from the flags.
    #[must_use]
    pub fn warnings(&self) -> &[GraphWarning] {
        &self.warnings
    }

    /// All descriptors in the order in which they are captured.
    #[must_use]
    pub fn capture_order(&self) -> &[Descriptor] {
        &self.capture_order
    }

    /// Descriptors captured at start-up.
    #[must_use]
    pub fn descriptors_captured(&self) -> u32 {
        self.capture_order.len() as u32
    }

    /// Segments of a breakable graph: it breaks at each of `attention_layers`.
    #[must_use]
    pub fn pieces(&self, attention_layers: u32) -> u32 {
        attention_layers.saturating_add(1)
    }

    /// CUDA graphs captured for a model of `attention_layers`: one per full graph, one a segment of a breakable one.
    #[must_use]
    pub fn cuda_graphs(&self, attention_layers: u32) -> u64 {
        let segments = |graph: &Descriptor| match graph.mode {
            RuntimeMode::None => 0,
            RuntimeMode::Piecewise => u64::from(self.pieces(attention_layers)),
            RuntimeMode::Full => 1,
        };
        self.capture_order.iter().map(segments).sum()
    }

    /// The executables that the `pieces` segments of a graph share with those of other sizes, as capture leaves them;
    /// `None` without deduplication.
    #[must_use]
    pub fn shared_graphs(&self, pieces: u32, likeness: SegmentLikeness) -> Option<SharedGraphs> {
        let of_phase = |decode: bool| {
            let graphs = self.capture_order.iter().filter(|graph| is_shared_in(graph, decode));
            let keys: Vec<u32> = graphs.map(variant).collect();
            (!keys.is_empty()).then(|| SharedExecutables::new(&keys, pieces, likeness))
        };
        self.settings.dedup.then(|| SharedGraphs { decode: of_phase(true), prefill: of_phase(false) })
    }
}

impl SharedGraphs {
    /// Executables that a replay of this graph updates first.
    pub fn replay(&mut self, graph: &Descriptor) -> u32 {
        let phase = if is_shared_in(graph, true) {
            &mut self.decode
        } else if is_shared_in(graph, false) {
            &mut self.prefill
        } else {
            return 0;
        };
        phase.as_mut().map_or(0, |executables| executables.replay(variant(graph)))
    }

    /// Graphs that have no executable of their own: what deduplication saves.
    #[must_use]
    pub fn spared_executables(&self) -> u64 {
        let phases = [&self.decode, &self.prefill].into_iter().flatten();
        phases.map(|executables| executables.captured() - executables.executables()).sum()
    }
}

/// The graph consists of segments and belongs to the phase.
fn is_shared_in(graph: &Descriptor, decode: bool) -> bool {
    graph.mode == RuntimeMode::Piecewise && graph.uniform.is_some() == decode
}

/// A number per size and variant of one phase.
fn variant(graph: &Descriptor) -> u32 {
    graph.tokens * 2 + graph.loras
}

/// Why a step runs without a graph.
#[derive(Clone, Copy, Debug)]
enum Refusal {
    /// Its phase has no graphs.
    PhaseOff,
    Decode(DecodeRefusal),
    Prefill(PrefillRefusal),
}

impl Refusal {
    fn cause(self) -> FallbackCause {
        match self {
            Self::PhaseOff => FallbackCause::ModeExcluded,
            Self::Decode(refusal) => refusal.cause(),
            Self::Prefill(refusal) => refusal.cause(),
        }
    }

    /// A stable name of the guard, and what followed.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::PhaseOff => ("phase", "this kind of step has no graphs"),
            Self::Decode(DecodeRefusal::AboveCeiling) | Self::Prefill(PrefillRefusal::AboveCeiling) => {
                ("ceiling", "the step is larger than the largest graph")
            }
            Self::Decode(DecodeRefusal::NotCaptured) => ("exact_size", "without padding only captured sizes run"),
            Self::Decode(DecodeRefusal::OtherWidth | DecodeRefusal::OffWidth) => {
                ("width", "the requests have other token counts than the graphs")
            }
            Self::Prefill(PrefillRefusal::TooMuchPadding) => {
                ("padding_factor", "the next size is more than twice the step")
            }
            Self::Prefill(PrefillRefusal::RequestSlots | PrefillRefusal::AttentionRequests) => {
                ("requests", "the step has more requests than the graphs hold")
            }
            Self::Prefill(PrefillRefusal::SequenceTooLong | PrefillRefusal::PrefixTooLong) => {
                ("length", "a sequence is longer than the graphs hold, or its length is not known")
            }
            Self::Decode(_) | Self::Prefill(_) => ("batch", "a trait of the batch keeps it from the graphs"),
        }
    }
}

fn eager(tokens: u32) -> Descriptor {
    Descriptor {
        mode: RuntimeMode::None,
        tokens,
        requests: None,
        uniform: None,
        max_query: None,
        loras: 0,
        ubatches: 1,
        prefix_chunks: None,
    }
}

fn mode(backend: GraphBackend) -> RuntimeMode {
    match backend {
        GraphBackend::Full => RuntimeMode::Full,
        GraphBackend::Breakable => RuntimeMode::Piecewise,
        GraphBackend::Disabled => RuntimeMode::None,
    }
}

fn largest(sizes: &[u32]) -> u32 {
    sizes.last().copied().unwrap_or(0)
}

fn decode_runner(
    options: &SglangOptions,
    settings: &GraphSettings,
    rules: &CaptureRules,
    warnings: &mut Vec<GraphWarning>,
) -> Result<Option<DecodeRunner>, EngineError> {
    if settings.decode.backend == GraphBackend::Disabled {
        return Ok(None);
    }
    let made = rules.decode_sizes(&settings.decode.bs)?;
    let rows = rules.request_rows.next_multiple_of(rules.alignment());
    if !made.dropped.is_empty() {
        let (dropped, alignment) = (made.dropped.len(), rules.alignment());
        warnings.push(GraphWarning::DecodeSizesDropped { dropped, alignment, rows });
    }
    if let Some(rows) = made.appended {
        warnings.push(GraphWarning::RequestRowsAdded { rows });
    }
    let ceiling = largest(&made.sizes);
    if ceiling < rules.request_rows {
        let request_rows = rules.request_rows;
        warnings.push(GraphWarning::DecodeCeilingBelowRequests { ceiling, request_rows });
    }
    let padding = !options.graphs.disable_cuda_graph_padding;
    Ok(Some(DecodeRunner { sizes: made.sizes, width: options.decode_width(), padding }))
}

fn prefill_runner(
    options: &SglangOptions,
    settings: &GraphSettings,
    rules: &CaptureRules,
    warnings: &mut Vec<GraphWarning>,
) -> Option<PrefillRunner> {
    let prefill = &settings.prefill;
    if prefill.backend == GraphBackend::Disabled {
        return None;
    }
    let request_slots = prefill_capture_requests(settings, rules.request_rows);
    let sizes = rules.prefill_sizes(&prefill.bs, request_slots, options.scheduler.context_length);
    let Some(&largest) = sizes.last() else {
        warnings.push(GraphWarning::PrefillListEmpty { max_bs: prefill.max_bs });
        return None;
    };
    let listed =
        options.graphs.cuda_graph_bs_prefill.is_some() || options.graphs.cuda_graph_config.prefill.bs.is_some();
    if let Ok(max_bs) = u32::try_from(prefill.max_bs)
        && !listed
        && largest < max_bs
    {
        warnings.push(GraphWarning::PrefillMaxNotCaptured { max_bs, largest });
    }
    let prefix_chunks = prefill
        .prefix_chunk_tokens
        .map(|chunk_tokens| PrefixChunks { chunk_tokens, variants: PREFIX_CHUNK_VARIANTS.to_vec() });
    let full = (prefill.backend == GraphBackend::Full).then_some(FullPrefill { request_slots, prefix_chunks });
    Some(PrefillRunner {
        sizes,
        full,
        max_context_size: prefill.max_context_size,
        max_seq_len: prefill.max_seq_len,
        attention_requests_max: None,
        eager_mixed: false,
    })
}

#[cfg(test)]
mod tests {
    use super::super::options::{KvOptions, PrefillGraphConfig, Speculative, SpeculativeAlgorithm};
    use super::*;

    fn h100() -> SglangOptions {
        let kv = KvOptions { gpu_mem_mib: Some(81_559), ..KvOptions::default() };
        SglangOptions { kv, ..SglangOptions::default() }
    }

    fn build(options: &SglangOptions) -> GraphPlan {
        GraphPlan::build(options, 2048).expect("the engine starts")
    }

    fn decode(requests: u32, width: u32) -> StepShape {
        StepShape { requests, tokens: requests * width, max_query: width, ..StepShape::default() }
    }

    fn prefill(requests: u32, tokens: u32) -> StepShape {
        StepShape { requests, tokens, max_query: tokens, prefilling: true, ..StepShape::default() }
    }

    fn answer(plan: &GraphPlan, shape: &StepShape) -> (RuntimeMode, u32, Option<FallbackCause>) {
        let Dispatch { descriptor, cause, .. } = plan.dispatch(shape);
        (descriptor.mode, descriptor.tokens, cause)
    }

    #[test]
    fn defaults_capture_breakable_prefill_before_full_decode_largest_first() {
        let plan = build(&h100());
        let order = plan.capture_order();
        assert_eq!((plan.descriptors_captured(), plan.cuda_graphs(32)), (58 + 36, 58 * 33 + 36));
        assert_eq!([order[0].tokens, order[57].tokens, order[58].tokens, order[93].tokens], [8192, 4, 256, 1]);
        assert_eq!((order[0].mode, order[0].requests), (RuntimeMode::Piecewise, None));
        assert_eq!((order[58].mode, order[58].requests), (RuntimeMode::Full, Some(256)));
        assert_eq!(plan.mode_name(), "decode full, prefill breakable");
        assert_eq!((plan.ceiling(), plan.decode_ceiling()), (8192, 256));
        let warning = GraphWarning::DecodeCeilingBelowRequests { ceiling: 256, request_rows: 2048 };
        assert_eq!(plan.warnings(), [warning]);
    }

    #[test]
    fn steps_that_compute_prompts_and_steps_that_decode_ask_different_runners() {
        let plan = build(&h100());
        assert_eq!(answer(&plan, &decode(9, 1)), (RuntimeMode::Full, 12, None));
        assert_eq!(answer(&plan, &decode(257, 1)), (RuntimeMode::None, 257, Some(FallbackCause::AboveCeiling)));
        assert_eq!(answer(&plan, &prefill(2, 257)), (RuntimeMode::Piecewise, 288, None));
        assert_eq!(answer(&plan, &prefill(1, 1)), (RuntimeMode::None, 1, Some(FallbackCause::NoKey)), "4 is too many");
        assert_eq!(answer(&plan, &prefill(1, 8193)), (RuntimeMode::None, 8193, Some(FallbackCause::AboveCeiling)));
        assert_eq!(plan.explain(&prefill(1, 1), StepExtent::default())[1].rule, "padding_factor");
        assert_eq!(plan.explain(&decode(9, 1), StepExtent::default())[1].rule, "padded_size");
        let neighbours = plan.neighbours(&decode(9, 1), StepExtent::default());
        assert_eq!(
            (neighbours.lower.map(|graph| graph.tokens), neighbours.higher.map(|graph| graph.tokens)),
            (Some(8), Some(16))
        );
    }

    #[test]
    fn a_phase_without_graphs_is_excluded_and_no_graphs_at_all_are_off() {
        let mut options = h100();
        options.graphs.disable_prefill_cuda_graph = true;
        assert_eq!(answer(&build(&options), &prefill(1, 64)).2, Some(FallbackCause::ModeExcluded));
        options.graphs.disable_decode_cuda_graph = true;
        let plan = build(&options);
        assert_eq!(
            [prefill(1, 64), decode(1, 1)].map(|shape| answer(&plan, &shape).2),
            [Some(FallbackCause::GraphsOff); 2]
        );
        let mut unchunked = h100();
        unchunked.scheduler.chunked_prefill_size = Some(-1);
        assert!(build(&unchunked).warnings().contains(&GraphWarning::PrefillListEmpty { max_bs: -1 }));
    }

    #[test]
    fn decode_sizes_are_requests_of_the_speculative_width() {
        let speculative = Speculative { algorithm: SpeculativeAlgorithm::Eagle, num_draft_tokens: 4 };
        let plan = build(&SglangOptions { speculative: Some(speculative), ..h100() });
        let ran = plan.dispatch(&decode(9, 4)).descriptor;
        assert_eq!((ran.requests, ran.tokens, ran.uniform), (Some(10), 40, Some(4)));
        assert_eq!(answer(&plan, &decode(9, 1)).2, Some(FallbackCause::NoKey));
    }

    #[test]
    fn what_happens_to_a_list_on_the_way_is_said() {
        let mut options = h100();
        options.graphs.cuda_graph_bs_decode = Some(vec![4, 4000]);
        options.scheduler.chunked_prefill_size = Some(5000);
        let codes: Vec<&str> = build(&options).warnings().iter().map(GraphWarning::code).collect();
        assert_eq!(codes, ["prefill_max_not_captured", "decode_sizes_dropped", "request_rows_added"]);
        for warning in build(&options).warnings() {
            assert!(!warning.to_string().contains("  "), "{warning}");
        }
    }

    #[test]
    fn full_prefill_graphs_have_variants_and_need_known_lengths_under_a_limit() {
        let mut options = h100();
        options.graphs.cuda_graph_config.prefill = PrefillGraphConfig {
            backend: Some(GraphBackend::Full),
            bs: Some(vec![64]),
            full_prefill_prefix_chunk_tokens: Some(512),
            max_seq_len: Some(4096),
            ..PrefillGraphConfig::default()
        };
        let plan = build(&options);
        let order = plan.capture_order();
        let variants = order.iter().filter(|graph| graph.uniform.is_none()).map(|graph| graph.prefix_chunks);
        assert!(variants.eq([None, Some(1), Some(2), Some(4), Some(8), Some(16)]));
        assert!(order.iter().enumerate().all(|(index, graph)| !order[..index].contains(graph)), "keys are distinct");
        let extent = StepExtent { longest_sequence: Some(1064), longest_prefix: Some(1000) };
        let ran = plan.dispatch_extent(&prefill(1, 64), extent).descriptor;
        assert_eq!((ran.mode, ran.prefix_chunks), (RuntimeMode::Full, Some(2)));
        assert_eq!(plan.explain(&prefill(1, 64), extent)[1].rule, "padded_size");
        assert_eq!(plan.explain(&prefill(1, 64), StepExtent::default())[1].rule, "length");
        assert_eq!(answer(&plan, &prefill(1, 64)).2, Some(FallbackCause::NoKey), "its length is not known");
    }

    #[test]
    fn a_change_of_size_updates_every_segment_of_deduplicated_graphs() {
        let mut options = h100();
        options.graphs.enable_cuda_graph_dedup = true;
        let plan = build(&options);
        let mut shared = plan.shared_graphs(33, SegmentLikeness::SamePlace).expect("it is on");
        let ran = |tokens| plan.dispatch(&prefill(1, tokens)).descriptor;
        assert_eq!([64, 64, 128].map(|tokens| shared.replay(&ran(tokens))), [33, 0, 33]);
        assert_eq!(shared.replay(&plan.dispatch(&decode(8, 1)).descriptor), 0, "full graphs have their own");
        assert_eq!(shared.spared_executables(), 57 * 33);
        assert!(build(&h100()).shared_graphs(33, SegmentLikeness::SamePlace).is_none());
    }
}

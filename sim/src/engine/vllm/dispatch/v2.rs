//! Model runner V2's `CudaGraphManager` (specification section 6).

use std::collections::HashSet;

use super::explain::{Rule, RuleTrace};
use super::lora::LoraSlots;
use super::rungs::RungIndex;
use crate::engine::shape::{Descriptor, RuntimeMode};
use crate::engine::vllm::drafting::draft_tiers;
use crate::engine::vllm::grids::DecodeShape;
use crate::engine::vllm::ladder::Ladder;
use crate::engine::vllm::options::{CudagraphMode, Ubatch};

/// What the manager is built from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagerOptions {
    /// The resolved mode.
    pub mode: CudagraphMode,
    /// The ladder; under main that of prefill graphs.
    pub ladder: Ladder,
    /// Where decode graphs take their sizes from.
    pub decode_sizes: DecodeSizes,
    /// Most running requests.
    pub max_num_seqs: u32,
    /// Drafts per request.
    pub num_speculative_tokens: u32,
    /// Tokens per request of a decode step: drafts plus the tokens sampled per step (1; 0 for diffusion).
    pub decode_query_len: u32,
    /// Dynamic speculative decoding: `(first_batch, last_batch, drafts)` per tier.
    pub dynamic_sd_schedule: Option<Vec<(u32, u32, u32)>>,
    /// Adaptive verification: decode graphs hold any query lengths up to the longest.
    pub varlen_decode: bool,
    /// LoRA.
    pub lora: LoraSlots,
    /// Dual-batch overlap.
    pub ubatch: Option<Ubatch>,
    /// KDA layers that recover state-space state.
    pub use_kda_recoverssm: bool,
    /// The graphs exist: before capture every step runs without one.
    pub captured: bool,
}

/// Where decode graphs take their sizes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeSizes {
    /// From the ladder, each size rounded up to whole requests: 0.31 and 0.33.
    Ladder,
    /// From lists of their own: main. How its manager makes graphs of them is inferred (specification section 6b).
    Own {
        /// Uniform batches.
        shapes: Vec<DecodeShape>,
        /// Batches of adaptive verification, in tokens, ascending.
        varlen: Vec<u32>,
    },
}

/// A step as runner V2 hands it to its manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// Scheduled requests.
    pub requests: u32,
    /// Scheduled tokens.
    pub tokens: u32,
    /// The common query length of a batch that may use a decode graph.
    pub uniform: Option<u32>,
    /// Active adapters.
    pub active_loras: u32,
    /// The longest query; `None` while some request is prefilling.
    pub max_query: Option<u32>,
    /// Microbatches.
    pub ubatches: u32,
}

/// All graphs and the look-up among them.
#[derive(Clone, Debug)]
pub struct CudaGraphManager {
    captured: bool,
    lora_cases: Vec<u32>,
    /// The decode query lengths with graphs of their own, ascending.
    query_lens: Vec<u32>,
    /// In capture order.
    piecewise: Vec<Descriptor>,
    /// In capture order.
    full: Vec<Descriptor>,
    /// The token counts of all graphs: between two neighbours every step has the same candidates.
    rungs: RungIndex,
    /// Start and end in `candidates` per rung and LoRA case, cases running fastest.
    spans: Vec<(u32, u32)>,
    candidates: Vec<Descriptor>,
}

impl CudaGraphManager {
    /// Makes the descriptors and their candidate lists.
    #[must_use]
    pub fn new(options: &ManagerOptions) -> Self {
        let lora_cases = options.lora.cases_v2();
        let query_lens = decode_query_lens(options);
        let grid = Grid { options, query_lens: &query_lens };
        let (full, piecewise) = grid.descriptors(&lora_cases);
        let mut token_counts: Vec<u32> = full.iter().chain(&piecewise).map(|graph| graph.tokens).collect();
        token_counts.sort_unstable();
        token_counts.dedup();
        let (spans, candidates) = candidate_lists(&token_counts, &lora_cases, &[&full, &piecewise]);
        Self {
            captured: options.captured,
            lora_cases,
            query_lens,
            piecewise: largest_first(piecewise),
            full: largest_first(full),
            rungs: RungIndex::new(token_counts),
            spans,
            candidates,
        }
    }

    /// The graph for a step, or its unpadded shape in mode NONE.
    #[inline]
    pub fn dispatch<T: RuleTrace>(&self, query: &Query, trace: &mut T) -> Descriptor {
        let tokens = query.tokens;
        let (case, loras) = self.lora_case(query.active_loras);
        if self.lora_cases.len() > 1 {
            trace.guard(Rule::LoraCase, false, || {
                format!("{} active adapters use graphs for {loras}", query.active_loras)
            });
        }
        let eager = self.eager(query);
        let idle = !self.captured || tokens == 0;
        if trace.guard(Rule::Idle, idle, || {
            let capturing = if self.captured { "over" } else { "not over" };
            format!("capturing is {capturing}; {tokens} tokens to run")
        }) {
            return eager;
        }
        let largest = || self.rungs.sizes().last().copied().unwrap_or(0);
        let position = self.rungs.position(tokens);
        if trace.guard(Rule::Ceiling, position.is_none(), || match largest() {
            0 => "there are no graphs".to_owned(),
            largest => format!("{tokens} tokens; the largest graph has {largest}"),
        }) {
            return eager;
        }
        let Some(position) = position else { return eager };
        let (start, end) = self.spans[position * self.lora_cases.len() + case];
        trace.guard(Rule::PaddedSize, false, || {
            let held: Vec<String> = self.candidates[start as usize..end as usize]
                .iter()
                .map(|graph| format!("{} {}", graph.mode, graph.tokens))
                .collect();
            format!("{tokens} tokens; the smallest captured sizes that hold them: {}", held.join(", "))
        });
        for graph in &self.candidates[start as usize..end as usize] {
            if fits(graph, query, loras, trace) {
                return *graph;
            }
        }
        trace.guard(Rule::NoneLeft, true, || "no other graph of the smallest size that holds the step".to_owned());
        eager
    }

    /// The unpadded shape of a step that runs without a graph.
    #[inline]
    #[must_use]
    pub fn eager(&self, query: &Query) -> Descriptor {
        Descriptor {
            mode: RuntimeMode::None,
            tokens: query.tokens,
            requests: Some(query.requests),
            uniform: None,
            max_query: None,
            loras: self.lora_case(query.active_loras).1,
            ubatches: query.ubatches,
            prefix_chunks: None,
        }
    }

    /// The smallest captured adapter count that holds `active`, clamped to the largest, with its position.
    #[inline]
    fn lora_case(&self, active: u32) -> (usize, u32) {
        // The first case is always 0.
        if active == 0 || self.lora_cases.len() == 1 {
            return (0, 0);
        }
        let position = self.lora_cases.partition_point(|&case| case < active).min(self.lora_cases.len() - 1);
        (position, self.lora_cases[position])
    }

    /// The captured adapter counts, with 0 for batches without adapters.
    #[must_use]
    pub fn lora_cases(&self) -> &[u32] {
        &self.lora_cases
    }

    /// The decode query lengths that have graphs of their own, in tokens, ascending.
    #[must_use]
    pub fn query_lens(&self) -> &[u32] {
        &self.query_lens
    }

    /// The descriptors of one mode in the order in which they are captured.
    #[must_use]
    pub fn capture_order(&self, mode: RuntimeMode) -> &[Descriptor] {
        match mode {
            RuntimeMode::None => &[],
            RuntimeMode::Piecewise => &self.piecewise,
            RuntimeMode::Full => &self.full,
        }
    }
}

/// The guards of one candidate, in the manager's order.
#[inline]
fn fits<T: RuleTrace>(graph: &Descriptor, query: &Query, loras: u32, trace: &mut T) -> bool {
    let name = || format!("{} {}", graph.mode, graph.tokens);
    let wrong_length = graph.uniform.is_some() && graph.uniform != query.uniform;
    if trace.guard(Rule::UniformLength, wrong_length, || {
        let step = query.uniform.map_or_else(|| "has mixed ones".to_owned(), |length| format!("has {length} each"));
        match graph.uniform {
            Some(length) => format!("{}: made for queries of {length}; the step {step}", name()),
            None => format!("{}: takes mixed query lengths", name()),
        }
    }) {
        return false;
    }
    let too_long = graph.max_query.is_some_and(|most| query.max_query.is_none_or(|longest| longest > most));
    if trace.guard(Rule::LongestQuery, too_long, || {
        let step = query.max_query.map_or_else(|| "prefills".to_owned(), |longest| format!("has {longest}"));
        match graph.max_query {
            Some(most) => format!("{}: queries of at most {most}; the step {step}", name()),
            None => format!("{}: takes queries of any length", name()),
        }
    }) {
        return false;
    }
    let too_many = graph.requests.is_some_and(|most| query.requests > most);
    if trace.guard(Rule::Requests, too_many, || match graph.requests {
        Some(most) => format!("{}: at most {most} requests; the step has {}", name(), query.requests),
        None => format!("{}: takes any number of requests", name()),
    }) {
        return false;
    }
    let other = graph.tokens < query.tokens || graph.loras != loras || graph.ubatches != query.ubatches;
    !trace.guard(Rule::Key, other, || {
        let split = |ubatches: u32| if ubatches > 1 { format!(", {ubatches} microbatches") } else { String::new() };
        let adapters = |loras: u32| if loras > 0 { format!(", {loras} adapters") } else { String::new() };
        format!(
            "{}{}{}; the step has {} tokens{}{}",
            name(),
            adapters(graph.loras),
            split(graph.ubatches),
            query.tokens,
            adapters(loras),
            split(query.ubatches)
        )
    })
}

/// The decode query lengths: one, or with dynamic speculative decoding one per number of drafts in use.
fn decode_query_lens(options: &ManagerOptions) -> Vec<u32> {
    let drafts = options.num_speculative_tokens;
    let sampled = options.decode_query_len.saturating_sub(drafts);
    if options.dynamic_sd_schedule.is_none() {
        return vec![options.decode_query_len];
    }
    draft_tiers(options.dynamic_sd_schedule.as_deref(), drafts, options.max_num_seqs)
        .iter()
        .map(|tier| tier.drafts + sampled)
        .collect()
}

/// The walk over ladder and LoRA cases that makes descriptors.
struct Grid<'a> {
    options: &'a ManagerOptions,
    query_lens: &'a [u32],
}

impl Grid<'_> {
    /// Full and piecewise descriptors, each in the order in which the walk meets them.
    fn descriptors(&self, lora_cases: &[u32]) -> (Vec<Descriptor>, Vec<Descriptor>) {
        let (mut full, mut piecewise) = (self.own_decode_graphs(lora_cases), Vec::new());
        let mut seen = HashSet::new();
        for &size in &self.options.ladder.sizes {
            for &loras in lora_cases {
                for graph in self.decode_graphs(size, loras).into_iter().filter(|&graph| seen.insert(graph)) {
                    full.push(graph);
                    full.extend(self.microbatched(&graph));
                }
                let Some(graph) = self.mixed_graph(size, loras) else { continue };
                if graph.mode == RuntimeMode::Full {
                    full.push(graph);
                    full.extend(self.microbatched(&graph));
                } else {
                    piecewise.push(graph);
                }
            }
        }
        (full, piecewise)
    }

    /// The decode graphs of lists of their own, with their twins.
    fn own_decode_graphs(&self, lora_cases: &[u32]) -> Vec<Descriptor> {
        let DecodeSizes::Own { shapes, varlen } = &self.options.decode_sizes else { return Vec::new() };
        if !self.options.mode.separate_routine() {
            return Vec::new();
        }
        let uniform = |shape: &DecodeShape, loras| {
            let tokens = shape.requests * shape.query_len;
            uniform_graph(tokens, shape.requests, shape.query_len, loras)
        };
        let cases = || lora_cases.iter().copied();
        let graphs: Vec<Descriptor> = if self.options.varlen_decode {
            varlen.iter().flat_map(|&size| cases().filter_map(move |loras| self.varlen_graph(size, loras))).collect()
        } else {
            shapes.iter().flat_map(|shape| cases().map(move |loras| uniform(shape, loras))).collect()
        };
        graphs.into_iter().flat_map(|graph| [Some(graph), self.microbatched(&graph)].into_iter().flatten()).collect()
    }

    fn varlen_graph(&self, size: u32, loras: u32) -> Option<Descriptor> {
        let graph = Descriptor {
            requests: Some(size.min(self.options.max_num_seqs)),
            max_query: Some(self.options.decode_query_len),
            ..bare(RuntimeMode::Full, size, loras)
        };
        (u64::from(size) <= self.full_batch()).then_some(graph)
    }

    fn decode_graphs(&self, size: u32, loras: u32) -> Vec<Descriptor> {
        let ManagerOptions { mode, ladder, decode_sizes, max_num_seqs, varlen_decode, .. } = self.options;
        if !mode.separate_routine() || *decode_sizes != DecodeSizes::Ladder {
            return Vec::new();
        }
        if *varlen_decode {
            return self.varlen_graph(size, loras).into_iter().collect();
        }
        let mut graphs = Vec::new();
        for &length in self.query_lens.iter().filter(|&&length| length > 0) {
            let tokens = u64::from(size).next_multiple_of(u64::from(length));
            let requests = tokens / u64::from(length);
            let most_tokens = self.full_batch().min(u64::from(ladder.ceiling));
            if tokens <= most_tokens && requests <= u64::from(*max_num_seqs) {
                graphs.push(uniform_graph(tokens as u32, requests as u32, length, loras));
            }
        }
        graphs
    }

    fn mixed_graph(&self, size: u32, loras: u32) -> Option<Descriptor> {
        let mode = self.options.mode.mixed_mode();
        let beyond_kda = self.options.use_kda_recoverssm && u64::from(size) > self.full_batch();
        if mode == RuntimeMode::None || beyond_kda {
            return None;
        }
        let requests = (mode == RuntimeMode::Full).then_some(size.min(self.options.max_num_seqs));
        Some(Descriptor { requests, ..bare(mode, size, loras) })
    }

    /// The twin of a full graph for a step split into microbatches: only where its tokens divide evenly by its requests.
    fn microbatched(&self, graph: &Descriptor) -> Option<Descriptor> {
        let ubatch = self.options.ubatch?;
        let requests = graph.requests.filter(|&requests| requests > 0)?;
        let length = graph.tokens / requests;
        let even = graph.tokens.is_multiple_of(requests) && graph.uniform.is_none_or(|uniform| uniform == length);
        let enough = graph.tokens >= ubatch.num_ubatches && graph.tokens >= ubatch.decode_threshold;
        (even && enough).then_some(Descriptor { uniform: Some(length), ubatches: ubatch.num_ubatches, ..*graph })
    }

    /// Tokens of a step in which every request decodes at full length.
    fn full_batch(&self) -> u64 {
        u64::from(self.options.max_num_seqs) * u64::from(self.options.decode_query_len)
    }
}

/// A full graph for batches of one query length.
fn uniform_graph(tokens: u32, requests: u32, length: u32, loras: u32) -> Descriptor {
    Descriptor { requests: Some(requests), uniform: Some(length), ..bare(RuntimeMode::Full, tokens, loras) }
}

/// A descriptor that constrains nothing but tokens and adapters.
fn bare(mode: RuntimeMode, tokens: u32, loras: u32) -> Descriptor {
    Descriptor { mode, tokens, requests: None, uniform: None, max_query: None, loras, ubatches: 1, prefix_chunks: None }
}

/// Capture order: largest first, ties as the walk met them.
fn largest_first(mut graphs: Vec<Descriptor>) -> Vec<Descriptor> {
    graphs.sort_by_key(|graph| std::cmp::Reverse(graph.tokens));
    graphs
}

/// Per token count and LoRA case: of each mode, FULL first, only the graphs of the smallest size that holds the step.
fn candidate_lists(
    token_counts: &[u32],
    lora_cases: &[u32],
    modes: &[&[Descriptor]; 2],
) -> (Vec<(u32, u32)>, Vec<Descriptor>) {
    let by_case: Vec<[Vec<Descriptor>; 2]> = lora_cases
        .iter()
        .map(|&case| {
            modes.map(|graphs| {
                let mut of_case: Vec<Descriptor> = graphs.iter().filter(|graph| graph.loras == case).copied().collect();
                of_case.sort_by_key(|graph| graph.tokens);
                of_case
            })
        })
        .collect();
    let (mut spans, mut candidates) = (Vec::new(), Vec::new());
    for &tokens in token_counts {
        for graphs_of_case in &by_case {
            let start = candidates.len() as u32;
            for graphs in graphs_of_case {
                let first = graphs.partition_point(|graph| graph.tokens < tokens);
                let smallest = graphs.get(first).map(|graph| graph.tokens);
                candidates.extend(graphs[first..].iter().take_while(|graph| Some(graph.tokens) == smallest));
            }
            spans.push((start, candidates.len() as u32));
        }
    }
    (spans, candidates)
}

//! The result of `sim run`: candidate ladders compared on the same traffic.

use serde::{Deserialize, Serialize};

use crate::{DescriptorRecord, EngineReport, Figure, LadderSizes, Name, PairReport, ProfileReport, Warning};

/// Everything `sim run` says, as one JSON document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunReport {
    /// Version of Rungwise that ran it.
    #[serde(default)]
    pub version: String,
    /// The command that gives the same figures, word by word; left out in the points of a sweep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The scenario that ran.
    pub scenario: ScenarioReport,
    /// The seed of the traffic; with several seeds the first of them.
    pub seed: u64,
    /// All seeds, in order; left out for one seed. When present, every figure is `{mean, low, high}` or null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seeds: Option<Vec<u64>>,
    /// The engine simulated.
    pub engine: EngineReport,
    /// The cost profile, with the provenance of each group used.
    pub profile: ProfileReport,
    /// What to know before trusting the figures.
    pub warnings: Vec<Warning>,
    /// One entry a candidate, in the scenario's order.
    pub candidates: Vec<CandidateReport>,
    /// Paired differences between candidates over the same seeds; left out for one seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairs: Option<Vec<PairReport>>,
}

/// The scenario, by name and content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScenarioReport {
    /// The scenario's own name.
    pub name: String,
    /// SHA-256 of the scenario file, lower-case hexadecimal.
    pub sha256: String,
    /// Requests offered to every candidate, requests; null where steps are priced without requests.
    pub requests: Option<u64>,
    /// The service levels that goodput counts; null if the scenario sets none.
    pub slo: Option<SloReport>,
}

/// Service levels, all inclusive: a request is good if every given one holds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SloReport {
    /// Longest time to first token, ms; null if not asked for.
    pub ttft_ms: Option<f64>,
    /// Longest time per output token after the first, ms; null if not asked for.
    pub tpot_ms: Option<f64>,
    /// Longest end-to-end latency, ms; null if not asked for.
    pub e2el_ms: Option<f64>,
}

/// The figures of one candidate. Names and definitions of the latency figures are those of `vllm bench serve`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CandidateReport {
    /// The candidate's name.
    pub name: String,
    /// The capture sizes after the engine's own rules, those of all ladders together, ascending, tokens.
    pub capture_sizes: Vec<u32>,
    /// The sizes that each kind of step pads to.
    #[serde(default)]
    pub ladders: Vec<LadderSizes>,
    /// The configured `cudagraph_mode` after the engine's own resolution.
    pub cudagraph_mode: String,
    /// Engine steps that ran at least one token.
    pub steps: Figure,
    /// From the start of the run (or its warm-up cut) to the last completion, s.
    pub duration_s: Figure,
    /// Requests that finished.
    pub completed: Figure,
    /// Requests that the engine refused (longer than `max_model_len`).
    pub refused: Figure,
    /// Requests sent per second, from the start of the run (or its warm-up cut) to the last one sent; refused ones
    /// included. Null for a single instant.
    pub request_rate: Figure,
    /// Mean prompt of the completed requests, tokens.
    pub mean_prompt_tokens: Figure,
    /// Mean output of the completed requests, tokens.
    pub mean_output_tokens: Figure,
    /// Completed requests that meet every SLO, per second of `duration_s`; null without an SLO.
    pub request_goodput: Figure,
    /// Completed requests per second of `duration_s`.
    pub request_throughput: Figure,
    /// Output tokens of completed requests per second of `duration_s`.
    pub output_throughput: Figure,
    /// Share of completed requests that meet each SLO alone.
    pub slo_attainment: SloAttainment,
    /// Mean time to first token, ms.
    pub mean_ttft_ms: Figure,
    /// Median time to first token, ms.
    pub median_ttft_ms: Figure,
    /// 99th percentile of the time to first token, linearly interpolated, ms.
    pub p99_ttft_ms: Figure,
    /// Mean time per output token after the first, over requests with two or more output tokens, ms.
    pub mean_tpot_ms: Figure,
    /// Median time per output token after the first, ms.
    pub median_tpot_ms: Figure,
    /// 99th percentile of the time per output token after the first, ms.
    pub p99_tpot_ms: Figure,
    /// Mean inter-token latency, over all gaps between two deliveries to one request, ms: with drafts one delivery can hold
    /// several tokens, and counts once, as in `vllm bench serve`.
    pub mean_itl_ms: Figure,
    /// Median inter-token latency, ms.
    pub median_itl_ms: Figure,
    /// 99th percentile of the inter-token latency, ms.
    pub p99_itl_ms: Figure,
    /// Mean end-to-end latency, from arrival to last token, ms.
    pub mean_e2el_ms: Figure,
    /// Median end-to-end latency, ms.
    pub median_e2el_ms: Figure,
    /// 99th percentile of the end-to-end latency, ms.
    pub p99_e2el_ms: Figure,
    /// Mean real rows (scheduled tokens) of a step, over all steps, rows.
    pub mean_batch_rows: Figure,
    /// Steps without a prefill / all steps.
    pub decode_step_share: Figure,
    /// Median rows of the steps without a prefill: the smallest number that half of them do not exceed, rows.
    pub median_decode_rows: Figure,
    /// 99th percentile of the rows of the steps without a prefill, a number that occurred, rows.
    pub p99_decode_rows: Figure,
    /// Most rows of a step without a prefill, rows.
    pub max_decode_rows: Figure,
    /// Requests that were running when the last one was sent: the state that open traffic had settled in.
    pub running_at_last_sent: Figure,
    /// Steps that data-parallel ranks without work ran because others had work; null for one rank.
    pub dummy_steps: Figure,
    /// Most requests waiting after a step was scheduled.
    pub peak_waiting: Figure,
    /// Mean duration of a step, over all steps, ms.
    pub mean_step_ms: Figure,
    /// Graph steps without padding / graph steps; null if no graph ran.
    pub exact_hit_rate: Figure,
    /// Padded rows / real rows, both summed over graph steps; null if no graph ran.
    pub padding_ratio: Figure,
    /// Padded rows / rows run, both summed over graph steps; null if no graph ran.
    pub waste_share: Figure,
    /// Rows that data-parallel ranks padded in steps without a graph, rows; null for one rank, which pads none.
    pub padded_rows_without_graph: Figure,
    /// Steps without a graph / all steps.
    pub fallback_rate: Figure,
    /// Steps without a graph, by cause.
    pub fallbacks: Fallbacks,
    /// Steps that wanted a FULL graph and ran PIECEWISE.
    pub relaxed_steps: Figure,
    /// Executables that were updated because another graph that shares them ran before.
    #[serde(default)]
    pub executable_updates: Figure,
    /// Milliseconds that replay won (negative: lost) over all graph steps, against the eager kind that this engine
    /// would have run instead, ms.
    pub saved_ms: Figure,
    /// One entry per captured mode and size, ascending; a rung with no steps is a dead rung.
    pub rungs: Vec<RungReport>,
    /// Descriptors captured at start-up.
    pub descriptors_captured: Figure,
    /// CUDA graphs captured: one a FULL descriptor, one a piece for a PIECEWISE one.
    pub cuda_graphs: Figure,
    /// Device memory of the graphs as the model predicts it, bytes.
    pub graph_memory_bytes: Figure,
    /// Device memory that the graphs do not hold because some share executables, bytes.
    #[serde(default)]
    pub graph_memory_spared_bytes: Figure,
    /// Device memory of the graphs as the engine itself estimates it before it captures them, bytes; null where it makes
    /// no estimate.
    pub graph_estimate_bytes: Figure,
    /// Tokens that the KV pool holds, tokens.
    pub kv_tokens: Figure,
    /// KV tokens that fit without graphs and do not fit with these, tokens; null where the pool size is given.
    pub kv_tokens_lost: Figure,
    /// Blocks of the KV pool, the null block included.
    pub kv_blocks: KvBlocks,
    /// Most of the KV pool in use at any step, share of blocks.
    pub peak_kv_usage: Figure,
    /// Start-up time: memory profiling, compile, warm-up and captures, s.
    pub startup_s: Figure,
    /// The parts of `startup_s`.
    pub startup: Startup,
    /// What the warm-up cut left out of the figures above.
    pub cold_start: ColdStart,
    /// Times that a running request lost its KV blocks and had to recompute.
    pub preemptions: Figure,
    /// What the prefix cache saved.
    pub prefix_cache: PrefixCache,
    /// What became of the drafts; null without drafts.
    pub spec_decode: SpecDecode,
    /// For each position, drafts accepted up to there / verifications; empty without drafts.
    pub per_position_acceptance_rates: Vec<Figure>,
    /// Host time per step, mean over all steps, ms.
    pub host_ms_per_step: Figure,
    /// Time per step in which the device waited while there was work, mean over all steps, ms.
    pub device_idle_ms_per_step: Figure,
    /// Cost terms, each the mean over all steps.
    pub cost: CostBreakdown,
    /// Steps with some cost from outside the range of its group.
    pub steps_outside_range: Figure,
    /// Steps with some cost from `derived` figures, inside their valid range.
    pub steps_from_derived: Figure,
    /// Unique artifacts and how often each served: one per captured descriptor, and one for the eager kind.
    pub artifacts: Vec<ArtifactReport>,
}

/// Share of completed requests that meet one SLO, whatever the others; null where the scenario does not ask for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SloAttainment {
    /// Share of completed requests within the time to first token.
    pub ttft: Figure,
    /// Share of completed requests within the time per output token.
    pub tpot: Figure,
    /// Share of completed requests within the end-to-end latency.
    pub e2el: Figure,
}

/// Steps without a graph, by cause. With the steps of all rungs they make up `steps`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fallbacks {
    /// Steps with more tokens than the largest captured size.
    pub above_ceiling: Figure,
    /// Steps whose padded size exists but whose shape no captured key fits.
    pub no_key: Figure,
    /// Steps of a kind for which the configured mode captures nothing.
    pub mode_excluded: Figure,
    /// Steps that carry encoder inputs of an encoder-decoder model.
    #[serde(default)]
    pub encoder_inputs: Figure,
    /// Steps that could not have their graph because of another data-parallel rank.
    #[serde(default)]
    pub other_rank: Figure,
    /// Steps of a candidate without graphs.
    pub graphs_off: Figure,
}

impl Fallbacks {
    /// The causes with their names, in the order of the fields.
    #[must_use]
    pub fn named(&self) -> [(&'static str, Figure); 6] {
        [
            ("above_ceiling", self.above_ceiling),
            ("no_key", self.no_key),
            ("mode_excluded", self.mode_excluded),
            ("encoder_inputs", self.encoder_inputs),
            ("other_rank", self.other_rank),
            ("graphs_off", self.graphs_off),
        ]
    }
}

/// What the prefix cache saved; null where it is off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PrefixCache {
    /// Prompt tokens found in the cache / prompt tokens, both summed over the requests admitted, each once.
    pub hit_rate: Figure,
    /// Prompt tokens found in the cache by requests admitted for the first time, tokens.
    pub hit_tokens: Figure,
    /// Tokens that preempted requests found again when they were admitted again, tokens.
    pub preempted_hit_tokens: Figure,
}

/// What became of the drafts, under the names of `vllm bench serve`; null without drafts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SpecDecode {
    /// Accepted drafts / drafts.
    pub acceptance_rate: Figure,
    /// Tokens that one verification yields, mean: 1 + accepted drafts / verifications, tokens.
    pub acceptance_length: Figure,
    /// Verifications: requests whose drafts a step looked at, summed over all steps. Drafts that only fill a batch up to a
    /// uniform query length are left out.
    pub num_drafts: Figure,
    /// Drafts verified, tokens.
    pub draft_tokens: Figure,
    /// Drafts accepted, tokens.
    pub accepted_tokens: Figure,
    /// Drafts verified per second of `duration_s`.
    pub draft_throughput: Figure,
    /// Requests in steps that the output before had finished already, summed over all steps: asynchronous scheduling cannot
    /// know how many drafts are accepted.
    pub late_requests: Figure,
}

/// What one rung did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RungReport {
    /// `FULL` or `PIECEWISE`.
    pub mode: Name,
    /// `decode` or `prefill` where an engine keeps graphs for each; null otherwise.
    #[serde(default)]
    pub phase: Option<Name>,
    /// The captured size, tokens.
    pub size: u32,
    /// Steps that ran on this rung.
    pub steps: Figure,
    /// Steps that ran on this rung without padding.
    pub exact_steps: Figure,
    /// Real rows of those steps, rows.
    pub real_rows: Figure,
    /// Padded rows of those steps, rows.
    pub padded_rows: Figure,
    /// Milliseconds that replay won (negative: lost) against the eager kind over those steps, ms.
    pub saved_ms: Figure,
}

/// Blocks of the KV pool by what graphs take out of it; null where the pool's size is given, so that they take nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KvBlocks {
    /// The pool that the engine allocates, blocks.
    pub in_force: Figure,
    /// The pool if graphs took nothing, blocks.
    pub without_graphs: Figure,
    /// The pool if graphs took `graph_estimate_bytes`, blocks.
    pub less_estimate: Figure,
    /// The pool if graphs took `graph_memory_bytes`, blocks.
    pub less_actual: Figure,
}

/// The parts of the start-up time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Startup {
    /// Memory profiling, sampled graphs included, s.
    pub memory_profiling_s: Figure,
    /// Compiling the model, or loading it from the compile cache, s.
    pub compile_s: Figure,
    /// Warming up kernels and sampler; the warm-up run before each capture counts as part of the capture, s.
    pub warm_up_s: Figure,
    /// Capturing the descriptors, s.
    pub capture_s: Figure,
}

/// The part of the run before the warm-up cut, which the steady-state figures leave out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ColdStart {
    /// Where the cut fell on the simulated clock, s; 0 without a cut.
    pub until_s: Figure,
    /// Requests sent before the cut, refused ones included: those with a lower id.
    pub requests: Figure,
    /// Steps before the cut.
    pub steps: Figure,
    /// Requests that arrived before the cut and finished.
    pub completed: Figure,
    /// Mean time to first token of those requests, ms.
    pub mean_ttft_ms: Figure,
    /// 99th percentile of the time to first token of those requests, ms.
    pub p99_ttft_ms: Figure,
    /// Mean duration of a step before the cut, ms.
    pub mean_step_ms: Figure,
}

/// Cost terms, each the mean over all steps of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CostBreakdown {
    /// Device: non-attention work, ms a step.
    pub dense_ms: Figure,
    /// Device: output head, ms a step.
    pub head_ms: Figure,
    /// Device: attention, ms a step.
    pub attention_ms: Figure,
    /// Device: making the next drafts, as the scenario declares it, ms a step.
    pub drafting_ms: Figure,
    /// Device: what steps take longer than as one graph, launched one by one or in pieces, ms a step.
    #[serde(default)]
    pub gap_ms: Figure,
    /// Host: the engine's fixed work, ms a step.
    pub step_overhead_ms: Figure,
    /// Host: the engine's work per request, ms a step.
    pub request_overhead_ms: Figure,
    /// Host: launches and replays, ms a step.
    pub launch_ms: Figure,
    /// Host: updates of executables that graphs share, ms a step.
    #[serde(default)]
    pub update_ms: Figure,
    /// Host: dispatch and padding bookkeeping, ms a step.
    pub bookkeeping_ms: Figure,
}

/// One unique artifact: a captured descriptor, or the eager kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArtifactReport {
    /// Identity of the artifact: its descriptor in one line, `eager` or `compiled eager`.
    pub artifact: String,
    /// The descriptor; null for the eager kinds.
    pub descriptor: Option<DescriptorRecord>,
    /// Steps that it served.
    pub steps: Figure,
    /// Start of the first step that it served, s of simulated time; null if it never served.
    pub first_use_s: Figure,
}

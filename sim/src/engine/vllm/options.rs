//! vLLM's options under the engine's own names: what a scenario validates into and the engine rooms read.

use std::fmt;
use std::str::FromStr;

use kernels::units::Bytes;
use serde::{Deserialize, Serialize};

use super::decoder_replay::ReplayOptions;
use super::encoder::{EncoderModel, EncoderOptions};
use crate::time::SimDuration;

/// Everything that one vLLM server was started with: the scheduler's, the KV pool's and the graphs' options.
#[derive(Clone, Debug, PartialEq)]
pub struct VllmOptions {
    /// The release whose rules apply.
    pub version: Version,
    /// The model runner asked for; unset, the engine chooses ([`RunnerChoice`](super::runner::RunnerChoice)).
    pub runner: Option<Runner>,
    /// Options of the scheduler.
    pub scheduler: SchedulerOptions,
    /// Options that size the KV pool.
    pub kv: KvOptions,
    /// Options of compilation and graph capture: what candidates vary.
    pub graphs: GraphOptions,
}

/// A vLLM release whose rules are known (specification, head).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Version {
    /// 0.31.0.
    #[serde(rename = "0.31.0")]
    V0_31_0,
    /// 0.33.0.
    #[serde(rename = "0.33.0")]
    V0_33_0,
    /// The development branch after 0.33.0, as far as its documentation describes it; the rest is taken to be as in 0.33.0.
    #[serde(rename = "main")]
    Main,
}

/// Which model runner dispatches steps (specification section 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Runner {
    /// The older runner with the `CudagraphDispatcher`.
    V1,
    /// The default runner with the `CudaGraphManager`.
    V2,
}

/// Options of the scheduler (specification section 11). Sizes in tokens unless the name says otherwise.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "one field per engine flag")]
pub struct SchedulerOptions {
    /// Most requests in the running queue.
    pub max_num_seqs: u32,
    /// Token budget of a step; also the input budget.
    pub max_num_batched_tokens: u32,
    /// Scheduled-token budget where it differs from `max_num_batched_tokens`.
    pub max_num_scheduled_tokens: Option<u32>,
    /// Most requests that may be admitted to run; `max_num_seqs` when unset.
    pub max_num_active_seqs: Option<u32>,
    /// Longest request, prompt and output together.
    pub max_model_len: u32,
    /// Tokens per KV block.
    pub block_size: u32,
    /// A prompt may be split over several steps.
    pub enable_chunked_prefill: bool,
    /// Two steps in flight.
    pub async_scheduling: bool,
    /// Cap on the prompt tokens of one request in one step; 0 is off.
    pub long_prefill_token_threshold: u32,
    /// Raise the cap to an even share of the budget.
    pub long_prefill_token_threshold_adaptive: bool,
    /// Admit prefill only every so many steps; 1 is off.
    pub prefill_schedule_interval: u32,
    /// Admit a request only if its whole prompt (and what it has received) would fit the free blocks.
    pub scheduler_reserve_full_isl: bool,
    /// Share of the pool kept free on admission, the null block counted with it.
    pub watermark: f64,
    /// Who goes first, and who is preempted.
    pub policy: SchedulingPolicy,
    /// Requests reuse the KV blocks of an equal prompt head.
    pub enable_prefix_caching: bool,
    /// How drafts are made; matters only with `num_speculative_tokens` above 0.
    pub drafter: Drafter,
}

/// The order in which requests are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SchedulingPolicy {
    /// First come, first served; the last admitted request is preempted.
    Fcfs,
    /// The smallest priority value first, then the earliest arrival; the last in that order is preempted.
    Priority,
}

/// Who drafts, as far as the scheduler has to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Drafter {
    /// The speculative method.
    pub method: SpeculativeMethod,
    /// All drafts of a step come from one forward pass of the drafter.
    pub parallel_drafting: bool,
    /// Device time to make the drafts of one step, `num_speculative_tokens` for each request: no flag of the engine's, but
    /// what the user declares; `None` if that is not known.
    pub drafting_time: Option<SimDuration>,
}

/// A speculative method under the engine's own name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpeculativeMethod {
    /// Drafts repeat what followed the same tokens before.
    Ngram,
    /// The same over a suffix tree of all outputs.
    Suffix,
    /// Extra heads of the model.
    Medusa,
    /// A small network over the model's hidden states.
    MlpSpeculator,
    /// A smaller model.
    DraftModel,
    /// EAGLE.
    Eagle,
    /// EAGLE-3.
    Eagle3,
    /// Multi-token prediction layers of the model itself.
    Mtp,
    /// DFlash.
    Dflash,
    /// `DSpark`.
    Dspark,
}

/// Options that size the KV pool.
#[derive(Clone, Debug, PartialEq)]
pub struct KvOptions {
    /// Pool size in blocks, the null block included; overrides the memory arithmetic.
    pub num_gpu_blocks_override: Option<u32>,
    /// Share of device memory that the engine may use.
    pub gpu_memory_utilization: f64,
    /// KV bytes given outright; graph memory is then not subtracted.
    pub kv_cache_memory_bytes: Option<Bytes>,
    /// The environment's `VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS`: the estimate of graph memory is subtracted.
    pub memory_profiler_estimate_cudagraphs: bool,
}

/// Options of compilation and graph capture, as the user gave them (`None` is unset).
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "one field per engine flag")]
pub struct GraphOptions {
    /// Which defaults the modes below take where they are unset.
    pub optimization_level: OptimizationLevel,
    /// Requested mode; unset becomes the level's default.
    pub cudagraph_mode: Option<CudagraphMode>,
    /// The user's ladder, in tokens, as written.
    pub cudagraph_capture_sizes: Option<Vec<u32>>,
    /// The user's ceiling, in tokens.
    pub max_cudagraph_capture_size: Option<u32>,
    /// Main: sizes of the graphs for every batch that is no uniform decode batch, in tokens, as written.
    pub prefill_cudagraph_capture_token_sizes: Option<Vec<u32>>,
    /// Main: the largest of those sizes where the engine makes them, in tokens.
    pub max_prefill_cudagraph_capture_tokens: Option<u32>,
    /// Main: sizes of the full graphs for uniform decode batches, in requests, as written.
    pub decode_cudagraph_capture_request_sizes: Option<Vec<u32>>,
    /// Main: the largest of those sizes where the engine makes them, in requests.
    pub max_decode_cudagraph_capture_requests: Option<u32>,
    /// Main: the most tokens of a decode graph.
    pub max_decode_cudagraph_capture_tokens: Option<u32>,
    /// Sizes compiled statically; checked against the ladder by runner V1.
    pub compile_sizes: Vec<CompileSize>,
    /// Ends of the ranges of sizes that are compiled together, in tokens.
    pub compile_ranges_endpoints: Vec<u32>,
    /// Compilation mode; unset becomes the level's default.
    pub compilation_mode: Option<CompilationMode>,
    /// Operations at which the model is cut.
    pub splitting_ops: SplittingOps,
    /// Inductor cuts the model instead of FX.
    pub use_inductor_graph_partition: bool,
    /// Attention and output quantisation fused in one pass.
    pub fuse_attn_quant: bool,
    /// PIECEWISE graphs are captured whole and broken while they are captured; the model is not compiled then.
    pub use_breakable_cudagraph: bool,
    /// No compilation and no graphs.
    pub enforce_eager: bool,
    /// Shape of the default ladder's head.
    pub performance_mode: PerformanceMode,
    /// What kind of model it is, as far as graphs depend on it.
    pub model_kind: ModelKind,
    /// The KV connector moves KV layer by layer, which no FULL graph can hold.
    pub kv_connector_needs_piecewise: bool,
    /// Weakest support level over the attention groups.
    pub attention_support: AttentionSupport,
    /// Whether piecewise capture is available to the runner (true unless attention cannot be cut out).
    pub piecewise_capture_available: bool,
    /// Drafts per request and step; the uniform query length is one more.
    pub num_speculative_tokens: u32,
    /// Dynamic speculative decoding: `(first_batch, last_batch, drafts)` per tier.
    pub dynamic_sd_schedule: Option<Vec<(u32, u32, u32)>>,
    /// Adaptive verification: decode graphs hold any query lengths up to the longest.
    pub varlen_decode: bool,
    /// LoRA slots; `None` without LoRA.
    pub max_loras: Option<u32>,
    /// Adapter kernels specialise on the number of active adapters.
    pub specialize_active_lora: bool,
    /// Graphs are captured per number of active adapters.
    pub cudagraph_specialize_lora: bool,
    /// Dual-batch overlap, runner V2.
    pub ubatch: Option<Ubatch>,
    /// Breaks of a piecewise graph beyond one per attention layer: sparse indexers, experts.
    pub extra_graph_breaks: u32,
    /// KDA layers that recover state-space state.
    pub use_kda_recoverssm: bool,
    /// State blocks of a model with Mamba layers; `None` without such layers.
    pub mamba_cache_blocks: Option<u32>,
    /// Tensor-parallel ranks.
    pub tensor_parallel_size: u32,
    /// The sequence-parallel pass, 0.31.0 only.
    pub enable_sp: bool,
    /// Data-parallel ranks.
    pub data_parallel_size: u32,
    /// The all-to-all backend is DeepEP high-throughput.
    pub deepep_high_throughput: bool,
    /// Compute capability family 100.
    pub data_center_blackwell: bool,
    /// Main: graphs of a multimodal encoder.
    pub encoder: EncoderOptions,
    /// What the model says about its encoder; `None` where nothing is said.
    pub encoder_model: Option<EncoderModel>,
    /// Main: graphs of a YOCO model's replay layers.
    pub decoder_replay: ReplayOptions,
    /// The sliding window of a YOCO model, in tokens; `None` for a model without replay layers.
    pub sliding_window: Option<u32>,
    /// What the start finds in the compile cache: no flag, but a state of the machine.
    pub compile_cache: CompileCache,
    /// What no flag of the engine can do.
    pub what_if: WhatIf,
}

/// What a start finds in the engine's compile cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompileCache {
    /// Nothing: the model is compiled.
    #[default]
    Cold,
    /// Everything, from an earlier start with the same settings: the compiled model is loaded.
    Warm,
}

/// Other ways to capture the same graphs. The engine has no flag for them: they show what its own way saves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct WhatIf {
    /// The order of captures.
    pub capture_order: CaptureOrder,
    /// Where captures take their memory from.
    pub graph_pool: GraphPool,
}

/// The order in which the graphs of a mode are captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaptureOrder {
    /// The engine's own.
    #[default]
    LargestFirst,
    /// Smallest first.
    Ascending,
}

/// Where captures take their memory from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GraphPool {
    /// One pool for all graphs: the engine's own.
    #[default]
    Shared,
    /// A pool for each descriptor.
    Private,
}

/// Microbatching of runner V2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ubatch {
    /// Microbatches per step.
    pub num_ubatches: u32,
    /// Fewest tokens of a decode step that is split.
    pub decode_threshold: u32,
    /// Fewest tokens of a prefill step that is split.
    pub prefill_threshold: u32,
}

/// One entry of `compile_sizes`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CompileSize {
    /// A size in tokens.
    Tokens(u32),
    /// A word; `"cudagraph_capture_sizes"` stands for the ladder, any other is an error.
    Word(String),
}

/// The configured graph mode (specification section 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum CudagraphMode {
    /// No graphs.
    None,
    /// Piecewise graphs for every batch.
    Piecewise,
    /// Full graphs for every batch.
    Full,
    /// Full graphs for uniform decode, nothing else.
    FullDecodeOnly,
    /// Full graphs for uniform decode, piecewise for the rest.
    FullAndPiecewise,
}

/// How the model is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum CompilationMode {
    /// Not at all: true eager.
    None,
    /// Plain `torch.compile`.
    StockTorchCompile,
    /// Dynamo traced once, no guards.
    DynamoTraceOnce,
    /// vLLM's own piecewise backend.
    VllmCompile,
}

/// `-O0` to `-O3`: defaults of the compilation mode and of the graph mode (specification section 7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OptimizationLevel {
    /// Neither compilation nor graphs.
    O0,
    /// Compilation and piecewise graphs.
    O1,
    /// The default: compilation, full graphs for decode, piecewise graphs for the rest.
    #[default]
    O2,
    /// As O2, as far as graphs go.
    O3,
}

impl OptimizationLevel {
    /// All levels, by their number.
    pub const ALL: [Self; 4] = [Self::O0, Self::O1, Self::O2, Self::O3];

    /// How the model is compiled where `compilation_mode` is unset.
    #[must_use]
    pub const fn compilation_mode(self) -> CompilationMode {
        match self {
            Self::O0 => CompilationMode::None,
            Self::O1 | Self::O2 | Self::O3 => CompilationMode::VllmCompile,
        }
    }

    /// The mode where `cudagraph_mode` is unset.
    #[must_use]
    pub const fn cudagraph_mode(self) -> CudagraphMode {
        match self {
            Self::O0 => CudagraphMode::None,
            Self::O1 => CudagraphMode::Piecewise,
            Self::O2 | Self::O3 => CudagraphMode::FullAndPiecewise,
        }
    }
}

/// What kind of model is served, as far as graphs depend on it (specification section 7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ModelKind {
    /// Generates text, no encoder that a decoder attends to.
    #[default]
    DecoderOnly,
    /// Generates text, with an encoder that the decoder attends to, such as Whisper.
    EncoderDecoder,
    /// Returns embeddings, scores or classes.
    Pooling,
}

/// The user's `splitting_ops`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum SplittingOps {
    /// Unset: the engine's list of attention-like operations.
    #[default]
    Default,
    /// The user's list, as written; `[]` cuts nowhere.
    Listed(Vec<String>),
}

impl SplittingOps {
    /// `[]`: the model is not cut.
    #[must_use]
    pub const fn empty() -> Self {
        Self::Listed(Vec::new())
    }

    /// A list of one operation that is not attention, for users who do not want to name it.
    #[must_use]
    pub fn custom() -> Self {
        Self::Listed(vec!["custom".to_owned()])
    }
}

/// `performance_mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PerformanceMode {
    /// The default.
    #[default]
    Balanced,
    /// Every small size is captured.
    Interactivity,
    /// As balanced, as far as the ladder goes.
    Throughput,
}

/// How far an attention backend supports full graphs (specification section 5), weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AttentionSupport {
    /// No full graphs.
    Never,
    /// Full graphs for decode of one token per request.
    UniformSingleTokenDecode,
    /// Full graphs for batches of one common query length.
    UniformBatch,
    /// Full graphs for any batch.
    Always,
}

impl fmt::Display for AttentionSupport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Never => "NEVER",
            Self::UniformSingleTokenDecode => "UNIFORM_SINGLE_TOKEN_DECODE",
            Self::UniformBatch => "UNIFORM_BATCH",
            Self::Always => "ALWAYS",
        })
    }
}

impl fmt::Display for CudagraphMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "NONE",
            Self::Piecewise => "PIECEWISE",
            Self::Full => "FULL",
            Self::FullDecodeOnly => "FULL_DECODE_ONLY",
            Self::FullAndPiecewise => "FULL_AND_PIECEWISE",
        })
    }
}

impl fmt::Display for CompileCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cold => "cold",
            Self::Warm => "warm",
        })
    }
}

impl fmt::Display for SpeculativeMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ngram => "ngram",
            Self::Suffix => "suffix",
            Self::Medusa => "medusa",
            Self::MlpSpeculator => "mlp_speculator",
            Self::DraftModel => "draft_model",
            Self::Eagle => "eagle",
            Self::Eagle3 => "eagle3",
            Self::Mtp => "mtp",
            Self::Dflash => "dflash",
            Self::Dspark => "dspark",
        })
    }
}

impl fmt::Display for CompilationMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "NONE",
            Self::StockTorchCompile => "STOCK_TORCH_COMPILE",
            Self::DynamoTraceOnce => "DYNAMO_TRACE_ONCE",
            Self::VllmCompile => "VLLM_COMPILE",
        })
    }
}

impl FromStr for CudagraphMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::None, Self::Piecewise, Self::Full, Self::FullDecodeOnly, Self::FullAndPiecewise]
            .into_iter()
            .find(|mode| mode.to_string() == text)
            .ok_or_else(|| {
                format!("`{text}` is not one of NONE, PIECEWISE, FULL, FULL_DECODE_ONLY, FULL_AND_PIECEWISE")
            })
    }
}

impl SpeculativeMethod {
    /// All methods, in the order of their declaration.
    pub const ALL: [Self; 10] = [
        Self::Ngram,
        Self::Suffix,
        Self::Medusa,
        Self::MlpSpeculator,
        Self::DraftModel,
        Self::Eagle,
        Self::Eagle3,
        Self::Mtp,
        Self::Dflash,
        Self::Dspark,
    ];
}

impl FromStr for SpeculativeMethod {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|method| method.to_string() == text).ok_or_else(|| {
            let known = Self::ALL.map(|method| method.to_string()).join(", ");
            format!("`{text}` is not one of {known}")
        })
    }
}

impl FromStr for CompilationMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::None, Self::StockTorchCompile, Self::DynamoTraceOnce, Self::VllmCompile]
            .into_iter()
            .find(|mode| mode.to_string() == text)
            .ok_or_else(|| format!("`{text}` is not one of NONE, STOCK_TORCH_COMPILE, DYNAMO_TRACE_ONCE, VLLM_COMPILE"))
    }
}

/// The words for lists that need no names.
impl FromStr for SplittingOps {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "default" => Ok(Self::Default),
            "empty" => Ok(Self::empty()),
            "custom" => Ok(Self::custom()),
            _ => Err(format!("`{word}` is not one of default, empty, custom")),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::V0_31_0 => "0.31.0",
            Self::V0_33_0 => "0.33.0",
            Self::Main => "main",
        })
    }
}

impl fmt::Display for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
        })
    }
}

impl Default for KvOptions {
    fn default() -> Self {
        Self {
            num_gpu_blocks_override: None,
            gpu_memory_utilization: 0.92,
            kv_cache_memory_bytes: None,
            memory_profiler_estimate_cudagraphs: true,
        }
    }
}

impl Default for SchedulerOptions {
    /// vLLM's defaults on a device below 70 GiB, API server.
    fn default() -> Self {
        Self {
            max_num_seqs: 256,
            max_num_batched_tokens: 2048,
            max_num_scheduled_tokens: None,
            max_num_active_seqs: None,
            max_model_len: 8192,
            block_size: 16,
            enable_chunked_prefill: true,
            async_scheduling: true,
            long_prefill_token_threshold: 0,
            long_prefill_token_threshold_adaptive: false,
            prefill_schedule_interval: 1,
            scheduler_reserve_full_isl: true,
            watermark: 0.0,
            policy: SchedulingPolicy::Fcfs,
            enable_prefix_caching: true,
            drafter: Drafter::default(),
        }
    }
}

impl Default for Drafter {
    fn default() -> Self {
        Self { method: SpeculativeMethod::Ngram, parallel_drafting: false, drafting_time: None }
    }
}

impl Default for GraphOptions {
    fn default() -> Self {
        Self {
            optimization_level: OptimizationLevel::O2,
            cudagraph_mode: None,
            cudagraph_capture_sizes: None,
            max_cudagraph_capture_size: None,
            prefill_cudagraph_capture_token_sizes: None,
            max_prefill_cudagraph_capture_tokens: None,
            decode_cudagraph_capture_request_sizes: None,
            max_decode_cudagraph_capture_requests: None,
            max_decode_cudagraph_capture_tokens: None,
            compile_sizes: Vec::new(),
            compile_ranges_endpoints: Vec::new(),
            compilation_mode: None,
            splitting_ops: SplittingOps::Default,
            use_inductor_graph_partition: false,
            fuse_attn_quant: false,
            use_breakable_cudagraph: false,
            enforce_eager: false,
            performance_mode: PerformanceMode::Balanced,
            model_kind: ModelKind::DecoderOnly,
            kv_connector_needs_piecewise: false,
            attention_support: AttentionSupport::Always,
            piecewise_capture_available: true,
            num_speculative_tokens: 0,
            dynamic_sd_schedule: None,
            varlen_decode: false,
            max_loras: None,
            specialize_active_lora: false,
            cudagraph_specialize_lora: true,
            ubatch: None,
            extra_graph_breaks: 0,
            use_kda_recoverssm: false,
            mamba_cache_blocks: None,
            tensor_parallel_size: 1,
            enable_sp: false,
            data_parallel_size: 1,
            deepep_high_throughput: false,
            data_center_blackwell: false,
            encoder: EncoderOptions::default(),
            encoder_model: None,
            decoder_replay: ReplayOptions::default(),
            sliding_window: None,
            compile_cache: CompileCache::default(),
            what_if: WhatIf::default(),
        }
    }
}

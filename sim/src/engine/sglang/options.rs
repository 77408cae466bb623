//! SGLang's options under the engine's own names: what a scenario validates into and the engine rooms read.

use std::fmt;

use kernels::units::Bytes;
use serde::{Deserialize, Serialize};

use super::defaults::DeviceDefaults;

/// Everything that one SGLang server was started with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SglangOptions {
    /// The release whose rules apply.
    pub version: Version,
    /// Options of the scheduler.
    pub scheduler: SchedulerOptions,
    /// Options that size the KV pool, and the device's memory.
    pub kv: KvOptions,
    /// How the model is spread over devices.
    pub parallel: ParallelOptions,
    /// Speculative decoding; `None` is off.
    pub speculative: Option<Speculative>,
    /// What the engine reads off the model.
    pub model: ModelTraits,
    /// Options of graph capture: what candidates vary.
    pub graphs: GraphOptions,
}

/// An SGLang release whose rules are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Version {
    /// 0.5.23.
    #[default]
    #[serde(rename = "0.5.23")]
    V0_5_23,
}

/// Options of the scheduler (SGLang specification section 10). Sizes in tokens unless the name says otherwise.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "one field per engine flag")]
pub struct SchedulerOptions {
    /// Most tokens of a prompt that one step computes; unset follows the device's memory, 0 and less are off.
    pub chunked_prefill_size: Option<i32>,
    /// Input budget of a prefill step.
    pub max_prefill_tokens: u32,
    /// Most requests that hold a row of the request pool; unset follows the size of the KV pool.
    pub max_running_requests: Option<u32>,
    /// Most requests admitted by one prefill step; `None` is no limit.
    pub prefill_max_requests: Option<u32>,
    /// Tokens per page of the KV pool.
    pub page_size: u32,
    /// Scales how much of their longest output is reserved for running requests.
    pub schedule_conservativeness: f64,
    /// Decode rows ride along in prefill steps.
    pub enable_mixed_chunk: bool,
    /// Results are handled before the next step is scheduled.
    pub disable_overlap_schedule: bool,
    /// No prefix cache.
    pub disable_radix_cache: bool,
    /// Requests ask for log-probabilities: such steps are never mixed.
    pub return_logprob: bool,
    /// Longest request, prompt and output together.
    pub context_length: u32,
    /// What ends the outputs: no flag of the engine, but how its clients ask.
    pub output_end: OutputEnd,
}

/// What ends an output. The engine knows it for sure only in the first two cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputEnd {
    /// The request's own `max_new_tokens`, which is the length that the traffic draws.
    #[default]
    Length,
    /// The same with `ignore_eos`: the engine reserves the whole output.
    IgnoreEos,
    /// An end-of-sequence token. The engine reserves for `max_new_tokens` and, with overlap, runs one decode row more.
    Eos {
        /// What the clients ask for at most, in tokens.
        max_new_tokens: u32,
    },
}

/// Options that size the KV pool (SGLang specification section 9).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KvOptions {
    /// Memory of the device as the driver tool reports it, in MiB (an 80 GB H100: 81,559); `None` is unknown.
    pub gpu_mem_mib: Option<u32>,
    /// Share of the device memory for weights and KV pool; unset follows from the reserve.
    pub mem_fraction_static: Option<f64>,
    /// Most tokens of the KV pool.
    pub max_total_tokens: Option<u32>,
    /// `SGLANG_ENABLE_POST_CAPTURE_KV_SIZING`: the pool is made from what the graphs leave.
    pub post_capture_kv_sizing: bool,
    /// Disaggregation of prefill and decode.
    pub disaggregation_mode: DisaggregationMode,
}

/// `--disaggregation-mode`: the server's role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DisaggregationMode {
    /// One server does both.
    #[default]
    Null,
    /// Prefill only.
    Prefill,
    /// Decode only.
    Decode,
}

/// How the model is spread over devices, and what that does to batches. Sizes in ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParallelOptions {
    /// Tensor-parallel ranks.
    pub tp_size: u32,
    /// Pipeline stages.
    pub pp_size: u32,
    /// Data-parallel ranks.
    pub dp_size: u32,
    /// Attention runs data-parallel inside the tensor-parallel group.
    pub enable_dp_attention: bool,
    /// Context-parallel ranks of attention.
    pub attn_cp_size: u32,
    /// Context-parallel ranks of decode.
    pub dcp_size: u32,
    /// `--moe-dense-tp-size`; set, it needs a gathered buffer.
    pub moe_dense_tp_size: Option<u32>,
    /// All-to-all of the experts.
    pub moe_a2a_backend: MoeA2aBackend,
    /// Two halves of a batch overlap.
    pub enable_two_batch_overlap: bool,
}

/// `--moe-a2a-backend`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MoeA2aBackend {
    /// None.
    #[default]
    None,
    /// DeepEP.
    Deepep,
    /// MegaMoE.
    Megamoe,
    /// FlashInfer.
    Flashinfer,
    /// Mooncake.
    Mooncake,
    /// Any other: no prefill graphs by default.
    Other,
}

/// Speculative decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speculative {
    /// Who drafts.
    pub algorithm: SpeculativeAlgorithm,
    /// `--speculative-num-draft-tokens`: tokens per request of a verification step, at least 1.
    pub num_draft_tokens: u32,
}

/// `--speculative-algorithm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum SpeculativeAlgorithm {
    /// EAGLE.
    Eagle,
    /// EAGLE-3.
    Eagle3,
    /// The model's own next-token heads.
    NextN,
    /// A draft model of its own.
    Standalone,
    /// N-grams of the text so far: a step must hold exactly its requests times the width.
    Ngram,
}

/// What the engine reads off the model, as far as it bears on graphs (SGLang specification sections 1 and 2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelTraits {
    /// Multi-head latent attention.
    pub mla: bool,
    /// The model's path names Llama 2.
    pub llama_2: bool,
    /// A family with defaults of its own.
    pub family: ModelFamily,
    /// Traits for which the engine drops prefill graphs by itself.
    pub prefill_graph_blockers: Vec<PrefillBlocker>,
}

/// Model families with graph defaults of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelFamily {
    /// The common defaults.
    #[default]
    Plain,
    /// Prefill backend `full`.
    Inkling,
    /// Prefill graphs up to 512 tokens.
    MuseGlimmer,
    /// Executables are deduplicated.
    MuseSpark,
    /// On a large Hopper device the decode maximum rises to `max_running_requests`, if that is at most 512.
    LargeHopperQwen3Vl,
}

/// Why the engine drops prefill graphs of a model by itself (SGLang specification section 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrefillBlocker {
    /// Linear attention of the KDA kind.
    KdaLinearAttention,
    /// DeepSeek-V4 without supported context parallelism.
    DeepseekV4WithoutCp,
    /// Context-parallel attention without support.
    AttentionCpUnsupported,
    /// A multimodal model that is not on the engine's list.
    Multimodal,
    /// The DeepSeek-V3 architecture with prefill attention `trtllm_mla`.
    DeepseekV3TrtllmMla,
    /// A LoRA set-up without support.
    Lora,
    /// Local layers that are not all standard grouped-query attention.
    NonGqaLocalLayers,
}

/// Options of graph capture, as the user gave them (`None` is unset).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one field per engine flag")]
pub struct GraphOptions {
    /// Deprecated: both phases off.
    pub disable_cuda_graph: bool,
    /// No decode graphs.
    pub disable_decode_cuda_graph: bool,
    /// No prefill graphs.
    pub disable_prefill_cuda_graph: bool,
    /// Backend of decode graphs; unset is `full`.
    pub cuda_graph_backend_decode: Option<GraphBackend>,
    /// Backend of prefill graphs; unset is `breakable`.
    pub cuda_graph_backend_prefill: Option<GraphBackend>,
    /// Largest decode batch, in requests.
    pub cuda_graph_max_bs_decode: Option<u32>,
    /// Largest prefill step, in tokens.
    pub cuda_graph_max_bs_prefill: Option<u32>,
    /// Decode batches, in requests, as written.
    pub cuda_graph_bs_decode: Option<Vec<u32>>,
    /// Prefill steps, in tokens, as written.
    pub cuda_graph_bs_prefill: Option<Vec<u32>>,
    /// Longest sequence of a prefill graph, in tokens.
    pub cuda_graph_max_seq_len_prefill: Option<u32>,
    /// Longest context of a prefill graph, in tokens (`--context-bucket`).
    pub cuda_graph_prefill_max_context: Option<u32>,
    /// `--cuda-graph-config`: wins over all of the above.
    pub cuda_graph_config: CudaGraphConfig,
    /// Decode graphs for exact batches only.
    pub disable_cuda_graph_padding: bool,
    /// `SGLANG_ENABLE_CUDA_GRAPH_DEDUP`: graphs of one structure share an executable.
    pub enable_cuda_graph_dedup: bool,
    /// LoRA: every decode size is captured with and without adapters.
    pub enable_lora: bool,
}

/// `--cuda-graph-config`, the setting that holds every other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CudaGraphConfig {
    /// Decode.
    pub decode: DecodeGraphConfig,
    /// Prefill.
    pub prefill: PrefillGraphConfig,
}

/// The decode part of [`CudaGraphConfig`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DecodeGraphConfig {
    /// How decode graphs are captured.
    pub backend: Option<GraphBackend>,
    /// Largest batch, in requests.
    pub max_bs: Option<u32>,
    /// Batches, in requests.
    pub bs: Option<Vec<u32>>,
}

/// The prefill part of [`CudaGraphConfig`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PrefillGraphConfig {
    /// How prefill graphs are captured.
    pub backend: Option<GraphBackend>,
    /// Largest step, in tokens.
    pub max_bs: Option<u32>,
    /// Steps, in tokens.
    pub bs: Option<Vec<u32>>,
    /// Longest context, in tokens.
    pub max_context_size: Option<u32>,
    /// Requests of a full prefill graph.
    pub full_prefill_max_req: Option<u32>,
    /// Tokens per chunk of cached prefix of a full prefill graph; set, variants of 1 to 16 chunks are captured.
    pub full_prefill_prefix_chunk_tokens: Option<u32>,
    /// Longest sequence, in tokens.
    pub max_seq_len: Option<u32>,
}

/// How the graphs of a phase are captured (SGLang specification section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GraphBackend {
    /// One graph holds the whole step.
    Full,
    /// Graphs between eager breaks.
    Breakable,
    /// No graphs.
    Disabled,
}

impl SglangOptions {
    /// Tokens per request of a decode step: the draft tokens of a verification step, else 1.
    #[must_use]
    pub fn decode_width(&self) -> u32 {
        self.speculative.map_or(1, |speculative| speculative.num_draft_tokens)
    }

    /// Tokens of a prompt that one step computes at most, the device's default included; `None` without chunking.
    #[must_use]
    pub fn chunk(&self) -> Option<u32> {
        let default = || DeviceDefaults::of(self.kv.gpu_mem_mib, self.parallel.tp_size).chunked_prefill_size;
        let chunk = self.scheduler.chunked_prefill_size.unwrap_or_else(default);
        u32::try_from(chunk).ok().filter(|&chunk| chunk > 0)
    }
}

impl GraphOptions {
    /// The backends asked for, as `decode full, prefill breakable`; `None` where no flag names one.
    #[must_use]
    pub fn requested_backends(&self) -> Option<String> {
        let config = &self.cuda_graph_config;
        let phases = [
            ("decode", config.decode.backend.or(self.cuda_graph_backend_decode), self.disable_decode_cuda_graph),
            ("prefill", config.prefill.backend.or(self.cuda_graph_backend_prefill), self.disable_prefill_cuda_graph),
        ];
        let asked = |(phase, backend, off): (&str, Option<GraphBackend>, bool)| {
            let off = (off || self.disable_cuda_graph).then_some(GraphBackend::Disabled);
            backend.or(off).map(|backend| format!("{phase} {backend}"))
        };
        let all: Vec<String> = phases.into_iter().filter_map(asked).collect();
        (!all.is_empty()).then(|| all.join(", "))
    }
}

impl ParallelOptions {
    /// Ranks that share the requests of one data-parallel attention group: 1 without it.
    #[must_use]
    pub fn attention_dp(&self) -> u32 {
        if self.enable_dp_attention { self.dp_size.max(1) } else { 1 }
    }

    /// Tensor-parallel ranks of attention.
    #[must_use]
    pub fn attention_tp(&self) -> u32 {
        (self.tp_size / self.attention_dp() / self.attn_cp_size.max(1)).max(1)
    }

    /// Whether the ranks' rows are gathered into one buffer.
    #[must_use]
    pub fn gathered_buffer(&self) -> bool {
        self.moe_a2a_backend != MoeA2aBackend::None || self.moe_dense_tp_size.is_some()
    }
}

impl GraphBackend {
    /// The engine's own name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Breakable => "breakable",
            Self::Disabled => "disabled",
        }
    }
}

impl KvOptions {
    /// Memory of the device; `None` is unknown.
    #[must_use]
    pub fn device_memory(&self) -> Option<Bytes> {
        self.gpu_mem_mib.map(|mib| Bytes(u64::from(mib) << 20))
    }
}

impl fmt::Display for GraphBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::V0_5_23 => "0.5.23",
        })
    }
}

impl fmt::Display for PrefillBlocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::KdaLinearAttention => "the model has linear attention of the KDA kind",
            Self::DeepseekV4WithoutCp => "the model is a DeepSeek-V4 without supported context parallelism",
            Self::AttentionCpUnsupported => "attention is context-parallel without support for graphs",
            Self::Multimodal => "the model is multimodal and not on the engine's list",
            Self::DeepseekV3TrtllmMla => "the prefill attention backend is trtllm_mla",
            Self::Lora => "this LoRA set-up has no support for prefill graphs",
            Self::NonGqaLocalLayers => "not all local layers are standard grouped-query attention",
        })
    }
}

impl Default for SchedulerOptions {
    fn default() -> Self {
        Self {
            chunked_prefill_size: None,
            max_prefill_tokens: 16_384,
            max_running_requests: None,
            prefill_max_requests: None,
            page_size: 1,
            schedule_conservativeness: 1.0,
            enable_mixed_chunk: false,
            disable_overlap_schedule: false,
            disable_radix_cache: false,
            return_logprob: false,
            context_length: 8192,
            output_end: OutputEnd::Length,
        }
    }
}

impl Default for ParallelOptions {
    fn default() -> Self {
        Self {
            tp_size: 1,
            pp_size: 1,
            dp_size: 1,
            enable_dp_attention: false,
            attn_cp_size: 1,
            dcp_size: 1,
            moe_dense_tp_size: None,
            moe_a2a_backend: MoeA2aBackend::None,
            enable_two_batch_overlap: false,
        }
    }
}

//! The file form: what TOML may say. Nothing here is checked beyond types and names.

use std::fmt;

use serde::de::{IgnoredAny, Visitor};
use serde::{Deserialize, Deserializer};
use toml::{Spanned, Value};

use super::Command;
use crate::engine::vllm::attention::FlashInferDecode;
use crate::engine::vllm::device_defaults::Usage;
use crate::engine::vllm::options::{
    AttentionSupport, CaptureOrder, CompilationMode, CompileCache, CudagraphMode, GraphPool, PerformanceMode, Runner,
    SchedulingPolicy, SpeculativeMethod, Version,
};
use crate::traffic::{BadRows, Unsorted};

/// A whole number, checked later so that the message can say which range was expected.
pub(super) type Whole = Spanned<i64>;
/// A number; TOML's `nan` and `inf` come through here.
pub(super) type Real = Spanned<f64>;
/// A span of time with its unit.
pub(super) type Time = Spanned<TimeText>;
/// A size with its unit.
pub(super) type Size = Spanned<SizeText>;

/// Declares texts that say, in place of "a string", what should be written in them.
macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident expects $expected:literal;)*) => {$(
        $(#[$doc])*
        pub(super) struct $name(String);

        impl $name {
            pub(super) fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;

                impl Visitor<'_> for Text {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($expected)
                    }

                    fn visit_str<E>(self, text: &str) -> Result<$name, E> {
                        Ok($name(text.to_owned()))
                    }
                }

                deserializer.deserialize_str(Text)
            }
        }
    )*};
}

texts! {
    /// A span of time, not read yet.
    TimeText expects "a span of time";
    /// A size, not read yet.
    SizeText expects "a size";
}

/// A scenario in the form of one engine: `S` is the table of servers, `C` that of one candidate.
#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "the keys of a scenario",
    bound(deserialize = "S: Deserialize<'de>, C: Deserialize<'de>")
)]
pub(super) struct ScenarioFile<S, C> {
    /// Read on its own before this form is.
    #[serde(rename = "schema")]
    pub(super) _schema: IgnoredAny,
    pub(super) name: Spanned<String>,
    pub(super) server: Spanned<S>,
    pub(super) model: Option<ModelFile>,
    pub(super) machine: Option<MachineFile>,
    pub(super) profile: Spanned<ProfileFile>,
    pub(super) traffic: Spanned<TrafficFile>,
    #[serde(default)]
    pub(super) slo: SloFile,
    #[serde(default)]
    pub(super) candidate: Vec<C>,
    #[serde(default)]
    pub(super) budget: BudgetFile,
    pub(super) warm_up: Option<WarmUpFile>,
    #[serde(default)]
    pub(super) expect: Vec<Spanned<ExpectationFile>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase", expecting = "[server.vllm] with the options of the engine")]
pub(super) enum VllmServerFile {
    Vllm(Box<VllmFile>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as [model] with name = \"Llama-3-8B\"")]
pub(super) struct ModelFile {
    pub(super) name: Spanned<String>,
    pub(super) architecture: Option<Spanned<String>>,
    pub(super) task: Option<Spanned<TaskFile>>,
    pub(super) is_encoder_decoder: Option<Spanned<bool>>,
    pub(super) max_position_embeddings: Option<Whole>,
    /// `[smallest, largest]`, in tokens.
    pub(super) encoder_budget_range: Option<Spanned<[Whole; 2]>>,
    pub(super) sliding_window: Option<Whole>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase", expecting = "\"generate\" or \"pooling\"")]
pub(super) enum TaskFile {
    Generate,
    Pooling,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as [machine] with device = \"NVIDIA A100-SXM4-80GB\"")]
pub(super) struct MachineFile {
    pub(super) device: Option<Spanned<String>>,
    pub(super) compute_capability: Option<Spanned<String>>,
    pub(super) driver: Option<Spanned<String>>,
    pub(super) host_cpu: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase", expecting = "[profile] with builtin = \"NAME\" or file = \"PATH\"")]
pub(super) enum ProfileFile {
    Builtin(Spanned<String>),
    File(Spanned<String>),
}

/// Declares the two tables of an engine that share its graph options, and the options on their own. (`flatten` would do
/// it, but it loses the places of values.)
macro_rules! forms_with_graph_options {
    (
        options $Graphs:ident { $($option:ident: $option_type:ty,)* }
        server $Server:ident, $example:literal { $($server:ident: $server_type:ty,)* }
        candidate $Candidate:ident { $($candidate:ident: $candidate_type:ty,)* }
    ) => {
        /// Graph options as one table wrote them.
        pub(in crate::scenario) struct $Graphs {
            $(pub(in crate::scenario) $option: Option<$option_type>,)*
        }

        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, expecting = $example)]
        pub(in crate::scenario) struct $Server {
            $(pub(in crate::scenario) $server: Option<$server_type>,)*
            $($option: Option<$option_type>,)*
        }

        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, expecting = "a table such as [[candidate]] with name = \"no graphs\"")]
        pub(in crate::scenario) struct $Candidate {
            $(pub(in crate::scenario) $candidate: $candidate_type,)*
            $($option: Option<$option_type>,)*
        }

        impl $Server {
            /// Every key of the table.
            pub(in crate::scenario) const KEYS: &[&str] = &[$(stringify!($server),)* $(stringify!($option),)*];

            pub(in crate::scenario) fn take_graphs(&mut self) -> $Graphs {
                $Graphs { $($option: self.$option.take(),)* }
            }
        }

        impl $Candidate {
            pub(in crate::scenario) fn take_graphs(&mut self) -> $Graphs {
                $Graphs { $($option: self.$option.take(),)* }
            }
        }
    };
}

pub(super) mod sglang;

forms_with_graph_options! {
    options GraphsFile {
        optimization_level: Whole,
        cudagraph_mode: CudagraphMode,
        cudagraph_capture_sizes: Spanned<Vec<Whole>>,
        max_cudagraph_capture_size: Whole,
        prefill_cudagraph_capture_token_sizes: Spanned<Vec<Whole>>,
        max_prefill_cudagraph_capture_tokens: Whole,
        decode_cudagraph_capture_request_sizes: Spanned<Vec<Whole>>,
        max_decode_cudagraph_capture_requests: Whole,
        max_decode_cudagraph_capture_tokens: Whole,
        cudagraph_mm_encoder: Spanned<bool>,
        encoder_cudagraph_token_budgets: Spanned<Vec<Whole>>,
        encoder_cudagraph_max_vision_items_per_batch: Whole,
        encoder_cudagraph_max_frames_per_batch: Whole,
        cudagraph_decoder_replay: Spanned<bool>,
        decoder_replay_cudagraph_capture_sizes: Spanned<Vec<Whole>>,
        decoder_replay_trim_threshold: Whole,
        compile_sizes: Vec<Spanned<Value>>,
        compile_ranges_endpoints: Vec<Whole>,
        compilation_mode: CompilationMode,
        splitting_ops: Spanned<Value>,
        use_inductor_graph_partition: bool,
        fuse_attn_quant: bool,
        use_breakable_cudagraph: bool,
        enforce_eager: bool,
        performance_mode: PerformanceMode,
        specialize_active_lora: bool,
        cudagraph_specialize_lora: bool,
        enable_sp: Spanned<bool>,
        compile_cache: CompileCache,
    }
    server VllmFile, "a table of options such as [server.vllm] with max_num_seqs = 256" {
        version: Version,
        runner: Runner,
        max_num_seqs: Whole,
        max_num_batched_tokens: Whole,
        max_num_scheduled_tokens: Whole,
        max_num_active_seqs: Whole,
        max_model_len: Whole,
        block_size: Whole,
        enable_chunked_prefill: bool,
        async_scheduling: Spanned<bool>,
        long_prefill_token_threshold: Whole,
        long_prefill_token_threshold_adaptive: bool,
        prefill_schedule_interval: Whole,
        scheduler_reserve_full_isl: bool,
        watermark: Real,
        policy: SchedulingPolicy,
        enable_prefix_caching: bool,
        num_gpu_blocks_override: Whole,
        gpu_memory_utilization: Real,
        kv_cache_memory_bytes: Size,
        memory_profiler_estimate_cudagraphs: bool,
        attention_support: Spanned<AttentionSupport>,
        attention_backend: Spanned<Value>,
        flash_attn_version: Whole,
        flashinfer_decode: FlashInferDecode,
        is_causal: bool,
        indexer_varlen: bool,
        decode_context_parallel_size: Whole,
        piecewise_capture_available: bool,
        num_speculative_tokens: Whole,
        spec_method: Spanned<SpeculativeMethod>,
        parallel_drafting: Spanned<bool>,
        drafting_time: Time,
        dynamic_sd_schedule: Spanned<Vec<(i64, i64, i64)>>,
        varlen_decode: Spanned<bool>,
        max_loras: Whole,
        ubatch: Spanned<UbatchFile>,
        extra_graph_breaks: Whole,
        use_kda_recoverssm: bool,
        mamba_cache_blocks: Whole,
        kv_connector: Spanned<String>,
        kv_connector_use_layerwise: bool,
        tensor_parallel_size: Whole,
        data_parallel_size: Whole,
        deepep_high_throughput: bool,
        data_center_blackwell: Spanned<bool>,
        usage: Usage,
    }
    candidate CandidateFile {
        name: Spanned<String>,
        what_if: Option<WhatIfFile>,
    }
}

impl VllmFile {
    /// The server's own performance mode, which its default limits depend on.
    pub(super) fn performance_mode(&self) -> Option<PerformanceMode> {
        self.performance_mode
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as { capture_order = \"ascending\" }")]
pub(super) struct WhatIfFile {
    pub(super) capture_order: Option<CaptureOrder>,
    pub(super) graph_pool: Option<GraphPool>,
}

#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table such as { num_ubatches = 2, decode_threshold = 32, prefill_threshold = 512 }"
)]
pub(super) struct UbatchFile {
    pub(super) num_ubatches: Whole,
    pub(super) decode_threshold: Whole,
    pub(super) prefill_threshold: Whole,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as [traffic] with requests = 10000")]
pub(super) struct TrafficFile {
    pub(super) seed: Option<Whole>,
    pub(super) requests: Option<Whole>,
    pub(super) arrivals: Option<Spanned<ArrivalsFile>>,
    pub(super) lengths: Option<Spanned<LengthsFile>>,
    pub(super) priorities: Option<Vec<Spanned<PriorityFile>>>,
    pub(super) adapters: Option<Spanned<AdaptersFile>>,
    pub(super) prefixes: Option<Vec<Spanned<PrefixFile>>>,
    pub(super) acceptance: Option<Spanned<AcceptanceFile>>,
    /// Their own length by default.
    pub(super) output_end: Option<Spanned<OutputEndFile>>,
    /// Off by default.
    pub(super) return_logprob: Option<Spanned<bool>>,
    pub(super) rank: Option<Vec<Spanned<RankTrafficFile>>>,
    pub(super) steps: Option<Vec<Spanned<StepFile>>>,
    pub(super) steps_file: Option<Spanned<String>>,
    pub(super) caution: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as [[traffic.rank]] with arrivals and lengths")]
pub(super) struct RankTrafficFile {
    pub(super) requests: Option<Whole>,
    pub(super) arrivals: Option<Spanned<ArrivalsFile>>,
    pub(super) lengths: Option<Spanned<LengthsFile>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", expecting = "a table such as [traffic.arrivals.poisson] with rate = 8.0")]
pub(super) enum ArrivalsFile {
    Poisson(PoissonFile),
    Gamma(GammaFile),
    Constant(PoissonFile),
    OnOff(OnOffFile),
    ClosedLoop(ClosedLoopFile),
    Trace(Box<TraceFile>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as { rate = 8.0 }")]
pub(super) struct PoissonFile {
    pub(super) rate: Real,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as { rate = 8.0, burstiness = 0.5 }")]
pub(super) struct GammaFile {
    pub(super) rate: Real,
    pub(super) burstiness: Real,
    /// On by default, as in `vllm bench serve`: the last arrival falls on `requests / rate`.
    pub(super) rescale: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as { on = \"10s\", off = \"20s\", rate_on = 8.0 }")]
pub(super) struct OnOffFile {
    pub(super) on: Time,
    pub(super) off: Time,
    pub(super) rate_on: Real,
    /// Zero by default.
    pub(super) rate_off: Option<Real>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as { concurrency = 64 }")]
pub(super) struct ClosedLoopFile {
    pub(super) concurrency: Whole,
}

#[derive(Deserialize)]
#[serde(
    rename_all = "lowercase",
    expecting = "a table such as [traffic.lengths.fixed] with prompt = 1000 and output = 200"
)]
pub(super) enum LengthsFile {
    Fixed(FixedFile),
    Uniform(UniformFile),
    Lognormal(Box<LogNormalFile>),
    Histogram(Vec<Spanned<HistogramRowFile>>),
    Trace(Box<TraceFile>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as { prompt = 1000, output = 200 }")]
pub(super) struct FixedFile {
    pub(super) prompt: Whole,
    pub(super) output: Whole,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as { prompt = [100, 2000], output = [10, 400] }")]
pub(super) struct UniformFile {
    /// `[shortest, longest]`, both included.
    pub(super) prompt: Spanned<[Whole; 2]>,
    pub(super) output: Spanned<[Whole; 2]>,
}

#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table with prompt and output, each such as { p50 = 600, p99 = 4000, max = 8000 }"
)]
pub(super) struct LogNormalFile {
    pub(super) prompt: Spanned<LogNormalLengthFile>,
    pub(super) output: Spanned<LogNormalLengthFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as { p50 = 600, p99 = 4000, max = 8000 }")]
pub(super) struct LogNormalLengthFile {
    // Two of the next four, in tokens but for sigma: p50 with mean, p99 or sigma, or mean with sigma. They describe the
    // distribution before it is clipped.
    pub(super) p50: Option<Real>,
    pub(super) p99: Option<Real>,
    pub(super) mean: Option<Real>,
    pub(super) sigma: Option<Real>,
    /// 1 by default.
    pub(super) min: Option<Whole>,
    pub(super) max: Whole,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as { prompt = 1000, output = 200, count = 5 }")]
pub(super) struct HistogramRowFile {
    pub(super) prompt: Whole,
    pub(super) output: Whole,
    pub(super) count: Whole,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as { file = \"trace.csv\" }")]
pub(super) struct TraceFile {
    pub(super) file: Spanned<String>,
    /// Told from the first line by default.
    pub(super) format: Option<Spanned<TraceFormatFile>>,
    /// Makes the format `csv`.
    pub(super) columns: Option<Spanned<ColumnsFile>>,
    /// Seconds by default; only with `columns`.
    pub(super) time_unit: Option<Spanned<TimeUnitFile>>,
    pub(super) rate_multiplier: Option<Real>,
    pub(super) limit: Option<Whole>,
    pub(super) unsorted: Option<Spanned<Unsorted>>,
    pub(super) bad_rows: Option<BadRows>,
    /// Off by default; lengths only.
    pub(super) repeat: Option<Spanned<bool>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase", expecting = "\"csv\", \"azure\", \"vidur\" or \"mooncake\"")]
pub(super) enum TraceFormatFile {
    Csv,
    Azure,
    Vidur,
    Mooncake,
}

/// Unit of the times of a trace with named columns.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase", expecting = "\"s\", \"ms\", \"us\", \"ns\" or \"date\"")]
pub(super) enum TimeUnitFile {
    S,
    Ms,
    Us,
    Ns,
    /// A date and time of day.
    Date,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as { arrival = \"time\", prompt = \"in\", output = \"out\" }")]
pub(super) struct ColumnsFile {
    pub(super) arrival: Option<Spanned<String>>,
    pub(super) prompt: Option<Spanned<String>>,
    pub(super) output: Option<Spanned<String>>,
    // The rest is read only if named.
    pub(super) priority: Option<Spanned<String>>,
    pub(super) adapter: Option<Spanned<String>>,
    pub(super) prefix: Option<Spanned<String>>,
    pub(super) prefix_tokens: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as { priority = 0, share = 0.9 }")]
pub(super) struct PriorityFile {
    pub(super) priority: Whole,
    /// All of them add up to 1.
    pub(super) share: Real,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as { count = 20, without = 0.1 }")]
pub(super) struct AdaptersFile {
    /// As many as there are shares by default.
    pub(super) count: Option<Whole>,
    /// Share of requests without an adapter; none by default.
    pub(super) without: Option<Real>,
    /// Uniform by default.
    pub(super) popularity: Option<Spanned<PopularityFile>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase", expecting = "\"uniform\", { zipf = 1.0 } or { shares = [0.5, 0.3, 0.2] }")]
pub(super) enum PopularityFile {
    Uniform,
    Zipf(Real),
    Shares(Spanned<Vec<Real>>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as { share = 0.8, tokens = 1200 }")]
pub(super) struct PrefixFile {
    /// All requests by default.
    pub(super) share: Option<Real>,
    pub(super) tokens: Whole,
    /// 1 by default.
    pub(super) count: Option<Whole>,
    /// The levels below, from the outermost in.
    pub(super) within: Option<Vec<Spanned<PrefixLevelFile>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as { tokens = 400, count = 20 }")]
pub(super) struct PrefixLevelFile {
    pub(super) tokens: Whole,
    /// 1 by default.
    pub(super) count: Option<Whole>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase", expecting = "[traffic.acceptance] with rates = [0.8, 0.6] or cycle = [2, 0, 3]")]
pub(super) enum AcceptanceFile {
    Rates(Spanned<Vec<Real>>),
    Cycle(Spanned<Vec<Whole>>),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case", expecting = "\"length\", \"ignore_eos\" or { eos = { max_new_tokens = 1024 } }")]
pub(super) enum OutputEndFile {
    Length,
    IgnoreEos,
    Eos(EosFile),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as { max_new_tokens = 1024 }")]
pub(super) struct EosFile {
    pub(super) max_new_tokens: Whole,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as { tokens = 13, requests = 13, count = 1200 }")]
pub(super) struct StepFile {
    pub(super) tokens: Whole,
    pub(super) requests: Whole,
    /// The longest query; that of a uniform step by default.
    pub(super) query_len: Option<Whole>,
    pub(super) count: Whole,
    /// Encoder tokens of each image; none by default.
    pub(super) images: Option<Spanned<Vec<Whole>>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as [slo] with ttft = \"500ms\"")]
pub(super) struct SloFile {
    pub(super) ttft: Option<Time>,
    pub(super) tpot: Option<Time>,
    pub(super) e2el: Option<Time>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as [budget] with graph_memory = \"2GiB\"")]
pub(super) struct BudgetFile {
    pub(super) graph_memory: Option<Size>,
    pub(super) startup: Option<Time>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase", expecting = "[warm_up] with time = \"30s\" or requests = 500")]
pub(super) enum WarmUpFile {
    Time(Time),
    Requests(Whole),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as [[expect]] with command, figure and value")]
pub(super) struct ExpectationFile {
    pub(super) command: Command,
    pub(super) candidate: Option<Spanned<String>>,
    pub(super) figure: Spanned<String>,
    pub(super) value: Spanned<Value>,
    /// Absolute; 1e-6 by default.
    pub(super) within: Option<Real>,
}

//! The engine's own flags on the command line, for commands that need no scenario.

use calibrate::profile::Profile;
use clap::{Args, ValueEnum};

use crate::engine::vllm::device_defaults::{BatchDefaults, Device, Usage};
use crate::engine::vllm::options::{
    AttentionSupport, CompilationMode, CudagraphMode, Drafter, GraphOptions, KvOptions, OptimizationLevel,
    PerformanceMode, Runner, SchedulerOptions, SpeculativeMethod, Version, VllmOptions,
};
use crate::limits;

/// The name of the one candidate that flags describe.
pub(super) const FLAGS_NAME: &str = "flags";

/// vLLM's flags under their own names and with its defaults.
#[derive(Debug, Args)]
#[command(next_help_heading = "Engine flags (vLLM's own names and defaults)")]
#[expect(clippy::struct_excessive_bools, reason = "one field per engine flag")]
pub(super) struct EngineFlags {
    /// The vLLM release whose rules apply: 0.31.0, 0.33.0, or main (newer than 0.33.0).
    #[arg(long, value_name = "VERSION", value_parser = version, default_value = "0.33.0")]
    engine_version: Version,
    /// The model runner [default: v2, but v1 where an option needs it].
    #[arg(long, value_enum)]
    runner: Option<RunnerFlag>,
    /// Most requests in one step [default: the engine's on the profile's device, 256 without a profile].
    #[arg(long, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::SEQUENCES_MAX)))]
    max_num_seqs: Option<u32>,
    /// Most tokens in one step [default: the engine's on the profile's device, 2048 without a profile].
    #[arg(long, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::STEP_TOKENS_MAX)))]
    max_num_batched_tokens: Option<u32>,
    /// The ladder, in tokens, as in 1,2,4,8 [default: the engine's own].
    #[arg(long, value_name = "N", num_args = 1.., value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::STEP_TOKENS_MAX)))]
    cudagraph_capture_sizes: Option<Vec<u32>>,
    /// The largest size of the engine's own ladder, in tokens [default: twice a full decode batch, at most 512].
    #[arg(long, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::STEP_TOKENS_MAX)))]
    max_cudagraph_capture_size: Option<u32>,
    /// main: sizes of graphs for every batch that is no uniform decode batch, in tokens.
    #[arg(long, value_name = "N", num_args = 1.., value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::STEP_TOKENS_MAX)))]
    prefill_cudagraph_capture_token_sizes: Option<Vec<u32>>,
    /// main: the largest of those sizes where the engine makes them, in tokens.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=i64::from(limits::STEP_TOKENS_MAX)))]
    max_prefill_cudagraph_capture_tokens: Option<u32>,
    /// main: sizes of graphs for uniform decode batches, in requests.
    #[arg(long, value_name = "N", num_args = 1.., value_delimiter = ',',
          value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::SEQUENCES_MAX)))]
    decode_cudagraph_capture_request_sizes: Option<Vec<u32>>,
    /// main: the largest of those sizes where the engine makes them, in requests.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=i64::from(limits::SEQUENCES_MAX)))]
    max_decode_cudagraph_capture_requests: Option<u32>,
    /// main: the most tokens of a decode graph.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::STEP_TOKENS_MAX)))]
    max_decode_cudagraph_capture_tokens: Option<u32>,
    /// Default modes: 0 neither compiles nor captures, 1 captures pieces only, 2 and 3 capture both kinds of graphs.
    #[arg(long, short = 'O', value_name = "LEVEL", default_value_t = 2, value_parser = clap::value_parser!(u8).range(0..=3))]
    optimization_level: u8,
    /// NONE, PIECEWISE, FULL, FULL_DECODE_ONLY or FULL_AND_PIECEWISE [default: the engine's choice].
    #[arg(long, value_name = "MODE", value_parser = str::parse::<CudagraphMode>)]
    cudagraph_mode: Option<CudagraphMode>,
    /// NONE, STOCK_TORCH_COMPILE, DYNAMO_TRACE_ONCE or VLLM_COMPILE [default: the engine's choice].
    #[arg(long, value_name = "MODE", value_parser = str::parse::<CompilationMode>)]
    compilation_mode: Option<CompilationMode>,
    /// PIECEWISE graphs are broken while they are captured; the model is not compiled then.
    #[arg(long)]
    use_breakable_cudagraph: bool,
    /// No compilation and no graphs.
    #[arg(long)]
    enforce_eager: bool,
    /// Drafts per request and step.
    #[arg(long, value_name = "K", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=i64::from(limits::DRAFTS_MAX)))]
    num_speculative_tokens: u32,
    /// Who drafts; it decides which runners the release has. With ngram, 0.31.0 has runner v1 only: name the method of your
    /// server (eagle, mtp, ...) to see runner v2.
    #[arg(long, value_name = "METHOD", value_parser = str::parse::<SpeculativeMethod>, default_value = "ngram")]
    spec_method: SpeculativeMethod,
    /// LoRA slots [default: LoRA off].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(limits::LORAS_MAX)))]
    max_loras: Option<u32>,
    /// Adapter kernels specialise on the number of active adapters.
    #[arg(long, requires = "max_loras")]
    specialize_active_lora: bool,
    /// What the attention backend can capture.
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = SupportFlag::Always)]
    attention_support: SupportFlag,
    /// How dense the ladder is at small sizes.
    #[arg(long, value_name = "MODE", value_enum, default_value_t = PerformanceFlag::Balanced)]
    performance_mode: PerformanceFlag,
    /// Compute capability family 100: the default ceiling is 1024 instead of 512.
    #[arg(long)]
    data_center_blackwell: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RunnerFlag {
    /// The `CudagraphDispatcher`.
    V1,
    /// The `CudaGraphManager`, the default.
    V2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "SCREAMING_SNAKE_CASE")]
enum SupportFlag {
    Never,
    UniformSingleTokenDecode,
    UniformBatch,
    Always,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PerformanceFlag {
    Balanced,
    Interactivity,
    Throughput,
}

impl EngineFlags {
    /// Every flag, for arguments that take the engine from elsewhere. (As a group they would all be named in the message,
    /// whichever was given.)
    pub(super) const IDS: [&str; 23] = [
        "engine_version",
        "runner",
        "max_num_seqs",
        "max_num_batched_tokens",
        "cudagraph_capture_sizes",
        "max_cudagraph_capture_size",
        "prefill_cudagraph_capture_token_sizes",
        "max_prefill_cudagraph_capture_tokens",
        "decode_cudagraph_capture_request_sizes",
        "max_decode_cudagraph_capture_requests",
        "max_decode_cudagraph_capture_tokens",
        "optimization_level",
        "cudagraph_mode",
        "compilation_mode",
        "use_breakable_cudagraph",
        "enforce_eager",
        "num_speculative_tokens",
        "spec_method",
        "max_loras",
        "specialize_active_lora",
        "attention_support",
        "performance_mode",
        "data_center_blackwell",
    ];

    /// The options that the flags stand for, on the device of a profile. Requests are not served, so `max_model_len` is
    /// the token budget.
    #[must_use]
    pub(super) fn options(&self, profile: Option<&Profile>) -> VllmOptions {
        let performance_mode = match self.performance_mode {
            PerformanceFlag::Balanced => PerformanceMode::Balanced,
            PerformanceFlag::Interactivity => PerformanceMode::Interactivity,
            PerformanceFlag::Throughput => PerformanceMode::Throughput,
        };
        let device = profile.map(Device::of).unwrap_or_default();
        let batch = BatchDefaults::of(self.engine_version, &device, Usage::Server, performance_mode);
        let max_num_batched_tokens = self.max_num_batched_tokens.unwrap_or(batch.max_num_batched_tokens);
        let max_num_seqs = self.max_num_seqs.unwrap_or(batch.max_num_seqs.min(max_num_batched_tokens));
        VllmOptions {
            version: self.engine_version,
            runner: self.runner.map(|runner| match runner {
                RunnerFlag::V1 => Runner::V1,
                RunnerFlag::V2 => Runner::V2,
            }),
            scheduler: SchedulerOptions {
                max_num_seqs,
                max_num_batched_tokens,
                max_model_len: max_num_batched_tokens,
                drafter: Drafter { method: self.spec_method, ..Drafter::default() },
                ..SchedulerOptions::default()
            },
            kv: KvOptions::default(),
            graphs: GraphOptions {
                optimization_level: OptimizationLevel::ALL[usize::from(self.optimization_level)],
                compilation_mode: self.compilation_mode,
                use_breakable_cudagraph: self.use_breakable_cudagraph,
                cudagraph_mode: self.cudagraph_mode,
                cudagraph_capture_sizes: self.cudagraph_capture_sizes.clone(),
                max_cudagraph_capture_size: self.max_cudagraph_capture_size,
                prefill_cudagraph_capture_token_sizes: self.prefill_cudagraph_capture_token_sizes.clone(),
                max_prefill_cudagraph_capture_tokens: self.max_prefill_cudagraph_capture_tokens,
                decode_cudagraph_capture_request_sizes: self.decode_cudagraph_capture_request_sizes.clone(),
                max_decode_cudagraph_capture_requests: self.max_decode_cudagraph_capture_requests,
                max_decode_cudagraph_capture_tokens: self.max_decode_cudagraph_capture_tokens,
                enforce_eager: self.enforce_eager,
                num_speculative_tokens: self.num_speculative_tokens,
                max_loras: self.max_loras,
                specialize_active_lora: self.specialize_active_lora,
                attention_support: match self.attention_support {
                    SupportFlag::Never => AttentionSupport::Never,
                    SupportFlag::UniformSingleTokenDecode => AttentionSupport::UniformSingleTokenDecode,
                    SupportFlag::UniformBatch => AttentionSupport::UniformBatch,
                    SupportFlag::Always => AttentionSupport::Always,
                },
                performance_mode,
                data_center_blackwell: self.data_center_blackwell,
                ..GraphOptions::default()
            },
        }
    }
}

fn version(text: &str) -> Result<Version, String> {
    [Version::V0_31_0, Version::V0_33_0, Version::Main]
        .into_iter()
        .find(|version| version.to_string() == text)
        .ok_or_else(|| "the known releases are 0.31.0, 0.33.0 and main".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_is_listed() {
        let command = EngineFlags::augment_args(clap::Command::new("any"));
        let ids: Vec<&str> = command.get_arguments().map(|flag| flag.get_id().as_str()).collect();
        assert_eq!(ids, EngineFlags::IDS);
    }
}

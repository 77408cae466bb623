//! The server of a run, as it is simulated, and in what that differs from what ran.

use super::ValidateError;
use super::run::{MeasuredRequest, Meta};
use super::unsimulated::unsimulated;
use crate::engine::options::EngineOptions;
use crate::engine::vllm::attention::ComputeCapability;
use crate::engine::vllm::options::{
    AttentionSupport, CudagraphMode, GraphOptions, KvOptions, Runner, SchedulerOptions, Version, VllmOptions,
};

/// The release whose runner and scheduler a run of an older one is simulated with.
const VERSION: Version = Version::V0_33_0;

/// Tokens of a KV block where the run does not say: vLLM's default.
const BLOCK_TOKENS: u32 = 16;

/// A server to simulate.
#[derive(Clone, Debug)]
pub struct Server {
    /// What it is started with.
    pub options: EngineOptions,
    /// Where that is not what ran, or was not recorded: a sentence each.
    pub notes: Vec<String>,
}

impl Server {
    /// The server that `meta` describes, on a card of this `capability` if that is known, for these requests.
    ///
    /// # Errors
    /// The run had several engines or stages, or drafts, which its files do not tell apart; or no engine starts so.
    pub fn of(
        file: &str,
        meta: &Meta,
        capability: Option<ComputeCapability>,
        requests: &[MeasuredRequest],
    ) -> Result<Self, ValidateError> {
        let kwargs = &meta.engine_kwargs;
        check_parallel(file, meta)?;
        let mut notes = vec![format!(
            "ran on vLLM {}; simulated by the rules of {VERSION} with its V1 runner: the schedulers may differ where \
             neither the specification nor this run shows it",
            meta.vllm_version
        )];
        let longest = requests.iter().map(|request| request.prompt_tokens + request.output_tokens).max().unwrap_or(1);
        let max_model_len = kwargs.max_model_len.unwrap_or_else(|| {
            notes.push(format!(
                "max_model_len was the model's own: simulated with the longest request, {longest} tokens"
            ));
            longest
        });
        let scheduler = meta.scheduler();
        let not_simulated = unsimulated(meta);
        if !not_simulated.is_empty() {
            notes.push(format!("NOT SIMULATED: {}", not_simulated.join("; ")));
        }
        if scheduler.is_none() {
            notes.push("the scheduler's settings were not recorded: vLLM's defaults are taken (asynchronous, whole prompts reserved)".to_owned());
        }
        let defaults = SchedulerOptions::default();
        let block_size = meta.kv_cache.map_or(BLOCK_TOKENS, |kv| kv.block_size);
        let scheduler = SchedulerOptions {
            max_num_seqs: kwargs.max_num_seqs,
            max_num_batched_tokens: kwargs.max_num_batched_tokens,
            max_model_len,
            block_size,
            async_scheduling: scheduler
                .and_then(|config| config.async_scheduling)
                .or(kwargs.async_scheduling)
                .unwrap_or(defaults.async_scheduling),
            scheduler_reserve_full_isl: scheduler
                .and_then(|config| config.scheduler_reserve_full_isl)
                .unwrap_or(defaults.scheduler_reserve_full_isl),
            enable_chunked_prefill: scheduler
                .and_then(|config| config.enable_chunked_prefill)
                .or(kwargs.enable_chunked_prefill)
                .unwrap_or(defaults.enable_chunked_prefill),
            long_prefill_token_threshold: scheduler
                .and_then(|config| config.long_prefill_token_threshold)
                .or(kwargs.long_prefill_token_threshold)
                .unwrap_or(defaults.long_prefill_token_threshold),
            enable_prefix_caching: meta
                .kv_cache
                .map(|kv| kv.enable_prefix_caching)
                .or(kwargs.enable_prefix_caching)
                .unwrap_or(true),
            ..defaults
        };
        if !scheduler.enable_chunked_prefill && scheduler.max_num_batched_tokens < max_model_len {
            let problem = format!(
                "enable_chunked_prefill is false, and max_num_batched_tokens, {}, is less than max_model_len, \
                 {max_model_len}: vLLM does not start so",
                scheduler.max_num_batched_tokens
            );
            return Err(ValidateError::file(file, problem, "check what the run was started with"));
        }
        let num_gpu_blocks = meta.kv_cache.map_or_else(
            || {
                notes.push(
                    "the KV pool was not recorded: simulated with one that holds every request at once".to_owned(),
                );
                ample_blocks(requests, max_model_len, block_size)
            },
            |kv| kv.num_gpu_blocks,
        );
        let kv = KvOptions { num_gpu_blocks_override: Some(num_gpu_blocks), ..KvOptions::default() };
        let mode = meta.graph_mode().ok().flatten();
        let has_graphs = !meta.is_eager() && mode != Some(CudagraphMode::None);
        if meta.capture_sizes().is_none() && has_graphs {
            notes.push("the capture sizes were not recorded: vLLM's default ladder is taken".to_owned());
        }
        let attention_support = capability.and_then(ComputeCapability::default_flash_attention).map_or_else(
            || {
                notes.push(
                    "the attention backend is not known: full graphs are taken for uniform batches only".to_owned(),
                );
                AttentionSupport::UniformBatch
            },
            |(_, support)| support,
        );
        let graphs = GraphOptions {
            cudagraph_mode: mode,
            // Without graphs vLLM captures no sizes and may still list them.
            cudagraph_capture_sizes: meta.capture_sizes().filter(|_| has_graphs).map(<[u32]>::to_vec),
            enforce_eager: meta.is_eager(),
            attention_support,
            ..GraphOptions::default()
        };
        let options = VllmOptions { version: VERSION, runner: Some(Runner::V1), scheduler, kv, graphs };
        Ok(Self { options: EngineOptions::Vllm(options), notes })
    }
}

/// Makes sure that one engine computed whole steps of one token a request.
fn check_parallel(file: &str, meta: &Meta) -> Result<(), ValidateError> {
    let refuse = |key: &str, value: &str, why: &str| {
        let problem = format!("{key} is {value}: {why}");
        Err(ValidateError::file(file, problem, "validate a run of one engine, of one stage and without drafts"))
    };
    for (key, why) in [
        ("data_parallel_size", "which rank served a request is not recorded"),
        ("pipeline_parallel_size", "what a stage computes is in no table"),
    ] {
        let places = [format!("engine_kwargs.{key}"), format!("resolved_config.parallel_config.{key}")];
        let recorded = places.iter().filter_map(|path| meta.at(path)?.as_u64()).max();
        if let Some(number @ 2..) = recorded {
            return refuse(key, &number.to_string(), why);
        }
    }
    let places = ["engine_kwargs.speculative_config", "resolved_config.speculative_config"];
    match places.iter().filter_map(|path| meta.at(path)).find(|value| !value.is_null()) {
        Some(_) => refuse("speculative_config", "set", "how many drafts were accepted is not recorded"),
        None => Ok(()),
    }
}

/// Blocks that hold all requests at once, and one of the longest; the null block included.
fn ample_blocks(requests: &[MeasuredRequest], max_model_len: u32, block_size: u32) -> u32 {
    let blocks = |tokens: u32| u64::from(tokens.div_ceil(block_size));
    let all: u64 = requests.iter().map(|request| blocks(request.prompt_tokens + request.output_tokens)).sum();
    let most = u64::from(crate::limits::BLOCKS_MAX);
    (all + blocks(max_model_len) + 1).min(most) as u32
}

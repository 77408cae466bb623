//! The server of a run, as it is simulated, and in what that differs from what ran.

use super::ValidateError;
use super::cards::Card;
use super::run::{MeasuredRequest, Meta, SchedulerConfig};
use crate::engine::options::EngineOptions;
use crate::engine::vllm::options::{
    AttentionSupport, GraphOptions, KvOptions, Runner, SchedulerOptions, Version, VllmOptions,
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
    /// The server that `meta` describes, on `card` if that is known, for these requests.
    ///
    /// # Errors
    /// The run had several data-parallel engines, whose requests cannot be told apart.
    pub fn of(
        file: &str,
        meta: &Meta,
        card: Option<&Card>,
        requests: &[MeasuredRequest],
    ) -> Result<Self, ValidateError> {
        let kwargs = &meta.engine_kwargs;
        if let Some(ranks @ 2..) = kwargs.data_parallel_size {
            let problem = format!("data_parallel_size is {ranks}: which rank served a request is not recorded");
            return Err(ValidateError::file(file, problem, "validate a run of one engine"));
        }
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
        if scheduler.is_none() {
            notes.push("the scheduler's settings were not recorded: vLLM's defaults are taken (asynchronous, whole prompts reserved)".to_owned());
        }
        let defaults = SchedulerOptions::default();
        let told =
            |of: fn(&SchedulerConfig) -> Option<bool>, default| scheduler.as_ref().and_then(of).unwrap_or(default);
        let block_size = meta.kv_cache.map_or(BLOCK_TOKENS, |kv| kv.block_size);
        let scheduler = SchedulerOptions {
            max_num_seqs: kwargs.max_num_seqs,
            max_num_batched_tokens: kwargs.max_num_batched_tokens,
            max_model_len,
            block_size,
            async_scheduling: told(|config| config.async_scheduling, defaults.async_scheduling),
            scheduler_reserve_full_isl: told(
                |config| config.scheduler_reserve_full_isl,
                defaults.scheduler_reserve_full_isl,
            ),
            enable_chunked_prefill: told(|config| config.enable_chunked_prefill, defaults.enable_chunked_prefill),
            enable_prefix_caching: meta.kv_cache.is_none_or(|kv| kv.enable_prefix_caching),
            ..defaults
        };
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
        if meta.capture_sizes().is_none() {
            notes.push("the capture sizes were not recorded: vLLM's default ladder is taken".to_owned());
        }
        let attention_support = card.and_then(|card| card.capability.default_flash_attention()).map_or_else(
            || {
                notes.push(
                    "the attention backend is not known: full graphs are taken for uniform batches only".to_owned(),
                );
                AttentionSupport::UniformBatch
            },
            |(_, support)| support,
        );
        let graphs = GraphOptions {
            cudagraph_capture_sizes: meta.capture_sizes().map(<[u32]>::to_vec),
            attention_support,
            ..GraphOptions::default()
        };
        let options = VllmOptions { version: VERSION, runner: Some(Runner::V1), scheduler, kv, graphs };
        Ok(Self { options: EngineOptions::Vllm(options), notes })
    }
}

/// Blocks that hold all requests at once, and one of the longest; the null block included.
fn ample_blocks(requests: &[MeasuredRequest], max_model_len: u32, block_size: u32) -> u32 {
    let blocks = |tokens: u32| u64::from(tokens.div_ceil(block_size));
    let all: u64 = requests.iter().map(|request| blocks(request.prompt_tokens + request.output_tokens)).sum();
    let most = u64::from(crate::limits::BLOCKS_MAX);
    (all + blocks(max_model_len) + 1).min(most) as u32
}

//! `vllm_run_NAME_meta.json`: what ran, as far as a simulation needs it.
//!
//! The file is somebody else's and holds much more: other keys are passed over. What an older benchmark did not record is
//! `None`.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Text, WHOLE, fault_of_json};
use crate::engine::vllm::options::CudagraphMode;
use crate::limits::{
    BLOCK_TOKENS_MAX, BLOCKS_MAX, RANKS_MAX, REQUEST_TOKENS_MAX, RUNGS_MAX, SEQUENCES_MAX, STEP_TOKENS_MAX,
};
use crate::validate::ValidateError;

/// What ran.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Meta {
    /// The model, as its publisher names it.
    pub model: String,
    /// The vLLM release.
    pub vllm_version: String,
    /// Flags the engine was started with.
    pub engine_kwargs: EngineKwargs,
    /// SHA-256 of the workload file that the prompts came from, lower-case hexadecimal.
    pub dataset_hash: Option<String>,
    /// Requests sent.
    pub num_requests: Option<u64>,
    /// The KV pool that the engine made.
    pub kv_cache: Option<KvCache>,
    /// The device.
    pub hardware: Option<Hardware>,
    /// The engine's own configuration, after all defaults.
    pub resolved_config: Option<Resolved>,
    /// All that the file holds.
    #[serde(skip)]
    pub whole: Value,
}

/// Flags of the engine. Sizes in tokens unless the name says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct EngineKwargs {
    /// Tensor-parallel ranks.
    pub tensor_parallel_size: Option<u32>,
    /// Data-parallel ranks.
    pub data_parallel_size: Option<u32>,
    /// Most requests of a step.
    pub max_num_seqs: u32,
    /// Most tokens of a step.
    pub max_num_batched_tokens: u32,
    /// Longest request, prompt and output together; none: the model's own limit.
    pub max_model_len: Option<u32>,
    /// No compilation and no graphs.
    pub enforce_eager: Option<bool>,
    /// Prompts may be split.
    pub enable_chunked_prefill: Option<bool>,
    /// The most tokens of one prompt in a step; 0: no limit of its own.
    pub long_prefill_token_threshold: Option<u32>,
    /// Two steps in flight.
    pub async_scheduling: Option<bool>,
    /// Whether equal heads of prompts share blocks.
    pub enable_prefix_caching: Option<bool>,
}

/// The KV pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct KvCache {
    /// Blocks, the null block included.
    pub num_gpu_blocks: u32,
    /// Tokens of a block.
    pub block_size: u32,
    /// Whether equal heads of prompts share blocks.
    pub enable_prefix_caching: bool,
}

/// The device.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Hardware {
    /// Its name, as the driver gives it.
    pub device_name: String,
    /// Its compute capability, such as 8.9.
    pub device_capability: Option<String>,
}

/// The engine's own configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Resolved {
    /// Graphs.
    pub compilation_config: Option<Compilation>,
    /// The scheduler.
    pub scheduler_config: Option<SchedulerConfig>,
    /// The model.
    pub model_config: Option<ModelConfig>,
}

/// The model, as the engine loaded it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct ModelConfig {
    /// No compilation and no graphs.
    pub enforce_eager: Option<bool>,
}

/// Graphs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Compilation {
    /// The ladder, in tokens.
    pub cudagraph_capture_sizes: Option<Vec<u32>>,
    /// The mode: its name, its number, or those of uniform decode batches and of the others.
    pub cudagraph_mode: Option<Value>,
}

/// The scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct SchedulerConfig {
    /// Two steps in flight.
    pub async_scheduling: Option<bool>,
    /// A request is admitted only where its whole prompt fits.
    pub scheduler_reserve_full_isl: Option<bool>,
    /// Prompts may be split.
    pub enable_chunked_prefill: Option<bool>,
    /// The most tokens of one prompt in a step; 0: no limit of its own.
    pub long_prefill_token_threshold: Option<u32>,
}

/// Keys that say the same, where both are there.
const SAME: [[&str; 2]; 8] = [
    ["engine_kwargs.max_num_seqs", "resolved_config.scheduler_config.max_num_seqs"],
    ["engine_kwargs.max_num_batched_tokens", "resolved_config.scheduler_config.max_num_batched_tokens"],
    ["engine_kwargs.enable_chunked_prefill", "resolved_config.scheduler_config.enable_chunked_prefill"],
    ["engine_kwargs.max_model_len", "resolved_config.model_config.max_model_len"],
    ["engine_kwargs.tensor_parallel_size", "resolved_config.parallel_config.tensor_parallel_size"],
    ["kv_cache.num_gpu_blocks", "resolved_config.cache_config.num_gpu_blocks"],
    ["kv_cache.block_size", "resolved_config.cache_config.block_size"],
    ["kv_cache.enable_prefix_caching", "resolved_config.cache_config.enable_prefix_caching"],
];

impl Meta {
    /// Reads the file.
    ///
    /// # Errors
    /// It is no such JSON, a figure is none that a server can have, or two keys contradict each other.
    pub fn read(text: &Text) -> Result<Self, ValidateError> {
        let refused = |error: serde_json::Error| {
            let problem = format!("not the meta.json of a run: {}", fault_of_json(&error));
            ValidateError::line(&text.file, error.line() as u64, problem, WHOLE)
        };
        let mut meta: Self = serde_json::from_str(&text.text).map_err(refused)?;
        meta.whole = serde_json::from_str(&text.text).map_err(refused)?;
        let refuse = |key: &str, value: u32, most: u32| {
            let problem = format!("{key} is {value}, expected 1 to {most}");
            Err(ValidateError::file(&text.file, problem, "check what the run was started with"))
        };
        let kwargs = &meta.engine_kwargs;
        let figures = [
            ("max_num_seqs", Some(kwargs.max_num_seqs), SEQUENCES_MAX),
            ("max_num_batched_tokens", Some(kwargs.max_num_batched_tokens), STEP_TOKENS_MAX),
            ("max_model_len", kwargs.max_model_len, REQUEST_TOKENS_MAX),
            ("tensor_parallel_size", kwargs.tensor_parallel_size, RANKS_MAX),
            ("data_parallel_size", kwargs.data_parallel_size, RANKS_MAX),
            ("kv_cache.num_gpu_blocks", meta.kv_cache.map(|kv| kv.num_gpu_blocks), BLOCKS_MAX),
            ("kv_cache.block_size", meta.kv_cache.map(|kv| kv.block_size), BLOCK_TOKENS_MAX),
        ];
        for (key, value, most) in figures {
            if let Some(value) = value.filter(|value| !(1..=most).contains(value)) {
                return refuse(key, value, most);
            }
        }
        let sizes = meta.capture_sizes().unwrap_or_default();
        if sizes.len() > RUNGS_MAX {
            let problem = format!("{} cudagraph_capture_sizes, expected at most {RUNGS_MAX}", sizes.len());
            return Err(ValidateError::file(&text.file, problem, "check what the run was started with"));
        }
        if let Some(&size) = sizes.iter().find(|size| !(1..=STEP_TOKENS_MAX).contains(*size)) {
            return refuse("an entry of cudagraph_capture_sizes", size, STEP_TOKENS_MAX);
        }
        meta.graph_mode().map_err(|mode| {
            let problem = format!("cudagraph_mode is {}, which is no mode", calibrate::stderr::printable(&mode));
            ValidateError::file(&text.file, problem, "check what the run was started with")
        })?;
        match SAME.iter().find_map(|pair| meta.contradiction(*pair)) {
            Some(problem) => Err(ValidateError::file(&text.file, problem, "give the file as the benchmark wrote it")),
            None => Ok(meta),
        }
    }

    /// The value at a path of keys, such as `kv_cache.block_size`; `None` where it is not there.
    #[must_use]
    pub fn at(&self, path: &str) -> Option<&Value> {
        path.split('.').try_fold(&self.whole, |value, key| value.get(key))
    }

    /// What two keys say of one thing, if that is not the same.
    fn contradiction(&self, [one, two]: [&str; 2]) -> Option<String> {
        let said = |path| self.at(path).filter(|value| !value.is_null());
        let (a, b) = said(one).zip(said(two)).filter(|(a, b)| a != b)?;
        let shown = |value: &Value| calibrate::stderr::printable(&value.to_string());
        Some(format!("{one} is {}, but {two} is {}", shown(a), shown(b)))
    }

    /// The graph mode that was in force; `None` where it was not recorded.
    ///
    /// # Errors
    /// What was recorded is no mode.
    pub fn graph_mode(&self) -> Result<Option<CudagraphMode>, String> {
        let recorded = self.resolved_config.as_ref().and_then(|config| config.compilation_config.as_ref());
        recorded.and_then(|config| config.cudagraph_mode.as_ref()).map(graph_mode).transpose()
    }

    /// Whether the engine ran without graphs.
    #[must_use]
    pub fn is_eager(&self) -> bool {
        let resolved = self.resolved_config.as_ref().and_then(|config| config.model_config?.enforce_eager);
        resolved == Some(true) || self.engine_kwargs.enforce_eager == Some(true)
    }

    /// The ladder that was captured, in tokens.
    #[must_use]
    pub fn capture_sizes(&self) -> Option<&[u32]> {
        self.resolved_config.as_ref()?.compilation_config.as_ref()?.cudagraph_capture_sizes.as_deref()
    }

    /// What the scheduler was told.
    #[must_use]
    pub fn scheduler(&self) -> Option<SchedulerConfig> {
        self.resolved_config.as_ref()?.scheduler_config
    }
}

/// A mode by its name, by vLLM's number for it, or as the modes of uniform decode batches and of all others.
fn graph_mode(value: &Value) -> Result<CudagraphMode, String> {
    use CudagraphMode::{Full, FullAndPiecewise, FullDecodeOnly, None, Piecewise};
    if let Some(name) = value.as_str() {
        let name = name.rsplit('.').next().unwrap_or(name).to_ascii_uppercase();
        return serde_json::from_value(json!(name)).map_err(|_| value.to_string());
    }
    match value.as_u64().map_or_else(|| value.clone(), |mode| json!([mode, mode])) {
        mode if mode == json!([0, 0]) => Ok(None),
        mode if mode == json!([1, 1]) => Ok(Piecewise),
        mode if mode == json!([2, 2]) => Ok(Full),
        mode if mode == json!([2, 0]) => Ok(FullDecodeOnly),
        mode if mode == json!([2, 1]) => Ok(FullAndPiecewise),
        _ => Err(value.to_string()),
    }
}

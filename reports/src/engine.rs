//! The engine whose rules a result follows.

use serde::{Deserialize, Serialize};

use crate::Name;

/// The engine and the options that decide ladders and schedules. Options keep vLLM's names here; the text of a report
/// calls them as the engine itself does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineReport {
    /// `vllm` or `sglang`.
    pub name: Name,
    /// Version of the engine, for example `0.33.0`.
    pub version: String,
    /// Model runner: `v1` or `v2`; null for an engine that has one.
    pub runner: Option<Name>,
    /// Most requests that run in one step, requests; SGLang: `max_running_requests`.
    pub max_num_seqs: u64,
    /// Most tokens that one step schedules, tokens; SGLang: of a chunk, or of a decode step where that is more.
    pub max_num_batched_tokens: u64,
    /// Longest request served, prompt and output together, tokens; null where no request is served. SGLang:
    /// `context_length`.
    pub max_model_len: Option<u64>,
    /// What the attention backend can capture, for example `ALWAYS` or `UNIFORM_BATCH`; null where the engine asks no
    /// backend.
    pub attention_support: Option<String>,
    /// Whether step k+1 is scheduled while step k runs; null where no step is scheduled. SGLang: overlap scheduling.
    pub async_scheduling: Option<bool>,
}

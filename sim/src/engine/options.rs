//! What a server was started with, whichever engine it is.

use super::sglang::options::SglangOptions;
use super::vllm::options::{SchedulingPolicy, VllmOptions};
use crate::limits::LORAS_MAX;
use crate::time::SimDuration;
use kernels::units::Bytes;

/// The flags of one server of one engine, those that decide its graphs included.
#[derive(Clone, Debug, PartialEq)]
pub enum EngineOptions {
    /// vLLM.
    Vllm(VllmOptions),
    /// SGLang.
    Sglang(SglangOptions),
}

/// A limit of a server with the flag that sets it, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The engine's own name of it.
    pub flag: &'static str,
    /// Its value.
    pub value: u32,
}

/// What no step and no request of a server exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most requests of a step.
    pub requests: Limit,
    /// Most tokens of a step.
    pub step_tokens: Limit,
    /// Most tokens of a request, prompt and output together.
    pub request_tokens: Limit,
}

/// A batch in which every request decodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeBatch {
    /// Its requests.
    pub requests: u32,
    /// Drafts that each of them verifies.
    pub drafts: u32,
}

impl DecodeBatch {
    /// Its tokens: one of each request and its drafts.
    #[must_use]
    pub fn tokens(self) -> u64 {
        u64::from(self.requests) * (u64::from(self.drafts) + 1)
    }
}

impl EngineOptions {
    /// The engine's name, as a profile names the engine that its engine half belongs to.
    #[must_use]
    pub fn engine(&self) -> &'static str {
        match self {
            Self::Vllm(_) => "vllm",
            Self::Sglang(_) => "sglang",
        }
    }

    /// The options of a vLLM server; `None` of another engine.
    #[must_use]
    pub fn vllm(&self) -> Option<&VllmOptions> {
        match self {
            Self::Vllm(options) => Some(options),
            Self::Sglang(_) => None,
        }
    }

    /// The options of a vLLM server, to change them.
    #[must_use]
    pub fn vllm_mut(&mut self) -> Option<&mut VllmOptions> {
        match self {
            Self::Vllm(options) => Some(options),
            Self::Sglang(_) => None,
        }
    }

    /// The options of an SGLang server; `None` of another engine.
    #[must_use]
    pub fn sglang(&self) -> Option<&SglangOptions> {
        match self {
            Self::Sglang(options) => Some(options),
            Self::Vllm(_) => None,
        }
    }

    /// The options of an SGLang server, to change them.
    #[must_use]
    pub fn sglang_mut(&mut self) -> Option<&mut SglangOptions> {
        match self {
            Self::Sglang(options) => Some(options),
            Self::Vllm(_) => None,
        }
    }

    /// The release whose rules apply.
    #[must_use]
    pub fn version(&self) -> String {
        match self {
            Self::Vllm(options) => options.version.to_string(),
            Self::Sglang(options) => options.version.to_string(),
        }
    }

    /// What no step and no request exceeds.
    #[must_use]
    pub fn limits(&self) -> Limits {
        match self {
            Self::Vllm(options) => Limits {
                requests: Limit { flag: "max_num_seqs", value: options.scheduler.max_num_seqs },
                step_tokens: Limit { flag: "max_num_batched_tokens", value: options.scheduler.max_num_batched_tokens },
                request_tokens: Limit { flag: "max_model_len", value: options.scheduler.max_model_len },
            },
            Self::Sglang(options) => options.limits(),
        }
    }

    /// Whether the next step is scheduled while one runs.
    #[must_use]
    pub fn asynchronous(&self) -> bool {
        match self {
            Self::Vllm(options) => options.scheduler.async_scheduling,
            Self::Sglang(options) => !options.scheduler.disable_overlap_schedule,
        }
    }

    /// Tokens of a decoding request in one step: one, and the drafts to be verified.
    #[must_use]
    pub fn decode_tokens(&self) -> u32 {
        match self {
            Self::Vllm(options) => options.graphs.num_speculative_tokens.saturating_add(1),
            Self::Sglang(options) => options.decode_width(),
        }
    }

    /// The decode batch of the most tokens.
    #[must_use]
    pub fn largest_decode_batch(&self) -> DecodeBatch {
        match self {
            Self::Vllm(options) => options.largest_decode_batch(),
            Self::Sglang(options) => DecodeBatch {
                requests: options.limits().requests.value,
                drafts: options.decode_width().saturating_sub(1),
            },
        }
    }

    /// Requests of the widest decode batch that has at most `tokens`; 0 if none has.
    #[must_use]
    pub fn widest_decode_batch(&self, tokens: u32) -> u32 {
        match self {
            Self::Vllm(options) => options.widest_decode_batch(tokens),
            Self::Sglang(options) => tokens / options.decode_width().max(1),
        }
    }

    /// Adapter slots; `None` without LoRA. SGLang captures the same graphs however many there are, and none are counted.
    #[must_use]
    pub fn max_loras(&self) -> Option<u32> {
        match self {
            Self::Vllm(options) => options.graphs.max_loras,
            Self::Sglang(options) => options.graphs.enable_lora.then_some(LORAS_MAX),
        }
    }

    /// Whether the priority of requests decides who goes first.
    #[must_use]
    pub fn orders_by_priority(&self) -> bool {
        match self {
            Self::Vllm(options) => options.scheduler.policy == SchedulingPolicy::Priority,
            Self::Sglang(_) => false,
        }
    }

    /// Whether requests reuse the KV blocks of an equal prompt head.
    #[must_use]
    pub fn caches_prefixes(&self) -> bool {
        match self {
            Self::Vllm(options) => options.scheduler.enable_prefix_caching,
            Self::Sglang(options) => !options.scheduler.disable_radix_cache,
        }
    }

    /// Device time to make the drafts of a step, by the number of its requests from one on; the last entry goes on. Empty
    /// without drafts, and where drafting is not said to cost anything.
    #[must_use]
    pub fn drafting_times(&self) -> Vec<SimDuration> {
        match self {
            Self::Vllm(options) => options.drafting_times(),
            Self::Sglang(_) => Vec::new(),
        }
    }

    /// Tensor-parallel ranks, and data-parallel ranks that take every step together: in SGLang those of data-parallel
    /// attention.
    #[must_use]
    pub fn ranks(&self) -> (u32, u32) {
        match self {
            Self::Vllm(options) => (options.graphs.tensor_parallel_size, options.graphs.data_parallel_size),
            Self::Sglang(options) => (options.parallel.tp_size, options.parallel.attention_dp()),
        }
    }

    /// The flags that set these two counts.
    #[must_use]
    pub fn rank_flags(&self) -> (&'static str, &'static str) {
        match self {
            Self::Vllm(_) => ("tensor_parallel_size", "data_parallel_size"),
            Self::Sglang(_) => ("tp_size", "dp_size"),
        }
    }

    /// Memory of the device where the flags give it; otherwise it is the profile's.
    #[must_use]
    pub fn device_memory(&self) -> Option<Bytes> {
        self.sglang().and_then(|options| options.kv.device_memory())
    }

    /// The graph mode asked for, under the engine's name; `None` where its default applies.
    #[must_use]
    pub fn requested_mode(&self) -> Option<String> {
        match self {
            Self::Vllm(options) => options.graphs.cudagraph_mode.map(|mode| mode.to_string()),
            Self::Sglang(options) => options.graphs.requested_backends(),
        }
    }
}

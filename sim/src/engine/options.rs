//! What a server was started with, whichever engine it is.

use super::vllm::options::VllmOptions;

/// The flags of one server of one engine, those that decide its graphs included.
#[derive(Clone, Debug, PartialEq)]
pub enum EngineOptions {
    /// vLLM.
    Vllm(VllmOptions),
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

impl EngineOptions {
    /// The engine's name, as a profile names the engine that its engine half belongs to.
    #[must_use]
    pub fn engine(&self) -> &'static str {
        match self {
            Self::Vllm(_) => "vllm",
        }
    }

    /// The options of a vLLM server; `None` of another engine.
    #[must_use]
    pub fn vllm(&self) -> Option<&VllmOptions> {
        match self {
            Self::Vllm(options) => Some(options),
        }
    }

    /// The options of a vLLM server, to change them.
    #[must_use]
    pub fn vllm_mut(&mut self) -> Option<&mut VllmOptions> {
        match self {
            Self::Vllm(options) => Some(options),
        }
    }

    /// The release whose rules apply.
    #[must_use]
    pub fn version(&self) -> String {
        match self {
            Self::Vllm(options) => options.version.to_string(),
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
        }
    }

    /// Whether the next step is scheduled while one runs.
    #[must_use]
    pub fn asynchronous(&self) -> bool {
        match self {
            Self::Vllm(options) => options.scheduler.async_scheduling,
        }
    }

    /// Tokens of a decoding request in one step: one, and the drafts to be verified.
    #[must_use]
    pub fn decode_tokens(&self) -> u32 {
        match self {
            Self::Vllm(options) => options.graphs.num_speculative_tokens.saturating_add(1),
        }
    }

    /// Adapter slots; `None` without LoRA.
    #[must_use]
    pub fn max_loras(&self) -> Option<u32> {
        match self {
            Self::Vllm(options) => options.graphs.max_loras,
        }
    }

    /// Tensor-parallel and data-parallel ranks.
    #[must_use]
    pub fn ranks(&self) -> (u32, u32) {
        match self {
            Self::Vllm(options) => (options.graphs.tensor_parallel_size, options.graphs.data_parallel_size),
        }
    }

    /// The graph mode asked for, under the engine's name; `None` where its default applies.
    #[must_use]
    pub fn requested_mode(&self) -> Option<String> {
        match self {
            Self::Vllm(options) => options.graphs.cudagraph_mode.map(|mode| mode.to_string()),
        }
    }
}

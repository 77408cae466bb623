//! What no step and no request of an SGLang server exceeds.

use super::memory::request_rows;
use super::options::SglangOptions;
use crate::engine::options::{Limit, Limits};

impl SglangOptions {
    /// What no step and no request exceeds, whatever the size of the KV pool.
    ///
    /// Without chunking the first prompt of a step is computed whole, however long it is.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let scheduler = &self.scheduler;
        let requests = Limit { flag: "max_running_requests", value: request_rows(self, u64::MAX) };
        let request_tokens = Limit { flag: "context_length", value: scheduler.context_length };
        let prefill = match self.chunk() {
            Some(value) => Limit { flag: "chunked_prefill_size", value },
            None => Limit { flag: "max_prefill_tokens", value: scheduler.max_prefill_tokens },
        };
        let decode = Limit { flag: requests.flag, value: requests.value.saturating_mul(self.decode_width()) };
        let whole_prompt = self.chunk().map_or(request_tokens, |_| prefill);
        let all = [prefill, whole_prompt, decode];
        let step_tokens = all.into_iter().max_by_key(|limit| limit.value).unwrap_or(prefill);
        Limits { requests, step_tokens, request_tokens }
    }
}

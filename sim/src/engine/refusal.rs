//! Prompts that the engine refuses before they reach the scheduler.

use thiserror::Error;

/// Why a request is refused.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    /// There is no prompt.
    #[error("the prompt is empty: the engine needs at least 1 token")]
    EmptyPrompt,
    /// The prompt leaves no room for one output token.
    #[error(
        "a prompt of {prompt_tokens} tokens and 1 output token exceed max_model_len = {max_model_len}: shorten the \
         prompt or raise max_model_len"
    )]
    TooLong {
        /// The prompt's length in tokens.
        prompt_tokens: u32,
        /// The longest request allowed, in tokens.
        max_model_len: u32,
    },
    /// SGLang: the prompt leaves no room for one output token in the context.
    #[error(
        "a prompt of {prompt_tokens} tokens and 1 output token exceed context_length = {context_length}: shorten the \
         prompt or raise context_length"
    )]
    BeyondContext {
        /// The prompt's length in tokens.
        prompt_tokens: u32,
        /// The longest request allowed, in tokens.
        context_length: u32,
    },
    /// SGLang: the KV pool could never take the request.
    #[error(
        "a prompt of {prompt_tokens} tokens and 1 output token exceed the {longest} tokens that the KV pool can hold of \
         one request: shorten the prompt or enlarge the pool"
    )]
    BeyondPool {
        /// The prompt's length in tokens.
        prompt_tokens: u32,
        /// The longest request that the pool takes, in tokens.
        longest: u32,
    },
}

/// The engine's check of a prompt against `max_model_len`: one output token must fit behind it.
///
/// # Errors
/// If the engine would refuse the request.
pub fn fits(prompt_tokens: u32, max_model_len: u32) -> Result<(), Refusal> {
    if prompt_tokens == 0 {
        return Err(Refusal::EmptyPrompt);
    }
    if prompt_tokens >= max_model_len {
        return Err(Refusal::TooLong { prompt_tokens, max_model_len });
    }
    Ok(())
}

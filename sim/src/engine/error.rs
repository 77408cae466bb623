//! Flags with which a server does not start, whichever engine it is.

use super::{sglang, vllm};

/// The engine refuses the flags.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// vLLM.
    #[error(transparent)]
    Vllm(#[from] vllm::error::EngineError),
    /// SGLang.
    #[error(transparent)]
    Sglang(#[from] sglang::error::EngineError),
}

//! What to paste: a server's graph options as the flags of a named engine version, checked by that engine's own rules.
//!
//! ```text
//! options ─► vllm, sglang, tensorrt_llm ─► settings ─► shell line, argv, JSON
//!                                                         │
//!            rebuilt: two plans compared ◄─ plan ◄─ read ◄┘
//! ```
//!
//! The flags are written once and read back by [`read`], which shares nothing with what writes them: from the line that an
//! operator pastes to the options of a server that has no other graph flags, and on to the plan of what it captures. Where
//! that is another plan than the advised one, [`Rebuilt`] says what differs.

mod fault;
mod json;
mod names;
pub mod read;
mod rebuilt;
mod settings;
mod sglang;
pub mod shell;
mod target;
mod tensorrt_llm;
mod vllm;

pub use fault::Fault;
pub use rebuilt::{Captured, Difference, GraphKind, Rebuilt};
pub use target::Target;

use serde_json::Value;

use crate::engine::options::EngineOptions;

/// A server's graph options, ready to paste.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// The engine and version that the flags are written for.
    pub target: Target,
    /// Environment variables that the server needs, names and values; mostly none.
    pub environment: Vec<(String, String)>,
    /// The flags as arguments, one word each; empty where the engine does the same without any.
    pub command: Vec<String>,
    /// The flags as one line for a POSIX shell, to be put behind the server's command.
    pub shell: String,
    /// The same as an object: what `vllm bench sweep` and configuration files take.
    pub json: Value,
    /// The file that a flag of `command` names; `None` where the flags say all.
    pub file: Option<ConfigFile>,
    /// What an operator must know before pasting, one sentence each.
    pub notes: Vec<String>,
    /// What the target captures with these flags, against what was advised.
    pub checked: Rebuilt,
}

/// A configuration file that flags refer to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigFile {
    /// Its name.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// The flags of `target` for the graphs that `options` stand for. SGLang's decode graphs depend on the rows of its
/// request pool, and so on `kv_tokens`, as for [`GraphPlan::build`](crate::engine::plan::GraphPlan::build).
///
/// # Errors
/// A target of another engine (TensorRT-LLM takes the decode sizes of either), and options with which their own engine
/// does not start. What the *target* refuses is no error: the answer says so.
pub fn advise(options: &EngineOptions, target: Target, kv_tokens: Option<u64>) -> Result<Advice, Fault> {
    match (options, target) {
        (EngineOptions::Vllm(options), Target::Vllm(version)) => vllm::advise(options, version),
        (EngineOptions::Sglang(options), Target::Sglang(version)) => sglang::advise(options, version, kv_tokens),
        (_, Target::TensorRtLlm) => tensorrt_llm::advise(options, kv_tokens),
        (EngineOptions::Vllm(_) | EngineOptions::Sglang(_), Target::Vllm(_) | Target::Sglang(_)) => {
            Err(Fault::AnotherEngine { target, engine: Target::of(options) })
        }
    }
}

#[cfg(test)]
mod tests;

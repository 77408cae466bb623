//! One graph's key, as the engine names it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Name;

/// The key of one captured graph: a FULL descriptor is one CUDA graph, a PIECEWISE one is N+1 for N attention layers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DescriptorRecord {
    /// `FULL` or `PIECEWISE`.
    pub mode: Name,
    /// Tokens the graph runs, padded, tokens.
    pub tokens: u32,
    /// Requests the graph holds, requests; null where its key names none.
    pub requests: Option<u32>,
    /// The common query length of a uniform graph, tokens; null for a graph that takes any mix.
    pub uniform: Option<u32>,
    /// The longest query the graph allows, tokens; null where its key names none.
    pub max_query: Option<u32>,
    /// Active LoRA adapters of the key, adapters; 0 without LoRA.
    pub loras: u32,
    /// Microbatches of the key; 1 without dual-batch overlap.
    pub ubatches: u32,
    /// Chunks of cached prefix that the graph is captured for, chunks; null for a graph that takes none.
    #[serde(default)]
    pub prefix_chunks: Option<u32>,
}

/// One line: the mode and tokens, then only those parts of the key that differ from the plain case.
impl fmt::Display for DescriptorRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.mode, self.tokens)?;
        if let Some(requests) = self.requests {
            write!(f, " requests={requests}")?;
        }
        if let Some(uniform) = self.uniform {
            write!(f, " uniform={uniform}")?;
        }
        if let Some(max_query) = self.max_query {
            write!(f, " max_query={max_query}")?;
        }
        if self.loras != 0 {
            write!(f, " loras={}", self.loras)?;
        }
        if self.ubatches > 1 {
            write!(f, " ubatches={}", self.ubatches)?;
        }
        if let Some(chunks) = self.prefix_chunks {
            write!(f, " prefix_chunks={chunks}")?;
        }
        Ok(())
    }
}

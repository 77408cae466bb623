//! How a step is captured.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What of a step is captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Mode {
    /// Everything before the head in one graph.
    Full,
    /// A graph for each of the N + 1 pieces between N attentions, which run eagerly.
    Piecewise,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Full => "FULL",
            Self::Piecewise => "PIECEWISE",
        })
    }
}

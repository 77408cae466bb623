//! Something the reader of a result must know before trusting it.

use serde::{Deserialize, Serialize};

/// A warning: a stable code for programs, a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Warning {
    /// Stable snake_case code, for example `ceiling_inside_load`.
    pub code: String,
    /// What is wrong and what to do about it, one or two sentences.
    pub message: String,
    /// The candidate concerned; null if the warning concerns the whole scenario.
    pub candidate: Option<String>,
}

impl Warning {
    /// A warning about the whole scenario.
    #[must_use]
    pub fn general(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), candidate: None }
    }

    /// A warning about one candidate.
    #[must_use]
    pub fn about(candidate: impl Into<String>, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), candidate: Some(candidate.into()) }
    }
}

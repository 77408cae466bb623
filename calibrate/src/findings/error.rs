//! Findings that no profile can be made of.

/// What of the findings cannot be used, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {problem}")]
pub struct Unusable {
    /// What the probe measured: `dense work over rows`.
    pub what: &'static str,
    /// What is wrong with it and what was expected.
    pub problem: String,
}

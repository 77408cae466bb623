//! Facts read from a machine, each of which may be out of reach.

use std::fmt;

/// A fact read from the machine, or why it is not available. What is missing never stops a run.
pub type Reading<T> = Result<T, NotAvailable>;

/// Why a fact is not available, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAvailable(pub String);

impl NotAvailable {
    /// With this reason.
    pub fn because(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl fmt::Display for NotAvailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not available ({})", self.0)
    }
}

/// The fact as text, or that it is not available and why.
pub fn shown<T>(reading: &Reading<T>, show: impl FnOnce(&T) -> String) -> String {
    reading.as_ref().map_or_else(NotAvailable::to_string, show)
}

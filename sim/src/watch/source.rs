//! Where facts come from: a simulation that runs, or a log of one that ran.

use std::time::Duration;

use super::fact::Fact;
use super::state::End;

/// The facts of one candidate, in order of time.
pub trait Source {
    /// Why there are no more although there should be.
    type Error;

    /// The next fact; waits for it no longer than `patience`.
    ///
    /// # Errors
    /// If what should come cannot be read.
    fn next(&mut self, patience: Duration) -> Result<Next, Self::Error>;
}

/// What a source has.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// A fact.
    Fact(Fact),
    /// Nothing yet.
    NotYet,
    /// Nothing any more.
    End(End),
}

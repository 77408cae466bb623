//! Why there is no proposal.

use crate::optimum::ProblemFault;
use crate::server::{ServerError, SetupError};
use crate::traffic::TrafficError;

/// Why there is no proposal.
#[derive(Debug, thiserror::Error)]
pub enum ProposeError {
    /// The engine refuses the options.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The traffic cannot be read.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// A run failed.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The histogram of steps is none that an optimum can be found for.
    #[error(transparent)]
    Problem(#[from] ProblemFault),
    /// The traffic makes no steps.
    #[error("the traffic makes no steps: no request is served")]
    NoSteps,
    /// Not even the start without graphs keeps within the budget.
    #[error("without any graph the server needs {needed} {what}, and the budget is {budget}")]
    NothingFits {
        /// What is short: `s of start-up`.
        what: &'static str,
        /// What is needed.
        needed: String,
        /// What is allowed.
        budget: String,
    },
    /// The search was ended before the current ladders were simulated.
    #[error("ended before the current ladders were simulated: there is nothing to say yet")]
    EndedEarly,
}

impl ProposeError {
    /// What to do about it.
    #[must_use]
    pub fn help(&self) -> String {
        let words = match self {
            Self::Setup(error) => return error.help(),
            Self::Traffic(_) | Self::Server(_) => "check the scenario's traffic with `sim check`",
            Self::Problem(_) => "please report it with the scenario",
            Self::NoSteps => "check the lengths against max_model_len: `sim run` says how many requests are refused",
            Self::NothingFits { .. } => "raise the budget",
            Self::EndedEarly => "let it run a few seconds",
        };
        words.to_owned()
    }
}

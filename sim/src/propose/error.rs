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
    #[error("without any graph the server needs {} s of start-up, and the budget is {} s", to_ms(*.needed_s), to_ms(*.most_s))]
    NothingFits {
        /// What is needed, in seconds.
        needed_s: f64,
        /// What is allowed, in seconds.
        most_s: f64,
    },
    /// Only single changes were looked for.
    #[error("no single change to the ladders in force keeps within the budget")]
    NoChangeFits,
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
            Self::NothingFits { .. } => "raise the budget: what the start takes beside captures no ladder changes",
            Self::NoChangeFits => "leave --one-change out, or raise the budget",
            Self::EndedEarly => "let it run a few seconds",
        };
        words.to_owned()
    }
}

/// Seconds to the millisecond.
fn to_ms(seconds: f64) -> f64 {
    (seconds * 1e3).round() / 1e3
}

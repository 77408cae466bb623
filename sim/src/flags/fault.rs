//! What no flags can be written for.

use thiserror::Error;

use super::Target;
use super::read::ReadFault;
use crate::engine::error::EngineError;

/// Why there are no flags.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// The target belongs to another engine.
    #[error(
        "the options are for {engine} and the flags are wanted for {target}: sizes of one engine mean nothing to the other; \
         choose a version of the same engine, or tensorrt-llm, which takes the decode sizes"
    )]
    AnotherEngine {
        /// What was asked for.
        target: Target,
        /// What they were made for.
        engine: Target,
    },
    /// The advised options are refused by the engine that they were made for.
    #[error("{engine} does not start with the advised options: {error}")]
    Refused {
        /// That engine and version.
        engine: Target,
        /// What it says.
        error: EngineError,
    },
    /// The flags could not be read back: a defect of this program, and no flags to paste.
    #[error("the flags for {target} could not be read back ({fault}): do not use them, and report this")]
    Unreadable {
        /// The target.
        target: Target,
        /// What was not understood.
        fault: ReadFault,
    },
}

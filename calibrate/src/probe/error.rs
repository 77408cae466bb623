//! Why a probe gave nothing.

use std::fmt;

use kernels::launch::ShapeError;
use kernels::units::Bytes;
use miette::Diagnostic;

use crate::device::DeviceError;
use crate::exit::Exit;
use crate::measure::TooNoisy;
use crate::model::StepError;

/// Why a probe gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A step could not be run.
    #[error(transparent)]
    Step(StepError),
    /// A kernel does not take the shape.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// What is measured did not stand still.
    #[error(transparent)]
    Noisy(#[from] TooNoisy),
    /// Whoever heard of its progress ended it.
    #[error("ended before it was measured")]
    Ended,
    /// The gate opened by itself: the host took too long to queue up what was to be timed.
    #[error("the host took longer than {timeout_ms} ms to queue up one measurement, three times in a row")]
    Gate {
        /// Until when the gate waits.
        timeout_ms: u64,
    },
    /// The device has not enough memory for what is to be measured.
    #[error("{what} needs {needs} of GPU memory, and {free} are free")]
    Memory {
        /// What is to be measured.
        what: &'static str,
        /// What it needs.
        needs: Bytes,
        /// What is free.
        free: Bytes,
    },
    /// No executable took memory that can be seen.
    #[error("{count} executable graphs took no GPU memory: the driver gave them what it had kept of earlier ones")]
    Unseen {
        /// How many were made.
        count: u32,
    },
    /// What is to be measured makes no sense, or the model was not loaded for it.
    #[error("{what} = {given}: expected {expected}")]
    Plan {
        /// What is wrong.
        what: &'static str,
        /// Its value.
        given: String,
        /// What it may be.
        expected: String,
    },
}

impl From<StepError> for ProbeError {
    fn from(error: StepError) -> Self {
        match error {
            StepError::Device(error) => Self::Device(error),
            StepError::Shape(error) => Self::Shape(error),
            error => Self::Step(error),
        }
    }
}

impl ProbeError {
    /// A mistake in what was asked for.
    pub(super) fn plan(what: &'static str, given: impl fmt::Display, expected: impl Into<String>) -> Self {
        Self::Plan { what, given: given.to_string(), expected: expected.into() }
    }

    /// How the program ends with it.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Device(error) => error.exit(),
            Self::Noisy(_) | Self::Gate { .. } | Self::Memory { .. } => Exit::TooNoisy,
            Self::Plan { .. } => Exit::BadInput,
            Self::Ended => Exit::Interrupted,
            Self::Unseen { .. } | Self::Step(_) | Self::Shape(_) => Exit::Unexpected,
        }
    }
}

impl Diagnostic for ProbeError {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        match self {
            Self::Device(error) => error.help(),
            Self::Noisy(error) => error.help(),
            Self::Gate { .. } => {
                Some(Box::new("stop what else uses this machine's processors (`top` shows it), and measure again"))
            }
            Self::Memory { .. } => Some(Box::new(
                "end what else runs on this GPU (`nvidia-smi` shows it), or measure a smaller model or ladder",
            )),
            Self::Unseen { .. } => Some(Box::new("measure again: the driver of a new process has kept nothing yet")),
            Self::Ended | Self::Plan { .. } | Self::Step(_) | Self::Shape(_) => None,
        }
    }
}

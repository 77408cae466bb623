//! The exit codes of both binaries.

use std::process::ExitCode;

/// How a run of `calibrate` or `sim` ended. The numbers are part of the command line's contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Exit {
    /// Everything asked for was done.
    Ok = 0,
    /// An unexpected failure, for instance of writing output.
    Unexpected = 1,
    /// Wrong use of the command line.
    Usage = 2,
    /// A bad scenario, profile or data file.
    BadInput = 3,
    /// No usable GPU: no driver, no device, too old, no permission, or a build that cannot measure.
    NoGpu = 4,
    /// A law of the simulation was broken: a bug.
    LawBroken = 5,
    /// The machine was too noisy or too busy to measure.
    TooNoisy = 6,
    /// A regression beyond the threshold asked for.
    Regression = 7,
    /// Interrupted; partial results are kept.
    Interrupted = 130,
}

impl Exit {
    /// The process exit code.
    pub fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

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
    /// Every way to end, by code.
    pub const ALL: [Self; 9] = [
        Self::Ok,
        Self::Unexpected,
        Self::Usage,
        Self::BadInput,
        Self::NoGpu,
        Self::LawBroken,
        Self::TooNoisy,
        Self::Regression,
        Self::Interrupted,
    ];

    /// The process exit code.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// What it says, for a table of all codes.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Ok => "everything asked for was done",
            Self::Unexpected => "an unexpected failure, for instance of writing output",
            Self::Usage => "wrong use of the command line",
            Self::BadInput => "a bad scenario, profile or data file",
            Self::NoGpu => "no usable GPU, or a build that cannot measure",
            Self::LawBroken => "a law of the simulation was broken: a bug in Rungwise",
            Self::TooNoisy => "the machine was too noisy or too busy to measure",
            Self::Regression => "a regression beyond the threshold asked for",
            Self::Interrupted => "interrupted; partial results are kept",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

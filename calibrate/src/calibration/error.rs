//! Why a calibration ended before its profile was there.

use std::fmt;

use miette::Diagnostic;

use crate::device::DeviceError;
use crate::exit::Exit;
use crate::findings::Unusable;
use crate::measure::TooNoisy;
use crate::model::StepError;
use crate::partial::PartialError;
use crate::plan::{NoRoom, Part};
use crate::probe::ProbeError;
use crate::state::Concern;

/// Why a calibration ended before its profile was there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ended {
    /// The user ended it.
    #[error("interrupted")]
    Interrupted {
        /// Parts whose results are kept.
        kept: usize,
    },
    /// Nothing can be measured in this state of the machine.
    #[error("not measured: {}", .0.what)]
    Unfit(Concern),
    /// The device does not compute what it should.
    #[error("not measured: the kernels do not compute what they should on this GPU\n{0}")]
    Wrong(String),
    /// A part was disturbed, and again when it was measured once more.
    #[error("{}: {disturbance}", part.title())]
    Disturbed {
        /// The part.
        part: Part,
        /// What disturbed it.
        disturbance: TooNoisy,
    },
    /// Free memory moves before anything is measured, or the machine is another one in the end.
    #[error(transparent)]
    Noisy(#[from] TooNoisy),
    /// There is not enough memory.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// A probe gave nothing.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// Results could not be kept, or read.
    #[error(transparent)]
    Partial(#[from] PartialError),
    /// No profile can be made of what was found.
    #[error("no profile can be made of what was measured: {0}")]
    Unusable(#[from] Unusable),
}

impl From<DeviceError> for Ended {
    fn from(error: DeviceError) -> Self {
        Self::Probe(error.into())
    }
}

impl From<StepError> for Ended {
    fn from(error: StepError) -> Self {
        Self::Probe(error.into())
    }
}

impl Ended {
    /// How the program ends with it.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Interrupted { .. } => Exit::Interrupted,
            Self::Unfit(_) | Self::Disturbed { .. } | Self::Noisy(_) => Exit::TooNoisy,
            Self::NoRoom(error) => error.exit(),
            Self::Probe(error) => error.exit(),
            Self::Partial(PartialError::Write { .. }) | Self::Wrong(_) | Self::Unusable(_) => Exit::Unexpected,
            Self::Partial(_) => Exit::BadInput,
        }
    }
}

impl Diagnostic for Ended {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        match self {
            Self::Interrupted { kept: 0 } => Some(Box::new("nothing was measured yet: run the same command again")),
            Self::Interrupted { kept } => {
                let parts = if *kept == 1 { "part is" } else { "parts are" };
                Some(Box::new(format!("{kept} {parts} kept: the same command with --resume goes on")))
            }
            Self::Unfit(concern) => Some(Box::new(&concern.advice)),
            Self::Wrong(_) => {
                Some(Box::new("`calibrate --self-check` shows every check; please report what it prints"))
            }
            Self::Disturbed { disturbance, .. } => {
                let help = disturbance.help().map(|help| help.to_string()).unwrap_or_default();
                Some(Box::new(format!("{help}; what was measured before is kept: --resume goes on")))
            }
            Self::Noisy(error) => error.help(),
            Self::NoRoom(error) => error.help(),
            Self::Probe(error) => error.help(),
            Self::Partial(error) => error.help(),
            Self::Unusable(_) => Some(Box::new("measure more points, or please report this with the command line")),
        }
    }
}

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
        /// Parts whose results are kept.
        kept: usize,
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

/// What to do where so many parts are kept.
fn goes_on(kept: usize) -> String {
    let parts = if kept == 1 { "part is" } else { "parts are" };
    format!("{kept} {parts} kept: the same command with --resume goes on")
}

impl Diagnostic for Ended {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        match self {
            Self::Interrupted { kept: 0 } => Some(Box::new("nothing was measured yet: run the same command again")),
            Self::Interrupted { kept } => Some(Box::new(goes_on(*kept))),
            Self::Unfit(concern) => Some(Box::new(&concern.advice)),
            Self::Wrong(_) => {
                Some(Box::new("`calibrate --self-check` shows every check; please report what it prints"))
            }
            Self::Disturbed { disturbance, kept, .. } => {
                let help = disturbance.help().map(|help| help.to_string()).unwrap_or_default();
                let goes_on = if *kept == 0 { String::new() } else { format!("; {}", goes_on(*kept)) };
                Some(Box::new(help + &goes_on))
            }
            Self::Noisy(error) => error.help(),
            Self::NoRoom(error) => error.help(),
            Self::Probe(error) => error.help(),
            Self::Partial(error) => error.help(),
            Self::Unusable(_) => Some(Box::new("measure more points, or please report this with the command line")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Cause;

    #[test]
    fn what_is_kept_is_said_and_nothing_else() {
        let help = |kept: usize| {
            let disturbance = TooNoisy { cause: Cause::Drift, by: 0.2, limit: 0.03 };
            Ended::Disturbed { part: Part::Head, disturbance, kept }.help().map(|help| help.to_string()).unwrap()
        };
        assert!(!help(0).contains("kept") && help(0).ends_with("look at its cooling"), "{}", help(0));
        assert!(help(1).ends_with("; 1 part is kept: the same command with --resume goes on"), "{}", help(1));
        assert!(help(3).contains("; 3 parts are kept"), "{}", help(3));
    }
}

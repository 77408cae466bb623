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
    /// Free memory moves before anything is measured.
    #[error(transparent)]
    Noisy(#[from] TooNoisy),
    /// The machine is another one in the end than in the beginning: every part was measured before, and none of them then.
    #[error("when every part was measured, the machine had become another one: {0}")]
    Changed(TooNoisy),
    /// The machine is another one than that which the kept parts were measured on.
    #[error("the kept parts were measured when this machine was another one: {0}")]
    OtherMachine(TooNoisy),
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
    /// Whether a run that goes on from what is kept could come to its profile.
    pub(crate) fn can_go_on(&self) -> bool {
        match self {
            Self::Disturbed { .. }
            | Self::Changed(_)
            | Self::Noisy(_)
            | Self::Probe(_)
            | Self::Partial(PartialError::Write { .. }) => true,
            // An interruption says what is kept itself.
            Self::Interrupted { .. }
            | Self::Unfit(_)
            | Self::Wrong(_)
            | Self::OtherMachine(_)
            | Self::NoRoom(_)
            | Self::Partial(_)
            | Self::Unusable(_) => false,
        }
    }

    /// How the program ends with it.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Interrupted { .. } => Exit::Interrupted,
            Self::Unfit(_) | Self::Disturbed { .. } | Self::Noisy(_) | Self::Changed(_) | Self::OtherMachine(_) => {
                Exit::TooNoisy
            }
            Self::NoRoom(error) => error.exit(),
            Self::Probe(error) => error.exit(),
            Self::Partial(PartialError::Write { .. }) | Self::Wrong(_) | Self::Unusable(_) => Exit::Unexpected,
            Self::Partial(_) => Exit::BadInput,
        }
    }
}

/// What to do where so many parts are kept.
pub(crate) fn goes_on(kept: usize) -> String {
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
            Self::Disturbed { disturbance, .. } => disturbance.help(),
            Self::OtherMachine(changed) => {
                let help = changed.help().map(|help| help.to_string()).unwrap_or_default();
                Some(Box::new(format!(
                    "{help}; --resume goes on when the machine is as it was; without it everything is measured anew"
                )))
            }
            Self::Noisy(error) | Self::Changed(error) => error.help(),
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
    fn what_is_kept_is_said_and_where_it_helps_no_more_too() {
        assert_eq!(goes_on(1), "1 part is kept: the same command with --resume goes on");
        assert!(goes_on(3).starts_with("3 parts are kept: "));
        let drift = || TooNoisy { cause: Cause::Drift, by: 0.2, limit: 0.1 };
        let help = |ended: &Ended| ended.help().map(|help| help.to_string()).unwrap();
        let changed = Ended::Changed(drift());
        assert!(changed.can_go_on() && changed.to_string().contains("had become another one: drift: "), "{changed}");
        let other = Ended::OtherMachine(drift());
        assert!(help(&other).contains("without it everything is measured anew") && !other.can_go_on());
        assert!(Ended::Disturbed { part: Part::Head, disturbance: drift() }.can_go_on());
    }
}

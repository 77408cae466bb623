//! A calibration that failed when parts of it were measured.

use std::error::Error;
use std::fmt;

use miette::Diagnostic;

use super::Failure;
use crate::calibration::goes_on;
use crate::profile::ProfileError;

/// A failure behind which a run can go on: whatever it was, what is kept is not to be measured again.
#[derive(Debug)]
pub(crate) struct Unfinished {
    pub(super) why: Box<Failure>,
    /// Parts whose results are kept, one at least.
    kept: usize,
}

impl Failure {
    /// The failure of a run of which so many parts are kept. Where they are of no use any more, it is as it was.
    pub(super) fn after(self, kept: usize) -> Self {
        let can_go_on = match &self {
            Self::Ended(error) => error.can_go_on(),
            Self::Profile(error) => matches!(error, ProfileError::Write { .. }),
            Self::Device(_) | Self::Probe(_) | Self::File { .. } | Self::Output(_) => true,
            _ => false,
        };
        if can_go_on && kept > 0 { Self::Unfinished(Unfinished { why: Box::new(self), kept }) } else { self }
    }
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(f)
    }
}

impl Error for Unfinished {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.why.source()
    }
}

impl Diagnostic for Unfinished {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        let kept = format!("{}, without it everything is measured anew", goes_on(self.kept));
        let help = self.why.diagnostic().and_then(Diagnostic::help);
        Some(Box::new(help.map_or_else(|| kept.clone(), |help| format!("{help}; {kept}"))))
    }
}

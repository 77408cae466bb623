//! Work that is timed: launches, replays, steps.

use std::ops::Range;

use kernels::launch::Launch;

use super::bench::Timed;
use super::error::ProbeError;
use crate::device::{Executable, Session};
use crate::model::{Captured, Planned};

/// One launch again and again.
pub(super) struct Launches {
    pub(super) launch: Launch,
    pub(super) count: usize,
}

impl Timed for Launches {
    fn calls(&self) -> usize {
        self.count
    }

    fn make(&self, session: &mut Session, calls: Range<usize>) -> Result<(), ProbeError> {
        for _ in calls {
            session.launch(&self.launch)?;
        }
        Ok(())
    }
}

/// The replay of one graph.
pub(super) struct Replay<'a>(pub(super) &'a Executable);

impl Timed for Replay<'_> {
    fn calls(&self) -> usize {
        1
    }

    fn make(&self, session: &mut Session, calls: Range<usize>) -> Result<(), ProbeError> {
        for _ in calls {
            session.replay(self.0)?;
        }
        Ok(())
    }
}

impl Timed for &Captured {
    fn calls(&self) -> usize {
        Captured::calls(self)
    }

    fn make(&self, session: &mut Session, calls: Range<usize>) -> Result<(), ProbeError> {
        Ok(Captured::make(self, session, calls)?)
    }
}

impl Timed for &Planned {
    fn calls(&self) -> usize {
        Planned::calls(self)
    }

    fn make(&self, session: &mut Session, calls: Range<usize>) -> Result<(), ProbeError> {
        Ok(Planned::make(self, session, calls)?)
    }
}

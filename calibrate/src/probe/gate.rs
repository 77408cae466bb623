//! The gate: a kernel that holds the stream until the host has queued up what is to be timed.

use kernels::launch;

use super::error::ProbeError;
use crate::device::{Attribute, MappedWord, Session};

/// When a gate that nobody opens opens by itself.
const TIMEOUT_NS: u64 = 2_000_000_000;
/// The same where a display hangs on the card: its driver ends kernels that run for some seconds.
const TIMEOUT_BESIDE_DISPLAY_NS: u64 = 500_000_000;
/// What the kernel writes when its time was up; `TIMED_OUT` of `measure.cu`.
const TIMED_OUT: u32 = 2;

/// Calls of the driver that may wait behind a gate. A queue holds about 1,000 launches, and a host that waits for a place in
/// it would wait until the gate's time is up (GPU specification section 4).
pub(super) const QUEUED_MOST: usize = 480;

/// A gate, open as long as it is not shut.
#[derive(Debug)]
pub(super) struct Gate {
    flag: MappedWord,
    outcome: MappedWord,
    timeout_ns: u64,
}

impl Gate {
    pub(super) fn new(session: &mut Session) -> Result<Self, ProbeError> {
        let has_display = session.card().attribute(Attribute::KernelTimeout)? != 0;
        let timeout_ns = if has_display { TIMEOUT_BESIDE_DISPLAY_NS } else { TIMEOUT_NS };
        Ok(Self { flag: session.mapped_word()?, outcome: session.mapped_word()?, timeout_ns })
    }

    /// Holds whatever is launched from now on.
    pub(super) fn shut(&self, session: &mut Session) -> Result<(), ProbeError> {
        self.flag.set(0);
        self.outcome.set(0);
        let (flag, outcome, timeout_ns) = (self.flag.address(), self.outcome.address(), self.timeout_ns);
        Ok(session.launch(&launch::Gate { flag, outcome, timeout_ns }.alone()?)?)
    }

    /// Lets it go.
    pub(super) fn open(&self) {
        self.flag.set(1);
    }

    /// Whether it opened by itself; known when the stream has passed it.
    pub(super) fn has_timed_out(&self) -> bool {
        self.outcome.get() == TIMED_OUT
    }

    pub(super) fn timeout_ms(&self) -> u64 {
        self.timeout_ns / 1_000_000
    }
}

impl Drop for Gate {
    /// Nothing waits for what is gone: after a failure between shutting and opening the stream would be held for seconds.
    fn drop(&mut self) {
        self.open();
    }
}

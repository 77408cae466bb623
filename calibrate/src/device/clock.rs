//! Where host times come from.

use std::time::Instant;

/// The clock of host times: the machine's, or the virtual one of the tests' driver double, so that a test sees the times
/// that the double planted.
#[derive(Clone, Copy, Debug)]
pub enum HostClock {
    /// The machine's monotonic clock, since this instant.
    Machine(Instant),
    /// The double's.
    Virtual(VirtualClock),
}

/// A clock that the tests' double keeps.
#[derive(Clone, Copy, Debug)]
pub struct VirtualClock(unsafe extern "C" fn() -> u64);

impl HostClock {
    /// The machine's clock, from now on.
    pub(super) fn machine() -> Self {
        Self::Machine(Instant::now())
    }

    pub(super) fn virtual_ns(read: unsafe extern "C" fn() -> u64) -> Self {
        Self::Virtual(VirtualClock(read))
    }

    /// Nanoseconds since some instant, never falling.
    pub fn now_ns(&self) -> u64 {
        match self {
            Self::Machine(start) => u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX),
            // SAFETY: the double exports it to be called at any time; it takes nothing.
            Self::Virtual(VirtualClock(read)) => unsafe { read() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_clock_never_falls() {
        let clock = HostClock::machine();
        let readings: Vec<u64> = (0..100).map(|_| clock.now_ns()).collect();
        assert!(readings.is_sorted());
    }
}

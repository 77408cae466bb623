//! Where host times come from.

use std::sync::OnceLock;
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
    /// The machine's clock. All count from the same instant, so that readings of one may be compared with those of another.
    pub(super) fn machine() -> Self {
        static START: OnceLock<Instant> = OnceLock::new();
        Self::Machine(*START.get_or_init(Instant::now))
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
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_machines_clock_never_falls() {
        let clock = HostClock::machine();
        let readings: Vec<u64> = (0..100).map(|_| clock.now_ns()).collect();
        assert!(readings.is_sorted());
    }

    #[test]
    fn clocks_taken_one_after_the_other_count_from_the_same_instant() {
        const SLEPT: Duration = Duration::from_millis(2);
        let before_ns = HostClock::machine().now_ns();
        std::thread::sleep(SLEPT);
        assert!(u128::from(HostClock::machine().now_ns() - before_ns) >= SLEPT.as_nanos());
    }
}

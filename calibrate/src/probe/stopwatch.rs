//! Host times, without the time that reading the clock takes.

use crate::device::HostClock;
use crate::measure::median;

/// Readings that tell what a reading costs.
const READINGS: usize = 1_001;

/// A clock that knows what it costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stopwatch {
    clock: HostClock,
    reading_ns: f64,
}

impl Stopwatch {
    pub(super) fn new(clock: HostClock) -> Self {
        let readings: Vec<u64> = (0..READINGS).map(|_| clock.now_ns()).collect();
        let between: Vec<f64> = readings.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        Self { clock, reading_ns: median(&between) }
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Lets time pass, busily, for what is waited for is shorter than a thread sleeps.
    pub(super) fn wait(&self, ns: u64) {
        let until_ns = self.clock.now_ns().saturating_add(ns);
        while self.clock.now_ns() < until_ns {
            std::hint::spin_loop();
        }
    }

    /// How long something takes, in nanoseconds, and what it gives.
    pub(super) fn time<T>(&self, act: impl FnOnce() -> T) -> (f64, T) {
        let start_ns = self.clock.now_ns();
        let done = act();
        let end_ns = self.clock.now_ns();
        (self.without_readings(end_ns.saturating_sub(start_ns) as f64, 1), done)
    }

    /// A time of which so many pairs of readings are a part, in nanoseconds.
    pub(super) fn without_readings(&self, ns: f64, pairs: usize) -> f64 {
        (ns - pairs as f64 * self.reading_ns).max(0.0)
    }
}

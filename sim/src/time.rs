//! Simulated time: integer nanoseconds. Floats live inside the cost model only and are rounded once at its exit.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// An instant of simulated time, in nanoseconds since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SimTime(pub u64);

/// A span of simulated time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SimDuration(pub u64);

impl SimTime {
    /// The start of a run.
    pub const ZERO: Self = Self(0);

    /// The time elapsed since `earlier`.
    ///
    /// # Panics
    /// If `earlier` is later than `self`: time never falls (law 2).
    #[must_use]
    pub fn since(self, earlier: Self) -> SimDuration {
        SimDuration(self.0.checked_sub(earlier.0).expect("time never falls"))
    }
}

impl SimDuration {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// Rounds microseconds to the nearest nanosecond; negative and NaN become zero.
    #[must_use]
    pub fn from_us(us: f64) -> Self {
        Self((us * 1e3).round() as u64)
    }

    /// Rounds seconds to the nearest nanosecond; negative and NaN become zero.
    #[must_use]
    pub fn from_s(s: f64) -> Self {
        Self((s * 1e9).round() as u64)
    }

    /// In milliseconds.
    #[must_use]
    pub fn as_ms(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// In seconds.
    #[must_use]
    pub fn as_s(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add<SimDuration> for SimTime {
    type Output = Self;
    fn add(self, rhs: SimDuration) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign<SimDuration> for SimTime {
    fn add_assign(&mut self, rhs: SimDuration) {
        *self = *self + rhs;
    }
}

impl Add for SimDuration {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign for SimDuration {
    fn add_assign(&mut self, rhs: Self) {
        *self = *self + rhs;
    }
}

impl Sub for SimDuration {
    type Output = Self;
    fn sub(self, rhs: Self) -> Self {
        Self(self.0.saturating_sub(rhs.0))
    }
}

impl fmt::Display for SimTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}s", self.0 as f64 / 1e9)
    }
}

impl fmt::Display for SimDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6}ms", self.as_ms())
    }
}

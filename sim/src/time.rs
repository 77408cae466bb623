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
    #[inline]
    #[must_use]
    pub fn from_us(us: f64) -> Self {
        Self(nearest(us * 1e3))
    }

    /// Rounds seconds to the nearest nanosecond; negative and NaN become zero.
    #[must_use]
    pub fn from_s(s: f64) -> Self {
        Self(nearest(s * 1e9))
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

/// The nearest whole number, halves away from zero; 0 for what is negative or no number. `f64::round` calls a function on
/// processors that are not known to have an instruction for it, and none of old turns floats into unsigned integers at once.
#[inline]
pub(crate) fn nearest(value: f64) -> u64 {
    if value >= SIGNED_END {
        return value as u64;
    }
    let whole = value as i64;
    whole.max(0) as u64 + u64::from(value - whole as f64 >= 0.5)
}

/// The first whole number that has no place in 63 bits.
const SIGNED_END: f64 = (1_u64 << 63) as f64;

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn nearest_is_round(bits in any::<u64>(), small in 0.0..1e6_f64, whole in 0u32..1000) {
            let edges = [0.5, 0.499_999_999_999_999_94, 4_503_599_627_370_495.5, 1e300, -0.5, -3.0, f64::NAN];
            let halves = f64::from(whole) + 0.5;
            for value in edges.into_iter().chain([f64::from_bits(bits), small, halves, halves.next_down()]) {
                prop_assert_eq!(nearest(value), value.round() as u64, "{}", value);
            }
        }
    }
}

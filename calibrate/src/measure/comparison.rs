//! Whether a machine is still the one that it was.
//!
//! A campaign notices what changes while it runs. One that runs from its first visit to its last beside another process, or
//! with a clock that is held down, is as steady as any other, and wrong. So the same short work is timed in every round,
//! and compared with what it took in the beginning.

use super::pace::{Gauge, Pace};
use super::steadiness::{Cause, Limits, TooNoisy};

/// A change within its limit that is more than this part of it is worth a word.
const REMARKABLE: f64 = 0.5;

fn limit_of(gauge: Gauge, limits: &Limits) -> f64 {
    if gauge.is_of_host() { limits.host_pace } else { limits.pace }
}

impl Pace {
    /// What is so much faster or slower than it was then that the machine is another one; of the times asked for, the one
    /// that is furthest beyond its limit.
    pub fn changed_from(&self, then: &Self, gauges: &[Gauge], limits: &Limits) -> Option<TooNoisy> {
        let (gauge, by) = self.furthest_from(then, gauges, limits)?;
        let limit = limit_of(gauge, limits);
        // What is no number is no pace either.
        let is_within = by.abs() <= limit;
        (!is_within).then(|| TooNoisy { cause: self.cause(then, gauge, limits), by, limit })
    }

    /// What moved within its limit, but by so much that whoever reads the figures is to know; or the clock, which moves by
    /// the load of the work itself and so is no reason to refuse.
    pub fn moved_from(&self, then: &Self, gauges: &[Gauge], limits: &Limits) -> Option<TooNoisy> {
        let (gauge, by) = self.furthest_from(then, gauges, limits)?;
        let limit = limit_of(gauge, limits);
        if by.abs() > REMARKABLE * limit {
            return Some(TooNoisy { cause: self.cause(then, gauge, limits), by, limit });
        }
        let (from_mhz, to_mhz) = (then.sm_clock_mhz?, self.sm_clock_mhz?);
        let (by, limit) = (to_mhz / from_mhz - 1.0, limits.clock_dip);
        let is_of_device = gauges.iter().any(|gauge| !gauge.is_of_host());
        let is_other = is_of_device && by.abs() > limit;
        is_other.then_some(TooNoisy { cause: Cause::OtherClock { from_mhz, to_mhz }, by, limit })
    }

    /// The time that changed most as a part of what is tolerable, and its change as a share.
    pub fn furthest_from(&self, then: &Self, gauges: &[Gauge], limits: &Limits) -> Option<(Gauge, f64)> {
        let changes = gauges.iter().map(|&gauge| (gauge, gauge.us(self) / gauge.us(then) - 1.0));
        let part = |gauge: Gauge, by: f64| by.abs() / limit_of(gauge, limits);
        changes.max_by(|one, other| part(one.0, one.1).total_cmp(&part(other.0, other.1)))
    }

    /// A clock that fell explains what is slower on the device.
    fn cause(&self, then: &Self, gauge: Gauge, limits: &Limits) -> Cause {
        match (then.sm_clock_mhz, self.sm_clock_mhz) {
            (Some(from_mhz), Some(to_mhz)) if !gauge.is_of_host() && to_mhz < from_mhz * (1.0 - limits.clock_dip) => {
                Cause::LowerClock { from_mhz, to_mhz }
            }
            _ => Cause::Pace { gauge },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEN: Pace =
        Pace { graph_us: 60.0, copy_us: 30.0, launches_us: 40.0, replay_us: 4.0, sm_clock_mhz: Some(1_980.0) };

    fn changed(now: Pace, gauges: &[Gauge]) -> Option<(Cause, f64)> {
        let changed = now.changed_from(&THEN, gauges, &Limits::default())?;
        Some((changed.cause, (changed.by * 1e3).round() / 1e3))
    }

    #[test]
    fn what_is_furthest_beyond_its_limit_is_named() {
        assert_eq!(changed(Pace { graph_us: 65.9, copy_us: 27.1, launches_us: 45.9, ..THEN }, Gauge::ALL), None);
        let slow = Pace { graph_us: 67.0, copy_us: 42.0, launches_us: 60.0, replay_us: 2.2, ..THEN };
        assert_eq!(changed(slow, Gauge::ALL), Some((Cause::Pace { gauge: Gauge::Copy }, 0.4)));
        assert_eq!(changed(slow, Gauge::HOST), Some((Cause::Pace { gauge: Gauge::Launches }, 0.5)));
        let host = Pace { launches_us: 60.0, ..THEN };
        assert_eq!(changed(host, Gauge::DEVICE), None, "no time of the device knows the host");
        let none = changed(Pace { graph_us: f64::NAN, ..THEN }, Gauge::ALL);
        assert!(none.is_some_and(|(_, by)| by.is_nan()));
    }

    #[test]
    fn a_clock_that_fell_explains_what_is_slower_on_the_device() {
        let dipped = Pace { graph_us: 80.0, launches_us: 80.0, sm_clock_mhz: Some(1_489.0), ..THEN };
        let clock = Cause::LowerClock { from_mhz: 1_980.0, to_mhz: 1_489.0 };
        assert_eq!(changed(dipped, Gauge::DEVICE), Some((clock, 0.333)));
        assert_eq!(changed(dipped, Gauge::HOST), Some((Cause::Pace { gauge: Gauge::Launches }, 1.0)));
        let unseen = Pace { sm_clock_mhz: None, ..dipped };
        assert_eq!(changed(unseen, Gauge::DEVICE), Some((Cause::Pace { gauge: Gauge::Graph }, 0.333)));
    }

    #[test]
    fn what_is_worth_a_word_is_within_the_limits() {
        let moved = |now: Pace, gauges| now.moved_from(&THEN, gauges, &Limits::default()).map(|moved| moved.cause);
        assert_eq!(moved(Pace { graph_us: 62.9, ..THEN }, Gauge::ALL), None);
        assert_eq!(moved(Pace { copy_us: 31.6, ..THEN }, Gauge::ALL), Some(Cause::Pace { gauge: Gauge::Copy }));
        let capped = Pace { sm_clock_mhz: Some(1_780.0), ..THEN };
        let clock = Cause::OtherClock { from_mhz: 1_980.0, to_mhz: 1_780.0 };
        assert_eq!((moved(capped, Gauge::DEVICE), moved(capped, Gauge::HOST)), (Some(clock), None));
    }
}

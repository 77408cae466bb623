//! Whether the machine is still the one that it was, by the same short work between all parts.
//!
//! A campaign notices what changes while it runs. One that runs from its first visit to its last beside another process, or
//! with a clock that is held down, is as steady as any other, and wrong.

use std::time::Duration;

use crate::measure::{Cause, Limits, TooNoisy};
use crate::probe::Pace;

/// What was measured on a machine that is faster or slower by more than this share is not of the same machine.
pub(super) const CHANGE_MOST: f64 = 0.1;

/// The paces of a run, each with its time since the run began.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paces(Vec<(Duration, Pace)>);

impl Paces {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn push(&mut self, at: Duration, pace: Pace) {
        self.0.push((at, pace));
    }

    /// By how much the last pace is another one than the first, if that is beyond the limit, and what it comes from.
    pub(super) fn changed(&self) -> Option<TooNoisy> {
        let by = self.0.last()?.1.us / self.0.first()?.1.us - 1.0;
        (by.abs() > CHANGE_MOST).then(|| TooNoisy { cause: self.cause(), by, limit: CHANGE_MOST })
    }

    /// What a change from the first pace to the last comes from. A clock that fell explains what is slower. Without one, a
    /// machine that became slower at once met other work; one that became so all the time drifts.
    pub(super) fn cause(&self) -> Cause {
        let (Some((from, first)), Some((to, last))) = (self.0.first(), self.0.last()) else { return Cause::Drift };
        if let (Some(from_mhz), Some(to_mhz)) = (first.sm_clock_mhz, last.sm_clock_mhz)
            && to_mhz < from_mhz * (1.0 - Limits::default().clock_dip)
        {
            return Cause::LowerClock { from_mhz, to_mhz };
        }
        let whole_s = to.saturating_sub(*from).as_secs_f64();
        let part = |at: Duration| if whole_s > 0.0 { at.saturating_sub(*from).as_secs_f64() / whole_s } else { 1.0 };
        let off_line = self.0.iter().map(|(at, pace)| (pace.us - first.us - (last.us - first.us) * part(*at)).abs());
        let off_line: f64 = off_line.sum();
        let off_step = (1..self.0.len()).map(|step| {
            let (before, after) = self.0.split_at(step);
            let off =
                |paces: &[(Duration, Pace)], us: f64| paces.iter().map(|(_, pace)| (pace.us - us).abs()).sum::<f64>();
            off(before, first.us) + off(after, last.us)
        });
        // Of two paces nobody can tell: what came within one part came at once.
        if off_step.fold(f64::INFINITY, f64::min) <= off_line { Cause::Step } else { Cause::Drift }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pace each second.
    fn changed(paces: &[(f64, Option<f64>)]) -> Option<TooNoisy> {
        let paces = (0..).zip(paces);
        let paces = paces.map(|(at, &(us, sm_clock_mhz))| (Duration::from_secs(at), Pace { us, sm_clock_mhz }));
        Paces(paces.collect()).changed()
    }

    fn of(us: &[f64]) -> Option<Cause> {
        changed(&us.iter().map(|&us| (us, Some(1_980.0))).collect::<Vec<_>>()).map(|changed| changed.cause)
    }

    #[test]
    fn a_machine_that_stays_has_not_changed() {
        assert_eq!((of(&[]), of(&[60.0]), of(&[60.0, 65.9, 54.1])), (None, None, None));
        assert_eq!(of(&[60.0, 90.0, 61.0]), None, "it came back");
    }

    #[test]
    fn what_comes_at_once_is_a_step_and_what_comes_slowly_is_drift() {
        assert_eq!(of(&[60.0, 60.1, 59.8, 90.0]), Some(Cause::Step));
        assert_eq!(of(&[60.0, 40.0]), Some(Cause::Step));
        assert_eq!(of(&[60.0, 62.0, 63.5, 65.0, 66.8]), Some(Cause::Drift));
    }

    /// Parts take long and short, and paces are taken again where one was off.
    #[test]
    fn drift_is_what_grows_with_time() {
        let at = [0.0, 0.35, 0.37, 0.39, 0.41, 0.43, 0.88];
        let of = |us: fn(f64) -> f64| {
            let pace = |at| (Duration::from_secs_f64(at), Pace { us: us(at), sm_clock_mhz: None });
            Paces(at.map(pace).to_vec()).changed().map(|changed| changed.cause)
        };
        assert_eq!(of(|at| 60.0 * (1.0 + 0.9 * at)), Some(Cause::Drift));
        assert_eq!(of(|at| if at < 0.4 { 60.0 } else { 90.0 }), Some(Cause::Step));
    }

    #[test]
    fn a_clock_that_fell_explains_what_is_slower() {
        let dipped = changed(&[(60.0, Some(1_980.0)), (80.0, Some(1_489.0))]).expect("by a third");
        assert_eq!(dipped.cause, Cause::LowerClock { from_mhz: 1_980.0, to_mhz: 1_489.0 });
        assert_eq!(
            dipped.to_string(),
            "clock dip: the clock fell from 1980 to 1489 MHz, and times changed by +33.3 %; the limit is ±10.0 %"
        );
        assert_eq!(changed(&[(60.0, None), (80.0, Some(1_489.0))]).map(|changed| changed.cause), Some(Cause::Step));
    }
}

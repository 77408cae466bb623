//! Whether the machine is still the one that it was, by the same short work between all parts.
//!
//! Within a part every round of a campaign looks itself; here is what lies between, and how it came.

use std::time::Duration;

use crate::measure::{Cause, Gauge, Limits, Pace, TooNoisy};

/// The paces of a run, each with its time since the run began.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paces(Vec<(Duration, Pace)>);

impl Paces {
    /// What every other pace is compared with.
    pub(super) fn first(&self) -> Option<Pace> {
        self.0.first().map(|(_, pace)| *pace)
    }

    pub(super) fn push(&mut self, at: Duration, pace: Pace) {
        self.0.push((at, pace));
    }

    /// What of these the last pace has changed by from the first, if that is beyond the limit, and what it comes from.
    pub(super) fn changed(&self, gauges: &[Gauge]) -> Option<TooNoisy> {
        let (last, first) = (self.0.last()?.1, self.first()?);
        let changed = last.changed_from(&first, gauges, &Limits::default())?;
        Some(TooNoisy { cause: self.came(changed.cause), ..changed })
    }

    /// How far the device drifted from the first pace to the last; with its cause if that is worth a warning, or what of
    /// the host is.
    pub(super) fn drift(&self) -> (f64, Option<TooNoisy>) {
        let limits = Limits { pace: Limits::default().drift, ..Limits::default() };
        let Some((last, first)) = self.0.last().map(|(_, pace)| *pace).zip(self.first()) else { return (0.0, None) };
        let by = last.furthest_from(&first, Gauge::DEVICE, &limits).map_or(0.0, |(_, by)| by);
        let changed = last
            .changed_from(&first, Gauge::DEVICE, &limits)
            .or_else(|| last.moved_from(&first, Gauge::HOST, &Limits::default()));
        (by, changed.map(|changed| TooNoisy { cause: self.came(changed.cause), ..changed }))
    }

    /// Without a clock that explains it, a machine that became slower at once met other work; one that became so all the
    /// time drifts.
    fn came(&self, cause: Cause) -> Cause {
        match cause {
            Cause::Pace { gauge } if self.is_on_a_line(gauge) => Cause::Drift,
            cause => cause,
        }
    }

    fn is_on_a_line(&self, gauge: Gauge) -> bool {
        let us: Vec<f64> = self.0.iter().map(|(_, pace)| gauge.us(pace)).collect();
        let (Some((from, _)), Some((to, _))) = (self.0.first(), self.0.last()) else { return false };
        let (first_us, last_us) = (us[0], us[us.len() - 1]);
        let whole_s = to.saturating_sub(*from).as_secs_f64();
        let part = |at: Duration| if whole_s > 0.0 { at.saturating_sub(*from).as_secs_f64() / whole_s } else { 1.0 };
        let at = self.0.iter().map(|(at, _)| *at);
        let off_line: f64 = at.zip(&us).map(|(at, us)| (us - first_us - (last_us - first_us) * part(at)).abs()).sum();
        let off_step = (1..us.len()).map(|step| {
            let off = |paces: &[f64], level_us: f64| paces.iter().map(|us| (us - level_us).abs()).sum::<f64>();
            off(&us[..step], first_us) + off(&us[step..], last_us)
        });
        // Of two paces nobody can tell: what came within one part came at once.
        off_step.fold(f64::INFINITY, f64::min) > off_line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Pace =
        Pace { graph_us: 60.0, copy_us: 30.0, launches_us: 40.0, replay_us: 4.0, sm_clock_mhz: Some(1_980.0) };
    const STEP: Cause = Cause::Pace { gauge: Gauge::Graph };

    /// A pace each second.
    fn changed(paces: &[Pace]) -> Option<TooNoisy> {
        let paces = (0..).zip(paces).map(|(at, &pace)| (Duration::from_secs(at), pace));
        Paces(paces.collect()).changed(Gauge::ALL)
    }

    fn of(graph_us: &[f64]) -> Option<Cause> {
        let paces: Vec<Pace> = graph_us.iter().map(|&graph_us| Pace { graph_us, ..FIRST }).collect();
        changed(&paces).map(|changed| changed.cause)
    }

    #[test]
    fn a_machine_that_stays_has_not_changed() {
        assert_eq!((of(&[]), of(&[60.0]), of(&[60.0, 65.9, 54.1])), (None, None, None));
        assert_eq!(of(&[60.0, 90.0, 61.0]), None, "it came back");
    }

    #[test]
    fn what_comes_at_once_is_a_step_and_what_comes_slowly_is_drift() {
        assert_eq!(of(&[60.0, 60.1, 59.8, 90.0]), Some(STEP));
        assert_eq!(of(&[60.0, 40.0]), Some(STEP));
        assert_eq!(of(&[60.0, 62.0, 63.5, 65.0, 66.8]), Some(Cause::Drift));
    }

    /// Parts take long and short, and paces are taken again where one was off.
    #[test]
    fn drift_is_what_grows_with_time() {
        let at = [0.0, 0.35, 0.37, 0.39, 0.41, 0.43, 0.88];
        let of = |us: fn(f64) -> f64| {
            let pace = |at| (Duration::from_secs_f64(at), Pace { graph_us: us(at), sm_clock_mhz: None, ..FIRST });
            Paces(at.map(pace).to_vec()).changed(Gauge::ALL).map(|changed| changed.cause)
        };
        assert_eq!(of(|at| 60.0 * (1.0 + 0.9 * at)), Some(Cause::Drift));
        assert_eq!(of(|at| if at < 0.4 { 60.0 } else { 90.0 }), Some(STEP));
    }

    #[test]
    fn a_clock_that_fell_explains_what_is_slower() {
        let low = Pace { graph_us: 80.0, sm_clock_mhz: Some(1_489.0), ..FIRST };
        let dipped = changed(&[FIRST, low]).expect("by a third");
        assert_eq!(dipped.cause, Cause::LowerClock { from_mhz: 1_980.0, to_mhz: 1_489.0 });
        assert_eq!(
            dipped.to_string(),
            "clock dip: the clock fell from 1980 to 1489 MHz, and times changed by +33.3 %; the limit is ±10.0 %"
        );
    }

    #[test]
    fn the_host_and_the_memory_are_looked_at_too() {
        let host = changed(&[FIRST, Pace { launches_us: 61.6, ..FIRST }]).expect("by half");
        assert_eq!(
            host.to_string(),
            "slowed: launches on the host took +54.0 % against the beginning of the run, the limit is ±15.0 %"
        );
        let copy = changed(&[FIRST, Pace { copy_us: 15.0, ..FIRST }]).expect("by half");
        assert!(copy.to_string().starts_with("faster: copies within the device took -50.0 % "), "{copy}");
    }

    #[test]
    fn a_drift_is_told_before_it_is_refused() {
        let drift = |copy_us: f64, launches_us: f64| {
            let last = Pace { copy_us, launches_us, ..FIRST };
            Paces(vec![(Duration::ZERO, FIRST), (Duration::from_secs(1), last)]).drift()
        };
        let (by, none) = drift(30.6, 42.0);
        assert!((by - 0.02).abs() < 1e-9 && none.is_none(), "{by} {none:?}");
        let (by, told) = drift(31.5, 42.0);
        assert!((by - 0.05).abs() < 1e-9 && told.is_some_and(|told| told.limit < Limits::default().pace), "{by}");
        // Half of what is refused on the host.
        let (by, told) = drift(30.6, 44.0);
        assert!((by - 0.02).abs() < 1e-9 && told.is_some_and(|told| told.limit > 0.1), "{by}");
    }
}

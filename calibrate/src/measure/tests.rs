//! Campaigns over made-up machines, whose times, noise and disturbances are known.

#![expect(clippy::float_cmp, reason = "what is planted without noise is read exactly")]

use std::cell::RefCell;
use std::convert::Infallible;
use std::time::Duration;

use kernels::random::Random;
use kernels::units::Bytes;

use super::*;

/// A machine with a clock of its own: what runs on it takes the time that was planted, and disturbances.
struct Made {
    state: RefCell<State>,
    /// Standard deviation of a reading, as a share.
    noise: f64,
    /// Share of readings that are far off.
    outliers: f64,
    /// How much slower it is at an instant.
    slowness: fn(Duration) -> f64,
    clock_mhz: fn(Duration) -> Option<f64>,
    free: fn(Duration) -> Option<Bytes>,
}

struct State {
    now: Duration,
    random: Random,
    progress: Vec<Progress>,
    visits: Vec<(usize, u32)>,
}

impl Made {
    fn new(seed: u64) -> Self {
        let state =
            State { now: Duration::ZERO, random: Random::named("made", seed), progress: vec![], visits: vec![] };
        Self {
            state: RefCell::new(state),
            noise: 0.0,
            outliers: 0.0,
            slowness: |_| 1.0,
            clock_mhz: |_| None,
            free: |_| None,
        }
    }

    /// Times points that take `us[point]` each.
    fn measure(&self, protocol: &Protocol, us: &[f64]) -> Measured<usize> {
        let mut visit = |&point: &usize, repetitions: u32| Ok::<_, Infallible>(self.run(point, us[point], repetitions));
        let Ok(measured) = protocol.measure((0..us.len()).collect(), &mut visit, &mut &*self);
        measured
    }

    fn run(&self, point: usize, us: f64, repetitions: u32) -> Nanoseconds {
        let state = &mut *self.state.borrow_mut();
        let far =
            if unit(&mut state.random) < self.outliers { -60.0 * (1.0 - unit(&mut state.random)).ln() } else { 0.0 };
        let scale = (self.slowness)(state.now) * (self.noise * normal(&mut state.random)).exp();
        let each_us = us * scale + far;
        state.now += Duration::from_nanos((each_us * f64::from(repetitions) * 1e3) as u64);
        state.visits.push((point, repetitions));
        Nanoseconds::from_us(each_us * f64::from(repetitions))
    }
}

impl Surroundings for &Made {
    fn now(&mut self) -> Duration {
        self.state.borrow().now
    }

    fn conditions(&mut self) -> Conditions {
        let now = self.state.borrow().now;
        Conditions { sm_clock_mhz: (self.clock_mhz)(now), free: (self.free)(now) }
    }

    fn progress(&mut self, progress: &Progress) {
        self.state.borrow_mut().progress.push(*progress);
    }
}

fn unit(random: &mut Random) -> f64 {
    f64::midpoint(random.signed(), 1.0)
}

/// A standard normal number (Box and Muller).
fn normal(random: &mut Random) -> f64 {
    (-2.0 * unit(random).ln()).sqrt() * (std::f64::consts::TAU * unit(random)).cos()
}

fn rounds(count: u32, seed: u64) -> Protocol {
    Protocol {
        warm_up: Duration::from_millis(10),
        rounds_least: count,
        rounds_most: count,
        time_limit: Duration::from_secs(1_000),
        half_width_target: 0.0,
        ..Protocol::full(seed)
    }
}

fn disturbances(measured: &Measured<usize>) -> Vec<TooNoisy> {
    measured.disturbances(&Limits::default(), |point| format!("point {point}"))
}

#[test]
fn a_calm_machine_is_read_exactly() {
    let measured = Made::new(0).measure(&Protocol::full(1), &[1.0, 250.0, 7.5]);
    assert_eq!(measured.medians_us(), [1.0, 250.0, 7.5]);
    assert!(measured.iter().all(|(_, time)| [time.low, time.high] == [time.value; 2]));
    assert_eq!(measured.campaign.stopped_by, StoppedBy::Target);
    assert_eq!(measured.campaign.rounds, 12);
    assert_eq!(measured.campaign.outliers, 0);
    assert_eq!(disturbances(&measured), []);
}

#[test]
fn nothing_to_measure_is_nothing_measured() {
    let made = Made::new(0);
    let measured = made.measure(&Protocol::full(1), &[]);
    assert!(measured.times_us().is_empty() && made.state.borrow().visits.is_empty());
    assert_eq!(disturbances(&measured), []);
}

#[test]
fn every_round_visits_every_point_once_in_an_order_of_its_own() {
    let made = Made::new(0);
    let measured = made.measure(&rounds(20, 3), &[200.0; 8]);
    let visits = &made.state.borrow().visits;
    let warm_up = measured.campaign.warm_up_visits as usize;
    let counted: Vec<usize> = visits[warm_up + 5..visits.len() - 5].iter().map(|visit| visit.0).collect();
    assert_eq!(counted.len(), 160);
    let mut orders: Vec<Vec<usize>> = counted.chunks(8).map(<[usize]>::to_vec).collect();
    orders.dedup();
    assert_eq!(orders.len(), 20);
    for mut order in orders {
        order.sort_unstable();
        assert_eq!(order, (0..8).collect::<Vec<_>>());
    }
}

#[test]
fn short_points_are_repeated_until_a_clock_can_tell() {
    let made = Made::new(0);
    made.measure(&rounds(6, 3), &[3.0, 0.0, 500.0]);
    let mut seen: Vec<_> = made.state.borrow().visits.iter().rev().take(18).copied().collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, [(0, 67), (1, 10_000), (2, 1)]);
}

#[test]
fn the_seed_and_the_times_decide_everything() {
    let once = |seed| {
        let made = Made { noise: 0.01, outliers: 0.03, ..Made::new(5) };
        let measured = made.measure(&rounds(12, seed), &[10.0, 20.0, 30.0, 40.0, 50.0]);
        (measured.times_us(), measured.campaign)
    };
    assert_eq!(once(1), once(1));
    assert_ne!(once(1).0, once(2).0);
}

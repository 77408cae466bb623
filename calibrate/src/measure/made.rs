//! Machines that tests make up: their times, noise and disturbances are planted, and so is their clock.

use std::cell::RefCell;
use std::convert::Infallible;
use std::time::Duration;

use kernels::random::Random;
use kernels::units::Bytes;

use super::{Conditions, Measured, Nanoseconds, Progress, Protocol, Surroundings};

/// A machine with a clock of its own: what runs on it takes the time that was planted, and disturbances.
pub(crate) struct Made {
    pub(crate) state: RefCell<State>,
    /// Standard deviation of a reading, as a share.
    pub(crate) noise: f64,
    /// Share of readings that are far off.
    pub(crate) outliers: f64,
    /// How much slower it is.
    pub(crate) slowness: Box<dyn Fn(&State) -> f64>,
    pub(crate) clock_mhz: fn(Duration) -> Option<f64>,
    pub(crate) free: fn(Duration) -> Option<Bytes>,
}

/// What changes while it runs.
pub(crate) struct State {
    pub(crate) now: Duration,
    pub(crate) progress: Vec<Progress>,
    /// Points and repetitions, in the order of the visits.
    pub(crate) visits: Vec<(usize, u32)>,
    random: Random,
}

impl Made {
    /// A calm one.
    pub(crate) fn new(seed: u64) -> Self {
        let random = Random::named("made", seed);
        Self {
            state: RefCell::new(State { now: Duration::ZERO, random, progress: vec![], visits: vec![] }),
            noise: 0.0,
            outliers: 0.0,
            slowness: Box::new(|_| 1.0),
            clock_mhz: |_| None,
            free: |_| None,
        }
    }

    /// The one of GPU specification section 4: 0.4 % noise, 3 % outliers, and 3 % of slowness that decays over the first
    /// part of so many visits, after those of a warm-up.
    pub(crate) fn drifting(seed: u64, warm_up: usize, visits: usize) -> Self {
        let slowness = move |state: &State| {
            let done = state.visits.len().saturating_sub(warm_up) as f64 / visits as f64;
            1.0 + 0.03 * (-done / 0.15).exp()
        };
        Self { noise: 0.004, outliers: 0.03, slowness: Box::new(slowness), ..Self::new(seed) }
    }

    /// Times points that take `us[point]` each.
    pub(crate) fn measure(&self, protocol: &Protocol, us: &[f64]) -> Measured<usize> {
        let mut visit = |&point: &usize, repetitions: u32| Ok::<_, Infallible>(self.run(point, us[point], repetitions));
        let Ok(measured) = protocol.measure((0..us.len()).collect(), &mut visit, &mut &*self);
        measured
    }

    /// One visit.
    pub(crate) fn run(&self, point: usize, us: f64, repetitions: u32) -> Nanoseconds {
        let state = &mut *self.state.borrow_mut();
        let is_far = unit(&mut state.random) < self.outliers;
        let far_us = if is_far { -60.0 * unit(&mut state.random).ln() } else { 0.0 };
        let scale = (self.slowness)(state) * (self.noise * normal(&mut state.random)).exp();
        let each_us = us * scale + far_us;
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
        Conditions { sm_clock_mhz: (self.clock_mhz)(now), free: (self.free)(now), pace: None }
    }

    fn progress(&mut self, progress: &Progress) {
        self.state.borrow_mut().progress.push(*progress);
    }
}

/// As many rounds, whatever they show.
pub(crate) fn rounds(count: u32, seed: u64) -> Protocol {
    Protocol {
        warm_up: Duration::from_millis(10),
        rounds_least: count,
        rounds_most: count,
        time_limit: Duration::from_secs(1_000),
        half_width_target: 0.0,
        ..Protocol::full(seed)
    }
}

/// A number between 0 and 1, neither included.
pub(crate) fn unit(random: &mut Random) -> f64 {
    f64::midpoint(random.signed(), 1.0)
}

/// A standard normal number (Box and Muller).
pub(crate) fn normal(random: &mut Random) -> f64 {
    (-2.0 * unit(random).ln()).sqrt() * (std::f64::consts::TAU * unit(random)).cos()
}

//! What a campaign is asked for, and what it asks of a probe and of the machine.

use std::time::Duration;

use kernels::units::Bytes;

use super::pace::Pace;

/// A time of a clock or of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Nanoseconds(pub f64);

impl Nanoseconds {
    /// From microseconds, as events give them.
    pub fn from_us(us: f64) -> Self {
        Self(us * 1e3)
    }

    /// In microseconds, as profiles hold them.
    pub fn us(self) -> f64 {
        self.0 / 1e3
    }
}

impl From<Duration> for Nanoseconds {
    fn from(duration: Duration) -> Self {
        Self(duration.as_nanos() as f64)
    }
}

/// How a probe times one of its points. A closure over `(&point, repetitions)` is one.
///
/// The points of a campaign drift together: host times and device times are two campaigns.
pub trait Visit<P> {
    /// What can go wrong.
    type Error;

    /// Runs `point` `repetitions` times (at least once) and says how long all of them took together.
    ///
    /// # Errors
    /// Whatever ends the campaign.
    fn visit(&mut self, point: &P, repetitions: u32) -> Result<Nanoseconds, Self::Error>;

    /// The most repetitions of a visit to this point, for instance what a queue of launches holds.
    fn repetitions_most(&self, point: &P) -> u32 {
        let _ = point;
        u32::MAX
    }
}

impl<P, E, F: FnMut(&P, u32) -> Result<Nanoseconds, E>> Visit<P> for F {
    type Error = E;

    fn visit(&mut self, point: &P, repetitions: u32) -> Result<Nanoseconds, E> {
        self(point, repetitions)
    }
}

/// The machine around a campaign: its clock, what it lets be seen of itself, and who watches.
pub trait Surroundings {
    /// The time since some instant, never falling; of the clock that the visits are timed with, so that limits hold under
    /// virtual time too.
    fn now(&mut self) -> Duration;

    /// The conditions now; asked once a round, never while something is timed.
    fn conditions(&mut self) -> Conditions {
        Conditions::default()
    }

    /// Hears how far the campaign is, after every round.
    fn progress(&mut self, progress: &Progress) {
        let _ = progress;
    }
}

/// What is noted beside a round, where it can be read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Conditions {
    /// Clock of the multiprocessors.
    pub sm_clock_mhz: Option<f64>,
    /// Device memory that nobody has taken.
    pub free: Option<Bytes>,
    /// How fast the machine is.
    pub pace: Option<Pace>,
}

/// How far a campaign is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// What it does.
    pub phase: Phase,
    /// Rounds that count.
    pub rounds: u32,
    /// Rounds that it may take.
    pub rounds_most: u32,
    /// How long it will probably go on.
    pub left: Duration,
}

/// The two parts of a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Visits that do not count.
    WarmUp,
    /// Rounds that count.
    Rounds,
}

/// Fewer rounds cannot hold an interval: the median of five values lies outside all of them with probability 1/16.
pub const ROUNDS_LEAST: u32 = 6;

/// How a campaign is run and when it ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Protocol {
    /// Decides the order of the visits and the resamples: the same seed and times give the same result.
    pub seed: u64,
    /// For how long points are visited before visits count (specification: at least 1 s at full load).
    pub warm_up: Duration,
    /// A visit repeats its point until this time is reached, for a clock and a pair of events resolve about 0.5 us.
    pub visit: Duration,
    /// Rounds before the target is looked at. Time may end the campaign earlier, but not before [`ROUNDS_LEAST`] rounds.
    pub rounds_least: u32,
    /// Rounds after which it ends.
    pub rounds_most: u32,
    /// No round is begun that would probably end later than this after the start.
    pub time_limit: Duration,
    /// It ends when no point's interval is wider than this to either side, as a share of the value.
    pub half_width_target: f64,
}

impl Protocol {
    /// Of a full calibration.
    pub fn full(seed: u64) -> Self {
        Self {
            seed,
            warm_up: Duration::from_secs(1),
            visit: Duration::from_micros(200),
            rounds_least: 12,
            rounds_most: 100,
            time_limit: Duration::from_secs(20),
            half_width_target: 0.005,
        }
    }

    /// Of a quick one, which answers in seconds.
    pub fn quick(seed: u64) -> Self {
        Self {
            warm_up: Duration::from_millis(300),
            rounds_least: 8,
            rounds_most: 30,
            time_limit: Duration::from_secs(4),
            half_width_target: 0.02,
            ..Self::full(seed)
        }
    }
}

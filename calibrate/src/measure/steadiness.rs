//! Whether a campaign may be believed: what moved, by how much, and how much would have been tolerable.

use std::fmt;

use kernels::units::Bytes;
use miette::Diagnostic;

use super::campaign::DRIFT_VISITS;
use super::course::{CHANGE_ERRORS, Course};
use super::estimate::Estimate;
use super::measured::Measured;
use super::order_statistics::{MEDIAN, mad, median};
use super::pace::Gauge;
use crate::counted::counted;

/// How much of each disturbance is tolerable.
///
/// The default limits are judgement: no source states them, and no card has confirmed them. Each is explained beside its
/// value in [`Limits::default`] and in `GPU.md`, and every refusal prints the one that it applied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Half of an interval, as a share of its value.
    pub half_width: f64,
    /// The same of what is done once, or read in granules.
    pub half_width_once: f64,
    /// Change of the times from the beginning to the end, as a share.
    pub drift: f64,
    /// Fall of the clock below its median in a round that counts as dipped, as a share.
    pub clock_dip: f64,
    /// Share of the rounds that may be dipped or slowed: medians do not see so few.
    pub rounds: f64,
    /// Slowness of a round as a whole above the median that counts as slowed, as a share.
    pub slowdown: f64,
    /// Share of the readings that may stand apart.
    pub outliers: f64,
    /// Movement of free memory while nothing was allocated here.
    pub memory: Bytes,
    /// Change of the device's pace since the beginning, as a share.
    pub pace: f64,
    /// The same of the host's.
    pub host_pace: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // Of the project's own acceptance: the median half-width that planted costs must be found within.
            half_width: 0.05,
            // Judgement: what no number of rounds makes narrower is believed to a sixth or so, as the widest of the others.
            half_width_once: 0.15,
            // The clock drift that the method was simulated with (GPU specification section 4), which rounds of random order
            // take out of the figures. More than was simulated is not believed.
            drift: 0.03,
            // Judgement: a card that boosts moves by 1 or 2 % on its own, a power cap or heat takes more.
            clock_dip: 0.05,
            // Judgement: medians of rounds bear nearly half of them; a tenth is far from that.
            rounds: 0.1,
            // Judgement: as the drift, for a round is a short drift.
            slowdown: 0.03,
            // Five times the 3 % of outliers that the method was simulated with (GPU specification section 4).
            outliers: 0.15,
            // Judgement: drivers give memory in steps of 2 MiB and set 32 MiB aside for their own pools; another process
            // takes hundreds for its context alone.
            memory: Bytes(32 << 20),
            // Judgement: three times the drift that is believed within a part, for parts are compared with each other.
            pace: 0.1,
            // Judgement: a processor's clock follows load and heat by more than a card's.
            host_pace: 0.15,
        }
    }
}

/// What disturbs measurements.
#[derive(Clone, Debug, PartialEq)]
pub enum Cause {
    /// The interval of this point stays wide.
    NoiseFloor {
        /// The point's name.
        point: String,
    },
    /// The interval of a figure that no campaign measured is wide: of what is done once, or read in granules.
    Wide {
        /// The figure's name.
        figure: String,
    },
    /// Times changed from the beginning to the end, further and further.
    Drift,
    /// Times changed at once and stayed there.
    Step,
    /// The first point took longer or shorter after the rounds than before them, which the rounds themselves do not show:
    /// something short was there at one of the two.
    Passing,
    /// The same short work takes another time than in the beginning of the run.
    Pace {
        /// Which work.
        gauge: Gauge,
    },
    /// The clock is another one than in the beginning, by more than a clock moves on its own.
    OtherClock {
        /// What it was.
        from_mhz: f64,
        /// What it is.
        to_mhz: f64,
    },
    /// The clock is lower than it was at the beginning.
    LowerClock {
        /// What it was.
        from_mhz: f64,
        /// What it is.
        to_mhz: f64,
    },
    /// The clock fell in this many rounds.
    ClockDip {
        /// Rounds with a low clock.
        rounds: u32,
        /// The lowest clock.
        lowest_mhz: f64,
        /// The median clock.
        usual_mhz: f64,
        /// How far below it a clock counts as low, as a share.
        counts_from: f64,
    },
    /// Everything was slower in this many rounds, and no clock tells why.
    Slowdown {
        /// Slow rounds.
        rounds: u32,
        /// How far above the usual time a round counts as slow, as a share.
        counts_from: f64,
    },
    /// Many readings stand apart from the others of their point.
    Outliers,
    /// Free memory moved.
    MovedMemory,
    /// Times were read that are none.
    Unreadable,
}

/// A disturbance beyond its limit: what, by how much, and the limit. Shares, but for memory, which is in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct TooNoisy {
    /// What it is.
    pub cause: Cause,
    /// How much of it there is.
    pub by: f64,
    /// How much is tolerable.
    pub limit: f64,
}

impl std::error::Error for TooNoisy {}

impl fmt::Display for TooNoisy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (by, limit) = (self.by * 100.0, self.limit * 100.0);
        match &self.cause {
            Cause::NoiseFloor { point } => {
                write!(f, "too noisy: the time of {point} is only known to ±{by:.1} %, the limit is ±{limit:.1} %")
            }
            Cause::Wide { figure } => {
                write!(f, "wide: {figure} is only known to ±{by:.1} %, the limit is ±{limit:.1} %")
            }
            Cause::Drift => {
                write!(f, "drift: times changed by {by:+.1} % while they were measured, the limit is ±{limit:.1} %")
            }
            Cause::Step => {
                write!(f, "slowed: from one moment on times were other by {by:+.1} %, the limit is ±{limit:.1} %")
            }
            Cause::Passing => write!(
                f,
                "slowed: times before and after the rounds differ by {by:+.1} %, which those of the rounds do not; the limit \
                 is ±{limit:.1} %"
            ),
            Cause::Pace { gauge } => write!(
                f,
                "{}: {} took {by:+.1} % against the beginning of the run, the limit is ±{limit:.1} %",
                if by < 0.0 { "faster" } else { "slowed" },
                gauge.what()
            ),
            Cause::OtherClock { from_mhz, to_mhz } => write!(
                f,
                "clock: {to_mhz:.0} MHz, and {from_mhz:.0} MHz in the beginning of the run ({by:+.1} %); on its own it moves by \
                 less than {limit:.0} %"
            ),
            Cause::LowerClock { from_mhz, to_mhz } => write!(
                f,
                "clock dip: the clock fell from {from_mhz:.0} to {to_mhz:.0} MHz, and times changed by {by:+.1} %; the limit \
                 is ±{limit:.1} %"
            ),
            Cause::ClockDip { rounds, lowest_mhz, usual_mhz, counts_from } => write!(
                f,
                "clock dip: the clock fell from {usual_mhz:.0} to {lowest_mhz:.0} MHz; {} ({by:.0} % of them) ran \
                 more than {:.0} % below it, the limit is {limit:.0} % of the rounds",
                counted(rounds, "round"),
                counts_from * 100.0
            ),
            Cause::Slowdown { rounds, counts_from } => write!(
                f,
                "slowed: everything took more than {:.0} % longer in {} ({by:.0} % of them), the limit is {limit:.0} % \
                 of the rounds",
                counts_from * 100.0,
                counted(rounds, "round")
            ),
            Cause::Outliers => write!(
                f,
                "disturbed: {by:.0} % of the readings stand apart from their like by more than five median deviations, \
                 the limit is {limit:.0} %"
            ),
            Cause::MovedMemory => write!(
                f,
                "moved memory: free device memory moved by {} while nothing was allocated here, the limit is {}",
                Bytes(self.by as u64),
                Bytes(self.limit as u64)
            ),
            Cause::Unreadable => write!(f, "no clock: {:.0} times that were read are negative or no number", self.by),
        }
    }
}

impl Diagnostic for TooNoisy {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(match &self.cause {
            Cause::NoiseFloor { .. } | Cause::Wide { .. } => {
                "give it more time (--time-limit), or stop what else runs on this machine"
            }
            Cause::Drift => "let the card reach its working temperature and measure again; look at its cooling",
            Cause::Pace { gauge } if gauge.is_of_host() => {
                "stop what else uses the processor (`top` shows it); look at its governor and at the CPUs that this process \
                 may use"
            }
            Cause::ClockDip { .. } | Cause::LowerClock { .. } | Cause::OtherClock { .. } => {
                "`nvidia-smi -q -d PERFORMANCE` says what holds clocks down: power, heat, or a setting"
            }
            Cause::Slowdown { .. } | Cause::Step | Cause::Passing | Cause::Pace { .. } | Cause::Outliers => {
                "stop what else uses the card or its processor: `nvidia-smi` and `top` show them"
            }
            Cause::MovedMemory => {
                "another process uses the card: stop it (`nvidia-smi` lists them), or measure when it has ended"
            }
            Cause::Unreadable => {
                "the driver does not time events as documented: please report this with `calibrate --list`"
            }
        }))
    }
}

impl<P> Measured<P> {
    /// Every disturbance beyond its limit, the worst to believe first; empty where the figures may be used. `name` names a
    /// point.
    pub fn disturbances(&self, limits: &Limits, name: impl Fn(&P) -> String) -> Vec<TooNoisy> {
        [
            self.unreadable(),
            self.moved_memory(limits),
            self.clock_dip(limits),
            self.drift(limits),
            self.slowdown(limits),
            self.outliers(limits),
            self.noise_floor(limits, name),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// That the figures may be used.
    ///
    /// # Errors
    /// The first of [`disturbances`](Self::disturbances).
    pub fn steady(&self, limits: &Limits, name: impl Fn(&P) -> String) -> Result<(), TooNoisy> {
        self.disturbances(limits, name).into_iter().next().map_or(Ok(()), Err)
    }

    fn unreadable(&self) -> Option<TooNoisy> {
        beyond(Cause::Unreadable, f64::from(self.campaign.unreadable), 0.0)
    }

    fn moved_memory(&self, limits: &Limits) -> Option<TooNoisy> {
        let free = self.campaign.free_bytes?;
        beyond(Cause::MovedMemory, free.high - free.low, limits.memory.0 as f64)
    }

    /// Rounds with a low clock.
    fn dipped(&self, limits: &Limits) -> u32 {
        let usual = self.campaign.sm_clock_mhz.map_or(0.0, |clock| clock.median);
        let is_low = |mhz: &f64| *mhz < usual * (1.0 - limits.clock_dip);
        self.conditions.iter().filter_map(|at| at.sm_clock_mhz).filter(is_low).count() as u32
    }

    fn clock_dip(&self, limits: &Limits) -> Option<TooNoisy> {
        let clock = self.campaign.sm_clock_mhz?;
        let rounds = self.dipped(limits);
        let cause =
            Cause::ClockDip { rounds, lowest_mhz: clock.low, usual_mhz: clock.median, counts_from: limits.clock_dip };
        beyond(cause, self.share(rounds), limits.rounds)
    }

    /// How the rounds went as a whole, and the first point before and after them. Times that rise or fall all the time are
    /// drift; a burst of other work that some rounds met is none, whatever it does to the ratio of two readings.
    fn drift(&self, limits: &Limits) -> Option<TooNoisy> {
        let found = |cause, by: f64, limit| (by.abs() > limit).then_some(TooNoisy { cause, by, limit });
        let halves = self.campaign.drift.halves - 1.0;
        let repeated = self.campaign.drift.repeated - 1.0;
        let course = Course::of(&self.rounds.levels());
        let along_rounds = match course {
            Course::Trend { by } => found(Cause::Drift, by, limits.drift),
            Course::Step { by, .. } => found(Cause::Step, by, limits.drift),
            Course::Steady => None,
        };
        // A drift that the first point shows has made half of its way from the middle of one half to that of the other.
        let is_shared = repeated.signum() == halves.signum() && halves.abs() >= repeated.abs() / 4.0;
        let is_seen = repeated.abs() > CHANGE_ERRORS * self.first_point_error();
        let at_its_ends = found(if is_shared { Cause::Drift } else { Cause::Passing }, repeated, limits.drift);
        along_rounds.or(at_its_ends.filter(|_| is_seen))
    }

    /// Standard error of the ratio of the first point's readings after the rounds and before them, by its spread in the
    /// rounds.
    fn first_point_error(&self) -> f64 {
        let readings = self.rounds.column(0);
        let error = MEDIAN * mad(&readings) / median(&readings) * (2.0 / DRIFT_VISITS as f64).sqrt();
        if error.is_finite() { error } else { 0.0 }
    }

    fn slowdown(&self, limits: &Limits) -> Option<TooNoisy> {
        let levels = self.rounds.levels();
        let usual = median(&levels);
        let is_slow = |level: &&f64| **level > usual * (1.0 + limits.slowdown) && **level > usual + 5.0 * mad(&levels);
        let rounds = levels.iter().filter(is_slow).count() as u32;
        let cause = Cause::Slowdown { rounds, counts_from: limits.slowdown };
        beyond(cause, self.share(rounds), limits.rounds)
    }

    fn outliers(&self, limits: &Limits) -> Option<TooNoisy> {
        let share = f64::from(self.campaign.outliers) / f64::from(self.campaign.visits.max(1));
        beyond(Cause::Outliers, share, limits.outliers)
    }

    fn noise_floor(&self, limits: &Limits, name: impl Fn(&P) -> String) -> Option<TooNoisy> {
        let widths = self.iter().map(|(point, time)| (point, time.relative_half_width()));
        let (point, by) = widths.max_by(|one, other| one.1.total_cmp(&other.1))?;
        beyond(Cause::NoiseFloor { point: name(point) }, by, limits.half_width)
    }

    fn share(&self, rounds: u32) -> f64 {
        f64::from(rounds) / f64::from(self.campaign.rounds.max(1))
    }
}

/// The figure that is known worst, if its interval is too wide to go without a word.
pub fn widest<'a>(figures: impl Iterator<Item = (String, &'a Estimate)>, limits: &Limits) -> Option<TooNoisy> {
    let widths = figures.map(|(figure, estimate)| (figure, estimate.relative_half_width()));
    let (figure, by) = widths.max_by(|one, other| one.1.total_cmp(&other.1))?;
    beyond(Cause::Wide { figure }, by, limits.half_width_once)
}

fn beyond(cause: Cause, by: f64, limit: f64) -> Option<TooNoisy> {
    (by > limit).then_some(TooNoisy { cause, by, limit })
}

/// That free memory stands still: from one of these readings to another it moves by no more than the limit.
///
/// # Errors
/// It moved: another process takes or gives back memory of the device.
pub fn still_memory(free: &[Bytes], limit: Bytes) -> Result<(), TooNoisy> {
    let lowest = free.iter().min().map_or(0, |free| free.0);
    let highest = free.iter().max().map_or(0, |free| free.0);
    beyond(Cause::MovedMemory, (highest - lowest) as f64, limit.0 as f64).map_or(Ok(()), Err)
}

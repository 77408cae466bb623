//! What a campaign found.

use serde::{Deserialize, Serialize};

use super::estimate::Estimate;
use super::order_statistics::median;
use super::pace::Pace;
use super::protocol::Conditions;
use super::resampled::Resampled;
use super::rounds::Rounds;

/// Points and their times.
#[derive(Clone, Debug)]
pub struct Measured<P> {
    /// The points, in the order in which they were given.
    pub points: Vec<P>,
    /// How they were measured: what a profile states beside its figures.
    pub campaign: Campaign,
    pub(super) rounds: Rounds,
    pub(super) conditions: Vec<Conditions>,
    resampled: Resampled,
}

/// How a campaign went, in figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Campaign {
    /// What decided its order and its resamples.
    pub seed: u64,
    /// Rounds that count.
    pub rounds: u32,
    /// Visits while warming up, which do not count.
    pub warm_up_visits: u32,
    /// Visits that count: every point once a round.
    pub visits: u32,
    /// Visits of these that stand apart by more than 5 deviations. They are in the medians all the same.
    pub outliers: u32,
    /// Times read that are none: negative, or not a number.
    pub unreadable: u32,
    /// How far the machine moved meanwhile.
    pub drift: Drift,
    /// What ended it.
    pub stopped_by: StoppedBy,
    /// How long it took with warm-up.
    pub seconds: f64,
    /// Clock of the multiprocessors, where it can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sm_clock_mhz: Option<Range>,
    /// Free device memory, where it can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<Range>,
}

/// How much slower the machine became, as a ratio of later to earlier times; 1 is steady.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drift {
    /// The first point after all rounds by the first point before them.
    pub repeated: f64,
    /// The second half of the rounds by the first half.
    pub halves: f64,
}

/// The rule that ended a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoppedBy {
    /// Every interval is as narrow as was asked for.
    Target,
    /// There was no time for another round.
    TimeLimit,
    /// All rounds were run.
    RoundLimit,
}

/// The lowest, the middle and the highest reading.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// The lowest.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// The highest.
    pub high: f64,
}

impl Range {
    /// Of readings; `None` where there are none.
    pub fn of(readings: impl Iterator<Item = f64>) -> Option<Self> {
        let readings: Vec<f64> = readings.filter(|reading| reading.is_finite()).collect();
        let low = readings.iter().copied().reduce(f64::min)?;
        let high = readings.iter().copied().reduce(f64::max)?;
        Some(Self { low, median: median(&readings), high })
    }
}

impl<P> Measured<P> {
    pub(super) fn new(points: Vec<P>, campaign: Campaign, rounds: Rounds, conditions: Vec<Conditions>) -> Self {
        let resampled = Resampled::of(&rounds, campaign.seed);
        Self { points, campaign, rounds, conditions, resampled }
    }

    /// The time of one repetition of every point in microseconds, in the order of [`points`](Self::points).
    pub fn times_us(&self) -> Vec<Estimate> {
        (0..self.points.len()).map(|point| self.derive(|medians_us| medians_us[point])).collect()
    }

    /// How fast the machine was meanwhile: the median over the rounds; `None` where nobody asked.
    pub fn pace(&self) -> Option<Pace> {
        Pace::median(&self.conditions.iter().filter_map(|at| at.pace).collect::<Vec<_>>())
    }

    /// Points with their times in microseconds.
    pub fn iter(&self) -> impl Iterator<Item = (&P, Estimate)> {
        self.points.iter().zip(self.times_us())
    }

    /// The medians that the times are, in microseconds.
    pub fn medians_us(&self) -> &[f64] {
        self.resampled.medians_us()
    }

    /// Whatever follows from the medians of the points, given in their order and in microseconds: a difference, a slope, a
    /// ratio. Its interval comes from resampling rounds, so what all points of a round share does not widen a difference.
    pub fn derive(&self, statistic: impl Fn(&[f64]) -> f64) -> Estimate {
        self.derive_all(|medians_us| [statistic(medians_us)])[0]
    }

    /// Several figures that are computed together, each as [`derive`](Self::derive) gives it.
    pub fn derive_all<const N: usize>(&self, statistics: impl Fn(&[f64]) -> [f64; N]) -> [Estimate; N] {
        self.resampled.estimates(statistics)
    }
}

//! How fast a machine is at a moment, by the same short work.

use serde::{Deserialize, Serialize};

use super::order_statistics::median;

/// What the same short work takes at a moment, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pace {
    /// Device time of a short graph of empty kernels.
    pub graph_us: f64,
    /// Device time of a copy that the device's cache does not hold.
    pub copy_us: f64,
    /// Host time of a few launches, one behind the other.
    pub launches_us: f64,
    /// Host time of replaying the graph.
    pub replay_us: f64,
    /// Clock of the multiprocessors, where it can be read.
    pub sm_clock_mhz: Option<f64>,
}

/// One of the times of a pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gauge {
    /// [`Pace::graph_us`].
    Graph,
    /// [`Pace::copy_us`].
    Copy,
    /// [`Pace::launches_us`].
    Launches,
    /// [`Pace::replay_us`].
    Replay,
}

impl Gauge {
    /// All of them.
    pub const ALL: &[Self] = &[Self::Graph, Self::Copy, Self::Launches, Self::Replay];
    /// Those of the device, for what is timed there.
    pub const DEVICE: &[Self] = &[Self::Graph, Self::Copy];
    /// Those of the host.
    pub const HOST: &[Self] = &[Self::Launches, Self::Replay];

    /// Its time.
    pub fn us(self, pace: &Pace) -> f64 {
        match self {
            Self::Graph => pace.graph_us,
            Self::Copy => pace.copy_us,
            Self::Launches => pace.launches_us,
            Self::Replay => pace.replay_us,
        }
    }

    /// Whether it is the host's.
    pub fn is_of_host(self) -> bool {
        Self::HOST.contains(&self)
    }

    /// What takes that time.
    pub fn what(self) -> &'static str {
        match self {
            Self::Graph => "empty kernels",
            Self::Copy => "copies within the device",
            Self::Launches => "launches on the host",
            Self::Replay => "replays on the host",
        }
    }
}

impl Pace {
    /// The median of every time; `None` of no pace.
    pub fn median(paces: &[Self]) -> Option<Self> {
        let of = |gauge: Gauge| median(&paces.iter().map(|pace| gauge.us(pace)).collect::<Vec<_>>());
        let clocks: Vec<f64> = paces.iter().filter_map(|pace| pace.sm_clock_mhz).collect();
        (!paces.is_empty()).then(|| Self {
            graph_us: of(Gauge::Graph),
            copy_us: of(Gauge::Copy),
            launches_us: of(Gauge::Launches),
            replay_us: of(Gauge::Replay),
            sm_clock_mhz: (!clocks.is_empty()).then(|| median(&clocks)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THEN: Pace =
        Pace { graph_us: 60.0, copy_us: 30.0, launches_us: 40.0, replay_us: 4.0, sm_clock_mhz: Some(1_980.0) };

    #[test]
    fn the_median_is_taken_of_every_time() {
        assert_eq!(Pace::median(&[]), None);
        let of = |graph_us, sm_clock_mhz| Pace { graph_us, sm_clock_mhz, ..THEN };
        let median = Pace::median(&[of(50.0, None), of(90.0, Some(1_000.0)), of(61.0, Some(1_200.0))]);
        assert_eq!(median, Some(of(61.0, Some(1_100.0))));
    }
}

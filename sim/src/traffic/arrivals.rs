//! When requests arrive.

use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution, Exp1, Gamma};

use super::TrafficError;
use super::random::Streams;
use super::trace::{SkippedRows, TraceReader, TraceSource, Wanted};
use crate::time::{SimDuration, SimTime};

/// An arrival process, validated: rates are positive and finite, spans are not zero.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// Independent exponential gaps, as drawn: the realised rate varies as a Poisson process varies.
    Poisson {
        /// Requests per second.
        rate: f64,
    },
    /// Gamma gaps, as the engine's own benchmark client sends them.
    Gamma {
        /// Requests per second.
        rate: f64,
        /// Shape of the gaps: 1 is exponential, below 1 bursts, above 1 is more even.
        burstiness: f64,
        /// Whether the realised rate is made exact.
        spread: Spread,
    },
    /// Equal gaps of `1 / rate`.
    Constant {
        /// Requests per second.
        rate: f64,
    },
    /// A Poisson process whose rate switches between two levels on a fixed clock, starting with `on`.
    OnOff {
        /// Length of the busy phase.
        on: SimDuration,
        /// Length of the quiet phase.
        off: SimDuration,
        /// Requests per second while busy.
        rate_on: f64,
        /// Requests per second while quiet; may be zero.
        rate_off: f64,
    },
    /// A fixed number of clients, each sending its next request when its last one completes.
    ClosedLoop {
        /// Requests in the system at any time.
        concurrency: u32,
    },
    /// The arrival times of a recorded trace; its lengths are not used.
    Trace(TraceSource),
}

impl Arrivals {
    /// The mean rate, in requests per second; `None` where arrivals follow completions or a trace.
    #[must_use]
    pub fn mean_rate(&self) -> Option<f64> {
        match self {
            Self::Poisson { rate } | Self::Constant { rate } | Self::Gamma { rate, .. } => Some(*rate),
            Self::OnOff { on, off, rate_on, rate_off } => {
                Some((on.as_s() * rate_on + off.as_s() * rate_off) / (*on + *off).as_s())
            }
            Self::ClosedLoop { .. } | Self::Trace(_) => None,
        }
    }

    /// Whether another seed gives other times.
    pub(super) fn draws(&self) -> bool {
        match self {
            Self::Poisson { .. } | Self::Gamma { .. } | Self::OnOff { .. } => true,
            Self::Constant { .. } | Self::ClosedLoop { .. } | Self::Trace(_) => false,
        }
    }
}

/// What is done with random gaps before they are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// All times are scaled so that the last of `n` arrivals falls on `n / rate`, as `vllm bench serve` does.
    Rescaled,
    /// Gaps are used as drawn.
    AsDrawn,
}

/// Gives arrival times in order. `next` never falls behind an earlier answer.
pub(super) enum ArrivalClock {
    Poisson {
        rate: f64,
        now: SimTime,
        random: Xoshiro256PlusPlus,
    },
    /// Drawn time is multiplied by `target_s / total_s`.
    Gamma {
        gaps: Gamma<f64>,
        sum_s: f64,
        total_s: f64,
        target_s: f64,
        random: Xoshiro256PlusPlus,
    },
    Constant {
        rate: f64,
        sent: u64,
    },
    OnOff {
        clock: OnOffClock,
        random: Xoshiro256PlusPlus,
    },
    Trace(Box<TraceReader>),
}

impl ArrivalClock {
    /// Starts an open-loop process. `requests` is how many times will be asked for, as far as that is known.
    ///
    /// # Errors
    /// A trace that cannot be opened, and gaps to be rescaled over an unknown number of requests.
    pub(super) fn start(arrivals: &Arrivals, requests: Option<u64>, streams: Streams) -> Result<Self, TrafficError> {
        let random = streams.stream("arrivals");
        Ok(match *arrivals {
            Arrivals::Poisson { rate } => Self::Poisson { rate, now: SimTime::ZERO, random },
            Arrivals::Gamma { rate, burstiness, spread } => {
                let gaps = Gamma::new(burstiness, 1.0 / (rate * burstiness)).expect("both are positive and finite");
                let (total_s, target_s) = match spread {
                    Spread::AsDrawn => (1.0, 1.0),
                    Spread::Rescaled => {
                        let requests = requests.ok_or(TrafficError::Endless)?;
                        (drawn_total_s(gaps, random.clone(), requests), requests as f64 / rate)
                    }
                };
                Self::Gamma { gaps, sum_s: 0.0, total_s, target_s, random }
            }
            Arrivals::Constant { rate } => Self::Constant { rate, sent: 0 },
            Arrivals::OnOff { on, off, rate_on, rate_off } => {
                Self::OnOff { clock: OnOffClock::new(on, off, rate_on, rate_off), random }
            }
            Arrivals::Trace(ref source) => Self::Trace(Box::new(TraceReader::open(source, Wanted::ARRIVALS)?)),
            Arrivals::ClosedLoop { .. } => unreachable!("a closed loop has no clock: its arrivals are completions"),
        })
    }

    /// The next arrival; `None` at the end of a trace.
    pub(super) fn next(&mut self) -> Result<Option<SimTime>, TrafficError> {
        Ok(Some(match self {
            Self::Poisson { rate, now, random } => {
                let gap: f64 = Exp1.sample(random);
                *now += SimDuration::from_s(gap / *rate);
                *now
            }
            Self::Gamma { gaps, sum_s, total_s, target_s, random } => {
                *sum_s += gaps.sample(random);
                // In this order the last of the rescaled arrivals is the target to the last bit.
                SimTime::ZERO + SimDuration::from_s(*sum_s / *total_s * *target_s)
            }
            Self::Constant { rate, sent } => {
                *sent += 1;
                SimTime::ZERO + SimDuration::from_s(*sent as f64 / *rate)
            }
            Self::OnOff { clock, random } => clock.advance(Exp1.sample(random)),
            Self::Trace(reader) => return Ok(reader.next_request()?.map(|request| request.arrival)),
        }))
    }

    pub(super) fn skipped_rows(&self) -> SkippedRows {
        match self {
            Self::Trace(reader) => reader.skipped_rows(),
            _ => SkippedRows::default(),
        }
    }
}

/// The sum of `requests` gaps. They are drawn here once and a second time when they are used, from a copy of the same
/// stream: so no list of them is held. (Gaps that all underflow to zero sum to 1, and stay zero when rescaled.)
fn drawn_total_s(gaps: Gamma<f64>, mut random: Xoshiro256PlusPlus, requests: u64) -> f64 {
    let mut total_s = 0.0;
    for _ in 0..requests {
        total_s += gaps.sample(&mut random);
    }
    if total_s > 0.0 { total_s } else { 1.0 }
}

/// A rate that switches between two levels on a fixed clock. Arrivals of such a Poisson process are unit-exponential
/// steps along its integrated rate ("mass"), mapped back to time.
pub(super) struct OnOffClock {
    /// Length and rate of the two phases.
    phases: [(f64, f64); 2],
    /// Whole cycles behind us; kept apart so that a long run loses no precision.
    cycles: u64,
    cycle_ns: u64,
    /// Mass into the current cycle.
    mass: f64,
    cycle_mass: f64,
}

impl OnOffClock {
    fn new(on: SimDuration, off: SimDuration, rate_on: f64, rate_off: f64) -> Self {
        let phases = [(on.as_s(), rate_on), (off.as_s(), rate_off)];
        let cycle_mass = phases.iter().map(|(length_s, rate)| length_s * rate).sum();
        Self { phases, cycles: 0, cycle_ns: (on + off).0, mass: 0.0, cycle_mass }
    }

    /// Moves on by `step` of mass and answers when that is.
    fn advance(&mut self, step: f64) -> SimTime {
        self.mass += step;
        let whole = (self.mass / self.cycle_mass).floor();
        self.cycles = self.cycles.saturating_add(whole as u64);
        self.mass = (self.mass - whole * self.cycle_mass).max(0.0);
        let [(on_s, rate_on), (_, rate_off)] = self.phases;
        let on_mass = on_s * rate_on;
        let into_s = if self.mass <= on_mass && rate_on > 0.0 {
            self.mass / rate_on
        } else {
            on_s + (self.mass - on_mass) / rate_off
        };
        let into_ns = SimDuration::from_s(into_s).0.min(self.cycle_ns);
        SimTime(self.cycles.saturating_mul(self.cycle_ns).saturating_add(into_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(arrivals: &Arrivals, requests: u64, seed: u64) -> Vec<f64> {
        let mut clock = ArrivalClock::start(arrivals, Some(requests), Streams::new(seed)).expect("starts");
        (0..requests).map(|_| clock.next().expect("no trace").expect("endless").0 as f64 / 1e9).collect()
    }

    /// Mean and coefficient of variation of the gaps.
    fn gap_statistics(times: &[f64]) -> (f64, f64) {
        let gaps: Vec<f64> = std::iter::once(times[0]).chain(times.windows(2).map(|pair| pair[1] - pair[0])).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        (mean, variance.sqrt() / mean)
    }

    fn close(found: f64, expected: f64, within: f64) {
        assert!((found - expected).abs() <= within * expected, "{found} is not within {within} of {expected}");
    }

    #[test]
    fn poisson_gaps_have_the_rate_and_a_variation_of_one() {
        let (mean, variation) = gap_statistics(&times(&Arrivals::Poisson { rate: 20.0 }, 100_000, 7));
        close(mean, 0.05, 0.01);
        close(variation, 1.0, 0.01);
    }

    #[test]
    fn gamma_gaps_vary_as_burstiness_says() {
        for burstiness in [0.25, 1.0, 4.0] {
            let arrivals = Arrivals::Gamma { rate: 20.0, burstiness, spread: Spread::AsDrawn };
            let (mean, variation) = gap_statistics(&times(&arrivals, 100_000, 7));
            close(mean, 0.05, 0.01);
            close(variation, burstiness.sqrt().recip(), 0.02);
        }
    }

    #[test]
    fn rescaled_arrivals_end_exactly_on_time_and_keep_their_shape() {
        let gamma = |spread| Arrivals::Gamma { rate: 12.0, burstiness: 0.5, spread };
        for (requests, seed) in [(1, 3), (2, 3), (1000, 3), (50_000, 4)] {
            let rescaled = times(&gamma(Spread::Rescaled), requests, seed);
            let last = *rescaled.last().expect("some");
            let expected_ns = (requests as f64 / 12.0 * 1e9).round() as u64;
            assert_eq!((last * 1e9).round() as u64, expected_ns, "{requests} requests");
            let drawn = times(&gamma(Spread::AsDrawn), requests, seed);
            let factor = last / drawn.last().expect("some");
            for (a, b) in rescaled.iter().zip(&drawn) {
                assert!((a - b * factor).abs() < 2e-8 * factor.max(1.0) + 1e-8, "{a} against {b} times {factor}");
            }
        }
        let drawn = times(&gamma(Spread::AsDrawn), 1000, 3);
        assert!((drawn.last().expect("some") - 1000.0 / 12.0).abs() > 0.1, "without rescaling the end is elsewhere");
    }

    #[test]
    fn rescaling_needs_a_count() {
        let arrivals = Arrivals::Gamma { rate: 12.0, burstiness: 0.5, spread: Spread::Rescaled };
        let endless = ArrivalClock::start(&arrivals, None, Streams::new(1)).err().expect("refused");
        assert!(matches!(endless, TrafficError::Endless));
    }

    #[test]
    fn constant_gaps_do_not_drift() {
        let times = times(&Arrivals::Constant { rate: 3.0 }, 3_000_000, 7);
        close(times[0], 1.0 / 3.0, 1e-8);
        close(times[2_999_999], 1e6, 1e-15);
    }

    #[test]
    fn on_off_sends_each_rate_in_its_own_phase() {
        let seconds = |s| SimDuration::from_s(s);
        let arrivals = Arrivals::OnOff { on: seconds(2.0), off: seconds(8.0), rate_on: 50.0, rate_off: 5.0 };
        let times = times(&arrivals, 140_000, 7);
        assert!(times.is_sorted());
        let span = times.last().expect("some");
        close(140_000.0 / span, 14.0, 0.01);
        let busy = times.iter().filter(|time| *time % 10.0 < 2.0).count() as f64;
        close(busy, 100_000.0, 0.01);
        let silent = Arrivals::OnOff { on: seconds(2.0), off: seconds(8.0), rate_on: 0.01, rate_off: 0.0 };
        assert!(self::times(&silent, 1_000, 7).iter().all(|time| time % 10.0 <= 2.0), "a silent phase stays silent");
        let late = Arrivals::OnOff { on: seconds(2.0), off: seconds(8.0), rate_on: 0.0, rate_off: 3.0 };
        assert!(self::times(&late, 1_000, 7).iter().all(|time| time % 10.0 >= 2.0 || time % 10.0 < 1e-6));
    }

    #[test]
    fn first_arrivals_of_a_seed_are_pinned() {
        let first = |arrivals: &Arrivals| times(arrivals, 3, 7).iter().map(|s| (s * 1e9) as u64).collect::<Vec<_>>();
        insta::assert_debug_snapshot!([
            first(&Arrivals::Poisson { rate: 10.0 }),
            first(&Arrivals::Gamma { rate: 10.0, burstiness: 0.5, spread: Spread::Rescaled }),
        ]);
    }
}

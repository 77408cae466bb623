//! How fast the clock of a view runs.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Simulated seconds for each second that passes, or as fast as can be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// Simulated seconds a second; `None` for no limit.
    rate: Option<f64>,
}

/// Where keys stop, in simulated seconds a second; behind them there is no limit.
const NOTCHES: [f64; 13] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0];

impl Default for Speed {
    /// A quarter of an hour of traffic in half a minute.
    fn default() -> Self {
        Self { rate: Some(30.0) }
    }
}

impl Speed {
    /// No limit.
    pub const FULL: Self = Self { rate: None };

    /// Simulated seconds a second; `None` for no limit.
    #[must_use]
    pub fn rate(self) -> Option<f64> {
        self.rate
    }

    /// The next notch up.
    #[must_use]
    pub fn faster(self) -> Self {
        Self { rate: self.rate.and_then(|rate| NOTCHES.into_iter().find(|&notch| notch > rate)) }
    }

    /// The next notch down.
    #[must_use]
    pub fn slower(self) -> Self {
        let below = |notch: &f64| self.rate.is_none_or(|rate| *notch < rate);
        Self { rate: NOTCHES.into_iter().rev().find(below).or(self.rate) }
    }

    /// How far the clock moves while so much time passes, in nanoseconds; `None` for no limit.
    #[must_use]
    pub fn simulated_ns(self, elapsed: Duration) -> Option<u64> {
        self.rate().map(|rate| (elapsed.as_secs_f64() * rate * 1e9) as u64)
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rate() {
            Some(rate) => write!(f, "{rate} s/s"),
            None => f.write_str("full speed"),
        }
    }
}

/// So many simulated seconds a second, from the slowest notch to the fastest, or `full`.
impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "full" {
            return Ok(Self::FULL);
        }
        let [slowest, .., fastest] = NOTCHES;
        match text.parse() {
            Ok(rate) if (slowest..=fastest).contains(&rate) => Ok(Self { rate: Some(rate) }),
            _ => Err(format!("expected a number from {slowest} to {fastest} (simulated seconds a second) or full")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notches_go_from_slow_motion_to_no_limit_and_no_further() {
        let mut speed: Speed = "0.001".parse().expect("the slowest");
        assert_eq!(speed.slower(), speed);
        let mut rates = vec![speed.rate()];
        while speed != Speed::FULL {
            speed = speed.faster();
            rates.push(speed.rate());
        }
        assert_eq!(speed.faster(), Speed::FULL);
        assert_eq!(rates.len(), NOTCHES.len() + 1);
        assert!(rates.iter().flatten().is_sorted());
        assert_eq!((speed.slower().to_string(), speed.to_string()), ("1000 s/s".to_owned(), "full speed".to_owned()));
    }

    #[test]
    fn the_clock_moves_by_the_rate() {
        let slow: Speed = "0.03".parse().expect("a notch");
        assert_eq!(slow.simulated_ns(Duration::from_millis(100)), Some(3_000_000));
        assert_eq!(Speed::FULL.simulated_ns(Duration::from_secs(1)), None);
        for wrong in ["", "0", "0.000999", "1000.1", "-1", "nan", "inf", "Full"] {
            let message = wrong.parse::<Speed>().expect_err(wrong);
            assert_eq!(message, "expected a number from 0.001 to 1000 (simulated seconds a second) or full");
        }
    }

    #[test]
    fn keys_go_on_from_between_two_notches() {
        let two: Speed = "2".parse().expect("a rate");
        assert_eq!(two.to_string(), "2 s/s");
        assert_eq!((two.slower().rate(), two.faster().rate()), (Some(1.0), Some(3.0)));
    }
}

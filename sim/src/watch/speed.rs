//! How fast the clock of a view runs.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Simulated seconds for each second that passes, or as fast as can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed {
    /// An index into [`NOTCHES`]; behind them, no limit.
    notch: usize,
}

/// Simulated seconds a second, from slow motion upwards.
const NOTCHES: [f64; 13] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0];

impl Default for Speed {
    /// A quarter of an hour of traffic in half a minute.
    fn default() -> Self {
        Self { notch: 9 }
    }
}

impl Speed {
    /// No limit.
    pub const FULL: Self = Self { notch: NOTCHES.len() };

    /// Simulated seconds a second; `None` for no limit.
    #[must_use]
    pub fn rate(self) -> Option<f64> {
        NOTCHES.get(self.notch).copied()
    }

    /// One notch up.
    #[must_use]
    pub fn faster(self) -> Self {
        Self { notch: (self.notch + 1).min(NOTCHES.len()) }
    }

    /// One notch down.
    #[must_use]
    pub fn slower(self) -> Self {
        Self { notch: self.notch.saturating_sub(1) }
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

/// The notch of exactly that many simulated seconds a second, or `full`.
impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "full" {
            return Ok(Self::FULL);
        }
        let asked: Option<f64> = text.parse().ok();
        let notch = NOTCHES.iter().position(|&rate| asked == Some(rate));
        notch.map(|notch| Self { notch }).ok_or_else(|| {
            let known: Vec<String> = NOTCHES.iter().map(ToString::to_string).collect();
            format!("expected {} (simulated seconds a second) or full", known.join(", "))
        })
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
        for wrong in ["", "2", "-1", "nan", "inf", "Full"] {
            let message = wrong.parse::<Speed>().expect_err(wrong);
            assert!(message.contains("0.001, ") && message.contains("full"), "{message}");
        }
    }
}

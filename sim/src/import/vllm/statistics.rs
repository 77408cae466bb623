//! The engine's statistics line, every ten seconds: running requests at that moment, and tokens per second since the last one.

use std::collections::BTreeMap;

use crate::limits::{RANKS_MAX, SEQUENCES_MAX};

/// Seconds between two lines, unless `VLLM_LOG_STATS_INTERVAL` says otherwise.
pub const INTERVAL_S: f64 = 10.0;

/// One line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistics {
    /// Requests that run.
    pub running: u32,
    /// Prompt tokens per second.
    pub prompt_tokens_per_s: f64,
    /// Output tokens per second.
    pub output_tokens_per_s: f64,
}

impl Statistics {
    /// Reads a line without its prefix: what each engine does, and how many engines the line adds up. `None` if it is about
    /// something else or cut off.
    #[must_use]
    pub fn read(text: &str) -> Option<(Self, u32)> {
        const BEGIN: &str = "Avg prompt throughput: ";
        let (who, rest) = text.trim().split_at(text.trim().find(BEGIN)?);
        // `Engine 000: `, `2 Engines Aggregated: `, or nothing.
        let engines = match who.trim_end().strip_suffix(" Engines Aggregated:") {
            Some(count) => count.parse().ok().filter(|count| (1..=RANKS_MAX).contains(count))?,
            None if who.is_empty() || who.starts_with("Engine ") => 1,
            None => return None,
        };
        let figure = |name: &str, unit: &str| {
            let (_, rest) = rest.split_once(name)?;
            let number: f64 = rest.split_once(unit)?.0.trim().parse().ok()?;
            (number.is_finite() && number >= 0.0).then_some(number / f64::from(engines))
        };
        let running: u32 = rest.split_once("Running: ")?.1.split_once(" reqs")?.0.trim().parse().ok()?;
        if running > SEQUENCES_MAX {
            return None;
        }
        let line = Self {
            running: running.div_ceil(engines),
            prompt_tokens_per_s: figure(BEGIN, " tokens/s")?,
            output_tokens_per_s: figure("Avg generation throughput: ", " tokens/s")?,
        };
        Some((line, engines))
    }
}

/// All lines, by running requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AllStatistics(BTreeMap<u32, Sums>);

/// Lines of one number of running requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    /// Lines.
    pub lines: u64,
    /// Their prompt tokens per second, added up.
    pub prompt_tokens_per_s: f64,
    /// Their output tokens per second, added up.
    pub output_tokens_per_s: f64,
}

impl AllStatistics {
    /// Adds a line.
    pub fn add(&mut self, line: &Statistics) {
        let sums = self.0.entry(line.running).or_default();
        sums.lines += 1;
        sums.prompt_tokens_per_s += line.prompt_tokens_per_s;
        sums.output_tokens_per_s += line.output_tokens_per_s;
    }

    /// Running requests with their lines, of busy engines only.
    pub fn busy(&self) -> impl Iterator<Item = (u32, &Sums)> {
        self.0.iter().filter(|(running, _)| **running > 0).map(|(running, sums)| (*running, sums))
    }

    /// Whether there was no line.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The most running requests of any line.
    #[must_use]
    pub fn most_running(&self) -> u32 {
        self.0.keys().next_back().copied().unwrap_or_default()
    }

    /// The mean of the running requests of busy lines.
    #[must_use]
    pub fn mean_running(&self) -> Option<f64> {
        let sums = self.busy().fold((0.0, 0.0), |(requests, lines), (running, sums)| {
            (requests + f64::from(running) * sums.lines as f64, lines + sums.lines as f64)
        });
        (sums.1 > 0.0).then(|| sums.0 / sums.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "Engine 000: Avg prompt throughput: 32.3 tokens/s, Avg generation throughput: 114.4 tokens/s, Running: 4 \
                        reqs, Waiting: 0 reqs, GPU KV cache usage: 0.1%, Prefix cache hit rate: 0.0%";

    #[test]
    fn a_line_is_read_whole_or_not_at_all() {
        let line = Statistics { running: 4, prompt_tokens_per_s: 32.3, output_tokens_per_s: 114.4 };
        assert_eq!(Statistics::read(LINE), Some((line, 1)));
        assert_eq!(Statistics::read(&LINE["Engine 000: ".len()..]), Some((line, 1)));
        let both = Statistics { running: 2, prompt_tokens_per_s: 16.15, output_tokens_per_s: 57.2 };
        assert_eq!(Statistics::read(&LINE.replace("Engine 000", "2 Engines Aggregated")), Some((both, 2)));
        assert_eq!(Statistics::read(&LINE.replace("Engine 000", "0 Engines Aggregated")), None);
        assert_eq!(Statistics::read(&LINE.replace("Engine 000", "Someone else")), None);
        let end = LINE.find(" reqs").expect("there");
        for length in 0..=end {
            assert_eq!(Statistics::read(&LINE[..length]), None);
        }
        assert_eq!(Statistics::read(&LINE.replace("114.4", "inf")), None);
    }

    #[test]
    fn idle_lines_do_not_count_in_the_mean() {
        let mut all = AllStatistics::default();
        for running in [0, 0, 2, 4, 4] {
            all.add(&Statistics { running, prompt_tokens_per_s: 1.0, output_tokens_per_s: 2.0 });
        }
        assert_eq!(all.mean_running(), Some(10.0 / 3.0));
        assert_eq!((all.most_running(), all.busy().count()), (4, 2));
    }
}

//! The engine's statistics line, every ten seconds: running requests at that moment, and tokens per second since the last one.

use std::collections::BTreeMap;

use crate::limits::{RANKS_MAX, SEQUENCES_MAX};

/// Seconds between two lines, unless `VLLM_LOG_STATS_INTERVAL` says otherwise.
pub const INTERVAL_S: f64 = 10.0;

/// Steps per second that no server exceeds: its scheduler alone takes most of a millisecond.
const STEPS_PER_S_MAX: f64 = 1000.0;

/// Lines that are kept: four months of one engine.
const LINES_MAX: usize = 1 << 20;

/// Engines whose lines are told apart.
const ENGINES_MAX: usize = 4096;

/// What a line says of each engine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistics {
    /// Requests that run.
    pub running: u32,
    /// Prompt tokens per second.
    pub prompt_tokens_per_s: f64,
    /// Output tokens per second.
    pub output_tokens_per_s: f64,
}

/// One line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StatisticsLine<'a> {
    /// Who it is about, as it begins: `Engine 000`, `2 Engines Aggregated`; empty where it names none.
    pub engine: &'a str,
    /// Engines that it adds up.
    pub engines: u32,
    /// What each of them does.
    pub each: Statistics,
}

impl<'a> StatisticsLine<'a> {
    /// Reads a line without its prefix; `None` if it is about something else or cut off.
    #[must_use]
    pub fn read(text: &'a str) -> Option<Self> {
        const BEGIN: &str = "Avg prompt throughput: ";
        let (who, rest) = text.trim().split_at(text.trim().find(BEGIN)?);
        let engine = who.trim_end().trim_end_matches(':');
        let engines = match engine.strip_suffix(" Engines Aggregated") {
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
        let each = Statistics {
            running: running.div_ceil(engines),
            prompt_tokens_per_s: figure(BEGIN, " tokens/s")?,
            output_tokens_per_s: figure("Avg generation throughput: ", " tokens/s")?,
        };
        Some(Self { engine, engines, each })
    }
}

/// What each engine of a line did since its line before.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stretch {
    engines: u32,
    /// Twice the mean of the requests that ran at both ends.
    running_twice: u32,
    prompt_tokens_per_s: f64,
    output_tokens_per_s: f64,
}

/// All lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AllStatistics {
    stretches: Vec<Stretch>,
    /// Requests that ran at the last line of each engine.
    last: BTreeMap<(String, String), u32>,
    most_running: u32,
    lines: u64,
    /// Lines and running requests of busy engines, added up.
    busy: (f64, f64),
}

/// Steps that are guessed for one number of running requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Guess {
    /// Steps in which all of them decode.
    pub decodes: f64,
    /// Prompt tokens that were computed beside them.
    pub prompt_tokens: f64,
}

/// What all lines come to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Guesses {
    /// By running requests.
    pub by_running: BTreeMap<u32, Guess>,
    /// Lines with tokens of which no steps can be made: no request ran at either end, or fewer than their tokens need.
    pub left_out: u64,
    /// Lines with tokens.
    pub busy: u64,
}

impl AllStatistics {
    /// Adds the line of a process.
    pub fn add(&mut self, process: &str, line: &StatisticsLine<'_>) {
        let StatisticsLine { engine, engines, each } = *line;
        let Statistics { running, prompt_tokens_per_s, output_tokens_per_s } = each;
        self.lines += 1;
        self.most_running = self.most_running.max(running);
        if running > 0 {
            let engines = f64::from(engines);
            self.busy = (self.busy.0 + engines, self.busy.1 + engines * f64::from(running));
        }
        let who = (process.to_owned(), engine.to_owned());
        let has_room = self.last.len() < ENGINES_MAX || self.last.contains_key(&who);
        let before = if has_room { self.last.insert(who, running).unwrap_or(running) } else { running };
        let is_busy = prompt_tokens_per_s > 0.0 || output_tokens_per_s > 0.0;
        if is_busy && self.stretches.len() < LINES_MAX {
            let running_twice = before.saturating_add(running);
            self.stretches.push(Stretch { engines, running_twice, prompt_tokens_per_s, output_tokens_per_s });
        }
    }

    /// The steps that the lines stand for, if a step yields so many tokens of each request.
    ///
    /// A line counts tokens of ten seconds and requests of one moment, and a batch that is done at that moment left its tokens
    /// behind: the mean of both ends is taken for the requests.
    #[must_use]
    pub fn guesses(&self, tokens_a_step: f64) -> Guesses {
        let mut guesses = Guesses::default();
        for stretch in &self.stretches {
            let Stretch { engines, running_twice, prompt_tokens_per_s, output_tokens_per_s } = *stretch;
            guesses.busy += 1;
            let running = running_twice.div_ceil(2);
            let steps_per_s = output_tokens_per_s / (f64::from(running) * tokens_a_step);
            if running == 0 || steps_per_s > STEPS_PER_S_MAX {
                guesses.left_out += 1;
                continue;
            }
            let guess = guesses.by_running.entry(running).or_default();
            let seconds = INTERVAL_S * f64::from(engines);
            guess.decodes += steps_per_s * seconds;
            guess.prompt_tokens += prompt_tokens_per_s * seconds;
        }
        guesses
    }

    /// Whether there was no line.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines == 0
    }

    /// The most running requests of any line.
    #[must_use]
    pub fn most_running(&self) -> u32 {
        self.most_running
    }

    /// The mean of the running requests of busy lines.
    #[must_use]
    pub fn mean_running(&self) -> Option<f64> {
        let (lines, running) = self.busy;
        (lines > 0.0).then(|| running / lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "Engine 000: Avg prompt throughput: 32.3 tokens/s, Avg generation throughput: 114.4 tokens/s, Running: 4 \
                        reqs, Waiting: 0 reqs, GPU KV cache usage: 0.1%, Prefix cache hit rate: 0.0%";

    #[test]
    fn a_line_is_read_whole_or_not_at_all() {
        let each = Statistics { running: 4, prompt_tokens_per_s: 32.3, output_tokens_per_s: 114.4 };
        let line = StatisticsLine { engine: "Engine 000", engines: 1, each };
        assert_eq!(StatisticsLine::read(LINE), Some(line));
        assert_eq!(StatisticsLine::read(&LINE["Engine 000: ".len()..]), Some(StatisticsLine { engine: "", ..line }));
        let each = Statistics { running: 2, prompt_tokens_per_s: 16.15, output_tokens_per_s: 57.2 };
        let both = StatisticsLine { engine: "2 Engines Aggregated", engines: 2, each };
        assert_eq!(StatisticsLine::read(&LINE.replace("Engine 000", "2 Engines Aggregated")), Some(both));
        assert_eq!(StatisticsLine::read(&LINE.replace("Engine 000", "0 Engines Aggregated")), None);
        assert_eq!(StatisticsLine::read(&LINE.replace("Engine 000", "Someone else")), None);
        let end = LINE.find(" reqs").expect("there");
        for length in 0..=end {
            assert_eq!(StatisticsLine::read(&LINE[..length]), None);
        }
        assert_eq!(StatisticsLine::read(&LINE.replace("114.4", "inf")), None);
    }

    fn added(all: &mut AllStatistics, process: &str, running: u32, prompts: f64, outputs: f64) {
        let each = Statistics { running, prompt_tokens_per_s: prompts, output_tokens_per_s: outputs };
        all.add(process, &StatisticsLine { engine: "Engine 000", engines: 1, each });
    }

    #[test]
    fn idle_lines_do_not_count_in_the_mean() {
        let mut all = AllStatistics::default();
        for running in [0, 0, 2, 4, 4] {
            added(&mut all, "", running, 1.0, 2.0);
        }
        assert_eq!(all.mean_running(), Some(10.0 / 3.0));
        assert_eq!(all.most_running(), 4);
    }

    #[test]
    fn tokens_of_ten_seconds_are_not_those_of_one_moment() {
        let mut all = AllStatistics::default();
        for (running, outputs) in [(40, 5200.0), (40, 5200.0), (1, 4200.0), (0, 0.0)] {
            added(&mut all, "a", running, 0.0, outputs);
        }
        // Another engine's lines in between are no ends of these.
        added(&mut all, "b", 7, 70.0, 700.0);
        let guesses = all.guesses(1.0);
        let steps: Vec<(u32, f64)> =
            guesses.by_running.iter().map(|(running, guess)| (*running, guess.decodes)).collect();
        assert_eq!(steps, [(7, 1000.0), (21, 2000.0), (40, 2600.0)]);
        assert_eq!((guesses.left_out, guesses.busy), (0, 4));
        let drafting = all.guesses(2.5).by_running;
        assert_eq!((drafting[&40].decodes, drafting[&7].prompt_tokens), (1040.0, 700.0));
    }

    #[test]
    fn a_line_that_no_batch_can_have_made_is_left_out() {
        let mut all = AllStatistics::default();
        for (running, outputs) in [(0, 4000.0), (0, 4000.0), (3, 4000.0), (3, 600.0), (0, 0.0)] {
            added(&mut all, "", running, 3000.0, outputs);
        }
        let guesses = all.guesses(1.0);
        assert_eq!((guesses.left_out, guesses.busy), (3, 5));
        assert_eq!(guesses.by_running[&3], Guess { decodes: 2000.0, prompt_tokens: 30_000.0 });
        assert_eq!(guesses.by_running[&2], Guess { decodes: 0.0, prompt_tokens: 30_000.0 });
    }
}

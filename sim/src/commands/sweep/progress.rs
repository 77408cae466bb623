//! How far a sweep is, on standard error: a line that is rewritten on a terminal, a line for each tenth elsewhere.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A terminal's line is rewritten no more often than this.
const REFRESH: Duration = Duration::from_millis(100);
/// Width of the bar.
const BAR: usize = 30;
/// Columns that are written to, so that no line wraps.
const COLUMNS: usize = 79;

/// Points done, as threads report them.
#[derive(Debug)]
pub(super) struct Progress {
    is_terminal: bool,
    points: usize,
    /// Done by an earlier process: they say nothing of how long the others take.
    before: usize,
    begun: Instant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    done: usize,
    written: Option<Instant>,
}

impl Progress {
    /// Of so many points, `before` of which were done earlier.
    pub(super) fn new(points: usize, before: usize) -> Self {
        let is_terminal = io::stderr().is_terminal();
        let state = Mutex::new(State { done: before, written: None });
        let progress = Self { is_terminal, points, before, begun: Instant::now(), state };
        if is_terminal {
            rewrite(&progress.line(before));
        } else if before > 0 {
            tell(&format!("sweep: {before} of {points} points were there already"));
        }
        progress
    }

    /// One more point is done.
    pub(super) fn done(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.done += 1;
        if !self.is_terminal {
            let tenth = |done: usize| done * 10 / self.points;
            if tenth(state.done) > tenth(state.done - 1) {
                tell(&format!("sweep: {}", words(state.done, self.points, self.left(state.done))));
            }
            return;
        }
        if state.written.is_none_or(|written| written.elapsed() >= REFRESH) {
            state.written = Some(Instant::now());
            rewrite(&self.line(state.done));
        }
    }

    /// What the points that are left take at the pace so far.
    fn left(&self, done: usize) -> Option<Duration> {
        let here = done - self.before;
        (here > 0).then(|| self.begun.elapsed().mul_f64((self.points - done) as f64 / here as f64))
    }

    fn line(&self, done: usize) -> String {
        let filled = done * BAR / self.points.max(1);
        let bar: String = (0..BAR).map(|place| if place < filled { '#' } else { '.' }).collect();
        format!("{bar} {}", words(done, self.points, self.left(done)))
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_terminal {
            rewrite("");
        }
    }
}

fn words(done: usize, points: usize, left: Option<Duration>) -> String {
    let left = left.filter(|_| done < points).map(|left| format!(", {} left", span(left)));
    format!("{done} of {points} points{}", left.unwrap_or_default())
}

/// A span of time to its second, minute or hour.
fn span(time: Duration) -> String {
    let seconds = time.as_secs() + 1;
    match seconds {
        0..100 => format!("{seconds} s"),
        100..6_000 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// A standard error that cannot be written is passed over.
fn rewrite(line: &str) {
    let mut sink = io::stderr().lock();
    let _ = write!(sink, "\r{line:<COLUMNS$}\r{line}");
    let _ = sink.flush();
}

fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_how_far_and_how_long() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(words(3, 200, seconds(41)), "3 of 200 points, 42 s left");
        assert_eq!(words(3, 200, seconds(600)), "3 of 200 points, 11 min left");
        assert_eq!(words(3, 200, seconds(10_000)), "3 of 200 points, 2 h 46 min left");
        assert_eq!(words(200, 200, seconds(0)), "200 of 200 points");
        assert_eq!(words(0, 200, None), "0 of 200 points");
    }
}

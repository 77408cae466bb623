//! Moves the clock: facts of all candidates, merged by time, become the state as fast as the user wants.

use std::time::Duration;

use super::fact::Fact;
use super::source::{Next, Source};
use super::state::{Playback, State};

/// How long a source may be waited for, so that keys are never kept waiting longer.
const PATIENCE: Duration = Duration::from_millis(2);

/// The sources of all candidates, in the order of the state's lanes.
#[derive(Debug)]
pub struct Player<S> {
    feeds: Vec<Feed<S>>,
}

#[derive(Debug)]
struct Feed<S> {
    source: S,
    /// The next fact, taken but not told.
    head: Option<Fact>,
}

/// What is left to do after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// More is due already.
    Unfinished,
    /// Nothing is due before the clock has moved on.
    Rested,
    /// Nothing can be done until the user asks for something.
    Still,
}

/// The next fact of all.
enum Earliest {
    /// Of this lane, at this time.
    Of(usize, u64),
    /// Some source has nothing yet, so none can be said to be next.
    Unknown,
    /// All have ended.
    None,
}

impl<S: Source> Player<S> {
    /// A player of these sources.
    pub fn new(sources: impl IntoIterator<Item = S>) -> Self {
        Self { feeds: sources.into_iter().map(|source| Feed { source, head: None }).collect() }
    }

    /// Lets the clock run for `elapsed`, but tells no more than `facts_max` facts.
    ///
    /// # Errors
    /// That of a source; what came before it has been told.
    pub fn turn(&mut self, state: &mut State, elapsed: Duration, facts_max: usize) -> Result<Turn, S::Error> {
        let due_ns = match state.playback {
            Playback::Held | Playback::Ended => return Ok(Turn::Still),
            Playback::Seeking(_) => None,
            Playback::Running => state.speed.simulated_ns(elapsed).map(|ns| state.clock_ns.saturating_add(ns)),
        };
        for _ in 0..facts_max {
            match self.earliest(state)? {
                Earliest::None => return Ok(Turn::Still),
                Earliest::Unknown => return Ok(Turn::Unfinished),
                Earliest::Of(_, at_ns) if due_ns.is_some_and(|due_ns| at_ns > due_ns) => break,
                Earliest::Of(lane, _) => {
                    if let Some(fact) = self.feeds[lane].head.take() {
                        state.apply(lane, fact);
                    }
                }
            }
            // A search has found what it looked for.
            if state.playback == Playback::Held {
                return Ok(Turn::Still);
            }
        }
        let Some(due_ns) = due_ns else { return Ok(Turn::Unfinished) };
        match self.earliest(state)? {
            Earliest::Of(_, at_ns) if at_ns > due_ns => {
                state.clock_ns = state.clock_ns.max(due_ns);
                Ok(Turn::Rested)
            }
            Earliest::None => Ok(Turn::Still),
            _ => Ok(Turn::Unfinished),
        }
    }

    fn earliest(&mut self, state: &mut State) -> Result<Earliest, S::Error> {
        let mut earliest: Option<(u64, usize)> = None;
        for (lane, feed) in self.feeds.iter_mut().enumerate() {
            if state.lanes[lane].end.is_some() {
                continue;
            }
            if feed.head.is_none() {
                match feed.source.next(PATIENCE)? {
                    Next::Fact(fact) => feed.head = Some(fact),
                    Next::NotYet => return Ok(Earliest::Unknown),
                    Next::End(end) => {
                        state.end(lane, end);
                        continue;
                    }
                }
            }
            if let Some(Fact::Step(step)) = &feed.head {
                state.lanes[lane].next_step_ns = Some(step.start_ns);
            }
            // What is told late does not turn the clock back.
            let at_ns = feed.head.as_ref().map_or(0, Fact::at_ns).max(state.lanes[lane].clock_ns);
            if earliest.is_none_or(|(first_ns, _)| at_ns < first_ns) {
                earliest = Some((at_ns, lane));
            }
        }
        Ok(earliest.map_or(Earliest::None, |(at_ns, lane)| Earliest::Of(lane, at_ns)))
    }
}

#[cfg(test)]
mod tests;

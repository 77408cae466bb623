use std::collections::VecDeque;

use super::*;
use crate::watch::fact::Fact;
use crate::watch::samples::{header, step};
use crate::watch::source::Next;
use crate::watch::speed::Speed;
use crate::watch::state::{End, Lane, Leaving, Playback};

/// So many steps, then the end, or a failure.
struct Steps {
    left: u64,
    fails: bool,
}

impl Source for Steps {
    type Error = &'static str;

    fn next(&mut self, _patience: Duration) -> Result<Next, &'static str> {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                Ok(Next::Fact(Fact::Step(Box::new(step(
                    0,
                    1_000_u64.saturating_mul(u64::from(u32::MAX) - left),
                    8,
                    Some(8),
                )))))
            }
            None if self.fails => Err("it broke"),
            None => Ok(Next::End(End::default())),
        }
    }
}

/// A terminal that takes its time to draw, and a user with a list of wishes.
struct Slow {
    drawn: u64,
    wishes: VecDeque<Action>,
    leaves_at_the_end: bool,
    ended: bool,
}

impl Display for Slow {
    fn draw(&mut self, state: &State) -> io::Result<()> {
        self.drawn += 1;
        self.ended = state.playback == Playback::Ended;
        thread::sleep(Duration::from_millis(5));
        Ok(())
    }

    fn action(&mut self, _patience: Duration) -> io::Result<Option<Action>> {
        Ok(self.wishes.pop_front().or((self.ended && self.leaves_at_the_end).then_some(Action::Interrupt)))
    }
}

fn watched(steps: u64, fails: bool, wishes: &[Action]) -> (Result<State, SessionError<&'static str>>, Slow) {
    let state = State { speed: Speed::FULL, ..State::new("test", vec![Lane::new(&header("one", &[8]), None, false)]) };
    let mut display =
        Slow { drawn: 0, wishes: wishes.iter().copied().collect(), leaves_at_the_end: true, ended: false };
    let seen = show(vec![Steps { left: steps, fails }], state, &mut display);
    (seen, display)
}

/// However slowly the terminal draws, every step is counted, and what was not drawn is said.
#[test]
fn a_slow_terminal_costs_drawings_and_no_steps() {
    let (seen, display) = watched(100_000, false, &[]);
    let state = seen.expect("it ends");
    assert_eq!((state.lanes[0].tallies.steps, state.playback), (100_000, Playback::Ended));
    assert!(display.drawn < 50_000, "{} drawings", display.drawn);
    assert!(state.frames.skipped >= 100_000 - 1 - 2 * display.drawn, "{:?}", state.frames);
}

#[test]
fn the_user_leaves_when_the_user_wants_to() {
    for (wish, leaving) in [(Action::Quit, Leaving::Quit), (Action::Interrupt, Leaving::Interrupt)] {
        let (seen, _) = watched(u64::from(u32::MAX), false, &[Action::Pause, wish]);
        let state = seen.expect("it was left");
        assert_eq!(state.leaving, Some(leaving));
        assert_ne!(state.playback, Playback::Ended);
    }
}

#[test]
fn a_source_that_fails_closes_the_view() {
    let (seen, display) = watched(10, true, &[]);
    assert!(matches!(seen, Err(SessionError::Source("it broke"))));
    assert!(!display.ended);
}

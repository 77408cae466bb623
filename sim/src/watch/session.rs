//! One view from its opening to its end: the player on a thread of its own, the display on this one.
//!
//! The display asks for a copy of the state whenever it draws. So a slow terminal keeps nobody waiting, and the player
//! takes every fact whether it is drawn or not.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use super::action::Action;
use super::player::{Player, Turn};
use super::source::Source;
use super::state::State;

/// Facts that are told before keys are looked at again.
const FACTS_PER_TURN: usize = 512;
/// Time that passes unseen, as while the process is stopped, moves the clock no further than this.
const ELAPSED_MAX: Duration = Duration::from_millis(100);
/// How often the clock is moved when nothing is due.
const REST: Duration = Duration::from_millis(4);
/// How often a clock that stands still looks whether anybody asks.
const STILL: Duration = Duration::from_millis(200);
/// From one drawing to the next.
const FRAME: Duration = Duration::from_millis(33);

/// Where a state is drawn, and where actions come from.
pub trait Display {
    /// Draws a state.
    ///
    /// # Errors
    /// If it cannot be drawn.
    fn draw(&mut self, state: &State) -> io::Result<()>;

    /// What the user asks for next; waits for it no longer than `patience`.
    ///
    /// # Errors
    /// If the user cannot be listened to.
    fn action(&mut self, patience: Duration) -> io::Result<Option<Action>>;
}

/// Why a view closed before its user closed it.
#[derive(Debug)]
pub enum SessionError<E> {
    /// The terminal failed.
    Display(io::Error),
    /// A source failed.
    Source(E),
}

/// What the display asks the player for.
enum Request {
    Do(Action),
    Copy,
}

/// Shows the facts of `sources` until the user leaves; gives the state that was on the screen last.
///
/// # Errors
/// If the terminal or a source fails.
pub fn show<S>(sources: Vec<S>, state: State, display: &mut impl Display) -> Result<State, SessionError<S::Error>>
where
    S: Source + Send,
    S::Error: Send,
{
    let (requests, asked) = channel();
    let (answers, answered) = sync_channel(1);
    thread::scope(|scope| {
        let player = scope.spawn(move || play(Player::new(sources), state, &asked, &answers));
        let seen = follow(display, |request| requests.send(request).is_ok(), &answered);
        drop(requests);
        let played = player.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match (played, seen) {
            (Err(error), _) => Err(SessionError::Source(error)),
            (Ok(()), seen) => seen.map_err(SessionError::Display),
        }
    })
}

/// Draws and listens until the user leaves, or the player is gone.
fn follow(
    display: &mut impl Display,
    ask: impl Fn(Request) -> bool,
    answered: &Receiver<Box<State>>,
) -> io::Result<State> {
    let mut last = None;
    loop {
        let copy = ask(Request::Copy).then(|| answered.recv().ok()).flatten();
        let Some(state) = copy else {
            return last.map(|state: Box<State>| *state).ok_or_else(|| io::Error::other("there was nothing to draw"));
        };
        if state.leaving.is_some() {
            return Ok(*state);
        }
        let drawn = Instant::now();
        display.draw(&state)?;
        last = Some(state);
        // All keys of one frame are taken before the next is drawn.
        while let Some(action) = display.action(FRAME.saturating_sub(drawn.elapsed()))? {
            ask(Request::Do(action));
            if action == Action::Interrupt {
                break;
            }
        }
    }
}

/// Moves the clock until nobody asks any more.
fn play<S: Source>(
    mut player: Player<S>,
    mut state: State,
    asked: &Receiver<Request>,
    answers: &SyncSender<Box<State>>,
) -> Result<(), S::Error> {
    let mut turn = Turn::Unfinished;
    let mut moved = Instant::now();
    loop {
        let patience = match turn {
            Turn::Unfinished => Duration::ZERO,
            Turn::Rested => REST,
            Turn::Still => STILL,
        };
        match asked.recv_timeout(patience) {
            Ok(Request::Do(action)) => state.update(action),
            Ok(Request::Copy) => {
                state.drawn();
                // A display that is gone is noticed at the next request.
                let _ = answers.send(Box::new(state.clone()));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        let elapsed = moved.elapsed().min(ELAPSED_MAX);
        moved = Instant::now();
        turn = player.turn(&mut state, elapsed, FACTS_PER_TURN)?;
    }
}

#[cfg(test)]
mod tests;

//! `sim watch`: a recorded run, shown as if it ran now.

use std::path::PathBuf;

use clap::Args;

use super::failure::Failure;
use crate::watch::recording::{Choice, Recording};
use crate::watch::session::{SessionError, show};
use crate::watch::speed::Speed;
use crate::watch::state::{Leaving, Playback, State};
use crate::watch::terminal::Screen;

/// See which rungs fire in a recorded run.
///
/// Shows the ladder with a bar for each rung, the steps without a graph by cause, batches, queue and KV cache over time, two
/// candidates side by side on the same simulated clock. It is drawn on the terminal itself, whatever standard input and
/// output are. `?` shows the keys.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sim run scenarios/chunked.toml --out results --steps
  sim watch results
      The first two candidates side by side; c and Tab show the others.
  sim watch results/steps.jsonl --candidate textbook --speed 1 --paused
      One of them from its first step on, a simulated second each second.
  sim run scenarios/chunked.toml --watch
      The same while it runs, and the report at the end.")]
pub(super) struct Arguments {
    /// A step log, or the folder of a run that has one (`sim run --out DIR --steps`). Requests are shown if requests.csv and
    /// run.json of the same run lie beside it.
    #[arg(value_name = "STEPS|DIR")]
    steps: PathBuf,
    /// Show only this candidate; may be given several times.
    #[arg(long = "candidate", value_name = "NAME")]
    candidates: Vec<String>,
    /// Seed of the run to show [default: the first in the log].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    clock: Clock,
}

/// How the clock of a view starts.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Clock {
    /// Simulated seconds that a view shows in one second, from 0.001 to 1000, or full [default: 30].
    #[arg(long, value_name = "RATE")]
    speed: Option<Speed>,
    /// Begin with the clock held: space lets it run, `.` goes on by one step.
    #[arg(long)]
    paused: bool,
}

impl Clock {
    /// Refuses options of a clock where there is no view.
    ///
    /// # Errors
    /// If there is one of them and no view.
    pub(super) fn check(self, has_view: bool) -> Result<(), Failure> {
        if has_view || (self.speed.is_none() && !self.paused) {
            return Ok(());
        }
        let message = "--speed and --paused are for a view, and there is none".to_owned();
        Err(Failure::Usage { message, help: Some("add --watch, or leave them out".to_owned()) })
    }

    /// A state that starts so, drawn as the screen allows.
    pub(super) fn start(self, state: State, screen: &Screen) -> State {
        State {
            speed: self.speed.unwrap_or_default(),
            playback: if self.paused { Playback::Held } else { Playback::Running },
            colour: screen.colour(),
            ..state
        }
    }
}

pub(super) fn execute(arguments: &Arguments) -> Result<(), Failure> {
    let recording = Recording::open(&arguments.steps)?;
    let choice = Choice { candidates: arguments.candidates.clone(), seed: arguments.seed };
    let chosen = recording.choose(&choice)?;
    let mut screen = Screen::open()?;
    let mut state = arguments.clock.start(State::new(&chosen.title, chosen.lanes), &screen);
    state.note = recording.caution;
    state.warm_up = recording.warm_up;
    let seen = show(chosen.sources, state, &mut screen);
    drop(screen);
    match seen {
        // A terminal that fails after it was taken over is gone, and so is the user.
        Ok(State { leaving: Some(Leaving::Interrupt), .. }) | Err(SessionError::Display(_)) => {
            Err(Failure::Interrupted("the view was closed"))
        }
        Ok(_) => Ok(()),
        Err(SessionError::Source(error)) => Err(error.into()),
    }
}

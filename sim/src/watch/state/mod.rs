//! What a view shows, without any terminal: the candidates, the clock, and what the user asked for.

mod history;
mod lane;
mod service;
mod tallies;

pub use history::{Bin, History};
pub use lane::{Ceiling, End, Lane, RECENT_STEPS, Rank, Seen};
pub use service::Service;
pub use tallies::{RungTally, Tallies};

use calibrate::stderr::printable;

use super::action::{Action, Target};
use super::fact::Fact;
use super::speed::Speed;

/// All that a view shows.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// What runs: the scenario's name, and the seed.
    pub title: String,
    /// The candidates, in the order of the run.
    pub lanes: Vec<Lane>,
    /// Which of them are on the screen, from the left; one or two.
    pub shown: Vec<usize>,
    /// Which of those has the focus.
    pub focus: usize,
    /// Where the simulated clock stands, in nanoseconds.
    pub clock_ns: u64,
    /// What reports leave out at the start of the run, and the view does not; `None` if nothing.
    pub warm_up: Option<WarmUpCut>,
    /// What the clock does.
    pub playback: Playback,
    /// How fast it runs when it does.
    pub speed: Speed,
    /// The rung whose traffic is shown, of the candidate in focus.
    pub selected: Option<u32>,
    /// Whether the keys are shown.
    pub help: bool,
    /// What came of the last thing that was asked for.
    pub note: Option<String>,
    /// Which steps were drawn.
    pub frames: Frames,
    /// Whether colours may be used.
    pub colour: bool,
    /// That the user leaves.
    pub leaving: Option<Leaving>,
}

/// Where reports begin to count, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarmUpCut {
    /// Requests before it.
    pub requests: Option<u64>,
    /// Its time on the simulated clock, in nanoseconds.
    pub until_ns: Option<u64>,
}

/// What the clock does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Playback {
    /// It runs.
    Running,
    /// It stands still.
    Held,
    /// It runs as fast as can be until something is found.
    Seeking(Target),
    /// All candidates have ended.
    Ended,
}

/// Why a view closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// The user has seen enough.
    Quit,
    /// The user, or a signal, ends the command.
    Interrupt,
}

/// Every step could be drawn. Those that follow each other faster than the terminal draws are counted, but not drawn one by
/// one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// Steps since the last drawing.
    undrawn: u64,
    /// Steps that came between the last two drawings and were not drawn.
    pub skipped_last: u64,
    /// All of those.
    pub skipped: u64,
}

impl State {
    /// A view of these candidates, the first two side by side.
    #[must_use]
    pub fn new(title: &str, lanes: Vec<Lane>) -> Self {
        Self {
            title: printable(title),
            shown: (0..lanes.len().min(2)).collect(),
            lanes,
            focus: 0,
            clock_ns: 0,
            warm_up: None,
            playback: Playback::Running,
            speed: Speed::default(),
            selected: None,
            help: false,
            note: None,
            frames: Frames::default(),
            colour: true,
            leaving: None,
        }
    }

    /// The index of the candidate in focus.
    #[must_use]
    pub fn focused(&self) -> usize {
        self.shown[self.focus]
    }

    /// The candidate in focus.
    #[must_use]
    pub fn lane_in_focus(&self) -> &Lane {
        &self.lanes[self.focused()]
    }

    /// One fact of one candidate. A search that it ends holds the clock.
    pub fn apply(&mut self, lane: usize, fact: Fact) {
        let at_ns = fact.at_ns();
        let seen = self.lanes[lane].apply(fact);
        self.clock_ns = self.clock_ns.max(at_ns);
        let Some(seen) = seen else { return };
        self.frames.undrawn += u64::from(self.shown.contains(&lane));
        if let Playback::Seeking(target) = self.playback
            && lane == self.focused()
            && target.is_met_by(seen)
        {
            self.playback = Playback::Held;
            self.note = None;
        }
    }

    /// Nothing more comes of one candidate.
    pub fn end(&mut self, lane: usize, end: End) {
        self.lanes[lane].end = Some(end);
        if self.lanes.iter().all(|lane| lane.end.is_some()) {
            self.give_up_search();
            self.playback = Playback::Ended;
        } else if lane == self.focused() && self.playback != Playback::Seeking(Target::End) {
            self.give_up_search();
        }
    }

    /// Says that what is looked for does not come any more.
    fn give_up_search(&mut self) {
        if let Playback::Seeking(target) = self.playback {
            self.playback = Playback::Held;
            self.note = (target != Target::End)
                .then(|| format!("no further {}: {} has ended", target.name(), self.lane_in_focus().name));
        }
    }

    /// Takes note that this state is being drawn.
    pub fn drawn(&mut self) {
        let frames = &mut self.frames;
        frames.skipped_last = frames.undrawn.saturating_sub(1);
        frames.skipped += frames.skipped_last;
        frames.undrawn = 0;
    }

    /// Does what the user asks for.
    pub fn update(&mut self, action: Action) {
        match action {
            Action::Pause => self.playback = self.resumed_or_held(),
            Action::Step => self.seek(Target::Step),
            Action::Jump(target) => self.seek(target),
            Action::Faster => self.speed = self.speed.faster(),
            Action::Slower => self.speed = self.speed.slower(),
            Action::FullSpeed => self.speed = Speed::FULL,
            Action::LargerRung => self.select(true),
            Action::SmallerRung => self.select(false),
            Action::Focus => self.focus_on((self.focus + 1) % self.shown.len()),
            Action::NextCandidate => self.exchange(1),
            Action::PreviousCandidate => self.exchange(self.lanes.len() - 1),
            Action::Split => self.split(),
            Action::Help => self.help = !self.help,
            Action::Back if self.help => self.help = false,
            Action::Back => self.selected = None,
            Action::Quit => self.leaving = self.leaving.or(Some(Leaving::Quit)),
            Action::Interrupt => self.leaving = Some(Leaving::Interrupt),
        }
    }

    fn resumed_or_held(&mut self) -> Playback {
        self.note = None;
        match self.playback {
            Playback::Ended => Playback::Ended,
            Playback::Held => Playback::Running,
            Playback::Running | Playback::Seeking(_) => Playback::Held,
        }
    }

    fn seek(&mut self, target: Target) {
        let lane = self.lane_in_focus();
        let follows = match target {
            Target::End => self.playback != Playback::Ended,
            _ => lane.end.is_none(),
        };
        self.note = match target {
            _ if follows => None,
            Target::End => Some("this is the end".to_owned()),
            _ => Some(format!("no further {}: {} has ended", target.name(), lane.name)),
        };
        if follows {
            self.playback = Playback::Seeking(target);
        }
    }

    fn select(&mut self, above: bool) {
        let rung = self.lane_in_focus().neighbour(self.selected, above);
        self.note = rung.is_none().then(|| "no rung has fired yet".to_owned());
        self.selected = rung;
    }

    fn focus_on(&mut self, place: usize) {
        self.focus = place;
        self.selected = None;
        self.note = (self.lanes.len() == 1).then(|| "there is one candidate only".to_owned());
    }

    /// Another candidate in the place of the one in focus: the one so far behind it that is not on the screen already.
    fn exchange(&mut self, by: usize) {
        let count = self.lanes.len();
        self.selected = None;
        if count <= self.shown.len() {
            self.note = Some("there is no other candidate".to_owned());
            return;
        }
        let mut lane = self.focused();
        loop {
            lane = (lane + by) % count;
            if !self.shown.contains(&lane) {
                break;
            }
        }
        self.shown[self.focus] = lane;
        self.note = None;
    }

    fn split(&mut self) {
        let kept = self.focused();
        self.note = None;
        if self.shown.len() == 2 {
            self.shown = vec![kept];
            self.focus = 0;
        } else if self.lanes.len() > 1 {
            self.shown = vec![kept, (kept + 1) % self.lanes.len()];
        } else {
            self.note = Some("there is one candidate only".to_owned());
        }
    }
}

impl Target {
    fn is_met_by(self, seen: Seen) -> bool {
        match self {
            Self::Step => true,
            Self::Fallback => seen.fallback,
            Self::Preemption => seen.preemption,
            Self::RungChange => seen.rung_change,
            Self::End => false,
        }
    }
}

#[cfg(test)]
mod tests;

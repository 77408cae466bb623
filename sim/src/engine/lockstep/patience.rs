//! How soon a lockstep is tried again after it had to end.

/// A lockstep that ends before so many beats was not worth its while: walk longer before the next one.
const BEATS_WORTH_WHILE: u64 = 32;
/// The most steps to walk before the lockstep is tried again.
const PAUSE_MOST: u32 = 64;

/// Counts beats, and the steps to walk after a lockstep that ended for want of room.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Patience {
    /// Since the lockstep began.
    beats: u64,
    /// Steps to walk before it may begin again.
    pause: u32,
    pause_next: u32,
}

impl Patience {
    /// Before the first lockstep, which may begin at once.
    pub(in crate::engine) fn new() -> Self {
        Self { beats: 0, pause: 0, pause_next: 1 }
    }

    /// A lockstep may begin or go on.
    #[inline]
    pub(in crate::engine) fn is_over(&self) -> bool {
        self.pause == 0
    }

    /// A step is walked because the pause is not over.
    pub(in crate::engine) fn walked(&mut self) {
        self.pause -= 1;
    }

    /// A beat was scheduled.
    #[inline]
    pub(in crate::engine) fn beat(&mut self) {
        self.beats += 1;
    }

    /// The lockstep ends for want of room.
    pub(in crate::engine) fn no_room(&mut self) {
        self.pause = self.pause_next;
        let worth = self.beats >= BEATS_WORTH_WHILE;
        self.pause_next = if worth { 1 } else { (2 * self.pause_next).min(PAUSE_MOST) };
        self.ended();
    }

    /// The lockstep ends.
    pub(in crate::engine) fn ended(&mut self) {
        self.beats = 0;
    }
}

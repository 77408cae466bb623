//! Decode steps that change nothing but contexts, pages and time.

use super::Scheduler;
use crate::engine::scheduler::QuietSteps;

/// The scheduler in quiet steps: see [`QuietSteps`].
#[derive(Debug)]
pub struct Quiet<'a>(&'a mut Scheduler);

impl Scheduler {
    /// The quiet steps ahead, if the next one is quiet.
    #[inline]
    #[must_use]
    pub fn quiet(&mut self) -> Option<Quiet<'_>> {
        let nobody_else = self.running.is_empty() && self.chunked.is_none() && self.leaving == 0;
        if self.lockstep.members() == 0 || !nobody_else || !(self.batch_is_full || self.waiting.is_empty()) {
            return None;
        }
        let is_settled = self.lockstep.nobody_leaves() && !self.ended && self.taken_out.is_none();
        let may = is_settled && self.may_keep_lockstep();
        let quiet = Quiet(self);
        (may && quiet.is_next()).then_some(quiet)
    }
}

impl QuietSteps for Quiet<'_> {
    #[inline]
    fn requests(&self) -> u32 {
        self.0.lockstep.members()
    }

    #[inline]
    fn context_tokens(&self) -> u64 {
        self.0.lockstep.computed_tokens() + u64::from(self.0.lockstep.members())
    }

    #[inline]
    fn is_next(&self) -> bool {
        self.0.lockstep.is_next_quiet() && self.0.lockstep.blocks_needed() <= self.0.pool.available()
    }

    #[inline]
    fn pass(&mut self) {
        let scheduler = &mut *self.0;
        scheduler.pool.take_unnamed(scheduler.lockstep.blocks_needed());
        scheduler.lockstep.schedule_quiet();
        scheduler.lockstep.pass();
        scheduler.ratio.step();
        scheduler.decode_steps += 1;
        scheduler.patience.beat();
    }

    #[inline]
    fn free_blocks(&self) -> u32 {
        self.0.free_blocks()
    }
}

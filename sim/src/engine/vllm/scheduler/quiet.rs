//! Steps that change nothing but contexts, blocks and time.

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
        let rules = &self.rules;
        let members = self.lockstep.members();
        if members == 0
            || !self.running.is_empty()
            || self.waiting.len() > 0 && self.running_requests() < rules.max_running
        {
            return None;
        }
        let is_settled =
            self.lockstep.nobody_leaves() && self.patience.is_over() && !self.ended && self.taken_out.is_none();
        let is_room = members <= rules.token_budget.min(rules.input_budget);
        let may = is_settled && is_room && self.may_keep_lockstep();
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
        self.0.lockstep.is_next_quiet() && self.0.lockstep.blocks_needed() <= self.0.pool.free()
    }

    #[inline]
    fn pass(&mut self) {
        let scheduler = &mut *self.0;
        if scheduler.pool.has_cache() {
            scheduler.take_named_blocks();
            scheduler.lockstep.pass();
            scheduler.register_blocks();
        } else {
            scheduler.pool.take_unnamed(scheduler.lockstep.blocks_needed());
            scheduler.lockstep.schedule_quiet();
            scheduler.lockstep.pass();
        }
        scheduler.steps += 1;
        scheduler.patience.beat();
        scheduler.finish_unreported = false;
    }

    #[inline]
    fn free_blocks(&self) -> u32 {
        self.0.free_blocks()
    }
}

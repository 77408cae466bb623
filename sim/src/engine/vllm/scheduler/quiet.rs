//! Steps that change nothing but contexts, blocks and time.

use super::Scheduler;

/// A scheduler whose next step is quiet: it runs the requests in lockstep and nobody else, nobody can be admitted, and
/// nobody gets its last token. So are the steps behind it for as long as [`pass`](Self::pass) takes them.
#[derive(Debug)]
pub struct Quiet<'a>(&'a mut Scheduler);

impl Scheduler {
    /// The quiet steps ahead, if the next one is.
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
        let is_settled = self.lockstep.nobody_leaves() && self.pause == 0 && !self.ended && self.taken_out.is_none();
        let is_room = members <= rules.token_budget.min(rules.input_budget);
        let may = is_settled && is_room && self.may_keep_lockstep();
        let quiet = Quiet(self);
        (may && quiet.is_next()).then_some(quiet)
    }
}

impl Quiet<'_> {
    /// Requests of each step.
    #[inline]
    #[must_use]
    pub fn requests(&self) -> u32 {
        self.0.lockstep.members()
    }

    /// Tokens that the requests of the next step attend to, computed before and scheduled.
    #[inline]
    #[must_use]
    pub fn context_tokens(&self) -> u64 {
        self.0.lockstep.computed_tokens() + u64::from(self.0.lockstep.members())
    }

    /// The scheduler as it stands.
    #[inline]
    #[must_use]
    pub fn scheduler(&self) -> &Scheduler {
        self.0
    }

    /// Whether the next step is quiet, too.
    #[inline]
    #[must_use]
    pub fn is_next(&self) -> bool {
        self.0.lockstep.is_next_quiet() && self.0.lockstep.blocks_needed() <= self.0.pool.free()
    }

    /// Schedules the next step, which is quiet, and applies the output of the oldest one in flight: itself, if none is.
    #[inline]
    pub fn pass(&mut self) {
        let scheduler = &mut *self.0;
        scheduler.take_blocks();
        scheduler.lockstep.pass();
        scheduler.register_blocks();
        scheduler.steps += 1;
        scheduler.beats += 1;
        scheduler.finish_unreported = false;
    }
}

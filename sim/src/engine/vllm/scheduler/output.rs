//! Applying the output of a step.

use super::Scheduler;
use super::queue::Rank;
use crate::engine::request::Slot;
use crate::engine::step::{Delivered, Scheduled, StepOutcome, StepPlan, Verified};

impl Scheduler {
    /// Applies the output of `plan`, the oldest step in flight: tokens are delivered, finished requests leave and
    /// their blocks and slots are free at once. `out` is cleared first.
    ///
    /// `accepted` says how many drafts of an entry the model accepts; more than the entry has count as all. It is asked
    /// once, in scheduling order, for each entry that samples and carries drafts which somebody made.
    pub fn apply(&mut self, plan: &StepPlan, accepted: &mut impl FnMut(&Scheduled) -> u32, out: &mut StepOutcome) {
        out.clear();
        out.is_beat = true;
        // Nobody is told of the output of a step without tokens.
        out.lockstep_ended = plan.shape.tokens > 0 && std::mem::take(&mut self.ended);
        if plan.lockstep > 0 {
            self.apply_beat(plan, accepted, out);
        } else {
            self.apply_entries(plan, &plan.entries, accepted, out);
        }
    }

    /// Applies the output of requests that were scheduled each on its own.
    #[inline]
    pub(super) fn apply_entries(
        &mut self,
        plan: &StepPlan,
        entries: &[Scheduled],
        accepted: &mut impl FnMut(&Scheduled) -> u32,
        out: &mut StepOutcome,
    ) {
        if entries.is_empty() {
            return;
        }
        let mut finished_running = false;
        let redrafted =
            if self.rules.asynchronous { None } else { Some(self.rules.drafting.after(plan.shape.requests)) };
        for entry in entries {
            finished_running |= self.apply_entry(entry, redrafted, accepted, out);
        }
        if finished_running {
            self.running.retain(|&slot| !self.requests[slot].is_finished());
        }
    }

    /// Applies one entry; `true` if that finished a running request.
    #[inline]
    fn apply_entry(
        &mut self,
        entry: &Scheduled,
        redrafted: Option<u32>,
        accepted: &mut impl FnMut(&Scheduled) -> u32,
        out: &mut StepOutcome,
    ) -> bool {
        let asynchronous = self.rules.asynchronous;
        let drafts_on = self.rules.drafting.is_on();
        let accepted = if entry.drafts == 0 { 0 } else { verify(entry, accepted, out) };
        let request = &mut self.requests[entry.slot];
        if asynchronous && drafts_on && (request.id != entry.id || request.is_finished()) {
            // The step was scheduled before anybody knew that so many drafts would be accepted.
            out.late.push(entry.id);
            return false;
        }
        debug_assert_eq!(request.id, entry.id, "a request of known length is never scheduled past its end");
        // Scheduled before its preemption: until all such output has come, the request waits.
        let stale = request.stale > 0;
        let first = request.known == request.prompt;
        let tokens = request.receive(entry, accepted, redrafted);
        if !entry.samples {
            return false;
        }
        if (asynchronous || drafts_on) && !stale {
            self.pool.register(&mut request.held, request.computed - request.in_flight);
        }
        let finished = request.is_finished();
        if finished {
            self.finish(entry.slot, stale);
        }
        out.delivered.push(Delivered { slot: entry.slot, id: entry.id, tokens, first, finished });
        finished && !stale
    }

    /// Lets a finished request go; `waits` if it was preempted and has not been admitted again.
    pub(super) fn finish(&mut self, slot: Slot, waits: bool) {
        let request = &mut self.requests[slot];
        self.pool.release(&mut request.held);
        if waits {
            self.waiting.remove(Rank::of(slot, request));
        }
        self.requests.vacate(slot);
        self.finish_unreported = true;
    }
}

/// The drafts of an entry that the model accepts. Drafts stand behind the last known token, so the entry samples.
fn verify(entry: &Scheduled, accepted: &mut impl FnMut(&Scheduled) -> u32, out: &mut StepOutcome) -> u32 {
    debug_assert!(entry.samples, "{entry:?}");
    let accepted = if entry.placeholder_drafts { 0 } else { accepted(entry).min(entry.drafts) };
    let Scheduled { id, drafts, placeholder_drafts: placeholders, .. } = *entry;
    out.verified.push(Verified { id, drafts, accepted, placeholders });
    accepted
}

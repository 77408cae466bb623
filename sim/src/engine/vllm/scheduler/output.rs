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
        let next_drafts = self.rules.drafting.after(plan.shape.requests);
        let mut finished_running = false;
        for entry in &plan.entries {
            let accepted = verify(entry, accepted, out);
            let request = &self.requests[entry.slot];
            if request.id != entry.id || request.is_finished() {
                // The step was scheduled before anybody knew that so many drafts would be accepted.
                out.late.push(entry.id);
                continue;
            }
            // Scheduled before its preemption: until all such output has come, the request waits.
            let stale = request.stale > 0;
            let Some(delivered) = self.deliver(entry, accepted, stale, next_drafts) else { continue };
            if delivered.finished {
                self.finish(entry.slot, stale);
                finished_running |= !stale;
            }
            out.delivered.push(delivered);
        }
        if finished_running {
            self.running.retain(|&slot| !self.requests[slot].is_finished());
        }
    }

    /// Books what one entry of a live request brought; `None` if it sampled nothing.
    #[inline]
    fn deliver(&mut self, entry: &Scheduled, accepted: u32, stale: bool, next_drafts: u32) -> Option<Delivered> {
        let asynchronous = self.rules.asynchronous;
        let request = &mut self.requests[entry.slot];
        request.in_flight -= entry.tokens;
        if stale {
            request.stale -= entry.tokens;
        }
        if !entry.samples {
            return None;
        }
        let first = request.known == request.prompt;
        let sampled = 1 + accepted;
        let tokens = sampled.min(request.limit - request.known);
        request.known += tokens;
        // A preempted request keeps what it sampled before; its counters were reset with its blocks.
        if !stale {
            let rejected = entry.drafts - accepted;
            request.computed -= rejected + (sampled - tokens);
            if asynchronous {
                request.placeholders -= rejected + tokens;
            } else {
                request.pending_drafts = next_drafts;
            }
            if asynchronous || self.rules.drafting.is_on() {
                self.pool.register(&mut request.held, request.computed - request.in_flight);
            }
        }
        let finished = request.is_finished();
        Some(Delivered { slot: entry.slot, id: entry.id, tokens, first, finished })
    }

    /// Lets a finished request go; `waits` if it was preempted and has not been admitted again.
    fn finish(&mut self, slot: Slot, waits: bool) {
        let request = &mut self.requests[slot];
        self.pool.release(&mut request.held);
        if waits {
            self.waiting.remove(Rank::of(slot, request));
        }
        self.requests.vacate(slot);
        self.finish_unreported = true;
    }
}

/// The drafts of an entry that the model accepts; notes them if there are any.
fn verify(entry: &Scheduled, accepted: &mut impl FnMut(&Scheduled) -> u32, out: &mut StepOutcome) -> u32 {
    if entry.drafts == 0 || !entry.samples {
        return 0;
    }
    let accepted = if entry.placeholder_drafts { 0 } else { accepted(entry).min(entry.drafts) };
    out.verified.push(Verified { id: entry.id, drafts: entry.drafts, accepted });
    accepted
}

//! Applying the output of a step.

use super::Scheduler;
use super::request::Place;
use crate::engine::request::Slot;
use crate::engine::step::{Delivered, Scheduled, StepOutcome, StepPlan, Verified};

impl Scheduler {
    /// Applies the output of `plan`, the oldest step in flight: tokens are delivered, prompts enter the prefix cache,
    /// finished requests leave. `out` is cleared first.
    ///
    /// `accepted` says how many drafts of an entry the model accepts; more than the entry has count as all. It is asked
    /// once, in scheduling order, for each entry that samples and carries drafts.
    pub fn apply(&mut self, plan: &StepPlan, accepted: &mut impl FnMut(&Scheduled) -> u32, out: &mut StepOutcome) {
        out.clear();
        out.is_beat = !plan.shape.prefilling;
        // Nobody is told of the output of a step without tokens.
        out.lockstep_ended = plan.shape.tokens > 0 && std::mem::take(&mut self.ended);
        if plan.lockstep > 0 {
            self.apply_beat(plan, accepted, out);
        } else {
            self.apply_entries(&plan.entries, accepted, out);
        }
        if out.delivered.iter().any(|delivered| delivered.finished) {
            self.running.retain(|&slot| !self.requests[slot].is_finished());
            self.batch_is_full = false;
        }
    }

    /// Applies the output of requests that were scheduled each on its own.
    pub(super) fn apply_entries(
        &mut self,
        entries: &[Scheduled],
        accepted: &mut impl FnMut(&Scheduled) -> u32,
        out: &mut StepOutcome,
    ) {
        for entry in entries.iter().filter(|entry| entry.samples) {
            let mut tokens = 1;
            if entry.drafts > 0 {
                let accepted = accepted(entry).min(entry.drafts);
                out.verified.push(Verified { id: entry.id, drafts: entry.drafts, accepted, placeholders: false });
                tokens += accepted;
            }
            self.deliver(entry, tokens, out);
        }
    }

    /// Hands `tokens` tokens to the request of `entry`, if it still takes them.
    fn deliver(&mut self, entry: &Scheduled, tokens: u32, out: &mut StepOutcome) {
        let request = &mut self.requests[entry.slot];
        if request.id != entry.id || request.is_finished() {
            out.late.push(entry.id);
            return;
        }
        if request.stale > 0 {
            request.stale -= 1;
            return;
        }
        request.pending -= 1;
        // Drafts that were not accepted leave no keys and values behind.
        request.computed -= entry.drafts + 1 - tokens;
        if !request.prompt_cached {
            request.prompt_cached = true;
            let computed = entry.context_tokens + entry.tokens;
            self.pool.cache(&mut request.held, request.id, &request.shared, computed);
        }
        let first = request.known == request.prompt;
        let tokens = tokens.min(request.limit - request.known);
        request.known += tokens;
        let finished = request.is_finished();
        if finished {
            self.finish(entry.slot);
        }
        out.delivered.push(Delivered { slot: entry.slot, id: entry.id, tokens, first, finished });
    }

    /// Lets a finished request go, whose tokens stay in the cache.
    pub(super) fn finish(&mut self, slot: Slot) {
        let request = &mut self.requests[slot];
        // The last token was only delivered.
        self.pool.cache(&mut request.held, request.id, &request.shared, request.known - 1);
        self.pool.release(&mut request.held);
        self.leaving -= u32::from(request.place == Place::Leaving);
        self.requests.vacate(slot);
    }
}

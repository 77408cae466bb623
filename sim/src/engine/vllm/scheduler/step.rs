//! Scheduling one step: running requests first, then the waiting queue.

use super::Scheduler;
use super::request::Request;
use crate::engine::request::Slot;
use crate::engine::step::{Preempted, Scheduled, StepPlan};

/// What is left to give in the step being scheduled.
struct Round {
    /// Tokens left.
    budget: u32,
    /// The most tokens for one request.
    chunk_cap: u32,
    /// Prefills wait for a later step.
    defer: bool,
    /// Output tokens of steps in flight count as placeholders.
    asynchronous: bool,
    /// Some request that had known tokens left to compute was scheduled.
    prefilled: bool,
}

impl Scheduler {
    /// Schedules the next step into `plan`, which is cleared first. Call it with fewer than
    /// [`depth`](Self::depth) steps in flight.
    ///
    /// The step may hold no tokens: it then waits for a step in flight, or reports a finished request.
    pub fn schedule(&mut self, plan: &mut StepPlan) {
        plan.clear();
        let mut round = Round {
            budget: self.rules.token_budget,
            chunk_cap: self.rules.long_prefill.cap(self.running.len() + self.waiting.len()),
            defer: self.cadence.defers() && self.running.iter().any(|&slot| !self.requests[slot].mid_prefill),
            asynchronous: self.rules.asynchronous,
            prefilled: false,
        };
        self.schedule_running(&mut round, plan);
        if plan.preempted.is_empty() {
            self.schedule_waiting(&mut round, plan);
        }
        plan.close(self.rules.uniform_query);
        self.cadence.scheduled(plan.shape.tokens, round.prefilled);
        self.finish_unreported = false;
    }

    /// Gives running requests their next tokens, oldest admission first; the youngest ones pay for missing blocks.
    fn schedule_running(&mut self, round: &mut Round, plan: &mut StepPlan) {
        let mut next = 0;
        while round.budget > 0 && next < self.running.len() {
            let slot = self.running[next];
            next += 1;
            let request = &mut self.requests[slot];
            let tokens = round.share(request);
            if tokens == 0 {
                continue;
            }
            let total = request.computed + tokens;
            if !self.pool.grow(&mut request.held, total, 0) && !self.preempt_for(slot, total, plan) {
                break;
            }
            let request = &mut self.requests[slot];
            round.prefilled |= request.mid_prefill;
            round.give(request, slot, tokens, plan);
        }
    }

    /// Takes the blocks for `total` tokens of a running request by preempting from the back of the running list for
    /// as long as there are too few. `false` if that ended with the request itself.
    #[cold]
    fn preempt_for(&mut self, slot: Slot, total: u32, plan: &mut StepPlan) -> bool {
        while self.preempt_last(plan) != slot {
            if self.pool.grow(&mut self.requests[slot].held, total, 0) {
                return true;
            }
        }
        false
    }

    /// Puts the most recently admitted request back at the head of the queue without its blocks.
    fn preempt_last(&mut self, plan: &mut StepPlan) -> Slot {
        let slot = self.running.pop().expect("the request that lacks blocks is running");
        let request = &mut self.requests[slot];
        self.pool.release(&mut request.held);
        request.computed = 0;
        request.placeholders = 0;
        request.stale = request.in_flight;
        self.waiting.push_front(slot);
        self.preemptions += 1;
        plan.preempted.push(Preempted { slot, id: request.id });
        slot
    }

    /// Admits from the head of the queue until one does not fit: the ones behind it wait with it.
    fn schedule_waiting(&mut self, round: &mut Round, plan: &mut StepPlan) {
        while round.budget > 0 && self.running.len() < self.rules.max_running {
            let Some(&slot) = self.waiting.front() else { break };
            if self.requests[slot].stale > 0 {
                // Its output from before the preemption is still to come; the ones behind it may pass.
                self.waiting.pop_front();
                self.aside.push(slot);
                continue;
            }
            let Some(tokens) = self.admit(slot, round) else { break };
            self.waiting.pop_front();
            self.running.push(slot);
            let request = &mut self.requests[slot];
            request.prefill_tokens = request.known;
            round.prefilled |= request.known > 1;
            round.give(request, slot, tokens, plan);
        }
        if !round.defer {
            self.cadence.admitted(!self.waiting.is_empty());
        }
        while let Some(slot) = self.aside.pop() {
            self.waiting.push_front(slot);
        }
    }

    /// Takes the blocks for the first tokens of the request at the head of the queue and says how many tokens that
    /// are; `None` if it cannot be admitted in this step.
    fn admit(&mut self, slot: Slot, round: &Round) -> Option<u32> {
        let request = &mut self.requests[slot];
        let known = request.known;
        if round.defer && known > 1 {
            return None;
        }
        let wanted = known.min(round.chunk_cap);
        if wanted > round.budget && !self.rules.chunked_prefill {
            return None;
        }
        let tokens = wanted.min(round.budget);
        let keep_free = if self.running.is_empty() { 0 } else { self.rules.watermark_blocks };
        if self.rules.reserve_full_prompt && !self.pool.has_room(known, keep_free) {
            return None;
        }
        self.pool.grow(&mut request.held, tokens, keep_free).then_some(tokens)
    }
}

impl Round {
    /// Tokens that a running request gets if there are blocks for them.
    #[inline]
    fn share(&self, request: &Request) -> u32 {
        if request.finishes_in_flight() || (self.defer && request.mid_prefill) {
            return 0;
        }
        request.left_to_compute().min(self.chunk_cap).min(self.budget)
    }

    /// Books `tokens` tokens of a request that holds blocks for them.
    #[expect(clippy::inline_always, reason = "the body of the walk over running requests")]
    #[inline(always)]
    fn give(&mut self, request: &mut Request, slot: Slot, tokens: u32, plan: &mut StepPlan) {
        self.budget -= tokens;
        let context_tokens = request.computed;
        let prefilling = context_tokens < request.prefill_tokens;
        request.computed += tokens;
        request.in_flight += tokens;
        request.mid_prefill = request.left_to_compute() > 0;
        let samples = !request.mid_prefill;
        request.placeholders += u32::from(samples && self.asynchronous);
        let prefill = prefilling && (tokens > 1 || context_tokens == 0);
        let entry = Scheduled {
            slot,
            id: request.id,
            tokens,
            drafts: 0,
            context_tokens,
            prefill,
            samples,
            placeholder_drafts: false,
        };
        plan.push(entry, prefilling);
    }
}

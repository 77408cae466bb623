//! Scheduling one step: running requests first, then the waiting queue.

use super::Scheduler;
use super::request::Request;
use crate::engine::request::Slot;
use crate::engine::step::{Scheduled, StepPlan};

/// What is left to give in the step being scheduled, and what has happened in it.
#[expect(clippy::struct_excessive_bools, reason = "independent facts about one step")]
pub(super) struct Round {
    /// Tokens left of the scheduled-token budget.
    budget: u32,
    /// Tokens left of the input budget, out of which every request also pays for its draft slots.
    input: u32,
    /// Inputs that the drafter adds per request, in tokens.
    draft_slots: u32,
    /// The most tokens for one request.
    pub(super) chunk_cap: u32,
    /// The most tokens that a request may ever compute.
    most_computed: u32,
    /// Prefills wait for a later step.
    pub(super) defer: bool,
    /// Output tokens of steps in flight count as placeholders.
    asynchronous: bool,
    /// Drafts that a request which samples now will carry next; 0 if that is not known before the step has run.
    next_drafts: u32,
    /// Its number among the steps with tokens, should it hold any.
    step: u64,
    /// Place in the running list of the request to be looked at next.
    pub(super) next: usize,
    /// Some running request was scheduled.
    pub(super) some_ran: bool,
    /// One of those had known tokens left to compute.
    pub(super) ran_prefill: bool,
    /// Some request was admitted with more than its last known token to compute.
    pub(super) admitted_prefill: bool,
}

impl Scheduler {
    /// Schedules the next step into `plan`, which is cleared first. Call it with fewer than
    /// [`depth`](Self::depth) steps in flight.
    ///
    /// The step may hold no tokens: it then waits for a step in flight, or reports a finished request.
    pub fn schedule(&mut self, plan: &mut StepPlan) {
        plan.clear();
        let mut round = self.open_round();
        self.schedule_lockstep(&mut round, plan);
        self.schedule_running(&mut round, plan);
        self.note_adapters(plan);
        if plan.preempted.is_empty() {
            round.some_ran = plan.lockstep > 0 || !plan.entries.is_empty();
            self.schedule_waiting(&mut round, plan);
        }
        plan.close(self.rules.drafting.uniform_query());
        plan.shape.active_loras = self.adapters.len() as u32;
        self.place_drafts(plan);
        self.steps += u64::from(plan.shape.tokens > 0);
        self.cadence.scheduled(plan.shape.tokens, round.ran_prefill || round.admitted_prefill);
        self.finish_unreported = false;
    }

    fn open_round(&self) -> Round {
        let rules = &self.rules;
        Round {
            budget: rules.token_budget,
            input: rules.input_budget,
            draft_slots: rules.drafting.slots,
            chunk_cap: rules.long_prefill.cap(self.running_requests() + self.waiting.len()),
            most_computed: rules.max_model_len - 1,
            defer: self.cadence.defers() && self.running.iter().any(|&slot| !self.requests[slot].mid_prefill),
            asynchronous: rules.asynchronous,
            next_drafts: rules.drafting.fixed().filter(|_| rules.asynchronous).unwrap_or(0),
            step: self.steps + 1,
            next: 0,
            some_ran: false,
            ran_prefill: false,
            admitted_prefill: false,
        }
    }

    /// Gives running requests their next tokens, oldest admission first; others pay for missing blocks.
    fn schedule_running(&mut self, round: &mut Round, plan: &mut StepPlan) {
        let lookahead_tokens = self.rules.drafting.lookahead_tokens;
        while round.has_room() && round.next < self.running.len() {
            let slot = self.running[round.next];
            round.next += 1;
            let request = &mut self.requests[slot];
            let tokens = round.share(request);
            if tokens == 0 {
                continue;
            }
            let total = (request.computed + tokens + lookahead_tokens).min(self.rules.max_model_len);
            if !self.pool.grow(&mut request.held, total) && !self.preempt_for(slot, total, round, plan) {
                if self.rules.stops_at_own_preemption {
                    break;
                }
                continue;
            }
            let request = &mut self.requests[slot];
            round.ran_prefill |= request.mid_prefill;
            round.give(request, slot, tokens, false, plan);
            self.pool.register(&mut request.held, request.computed.min(request.known));
        }
    }

    /// With asynchronous scheduling the requests that sample now carry their next drafts at once, before anybody has
    /// made them. How many these are may depend on the size of the batch.
    fn place_drafts(&mut self, plan: &StepPlan) {
        if self.rules.asynchronous && self.rules.drafting.is_dynamic() {
            let drafts = self.rules.drafting.after(plan.shape.requests);
            for entry in plan.entries.iter().filter(|entry| entry.samples) {
                self.requests[entry.slot].pending_drafts = drafts;
            }
        }
    }
}

impl Round {
    /// Whether any request can get a token.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        self.budget > 0 && self.input > self.draft_slots
    }

    /// The most tokens that the next request can get. There is room.
    #[inline]
    pub(super) fn most(&self) -> u32 {
        self.budget.min(self.input - self.draft_slots)
    }

    /// Tokens that a running request gets if there are blocks for them.
    #[inline]
    pub(super) fn share(&self, request: &Request) -> u32 {
        if request.finishes_in_flight() || (self.defer && request.mid_prefill) {
            return 0;
        }
        let room = self.most_computed.saturating_sub(request.computed);
        request.left_to_compute().min(self.chunk_cap).min(self.most()).min(room)
    }

    /// Books `tokens` tokens of a request that holds blocks for them.
    #[expect(clippy::inline_always, reason = "the body of the walk over running requests")]
    #[inline(always)]
    pub(super) fn give(
        &mut self,
        request: &mut Request,
        slot: Slot,
        tokens: u32,
        placeholder_drafts: bool,
        plan: &mut StepPlan,
    ) {
        self.budget -= tokens;
        self.input -= tokens + self.draft_slots;
        let context_tokens = request.computed;
        let prefilling = context_tokens < request.prefill_tokens;
        request.computed += tokens;
        request.in_flight += tokens;
        let expected = request.known + request.placeholders;
        let drafts = request.computed.saturating_sub(expected);
        request.mid_prefill = request.computed < expected;
        let samples = !request.mid_prefill;
        request.placeholders += if samples && self.asynchronous { 1 + drafts } else { 0 };
        request.pending_drafts = if samples { self.next_drafts } else { 0 };
        if samples {
            request.sampled_in = self.step;
        }
        let prefill = prefilling && (tokens - drafts > 1 || context_tokens == 0);
        let id = request.id;
        let entry = Scheduled { slot, id, tokens, drafts, context_tokens, prefill, samples, placeholder_drafts };
        plan.push(entry, prefilling);
    }

    /// Books one token each for requests in lockstep. There is room for them.
    #[inline]
    pub(super) fn give_each_one(&mut self, requests: u32) {
        self.budget -= requests;
        self.input -= requests;
    }

    /// Takes back what a request was given in this step.
    pub(super) fn refund(&mut self, tokens: u32) {
        self.budget += tokens;
        self.input += tokens + self.draft_slots;
    }
}

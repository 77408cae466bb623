//! Admitting waiting requests.

use super::Scheduler;
use super::step::Round;
use crate::engine::request::{Adapter, Slot};
use crate::engine::step::StepPlan;

/// What the request at the head of the queue starts with.
struct Admission {
    /// Tokens found in the prefix cache.
    computed: u32,
    /// Tokens of its first step.
    tokens: u32,
    /// Those of them that are placeholder drafts.
    placeholder_drafts: u32,
}

impl Scheduler {
    /// Admits from the head of the queue until one does not fit: the ones behind it wait with it.
    pub(super) fn schedule_waiting(&mut self, round: &mut Round, plan: &mut StepPlan) {
        while round.has_room() && self.running_requests() < self.rules.max_running {
            let Some(slot) = self.waiting.head() else { break };
            if self.requests[slot].stale > 0 || self.lacks_adapter_slot(slot) {
                // The output from before its preemption is still to come, or all adapter slots are taken: the ones
                // behind it may pass.
                self.waiting.pass_over();
                continue;
            }
            let Some(admission) = self.admit(slot, round) else { break };
            self.waiting.pop();
            self.running.push(slot);
            self.admissions += 1;
            let request = &mut self.requests[slot];
            (request.order, request.sampled_in) = (self.admissions, 0);
            request.computed = admission.computed;
            request.prefill_tokens = request.known;
            request.pending_drafts = admission.placeholder_drafts;
            round.admitted_prefill |= admission.computed + 1 < request.known;
            round.give(request, slot, admission.tokens, admission.placeholder_drafts > 0, plan);
            self.pool.register(&mut request.held, request.computed.min(request.known));
            let adapter = request.adapter;
            self.note_adapter(adapter);
        }
        if !round.defer {
            self.cadence.admitted(self.waiting.has_fresh());
        }
        self.waiting.end_step();
    }

    /// Takes the blocks for the first tokens of the request at the head of the queue and says what it starts with;
    /// `None` if it cannot be admitted in this step.
    fn admit(&mut self, slot: Slot, round: &Round) -> Option<Admission> {
        let alone = self.running_requests() == 0;
        let rules = &self.rules;
        let request = &mut self.requests[slot];
        let known = request.known;
        // The last known token is always computed: its output is the next token.
        let hit = self.pool.find(&request.held, known - 1, rules.drafting.recomputes_last_hit);
        let computed = self.pool.hit_tokens(hit);
        if round.defer && computed + 1 < known {
            return None;
        }
        let most = round.most();
        let mut wanted = known - computed;
        let mut placeholder_drafts = 0;
        if let Some(drafts) = rules.drafting.fixed()
            && wanted == 1
            && !round.ran_prefill
            && (round.some_ran || computed > 0)
            && computed + drafts + 2 <= rules.max_model_len
        {
            // As long as the others verify drafts: one query length for all.
            wanted = 1 + drafts;
            placeholder_drafts = drafts;
            if wanted > most {
                return None;
            }
        }
        let wanted = wanted.min(round.chunk_cap);
        if wanted > most && !rules.chunked_prefill {
            return None;
        }
        let tokens = wanted.min(most);
        let total = (computed + tokens + rules.drafting.lookahead_tokens).min(rules.max_model_len);
        let room = if rules.reserve_full_prompt { known } else { 0 };
        let keep_free = if alone { 0 } else { rules.watermark_blocks };
        let admission = Admission { computed, tokens, placeholder_drafts };
        self.pool.admit(&mut request.held, hit, total, room, keep_free).then_some(admission)
    }

    /// Notes the adapters of the running requests in `plan`.
    pub(super) fn note_adapters(&mut self, plan: &StepPlan) {
        self.adapters.clear();
        if self.uses_adapters {
            for entry in &plan.entries {
                self.note_adapter(self.requests[entry.slot].adapter);
            }
        }
    }

    fn note_adapter(&mut self, adapter: Option<Adapter>) {
        if let Some(adapter) = adapter
            && !self.adapters.contains(&adapter)
        {
            self.adapters.push(adapter);
        }
    }

    /// The step runs as many adapters as there are slots, and this request's is not among them.
    ///
    /// The specification does not list this rule; it is read in vLLM's scheduler (`schedule`, where it compares the
    /// adapters scheduled so far with `max_loras` and puts the request aside).
    fn lacks_adapter_slot(&self, slot: Slot) -> bool {
        let Some(most) = self.rules.max_loras else { return false };
        let adapter = self.requests[slot].adapter;
        adapter.is_some_and(|adapter| self.adapters.len() >= most && !self.adapters.contains(&adapter))
    }
}

//! Who pays when the blocks run out.

use super::Scheduler;
use super::queue::Rank;
use super::step::Round;
use crate::engine::request::Slot;
use crate::engine::step::{Preempted, StepPlan};
use crate::engine::vllm::options::SchedulingPolicy;

impl Scheduler {
    /// Takes the blocks for `total` tokens of a running request by preempting for as long as there are too few. `false`
    /// if that ended with the request itself.
    #[cold]
    pub(super) fn preempt_for(&mut self, slot: Slot, total: u32, round: &mut Round, plan: &mut StepPlan) -> bool {
        loop {
            let victim = self.victim();
            self.preempt(victim, round, plan);
            if victim == slot {
                return false;
            }
            if self.pool.grow(&mut self.requests[slot].held, total) {
                return true;
            }
        }
    }

    /// The request that was admitted last, or the last in order of priority and arrival.
    fn victim(&self) -> Slot {
        let running = self.running.iter().copied();
        let victim = match self.rules.policy {
            SchedulingPolicy::Fcfs => running.last(),
            SchedulingPolicy::Priority => running.max_by_key(|&slot| Rank::of(slot, &self.requests[slot])),
        };
        victim.expect("the request that lacks blocks is running")
    }

    /// Puts a running request back in the queue without its blocks. What it had in this step goes to others.
    fn preempt(&mut self, slot: Slot, round: &mut Round, plan: &mut StepPlan) {
        let place = self.running.iter().rposition(|&running| running == slot).expect("a victim is running");
        self.running.remove(place);
        if place < round.next {
            round.next -= 1;
        }
        let requests = &self.requests;
        let is_prefilling = |slot: Slot, context_tokens: u32| context_tokens < requests[slot].prefill_tokens;
        let taken_back = plan.take_back(slot, is_prefilling);
        let request = &mut self.requests[slot];
        if let Some(entry) = taken_back {
            request.in_flight -= entry.tokens;
            round.refund(entry.tokens);
        }
        self.pool.release_for_later(&mut request.held);
        request.computed = 0;
        request.placeholders = 0;
        request.pending_drafts = 0;
        request.stale = request.in_flight;
        self.waiting.put_back(Rank::of(slot, request));
        self.preemptions += 1;
        plan.preempted.push(Preempted { slot, id: request.id });
    }
}

//! Scheduling one step.

use std::cmp::Reverse;

use super::Scheduler;
use super::adder::{AddResult, PrefillAdder};
use super::request::Place;
use crate::engine::request::{Adapter, Slot};
use crate::engine::sglang::options::OutputEnd;
use crate::engine::step::{Preempted, Scheduled, StepPlan};

impl Scheduler {
    /// Schedules the next step into `plan`, which is cleared first. Call it with fewer than
    /// [`depth`](Self::depth) steps in flight.
    ///
    /// The step may hold no tokens: everybody then waits for a step in flight.
    pub fn schedule(&mut self, plan: &mut StepPlan) {
        plan.clear();
        self.drop_leaving();
        self.cache_chunk();
        if !self.schedule_prefill(plan) {
            self.schedule_decode(plan);
        }
        if plan.shape.tokens == 0 {
            self.ratio.reset();
        }
        self.decode_steps += u64::from(plan.shape.tokens > 0 && !plan.shape.prefilling);
        if self.adapters {
            plan.shape.active_loras = self.active_adapters(plan);
        }
        plan.close(self.rules.width);
    }

    /// Leaves out whoever surely reaches its length in flight. Who ends by an end-of-sequence token is not known to, and
    /// gets one row too many.
    fn drop_leaving(&mut self) {
        if self.rules.depth == 1 || matches!(self.rules.end, OutputEnd::Eos { .. }) {
            return;
        }
        let (requests, leaving) = (&mut self.requests, &mut self.leaving);
        let before = *leaving;
        self.running.retain(|&slot| {
            let request = &mut requests[slot];
            if request.finishes_in_flight() {
                request.place = Place::Leaving;
                *leaving += 1;
            }
            request.place == Place::Admitted
        });
        self.batch_is_full &= *leaving == before;
    }

    /// What is computed of the chunked request can be hit by others.
    fn cache_chunk(&mut self) {
        if let Some(slot) = self.chunked {
            let request = &mut self.requests[slot];
            self.pool.cache(&mut request.held, request.id, &request.shared, request.computed);
        }
    }

    /// Schedules a step that computes prompts; `false` if there is none.
    fn schedule_prefill(&mut self, plan: &mut StepPlan) -> bool {
        if self.chunked.is_none() && (self.batch_is_full || self.waiting.is_empty()) {
            return false;
        }
        let free_rows = self.rules.request_rows.saturating_sub(self.rows());
        if free_rows == 0 && self.chunked.is_none() {
            self.batch_is_full = true;
            return false;
        }
        let riders = if self.rules.mixed { self.running.len() as u32 } else { 0 };
        let members = self.settled_members();
        let decoding = members.iter().map(|member| &member.slot).chain(&self.running);
        let claims = decoding.map(|&slot| self.requests[slot].claim());
        let mut adder = PrefillAdder::new(self.rules.limits, self.ratio.current(), claims, riders);
        self.touched = members;
        if self.chunked.is_some() && !self.resume_chunk(&mut adder) {
            return false;
        }
        self.admit_waiting(&mut adder, free_rows);
        if self.admitted.is_empty() {
            return false;
        }
        let mut finishing = std::mem::take(&mut self.admitted);
        finishing.retain(|&(slot, tokens)| self.extend(slot, tokens, plan));
        let mut place = self.running.len();
        if self.rules.mixed && self.decode_pages() <= self.pool.available() {
            self.decode_running(plan);
            // The new requests stand before those that rode along, as in the batch.
            place = 0;
        }
        for &(slot, _) in &finishing {
            self.entered += 1;
            self.requests[slot].order = self.entered;
        }
        self.running.splice(place..place, finishing.drain(..).map(|(slot, _)| slot));
        self.admitted = finishing;
        true
    }

    /// Gives the chunked request its share; `false` if it has to wait, and everybody with it.
    fn resume_chunk(&mut self, adder: &mut PrefillAdder) -> bool {
        let Some(slot) = self.chunked else { return false };
        let request = &self.requests[slot];
        let left = request.known - request.computed;
        let pages = u64::from(request.held.pages()) + u64::from(self.pool.available());
        let room = pages * u64::from(self.pool.page_size()) - u64::from(request.computed);
        let room = u32::try_from(room).unwrap_or(u32::MAX);
        let tokens = adder.resume(left, request.claim(), self.pool.available_tokens(), room);
        if tokens == left {
            self.chunked = None;
        }
        if tokens > 0 {
            self.admitted.push((slot, tokens));
        }
        tokens > 0
    }

    /// Admits from the head of the queue until the first refusal.
    fn admit_waiting(&mut self, adder: &mut PrefillAdder, free_rows: u32) {
        while let Some(&slot) = self.waiting.front() {
            if adder.state(self.pool.available_tokens()) == AddResult::Other {
                break;
            }
            if adder.admitted() >= free_rows {
                self.batch_is_full = true;
                break;
            }
            let request = &mut self.requests[slot];
            let hit = self.pool.lookup(request.id, &request.shared, request.known);
            self.pool.enter(&mut request.held, hit);
            let cached_tokens = hit.pages() * self.pool.page_size();
            let extend = request.known - cached_tokens;
            let (admission, result) = adder.add(extend, request.claim(), self.pool.available_tokens());
            if let Some(admission) = admission {
                self.waiting.pop_front();
                request.computed = cached_tokens;
                request.place = Place::Admitted;
                if admission.chunked {
                    self.chunked = Some(slot);
                }
                self.admitted.push((slot, admission.tokens));
            } else {
                self.pool.release(&mut request.held);
            }
            if result == AddResult::NoToken && (adder.admitted() > 0 || self.decoding() > 0) {
                self.batch_is_full = true;
            }
            if result != AddResult::Continue {
                break;
            }
        }
    }

    /// Schedules `tokens` tokens of a prompt; whether that is all of it. The engine extends by one token as by many.
    fn extend(&mut self, slot: Slot, tokens: u32, plan: &mut StepPlan) -> bool {
        let request = &mut self.requests[slot];
        let context_tokens = request.computed;
        request.computed += tokens;
        let grown = self.pool.grow(&mut request.held, request.computed);
        assert!(grown, "the adder admits only what the pool can hold");
        let samples = request.computed == request.known;
        request.pending += u32::from(samples);
        let entry = Scheduled {
            slot,
            id: request.id,
            tokens,
            drafts: 0,
            context_tokens,
            prefill: true,
            samples,
            placeholder_drafts: false,
        };
        plan.push(entry, true);
        samples
    }

    /// Schedules a decode step of everybody that the pool has pages for.
    fn schedule_decode(&mut self, plan: &mut StepPlan) {
        if self.decoding() == 0 {
            return;
        }
        let needed = self.decode_pages();
        if needed > self.pool.available() {
            self.end_lockstep_for_room();
            self.retract(needed, plan);
        } else {
            self.ratio.step();
            self.schedule_beat(plan);
        }
        self.decode_running(plan);
    }

    /// Pages that the running requests lack for their next tokens.
    fn decode_pages(&self) -> u32 {
        let missing = |&slot: &Slot| {
            let request = &self.requests[slot];
            self.pool.missing(&request.held, request.computed + self.rules.width)
        };
        self.lockstep.blocks_needed() + self.running.iter().map(missing).sum::<u32>()
    }

    fn decode_running(&mut self, plan: &mut StepPlan) {
        let width = self.rules.width;
        let step = self.decode_steps + 1;
        for &slot in &self.running {
            let request = &mut self.requests[slot];
            request.decoded_in = Some(step);
            let context_tokens = request.computed;
            request.computed += width;
            request.pending += 1;
            let grown = self.pool.grow(&mut request.held, request.computed);
            assert!(grown, "the pages were counted before");
            let entry = Scheduled {
                slot,
                id: request.id,
                tokens: width,
                drafts: width - 1,
                context_tokens,
                prefill: false,
                samples: true,
                placeholder_drafts: false,
            };
            plan.push(entry, false);
        }
    }

    /// Takes the pages of running requests, shortest output first, until the others fit: at least one's. The chunked
    /// request goes before the last of them.
    #[cold]
    fn retract(&mut self, mut needed: u32, plan: &mut StepPlan) {
        let mut order = self.running.clone();
        order.sort_by_key(|&slot| {
            let request = &self.requests[slot];
            (Reverse(request.produced()), request.prompt)
        });
        loop {
            let chunk = if order.len() == 1 { self.chunked.take() } else { None };
            if let Some(slot) = chunk {
                self.take_back(slot, plan);
            } else if let Some(slot) = order.pop() {
                let request = &self.requests[slot];
                needed -= self.pool.missing(&request.held, request.computed + self.rules.width);
                self.take_back(slot, plan);
            }
            if needed <= self.pool.available() {
                break;
            }
        }
        self.running.retain(|&slot| self.requests[slot].place == Place::Admitted);
        let left = self.running.iter().map(|&slot| &self.requests[slot]);
        self.ratio.retracted(left.map(|request| (request.produced(), request.max_new)));
        self.batch_is_full = false;
    }

    /// Sends an admitted request back to the queue, without its pages.
    fn take_back(&mut self, slot: Slot, plan: &mut StepPlan) {
        let request = &mut self.requests[slot];
        self.pool.release(&mut request.held);
        (request.computed, request.prompt_cached, request.place) = (0, false, Place::Queued);
        request.decoded_in = None;
        request.stale += std::mem::take(&mut request.pending);
        self.waiting.push_back(slot);
        self.retractions += 1;
        plan.preempted.push(Preempted { slot, id: request.id });
    }

    fn active_adapters(&self, plan: &StepPlan) -> u32 {
        let mut adapters: Vec<Adapter> =
            plan.entries.iter().filter_map(|entry| self.requests[entry.slot].adapter).collect();
        adapters.sort_unstable();
        adapters.dedup();
        adapters.len() as u32
    }
}

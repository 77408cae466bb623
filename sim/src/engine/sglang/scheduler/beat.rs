//! Decode steps in lockstep: who joins, and when the lockstep ends.

use super::Scheduler;
use super::request::Place;
use crate::engine::lockstep::Member;
use crate::engine::scheduler::Stepping;
use crate::engine::sglang::options::OutputEnd;
use crate::engine::step::{Delivered, Scheduled, StepOutcome, StepPlan};

impl Scheduler {
    /// Schedules the next token of everybody in lockstep, those included that join now. There are pages for all.
    pub(super) fn schedule_beat(&mut self, plan: &mut StepPlan) {
        if !self.may_keep_lockstep() {
            if self.lockstep.len() > 0 {
                self.end_lockstep();
            }
            return;
        }
        if !self.patience.is_over() {
            self.patience.walked();
            return;
        }
        self.gather(plan);
        let members = self.lockstep.members();
        if members == 0 {
            return;
        }
        let context_tokens = self.lockstep.computed_tokens() + u64::from(members);
        self.take_pages();
        // Whose last token this is leaves before the next step.
        self.batch_is_full &= self.lockstep.members() == members;
        plan.push_lockstep(members, context_tokens);
        self.patience.beat();
    }

    /// Schedules a beat with the pages that it needs.
    #[inline]
    pub(super) fn take_pages(&mut self) {
        self.pool.take_unnamed(self.lockstep.blocks_needed());
        self.lockstep.schedule(&self.requests);
    }

    /// What a lockstep can do: one token each in steps that compute no prompts, up to a length that is known. Drafts come
    /// in numbers that the traffic decides, rows that ride along are put elsewhere in the batch, and adapters are counted
    /// in each step.
    pub(super) fn may_keep_lockstep(&self) -> bool {
        let rules = &self.rules;
        let runs_past_its_end = rules.depth > 1 && matches!(rules.end, OutputEnd::Eos { .. });
        let is_plain = rules.width == 1 && !rules.mixed && !runs_past_its_end && !self.adapters;
        self.stepping == Stepping::Fast && is_plain
    }

    /// Lets those join that were in the decode step before. Whoever was not got its last token at another time.
    fn gather(&mut self, plan: &mut StepPlan) {
        let (last, requests, lockstep) = (Some(self.decode_steps), &mut self.requests, &mut self.lockstep);
        self.running.retain(|&slot| {
            let request = &requests[slot];
            debug_assert!(request.order > lockstep.order_max() || lockstep.len() == 0, "the order of entry is kept");
            let beats = request.beats_left().filter(|_| request.decoded_in == last);
            if let Some(beats) = beats {
                lockstep.join(slot, beats, requests);
                plan.joined.push(slot);
            }
            beats.is_none()
        });
    }

    /// Everybody whom the next beat moves, in order of entry, with figures as of the beats so far.
    pub(super) fn settled_members(&mut self) -> Vec<Member> {
        let mut members = std::mem::take(&mut self.touched);
        self.lockstep.list(&self.requests, &mut members);
        let (requests, lockstep) = (&mut self.requests, &self.lockstep);
        members.retain(|member| {
            let request = &mut requests[member.slot];
            request.settle(lockstep);
            !request.finishes_in_flight()
        });
        members
    }

    /// The entries of `plan`, the step scheduled last, with one for each request in lockstep: in scheduling order, as the
    /// plain walk lists them.
    #[must_use]
    pub fn entries(&self, plan: &StepPlan) -> Vec<Scheduled> {
        let mut entries = Vec::new();
        if plan.lockstep > 0 {
            for member in self.lockstep.listed(&self.requests) {
                let mut request = self.requests[member.slot].clone();
                if self.lockstep.moved_last(&request) {
                    request.settle(&self.lockstep);
                    entries.push(member.entry(&request));
                }
            }
        }
        entries.extend_from_slice(&plan.entries);
        entries
    }

    /// Ends the lockstep because pages are short: who loses its own depends on what each has produced.
    pub(super) fn end_lockstep_for_room(&mut self) {
        if self.lockstep.len() > 0 {
            self.patience.no_room();
            self.end_lockstep();
        }
    }

    /// Gives every member its own figures and walks on from there.
    fn end_lockstep(&mut self) {
        let has_beat_in_flight = self.lockstep.in_flight() > 0;
        let mut in_flight = Vec::new();
        let members = self.lockstep.listed(&self.requests);
        for member in &members {
            let request = &mut self.requests[member.slot];
            request.settle(&self.lockstep);
            self.pool.hold_for(&mut request.held, request.computed);
            if self.lockstep.moved_last(request) {
                request.decoded_in = Some(self.decode_steps);
                if has_beat_in_flight {
                    in_flight.push(member.entry(request));
                }
            }
            if request.finishes_in_flight() {
                request.place = Place::Leaving;
                self.leaving += 1;
            }
        }
        self.lockstep.end(&members, &mut self.requests);
        let requests = &self.requests;
        let running = members.iter().map(|member| member.slot).filter(|&slot| requests[slot].place == Place::Admitted);
        self.running.splice(0..0, running);
        if has_beat_in_flight {
            self.taken_out = Some(in_flight);
        }
        self.ended = true;
        self.patience.ended();
    }

    /// Applies the output of a step with a beat.
    pub(super) fn apply_beat(
        &mut self,
        plan: &StepPlan,
        accepted: &mut impl FnMut(&Scheduled) -> u32,
        out: &mut StepOutcome,
    ) {
        if let Some(mut entries) = self.taken_out.take() {
            entries.extend_from_slice(&plan.entries);
            self.apply_entries(&entries, accepted, out);
            return;
        }
        out.joined.extend_from_slice(&plan.joined);
        let mut finished = std::mem::take(&mut self.touched);
        finished.clear();
        self.lockstep.apply(&self.requests, &mut finished);
        out.lockstep = plan.lockstep - finished.len() as u32;
        finished.sort_unstable_by_key(|member| member.order);
        for member in &finished {
            let request = &mut self.requests[member.slot];
            request.settle(&self.lockstep);
            request.beats = None;
            self.pool.hold_for(&mut request.held, request.computed);
            let (slot, id) = (member.slot, request.id);
            self.finish(slot);
            out.delivered.push(Delivered { slot, id, tokens: 1, first: false, finished: true });
        }
        self.touched = finished;
        self.apply_entries(&plan.entries, accepted, out);
    }
}

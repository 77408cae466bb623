//! Steps in which requests decode in lockstep: who joins, whether all of them fit, and when the lockstep ends.

use super::Scheduler;
use super::step::Round;
use crate::engine::lockstep::Member;
use crate::engine::scheduler::Stepping;
use crate::engine::step::{Delivered, Scheduled, StepOutcome, StepPlan};
use crate::engine::vllm::options::SchedulingPolicy;

impl Scheduler {
    /// Moves everybody in lockstep by one token, those included that join now, if there is room for all of them; ends
    /// the lockstep otherwise.
    pub(super) fn schedule_lockstep(&mut self, round: &mut Round, plan: &mut StepPlan) {
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
        if self.lockstep.len() == 0 {
            return;
        }
        if !self.is_room_for_all(round) {
            plan.joined.clear();
            self.patience.no_room();
            self.end_lockstep();
            return;
        }
        let members = self.lockstep.members();
        if members > 0 {
            let context_tokens = self.lockstep.computed_tokens() + u64::from(members);
            self.take_blocks();
            round.give_each_one(members);
            plan.push_lockstep(members, context_tokens);
            self.patience.beat();
        }
    }

    /// What a lockstep can do: one token each, whoever runs, in whatever order. Drafts come in numbers that the traffic
    /// decides, intervals between prefills ask who is prefilling, and adapters are counted in each step.
    pub(super) fn may_keep_lockstep(&self) -> bool {
        self.stepping == Stepping::Fast && !self.rules.drafting.is_on() && !self.cadence.is_on() && !self.uses_adapters
    }

    /// Lets those join that sampled in the step before and have only their next token to compute.
    fn gather(&mut self, plan: &mut StepPlan) {
        if self.running.is_empty() {
            return;
        }
        let (steps, requests, lockstep) = (self.steps, &mut self.requests, &mut self.lockstep);
        self.running.retain(|&slot| {
            let request = &requests[slot];
            let beats = request.beats_left().filter(|_| request.sampled_in == steps);
            if let Some(beats) = beats {
                lockstep.join(slot, beats, requests);
                plan.joined.push(slot);
            }
            beats.is_none()
        });
    }

    /// Whether the order among the requests makes no difference: there are tokens and blocks for all members, and the
    /// requests that are walked come after them, or there is enough for those as well. Who loses its blocks, if any, is
    /// then one of those that are walked.
    fn is_room_for_all(&self, round: &Round) -> bool {
        let members = self.lockstep.members();
        let blocks = self.lockstep.blocks_needed();
        if members > 0 && !(round.has_room() && members <= round.most()) || blocks > self.pool.free() {
            return false;
        }
        let is_behind = |order: u64| order > self.lockstep.order_max();
        let in_order = self.running.first().is_none_or(|&first| is_behind(self.requests[first].order));
        let priority = self.rules.policy == SchedulingPolicy::Priority;
        if in_order && !priority || self.running.is_empty() {
            return true;
        }
        if !in_order && self.pool.has_cache() {
            return false;
        }
        let (mut tokens, mut needed) = (u64::from(members), u64::from(blocks));
        for &slot in &self.running {
            let request = &self.requests[slot];
            let share = round.share(request);
            tokens += u64::from(share);
            needed += u64::from(self.pool.missing(&request.held, request.computed + share));
        }
        // A share may have been cut down to what is left: then there is not enough.
        tokens < u64::from(round.most()) && needed <= u64::from(self.pool.free())
    }

    /// Schedules a beat with the blocks that it needs.
    fn take_blocks(&mut self) {
        if self.pool.has_cache() {
            self.take_named_blocks();
        } else {
            self.pool.take_unnamed(self.lockstep.blocks_needed());
            self.lockstep.schedule(&self.requests);
        }
    }

    /// The same where each block is known by its tokens.
    pub(super) fn take_named_blocks(&mut self) {
        // The blocks of a request change where its computed tokens fill one before or after this beat.
        let mut touched = std::mem::take(&mut self.touched);
        touched.clear();
        self.lockstep.at_block_ends(0, &self.requests, &mut touched);
        self.lockstep.schedule(&self.requests);
        self.lockstep.at_block_ends(0, &self.requests, &mut touched);
        in_order(&mut touched);
        for member in &touched {
            let request = &mut self.requests[member.slot];
            if !self.lockstep.moved_last(request) {
                continue;
            }
            request.settle(&self.lockstep, self.rules.asynchronous);
            let grown = self.pool.grow(&mut request.held, request.computed);
            debug_assert!(grown, "there are blocks for all members");
            self.pool.register(&mut request.held, request.computed.min(request.known));
        }
        self.touched = touched;
    }

    /// The entries of `plan`, the step scheduled last, with one for each request in lockstep: in scheduling order, as the
    /// plain walk lists them.
    #[must_use]
    pub fn entries(&self, plan: &StepPlan) -> Vec<Scheduled> {
        let mut entries = plan.entries.clone();
        if plan.lockstep == 0 {
            return entries;
        }
        for member in self.lockstep.listed(&self.requests) {
            let mut request = self.requests[member.slot].clone();
            if self.lockstep.moved_last(&request) {
                request.settle(&self.lockstep, self.rules.asynchronous);
                entries.push(member.entry(&request));
            }
        }
        entries.sort_by_key(|entry| self.requests[entry.slot].order);
        entries
    }

    /// Gives every member its own figures and walks on from there.
    fn end_lockstep(&mut self) {
        let asynchronous = self.rules.asynchronous;
        let has_beat_in_flight = self.lockstep.in_flight() > 0;
        let mut in_flight = Vec::new();
        let members = self.lockstep.listed(&self.requests);
        for member in &members {
            let request = &mut self.requests[member.slot];
            request.settle(&self.lockstep, asynchronous);
            self.pool.hold_for(&mut request.held, request.computed);
            if !self.lockstep.moved_last(request) {
                continue;
            }
            request.sampled_in = self.steps;
            if has_beat_in_flight {
                in_flight.push(member.entry(request));
            }
        }
        self.lockstep.end(&members, &mut self.requests);
        self.running.extend(members.iter().map(|member| member.slot));
        let requests = &self.requests;
        self.running.sort_unstable_by_key(|&slot| requests[slot].order);
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
            let requests = &self.requests;
            entries.sort_by_key(|entry| requests[entry.slot].order);
            self.apply_entries(plan, &entries, accepted, out);
            return;
        }
        out.joined.extend_from_slice(&plan.joined);
        let mut touched = std::mem::take(&mut self.touched);
        touched.clear();
        self.lockstep.apply(&self.requests, &mut touched);
        out.lockstep = plan.lockstep - touched.len() as u32;
        if self.rules.asynchronous && self.pool.has_cache() {
            self.lockstep.at_block_ends(self.lockstep.in_flight(), &self.requests, &mut touched);
        }
        in_order(&mut touched);
        let mut entries = &plan.entries[..];
        for member in &touched {
            let before = entries.partition_point(|entry| self.requests[entry.slot].order < member.order);
            self.apply_entries(plan, &entries[..before], accepted, out);
            entries = &entries[before..];
            self.apply_member(*member, out);
        }
        self.apply_entries(plan, entries, accepted, out);
        self.touched = touched;
    }

    /// Lets the prefix cache know the blocks that a quiet beat has filled, once its output is there.
    pub(super) fn register_blocks(&mut self) {
        if !self.rules.asynchronous {
            return;
        }
        let mut touched = std::mem::take(&mut self.touched);
        touched.clear();
        self.lockstep.at_block_ends(self.lockstep.in_flight(), &self.requests, &mut touched);
        in_order(&mut touched);
        for member in &touched {
            self.register_member(*member);
        }
        self.touched = touched;
    }

    /// Gives a member its own figures, and the prefix cache its full blocks.
    fn register_member(&mut self, member: Member) {
        let request = &mut self.requests[member.slot];
        request.settle(&self.lockstep, self.rules.asynchronous);
        if self.rules.asynchronous {
            self.pool.register(&mut request.held, request.computed - request.in_flight);
        }
    }

    /// Looks at a member whose last token has come, or one of whose blocks a beat has filled.
    fn apply_member(&mut self, member: Member, out: &mut StepOutcome) {
        self.register_member(member);
        let request = &mut self.requests[member.slot];
        if !request.is_finished() {
            return;
        }
        self.pool.hold_for(&mut request.held, request.computed);
        let (slot, id) = (member.slot, request.id);
        request.beats = None;
        self.finish(slot, false);
        out.delivered.push(Delivered { slot, id, tokens: 1, first: false, finished: true });
    }
}

/// Each member once, in order of admission.
fn in_order(members: &mut Vec<Member>) {
    members.sort_unstable_by_key(|member| member.order);
    members.dedup_by_key(|member| member.order);
}

//! Requests that decode in lockstep: each gets one token in every step that decodes, so their sums stand for all of them.
//!
//! A request joins once it has sampled in the step before and has nothing but its next token to compute; it leaves by
//! itself, with its last token, at a step that is known when it joins. In between nobody looks at it: a *beat* moves all
//! members by one token, and what a request has computed follows from the beats since it joined. A beat costs what
//! changes in it: the members whose last token it is, and, where the prefix cache watches, those whose block fills up.
//!
//! Whatever does not fit into that (too few tokens or blocks for all, so that the order among requests decides) ends the
//! lockstep: every member gets its own figures back, and the plain walk goes on from there.
//!
//! Blocks are what the engine calls them: SGLang's are its pages.

mod patience;

use super::request::{RequestId, Slot};
use super::slab::Slab;
use super::step::Scheduled;
pub(super) use patience::Patience;

/// No request: the end of a list.
const NONE: u32 = u32::MAX;
/// Beats that the calendar holds at first.
const CALENDAR_LEAST: usize = 1_024;

/// A request that can be in lockstep.
pub(super) trait Decoding {
    /// Its number.
    fn id(&self) -> RequestId;
    /// Its place among the admissions.
    fn order(&self) -> u64;
    /// Tokens whose keys and values are computed once every step in flight has run. A member's are as of its last
    /// [`lacking`](Lockstep::lacking).
    fn computed(&self) -> u32;
    /// Tokens, prompt and output, with which it finishes. The last of them is delivered and never computed.
    fn limit(&self) -> u32;
    /// Its part in the lockstep.
    fn beats(&self) -> Option<&Beats>;
    /// The same, to be changed.
    fn beats_mut(&mut self) -> &mut Option<Beats>;
}

/// A request's part in the lockstep.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beats {
    /// The first beat that moves it.
    first: u64,
    /// Scheduled beats before this one are in the request's own figures.
    scheduled: u64,
    /// The same of applied beats.
    applied: u64,
    /// The beat that brings its last token.
    last: u64,
    /// The next request with the same last beat.
    next: u32,
}

/// Beats that a member's own figures do not know of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lacking {
    /// Tokens scheduled, one a beat.
    pub(super) moved: u32,
    /// Tokens delivered.
    pub(super) brought: u32,
}

/// A member, as far as lists keep it; requests that have left stay in the lists for a while.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub(super) slot: Slot,
    id: RequestId,
    /// The request's place among the admissions.
    pub(super) order: u64,
}

/// All requests in lockstep.
#[derive(Clone, Debug)]
pub(super) struct Lockstep {
    /// Beats scheduled so far: the number of the next one.
    scheduled: u64,
    /// Beats whose output has been applied.
    applied: u64,
    /// Requests that the next beat moves.
    members: u32,
    /// Requests whose last beat is scheduled but not applied.
    leaving: u32,
    /// Tokens that the members have computed, steps in flight included.
    computed_tokens: u64,
    /// Members, in the order in which they joined, and some that have left.
    listed: Vec<Member>,
    /// Members by phase: `computed - beat`, modulo the block size, which does not change while a request is a member.
    count_by_phase: Vec<u32>,
    /// Who those are, and some that have left; empty unless somebody watches their blocks.
    listed_by_phase: Vec<Vec<Member>>,
    /// The phase whose members stand at the end of a block before the next beat.
    at_block_end: usize,
    /// The largest place among the admissions of anybody who joined.
    order_max: u64,
    /// By last beat, modulo its length: the first request of a list.
    calendar: Vec<u32>,
}

impl Lockstep {
    /// A lockstep of nobody. `watches_blocks`: [`at_block_ends`](Self::at_block_ends) will be asked.
    pub(super) fn new(block_size: u32, watches_blocks: bool) -> Self {
        let phases = block_size.max(1) as usize;
        Self {
            scheduled: 0,
            applied: 0,
            members: 0,
            leaving: 0,
            computed_tokens: 0,
            listed: Vec::new(),
            count_by_phase: vec![0; phases],
            listed_by_phase: vec![Vec::new(); if watches_blocks { phases } else { 0 }],
            at_block_end: 0,
            order_max: 0,
            calendar: Vec::new(),
        }
    }

    /// Requests that the next beat moves.
    #[inline]
    pub(super) fn members(&self) -> u32 {
        self.members
    }

    /// Members, and those that wait for their last token.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.members + self.leaving
    }

    /// Tokens that the members have computed, all together.
    #[inline]
    pub(super) fn computed_tokens(&self) -> u64 {
        self.computed_tokens
    }

    /// Members that need a block for the next beat.
    #[inline]
    pub(super) fn blocks_needed(&self) -> u32 {
        self.count_by_phase[self.at_block_end]
    }

    /// The largest place among the admissions of any member; perhaps of one that has left.
    #[inline]
    pub(super) fn order_max(&self) -> u64 {
        self.order_max
    }

    /// A request joins: the next `beats` beats move it, at least one.
    pub(super) fn join(&mut self, slot: Slot, beats: u32, requests: &mut Slab<impl Decoding>) {
        // The lists of the last beat in flight and of the furthest one must differ.
        if beats as usize + 2 > self.calendar.len() {
            self.lengthen(beats, requests);
        }
        let mask = self.calendar.len() as u64 - 1;
        let request = &mut requests[slot];
        let last = self.scheduled + u64::from(beats) - 1;
        let next = std::mem::replace(&mut self.calendar[(last & mask) as usize], slot.0);
        let first = self.scheduled;
        *request.beats_mut() = Some(Beats { first, scheduled: first, applied: first, last, next });
        let member = Member { slot, id: request.id(), order: request.order() };
        self.members += 1;
        self.computed_tokens += u64::from(request.computed());
        self.order_max = self.order_max.max(member.order);
        let phase = self.phase_of(request.computed());
        self.count_by_phase[phase] += 1;
        append(&mut self.listed, member, self.members, requests);
        if let Some(listed) = self.listed_by_phase.get_mut(phase) {
            append(listed, member, self.count_by_phase[phase], requests);
        }
    }

    /// The phase of a member that has computed so many tokens before the next beat.
    fn phase_of(&self, computed: u32) -> usize {
        let block_size = self.count_by_phase.len();
        (self.at_block_end + computed as usize % block_size) % block_size
    }

    fn lengthen(&mut self, beats: u32, requests: &mut Slab<impl Decoding>) {
        let length = (beats as usize + 2).next_power_of_two().max(CALENDAR_LEAST);
        let older = std::mem::replace(&mut self.calendar, vec![NONE; length]);
        for mut at in older {
            while at != NONE {
                let beats = requests[Slot(at)].beats_mut().as_mut().expect("the calendar lists members");
                let place = &mut self.calendar[(beats.last & (length as u64 - 1)) as usize];
                let following = beats.next;
                beats.next = std::mem::replace(place, at);
                at = following;
            }
        }
    }

    /// Schedules the next beat. Whose last one it is, the beat behind it does not move.
    #[inline]
    pub(super) fn schedule(&mut self, requests: &Slab<impl Decoding>) {
        let mut at = self.listed_last(self.scheduled);
        self.schedule_quiet();
        while at != NONE {
            let request = &requests[Slot(at)];
            // Its last token is delivered and never computed.
            let computed = request.limit() - 1;
            self.members -= 1;
            self.leaving += 1;
            self.computed_tokens -= u64::from(computed);
            let phase = self.phase_of(computed);
            self.count_by_phase[phase] -= 1;
            at = request.beats().map_or(NONE, |beats| beats.next);
        }
    }

    /// Schedules the next beat, which is nobody's last one.
    #[inline]
    pub(super) fn schedule_quiet(&mut self) {
        self.scheduled += 1;
        self.computed_tokens += u64::from(self.members);
        self.at_block_end = self.at_block_end.checked_sub(1).unwrap_or(self.count_by_phase.len() - 1);
    }

    /// Whether the next beat is nobody's last one.
    #[inline]
    pub(super) fn is_next_quiet(&self) -> bool {
        self.listed_last(self.scheduled) == NONE
    }

    /// Nobody waits for its last token.
    #[inline]
    pub(super) fn nobody_leaves(&self) -> bool {
        self.leaving == 0
    }

    /// Applies the oldest beat in flight, which was quiet.
    #[inline]
    pub(super) fn pass(&mut self) {
        debug_assert!(self.leaving == 0 && self.listed_last(self.applied) == NONE);
        self.applied += 1;
    }

    /// Applies the oldest beat in flight: `finished` gets those whose last token it brought.
    pub(super) fn apply(&mut self, requests: &Slab<impl Decoding>, finished: &mut Vec<Member>) {
        let beat = self.applied;
        self.applied += 1;
        let mut at = self.listed_last(beat);
        if at == NONE {
            return;
        }
        let mask = self.calendar.len() as u64 - 1;
        self.calendar[(beat & mask) as usize] = NONE;
        while at != NONE {
            let request = &requests[Slot(at)];
            finished.push(Member { slot: Slot(at), id: request.id(), order: request.order() });
            self.leaving -= 1;
            at = request.beats().map_or(NONE, |beats| beats.next);
        }
    }

    #[inline]
    fn listed_last(&self, beat: u64) -> u32 {
        let mask = self.calendar.len() as u64 - 1;
        self.calendar.get((beat & mask) as usize).copied().unwrap_or(NONE)
    }

    /// Appends the members at whose computed tokens, so many fewer than now, a block ends. Now: as if a member whose last
    /// beat is scheduled were moved on.
    pub(super) fn at_block_ends(&mut self, fewer: u64, requests: &Slab<impl Decoding>, found: &mut Vec<Member>) {
        let block_size = self.count_by_phase.len();
        let phase = (self.at_block_end + (fewer % block_size as u64) as usize) % block_size;
        let listed = &mut self.listed_by_phase[phase];
        listed.retain(|member| member.is_in(requests));
        found.extend_from_slice(listed);
    }

    /// Beats in flight.
    #[inline]
    pub(super) fn in_flight(&self) -> u64 {
        self.scheduled - self.applied
    }

    /// Whether the beat scheduled last moved a member.
    pub(super) fn moved_last(&self, request: &impl Decoding) -> bool {
        let next = self.scheduled;
        request.beats().is_some_and(|beats| beats.first < next && next <= beats.last + 1)
    }

    /// What a member's own figures lack, as of the beats scheduled and applied so far; it is taken as booked from now on.
    pub(super) fn lacking(&self, beats: &mut Beats) -> Lacking {
        let end = beats.last + 1;
        let scheduled = self.scheduled.min(end);
        let applied = self.applied.min(end).max(beats.applied);
        let (moved, brought) = (scheduled - beats.scheduled, applied - beats.applied);
        (beats.scheduled, beats.applied) = (scheduled, applied);
        Lacking { moved: moved as u32, brought: brought as u32 }
    }

    /// Everybody in lockstep, those that wait for their last token included, in order of admission.
    pub(super) fn listed(&self, requests: &Slab<impl Decoding>) -> Vec<Member> {
        let mut members: Vec<Member> = self.listed.iter().filter(|member| member.is_in(requests)).copied().collect();
        members.sort_unstable_by_key(|member| member.order);
        members
    }

    /// The same into `members`, which is cleared first, for one who asks often: who has left is forgotten.
    pub(super) fn list(&mut self, requests: &Slab<impl Decoding>, members: &mut Vec<Member>) {
        members.clear();
        self.listed.retain(|member| member.is_in(requests));
        members.extend_from_slice(&self.listed);
        members.sort_unstable_by_key(|member| member.order);
    }

    /// Lets all of these go, who are all there are. A beat in flight is none any more: its output goes to each request
    /// on its own.
    pub(super) fn end(&mut self, members: &[Member], requests: &mut Slab<impl Decoding>) {
        for member in members {
            if let Some(beats) = requests[member.slot].beats_mut().take() {
                let mask = self.calendar.len() as u64 - 1;
                self.calendar[(beats.last & mask) as usize] = NONE;
            }
        }
        self.listed.clear();
        self.count_by_phase.fill(0);
        self.listed_by_phase.iter_mut().for_each(Vec::clear);
        (self.members, self.leaving, self.computed_tokens, self.order_max) = (0, 0, 0, 0);
        self.applied = self.scheduled;
    }
}

/// Appends a member to a list of which `count` are members with it.
fn append(listed: &mut Vec<Member>, member: Member, count: u32, requests: &Slab<impl Decoding>) {
    if listed.len() >= 2 * count as usize + 16 {
        listed.retain(|member| member.is_in(requests));
    }
    listed.push(member);
}

impl Member {
    /// What the beat scheduled last gave a member, whose figures are its own.
    pub(super) fn entry(&self, request: &impl Decoding) -> Scheduled {
        Scheduled {
            slot: self.slot,
            id: self.id,
            tokens: 1,
            drafts: 0,
            context_tokens: request.computed() - 1,
            prefill: false,
            samples: true,
            placeholder_drafts: false,
        }
    }

    /// Whether the request is still in lockstep.
    fn is_in(&self, requests: &Slab<impl Decoding>) -> bool {
        let request = &requests[self.slot];
        request.id() == self.id && request.beats().is_some()
    }
}

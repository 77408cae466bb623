//! What a scheduler decides for one step, and what the step's output does.

use super::request::{RequestId, Slot};
use super::shape::StepShape;

/// One scheduled step. The caller keeps it while the step is in flight and reuses it afterwards.
///
/// An entry is a **prefill** if it computes prompt tokens (or recomputes known ones) and is either longer than one
/// token, drafts aside, or the first of its request; every other entry is a **decode**. So the last single token of a
/// chunked prompt counts as a decode: it attends to earlier keys and values as a decode does, and runner V2 lets it
/// into decode graphs (specification section 6). An entry that verifies `k` drafts is one decode of `1 + k` tokens.
///
/// That is vLLM's definition. SGLang computes prompts in steps of their own kind, for which it runs other kernels and
/// graphs: there every entry that computes a prompt is a prefill, one of a single token too (SGLang specification
/// section 10).
#[derive(Clone, Debug, Default)]
pub struct StepPlan {
    /// Who is scheduled, in scheduling order.
    pub entries: Vec<Scheduled>,
    /// Requests in lockstep: each gets one token beside the entries and samples, as it did in the step before (of
    /// SGLang's, in the decode step before). They are in all sums below.
    pub lockstep: u32,
    /// Tokens that those attend to together: computed before, and scheduled.
    pub lockstep_context_tokens: u64,
    /// Who is in lockstep from this step on, in scheduling order.
    pub joined: Vec<Slot>,
    /// Who was preempted, in that order.
    pub preempted: Vec<Preempted>,
    /// The step as the dispatcher sees it.
    pub shape: StepShape,
    /// The prefill entries, in scheduling order.
    pub prefills: Vec<Chunk>,
    /// Decode entries.
    pub decode_requests: u32,
    /// Sum over the decode entries of the tokens they attend to: computed before, and scheduled. Once for each entry,
    /// also for one that verifies drafts: its tokens read the same keys and values in one pass.
    pub decode_context_tokens: u64,
    /// Entries that sample, whatever number of tokens each of them will get: without drafts exactly one.
    pub sampled: u32,
    /// Drafts of the entries that sample. The output head runs over `sampled + drafts` rows: one for each draft and one
    /// behind the last.
    pub drafts: u32,
}

/// One request's share of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// The request's slot.
    pub slot: Slot,
    /// The request.
    pub id: RequestId,
    /// Tokens scheduled: its query length, drafts included.
    pub tokens: u32,
    /// The last so many of `tokens` are drafts to be verified.
    pub drafts: u32,
    /// Tokens computed before this step.
    pub context_tokens: u32,
    /// A prefill in the sense of [`StepPlan`].
    pub prefill: bool,
    /// Samples output tokens: one, and one more for each draft accepted. `false` while known tokens are left to compute.
    pub samples: bool,
    /// The drafts only fill the batch up to a uniform query length: nobody made them, and none is accepted.
    pub placeholder_drafts: bool,
}

/// A request that lost its KV blocks; it is recomputed from its first token later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preempted {
    /// The request's slot, which it keeps.
    pub slot: Slot,
    /// The request.
    pub id: RequestId,
}

/// The part of a prompt that one step computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Tokens computed in the step.
    pub tokens: u32,
    /// Tokens computed before it.
    pub context: u32,
}

/// How far the requests of a step reach, for graphs that are captured for limited lengths. Unknown lengths keep a step
/// from such graphs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StepExtent {
    /// The longest sequence with this step's tokens, in tokens.
    pub longest_sequence: Option<u32>,
    /// The longest part of a prompt computed before, in tokens.
    pub longest_prefix: Option<u32>,
}

/// What one step's output delivered.
#[derive(Clone, Debug, Default)]
pub struct StepOutcome {
    /// Whoever is in lockstep got a token: vLLM's steps all bring one, SGLang's only if they compute no prompts.
    pub is_beat: bool,
    /// The lockstep has ended: whoever was in it is in `delivered` from now on, until it joins again.
    pub lockstep_ended: bool,
    /// Who is in lockstep from this step on, in scheduling order.
    pub joined: Vec<Slot>,
    /// Requests in lockstep that received a token each and are not in `delivered`. Those that finish are.
    pub lockstep: u32,
    /// Who received tokens, in scheduling order.
    pub delivered: Vec<Delivered>,
    /// What became of the drafts, in scheduling order, those of `late` requests included.
    pub verified: Vec<Verified>,
    /// Whose share of the step was in vain: the output before had finished them already. In scheduling order.
    pub late: Vec<RequestId>,
}

/// The drafts of one entry that sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// The request.
    pub id: RequestId,
    /// Drafts verified.
    pub drafts: u32,
    /// Those at the front that the model would have sampled too.
    pub accepted: u32,
    /// Nobody made these drafts: see [`Scheduled::placeholder_drafts`].
    pub placeholders: bool,
}

/// Output tokens handed to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// The request's slot; free for another request if this one has finished.
    pub slot: Slot,
    /// The request.
    pub id: RequestId,
    /// Output tokens.
    pub tokens: u32,
    /// These are the request's first.
    pub first: bool,
    /// These are its last.
    pub finished: bool,
}

impl StepExtent {
    /// The extent of a scheduled step. It is unknown if some requests are in lockstep: no engine whose prompts ask for it
    /// computes them beside such requests.
    #[must_use]
    pub fn of(plan: &StepPlan) -> Self {
        if plan.lockstep > 0 {
            return Self::default();
        }
        Self {
            longest_sequence: plan.entries.iter().map(|entry| entry.context_tokens + entry.tokens).max(),
            longest_prefix: plan.entries.iter().map(|entry| entry.context_tokens).max(),
        }
    }
}

impl StepOutcome {
    pub(crate) fn clear(&mut self) {
        self.is_beat = false;
        self.lockstep_ended = false;
        self.joined.clear();
        self.lockstep = 0;
        self.delivered.clear();
        self.verified.clear();
        self.late.clear();
    }
}

impl StepPlan {
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.lockstep = 0;
        self.lockstep_context_tokens = 0;
        self.joined.clear();
        self.preempted.clear();
        self.shape = StepShape::default();
        self.prefills.clear();
        self.decode_requests = 0;
        self.decode_context_tokens = 0;
        self.sampled = 0;
        self.drafts = 0;
    }

    /// Appends an entry and adds to the sums. `prefilling`: computed tokens were short of the request's prefill length.
    #[inline]
    pub(crate) fn push(&mut self, entry: Scheduled, prefilling: bool) {
        self.shape.tokens += entry.tokens;
        self.shape.max_query = self.shape.max_query.max(entry.tokens);
        self.shape.prefilling |= prefilling;
        self.sampled += u32::from(entry.samples);
        self.drafts += if entry.samples { entry.drafts } else { 0 };
        if entry.prefill {
            self.prefills.push(Chunk { tokens: entry.tokens, context: entry.context_tokens });
        } else {
            self.decode_context_tokens += u64::from(entry.context_tokens) + u64::from(entry.tokens);
        }
        self.entries.push(entry);
    }

    /// Adds requests in lockstep, which attend to `context_tokens` tokens together: computed before, and scheduled.
    #[inline]
    pub(crate) fn push_lockstep(&mut self, requests: u32, context_tokens: u64) {
        self.lockstep = requests;
        self.lockstep_context_tokens = context_tokens;
        self.shape.tokens += requests;
        self.shape.max_query = self.shape.max_query.max(1);
        self.sampled += requests;
        self.decode_context_tokens += context_tokens;
    }

    /// Takes the entry of a request out again and says which it was. `is_prefilling` says of a slot and its computed
    /// tokens what [`push`](Self::push) was told of them.
    #[cold]
    pub(crate) fn take_back(&mut self, slot: Slot, is_prefilling: impl Fn(Slot, u32) -> bool) -> Option<Scheduled> {
        let place = self.entries.iter().position(|entry| entry.slot == slot)?;
        let mut entries = std::mem::take(&mut self.entries);
        let taken_back = entries.remove(place);
        let (preempted, joined) = (std::mem::take(&mut self.preempted), std::mem::take(&mut self.joined));
        let (lockstep, context_tokens) = (self.lockstep, self.lockstep_context_tokens);
        self.clear();
        (self.preempted, self.joined) = (preempted, joined);
        if lockstep > 0 {
            self.push_lockstep(lockstep, context_tokens);
        }
        for entry in entries {
            self.push(entry, is_prefilling(entry.slot, entry.context_tokens));
        }
        Some(taken_back)
    }

    /// Counts the entries and derives the uniform flags of both runners (specification sections 4 and 6). V1 asks for
    /// `uniform_query` tokens a request and not whether anybody is still prefilling; V2 takes any common length, but only
    /// from batches of decode entries.
    pub(crate) fn close(&mut self, uniform_query: u32) {
        let shape = &mut self.shape;
        shape.requests = self.lockstep + self.entries.len() as u32;
        self.decode_requests = shape.requests - self.prefills.len() as u32;
        let common_tokens = u64::from(shape.max_query) * u64::from(shape.requests);
        let common_length = shape.requests > 0 && u64::from(shape.tokens) == common_tokens;
        shape.uniform_v1 = common_length && shape.max_query == uniform_query;
        shape.uniform_v2 = (common_length && self.prefills.is_empty()).then_some(shape.max_query);
    }
}

//! What a scheduler decides for one step, and what the step's output does.

use super::request::{RequestId, Slot};
use super::shape::StepShape;

/// Query length of a uniform decode step: one token per request, as no drafts are scheduled.
const UNIFORM_QUERY: u32 = 1;

/// One scheduled step. The caller keeps it while the step is in flight and reuses it afterwards.
///
/// An entry is a **prefill** if it computes prompt tokens (or recomputes known ones) and is either longer than one
/// token or the first of its request; every other entry is a **decode**. So the last single token of a chunked prompt
/// counts as a decode: it attends to earlier keys and values as a decode does, and runner V2 lets it into decode
/// graphs (specification section 6).
#[derive(Clone, Debug, Default)]
pub struct StepPlan {
    /// Who is scheduled, in scheduling order.
    pub entries: Vec<Scheduled>,
    /// Who was preempted, in that order.
    pub preempted: Vec<Preempted>,
    /// The step as the dispatcher sees it.
    pub shape: StepShape,
    /// The prefill entries, in scheduling order.
    pub prefills: Vec<Chunk>,
    /// Decode entries.
    pub decode_requests: u32,
    /// Sum over the decode entries of the tokens they attend to: computed before, and scheduled.
    pub decode_context_tokens: u64,
    /// Entries that sample an output token.
    pub sampled: u32,
}

/// One request's share of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// The request's slot.
    pub slot: Slot,
    /// The request.
    pub id: RequestId,
    /// Tokens scheduled: its query length.
    pub tokens: u32,
    /// Tokens computed before this step.
    pub context_tokens: u32,
    /// A prefill in the sense of [`StepPlan`].
    pub prefill: bool,
    /// Samples an output token; `false` while known tokens are left to compute.
    pub samples: bool,
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

/// What one step's output delivered.
#[derive(Clone, Debug, Default)]
pub struct StepOutcome {
    /// Who received tokens, in scheduling order.
    pub delivered: Vec<Delivered>,
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

impl StepPlan {
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.preempted.clear();
        self.shape = StepShape::default();
        self.prefills.clear();
        self.decode_requests = 0;
        self.decode_context_tokens = 0;
        self.sampled = 0;
    }

    /// Appends an entry and adds to the sums. `prefilling`: computed tokens were short of the request's prefill length.
    #[inline]
    pub(crate) fn push(&mut self, entry: Scheduled, prefilling: bool) {
        self.shape.tokens += entry.tokens;
        self.shape.max_query = self.shape.max_query.max(entry.tokens);
        self.shape.prefilling |= prefilling;
        self.sampled += u32::from(entry.samples);
        if entry.prefill {
            self.prefills.push(Chunk { tokens: entry.tokens, context: entry.context_tokens });
        } else {
            self.decode_context_tokens += u64::from(entry.context_tokens) + u64::from(entry.tokens);
        }
        self.entries.push(entry);
    }

    /// Counts the entries and derives the uniform flags of both runners (specification sections 4 and 6). V1 does not ask
    /// whether anybody is still prefilling; V2 takes any common length, but only from batches of decode entries.
    pub(crate) fn close(&mut self) {
        let shape = &mut self.shape;
        shape.requests = self.entries.len() as u32;
        self.decode_requests = shape.requests - self.prefills.len() as u32;
        let common_tokens = u64::from(shape.max_query) * u64::from(shape.requests);
        let common_length = shape.requests > 0 && u64::from(shape.tokens) == common_tokens;
        shape.uniform_v1 = common_length && shape.max_query == UNIFORM_QUERY;
        shape.uniform_v2 = (common_length && self.prefills.is_empty()).then_some(shape.max_query);
    }
}

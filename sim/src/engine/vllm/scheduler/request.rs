//! What the scheduler keeps of each live request.

use crate::engine::lockstep::{Beats, Decoding, Lacking, Lockstep};
use crate::engine::request::{Adapter, NewRequest, RequestId};
use crate::engine::step::Scheduled;
use crate::engine::vllm::memory::Held;

/// The state of one live request (specification section 11). All lengths in tokens.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) id: RequestId,
    pub(super) prompt: u32,
    /// Tokens whose values the scheduler knows: prompt and delivered output (`P + out`).
    pub(super) known: u32,
    /// The value of `known` at which the request finishes. Its last token is only delivered, so no more than
    /// `limit - 1` are ever needed; drafts can lead beyond, but not beyond `max_model_len - 1`.
    pub(super) limit: u32,
    /// Tokens whose keys and values are computed once every step in flight has run (`comp`).
    pub(super) computed: u32,
    /// Output tokens that steps in flight may produce, drafts included; asynchronous stepping only (`ph`).
    pub(super) placeholders: u32,
    /// Drafts that are to be verified with the next tokens (`spec`).
    pub(super) pending_drafts: u32,
    /// Tokens scheduled in steps whose output has not been applied (`fly`).
    pub(super) in_flight: u32,
    /// Those of `in_flight` that were scheduled before the last preemption.
    pub(super) stale: u32,
    /// `known` when the request was last admitted: it is prefilling, for runner V2, until so many are computed.
    pub(super) prefill_tokens: u32,
    pub(super) held: Held,
    pub(super) priority: i32,
    pub(super) adapter: Option<Adapter>,
    /// When last scheduled, some known token was left to compute.
    pub(super) mid_prefill: bool,
    /// Its place among the admissions: running requests are scheduled in this order.
    pub(super) order: u64,
    /// The step with tokens in which it sampled last, counted from 1; 0 for none since its admission.
    pub(super) sampled_in: u64,
    /// Its part in the lockstep; the figures above are then as of its last [`settle`](Self::settle).
    pub(super) beats: Option<Beats>,
}

impl Request {
    /// A request that has just arrived and holds nothing: `held` says so.
    pub(super) fn new(request: &NewRequest, max_model_len: u32, held: Held) -> Self {
        let prompt = request.prompt_tokens;
        Self {
            id: request.id,
            prompt,
            known: prompt,
            limit: prompt.saturating_add(request.output_tokens.max(1)).min(max_model_len),
            computed: 0,
            placeholders: 0,
            pending_drafts: 0,
            in_flight: 0,
            stale: 0,
            prefill_tokens: prompt,
            held,
            priority: request.priority,
            adapter: request.adapter,
            mid_prefill: false,
            order: 0,
            sampled_in: 0,
            beats: None,
        }
    }

    /// Tokens left to compute, output tokens that steps in flight will produce and drafts included.
    #[inline]
    pub(super) fn left_to_compute(&self) -> u32 {
        self.known + self.placeholders + self.pending_drafts - self.computed
    }

    /// A step in flight surely finishes this request, so another would be wasted. Once it decodes with placeholders,
    /// `computed + 1 == known + placeholders`: `computed + 2 - placeholders` tokens are known after one more output
    /// token, the least that a step in flight delivers.
    #[inline]
    pub(super) fn finishes_in_flight(&self) -> bool {
        self.placeholders > 0 && self.computed + 2 >= self.limit + self.placeholders
    }

    /// Books what one entry brought, `accepted` drafts among it, and says how many tokens are delivered. With synchronous
    /// stepping new drafts are there as soon as the output is: `redrafted`.
    #[expect(clippy::inline_always, reason = "the body of the walk over the entries of a step")]
    #[inline(always)]
    pub(super) fn receive(&mut self, entry: &Scheduled, accepted: u32, redrafted: Option<u32>) -> u32 {
        self.in_flight -= entry.tokens;
        let stale = self.stale > 0;
        if stale {
            self.stale -= entry.tokens;
        }
        if !entry.samples {
            return 0;
        }
        let sampled = 1 + accepted;
        let tokens = sampled.min(self.limit - self.known);
        self.known += tokens;
        // A preempted request keeps what it sampled before; its counters were reset with its blocks.
        if !stale {
            let rejected = entry.drafts - accepted;
            self.computed -= rejected + (sampled - tokens);
            match redrafted {
                Some(drafts) => self.pending_drafts = drafts,
                None => self.placeholders -= rejected + tokens,
            }
        }
        tokens
    }

    /// Beats that a request without drafts would stay in lockstep: one for each token that no step in flight brings.
    /// `None` for one that has anything but its next token to compute, or waits for output from before a preemption.
    #[inline]
    pub(super) fn beats_left(&self) -> Option<u32> {
        let next_only = self.computed + 1 == self.known + self.placeholders && self.computed >= self.prefill_tokens;
        let plain = !self.mid_prefill && self.stale == 0 && self.pending_drafts == 0;
        let left = self.limit.saturating_sub(self.known + self.placeholders);
        (next_only && plain && left > 0).then_some(left)
    }

    /// Gives a request in lockstep its own figures, as of the beats scheduled and applied so far. It stays a member.
    pub(super) fn settle(&mut self, lockstep: &Lockstep, asynchronous: bool) {
        let Some(beats) = &mut self.beats else { return };
        let Lacking { moved, brought } = lockstep.lacking(beats);
        self.computed += moved;
        self.in_flight = self.in_flight + moved - brought;
        self.known += brought;
        if asynchronous {
            self.placeholders = self.placeholders + moved - brought;
        }
    }

    #[inline]
    pub(super) fn is_finished(&self) -> bool {
        self.known >= self.limit
    }
}

impl Decoding for Request {
    fn id(&self) -> RequestId {
        self.id
    }

    fn order(&self) -> u64 {
        self.order
    }

    fn computed(&self) -> u32 {
        self.computed
    }

    fn limit(&self) -> u32 {
        self.limit
    }

    fn beats(&self) -> Option<&Beats> {
        self.beats.as_ref()
    }

    fn beats_mut(&mut self) -> &mut Option<Beats> {
        &mut self.beats
    }
}

//! What the scheduler keeps of each live request.

use super::adder::Claim;
use crate::engine::lockstep::{Beats, Decoding, Lacking, Lockstep};
use crate::engine::request::{Adapter, NewRequest, RequestId, SharedPrefix};
use crate::engine::sglang::options::OutputEnd;
use crate::engine::sglang::pages::Held;

/// The state of one live request (SGLang specification section 10). All lengths in tokens.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) id: RequestId,
    pub(super) prompt: u32,
    /// Prompt and delivered output.
    pub(super) known: u32,
    /// The value of `known` at which the request finishes.
    pub(super) limit: u32,
    /// What its client asked for at most.
    pub(super) max_new: u32,
    /// Nothing but `max_new` ends it.
    pub(super) ignore_eos: bool,
    /// Tokens whose keys and values are computed once every step in flight has run, every draft taken as accepted.
    pub(super) computed: u32,
    /// Entries in flight that will deliver: at least one token each.
    pub(super) pending: u32,
    /// Entries in flight whose tokens are dropped, because the request was retracted.
    pub(super) stale: u32,
    pub(super) held: Held,
    pub(super) shared: SharedPrefix,
    pub(super) adapter: Option<Adapter>,
    /// Its computed prompt is in the cache.
    pub(super) prompt_cached: bool,
    pub(super) place: Place,
    /// Its place among those that entered the running list: they are scheduled in this order.
    pub(super) order: u64,
    /// The decode step that it was in last, since it entered the running list.
    pub(super) decoded_in: Option<u64>,
    /// Its part in the lockstep; the figures above are then as of its last [`settle`](Self::settle).
    pub(super) beats: Option<Beats>,
}

/// Where a live request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the waiting queue.
    Queued,
    /// In the running list, or the chunked request.
    Admitted,
    /// It surely finishes in flight and is no longer in the running list.
    Leaving,
}

impl Request {
    /// A request of which no more than `longest` tokens, prompt and output, can be held.
    pub(super) fn new(request: &NewRequest, end: OutputEnd, longest: u32) -> Self {
        let prompt = request.prompt_tokens;
        let room = longest - prompt;
        let output = request.output_tokens.clamp(1, room);
        let max_new = match end {
            OutputEnd::Length | OutputEnd::IgnoreEos => output,
            OutputEnd::Eos { max_new_tokens } => max_new_tokens.clamp(1, room),
        };
        Self {
            id: request.id,
            prompt,
            known: prompt,
            limit: prompt + output.min(max_new),
            max_new,
            ignore_eos: end == OutputEnd::IgnoreEos,
            computed: 0,
            pending: 0,
            stale: 0,
            held: Held::default(),
            shared: request.shared.clone(),
            adapter: request.adapter,
            prompt_cached: false,
            place: Place::Queued,
            order: 0,
            decoded_in: None,
            beats: None,
        }
    }

    /// Output tokens delivered.
    pub(super) fn produced(&self) -> u32 {
        self.known - self.prompt
    }

    pub(super) fn claim(&self) -> Claim {
        Claim { prompt: self.prompt, produced: self.produced(), max_new: self.max_new, ignore_eos: self.ignore_eos }
    }

    /// The steps in flight surely reach its last token.
    pub(super) fn finishes_in_flight(&self) -> bool {
        self.known + self.pending >= self.limit
    }

    pub(super) fn is_finished(&self) -> bool {
        self.known >= self.limit
    }

    /// Beats that it would stay in lockstep: one for each token that no step in flight brings. `None` while the output of
    /// its prompt is still to come, or output from before a retraction.
    pub(super) fn beats_left(&self) -> Option<u32> {
        let left = self.limit.saturating_sub(self.known + self.pending);
        (self.prompt_cached && self.stale == 0 && left > 0).then_some(left)
    }

    /// Gives a request in lockstep its own figures, as of the beats scheduled and applied so far. It stays a member.
    pub(super) fn settle(&mut self, lockstep: &Lockstep) {
        let Some(beats) = &mut self.beats else { return };
        let Lacking { moved, brought } = lockstep.lacking(beats);
        self.computed += moved;
        self.pending = self.pending + moved - brought;
        self.known += brought;
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

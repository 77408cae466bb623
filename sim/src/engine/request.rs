//! Requests as they reach an engine.

use std::sync::Arc;

/// A request's number in order of arrival; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u32);

/// A live request's place in dense tables; free for the next request as soon as this one has finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

/// A LoRA adapter, by its number in the scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Adapter(pub u32);

/// The head of a prompt that other requests may begin with too: what the prefix cache can share.
///
/// A list of segments with growing ends. `content` of a segment names all tokens from the start of the prompt to its end:
/// two prompts agree up to there exactly if they hold a segment of the same content. Tokens behind the last segment are
/// nobody else's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedPrefix(Option<Arc<[Segment]>>);

/// One segment of a [`SharedPrefix`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    /// Names the tokens from the start of the prompt to `end_tokens`.
    pub content: u64,
    /// Where the segment ends, in tokens from the start of the prompt.
    pub end_tokens: u32,
}

/// A request as it reaches the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRequest {
    /// Its number in order of arrival.
    pub id: RequestId,
    /// Prompt length in tokens: one that the engine takes.
    pub prompt_tokens: u32,
    /// Tokens it generates if `max_model_len` does not cut it. The engine samples before it counts: 0 acts as 1.
    pub output_tokens: u32,
    /// Smaller goes first under the priority policy.
    pub priority: i32,
    /// The adapter it runs with.
    pub adapter: Option<Adapter>,
    /// The head of its prompt that others share.
    pub shared: SharedPrefix,
}

impl SharedPrefix {
    /// A prefix of these segments; their ends grow.
    #[must_use]
    pub fn new(segments: &[Segment]) -> Self {
        debug_assert!(segments.is_sorted_by(|a, b| a.end_tokens < b.end_tokens), "ends grow");
        Self((!segments.is_empty()).then(|| segments.into()))
    }

    /// The segments, in order.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl NewRequest {
    /// A request of default priority that shares nothing and runs without an adapter.
    #[must_use]
    pub fn plain(id: RequestId, prompt_tokens: u32, output_tokens: u32) -> Self {
        Self { id, prompt_tokens, output_tokens, priority: 0, adapter: None, shared: SharedPrefix::default() }
    }
}

//! The prefill runner: sizes are tokens of the whole step.

use super::padded;
use crate::engine::shape::FallbackCause;

/// A step is not padded to more than this many times its tokens.
const PADDING_FACTOR_MAX: u64 = 2;

/// Chunks of cached prefix that full prefill graphs are captured for, beside none.
pub const PREFIX_CHUNK_VARIANTS: [u32; 5] = [1, 2, 4, 8, 16];

/// The captured prefill graphs and what bears on their use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrefillRunner {
    /// Captured sizes, in tokens, ascending.
    pub sizes: Vec<u32>,
    /// What only full graphs ask; `None` for breakable ones.
    pub full: Option<FullPrefill>,
    /// Longest context of a step that may replay, in tokens.
    pub max_context_size: Option<u32>,
    /// Longest sequence of a step that may replay, in tokens.
    pub max_seq_len: Option<u32>,
    /// Most requests for which the attention backend holds metadata.
    pub attention_requests_max: Option<u32>,
    /// The attention backend wants mixed steps eager (under data-parallel attention).
    pub eager_mixed: bool,
}

/// What full prefill graphs are captured for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FullPrefill {
    /// Most requests of a step.
    pub request_slots: u32,
    /// Graphs with a cached prefix in chunks; `None` if cached prefixes are not captured.
    pub prefix_chunks: Option<PrefixChunks>,
}

/// Full prefill graphs with a cached prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixChunks {
    /// Tokens of a chunk.
    pub chunk_tokens: u32,
    /// Numbers of chunks with a graph, ascending.
    pub variants: Vec<u32>,
}

/// A step that computes prompts, as the runner sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one field per guard")]
pub struct PrefillBatch {
    /// Tokens of the step.
    pub tokens: u32,
    /// Requests of the step.
    pub requests: u32,
    /// Decode rows ride along.
    pub mixed: bool,
    /// The longest cached prefix, in tokens; `None` is unknown.
    pub longest_prefix: Option<u32>,
    /// The longest sequence, in tokens; `None` is unknown.
    pub longest_sequence: Option<u32>,
    /// The adapters of the step have no graph.
    pub lora_ineligible: bool,
    /// Inputs come as embeddings, or token embeddings are overridden.
    pub embeddings: bool,
    /// A verification step of speculative decoding.
    pub target_verify: bool,
}

/// The graph that a prefill step runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PrefillKey {
    /// Tokens of the graph.
    pub tokens: u32,
    /// Chunks of cached prefix, if the graph has them.
    pub prefix_chunks: Option<u32>,
}

/// Why a step that computes prompts runs without a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PrefillRefusal {
    /// More requests than a full graph holds.
    RequestSlots,
    /// More requests than the attention backend holds metadata for.
    AttentionRequests,
    /// Adapters without a graph.
    LoraIneligible,
    /// Embeddings as input.
    Embeddings,
    /// A verification step.
    TargetVerify,
    /// A mixed step on a backend that wants it eager.
    MixedEager,
    /// The cached prefix is longer than the largest variant.
    PrefixTooLong,
    /// The longest sequence is unknown or beyond a limit.
    SequenceTooLong,
    /// More tokens than the largest graph.
    AboveCeiling,
    /// The next size is more than twice the step.
    TooMuchPadding,
}

impl PrefillRunner {
    /// The graph that the step runs.
    ///
    /// # Errors
    /// Why it runs without one.
    pub fn can_run(&self, batch: &PrefillBatch) -> Result<PrefillKey, PrefillRefusal> {
        if self.full.as_ref().is_some_and(|full| batch.requests > full.request_slots) {
            return Err(PrefillRefusal::RequestSlots);
        }
        if self.attention_requests_max.is_some_and(|most| batch.requests > most) {
            return Err(PrefillRefusal::AttentionRequests);
        }
        if batch.lora_ineligible {
            return Err(PrefillRefusal::LoraIneligible);
        }
        if batch.embeddings {
            return Err(PrefillRefusal::Embeddings);
        }
        if batch.target_verify {
            return Err(PrefillRefusal::TargetVerify);
        }
        if self.eager_mixed && batch.mixed {
            return Err(PrefillRefusal::MixedEager);
        }
        let prefix_chunks = self.prefix_chunks(batch.longest_prefix)?;
        let limits = [self.max_context_size, self.max_seq_len].into_iter().flatten();
        if limits.min().is_some_and(|limit| batch.longest_sequence.is_none_or(|longest| longest > limit)) {
            return Err(PrefillRefusal::SequenceTooLong);
        }
        let tokens = padded(&self.sizes, batch.tokens).ok_or(PrefillRefusal::AboveCeiling)?;
        if u64::from(tokens) > PADDING_FACTOR_MAX * u64::from(batch.tokens) {
            return Err(PrefillRefusal::TooMuchPadding);
        }
        Ok(PrefillKey { tokens, prefix_chunks })
    }

    /// Whether answers depend on how far the requests reach.
    #[must_use]
    pub fn asks_for_lengths(&self) -> bool {
        self.max_context_size.is_some()
            || self.max_seq_len.is_some()
            || self.full.as_ref().is_some_and(|full| full.prefix_chunks.is_some())
    }

    /// The smallest number of chunks that holds the longest cached prefix; none without a prefix, or if its length is
    /// not known.
    fn prefix_chunks(&self, longest_prefix: Option<u32>) -> Result<Option<u32>, PrefillRefusal> {
        let Some(chunks) = self.full.as_ref().and_then(|full| full.prefix_chunks.as_ref()) else { return Ok(None) };
        let Some(prefix) = longest_prefix.filter(|&prefix| prefix > 0) else { return Ok(None) };
        let needed = prefix.div_ceil(chunks.chunk_tokens);
        padded(&chunks.variants, needed).map(Some).ok_or(PrefillRefusal::PrefixTooLong)
    }
}

impl PrefillRefusal {
    /// The cause under which reports count it.
    #[must_use]
    pub const fn cause(self) -> FallbackCause {
        match self {
            Self::AboveCeiling => FallbackCause::AboveCeiling,
            Self::MixedEager => FallbackCause::ModeExcluded,
            _ => FallbackCause::NoKey,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runner(sizes: &[u32]) -> PrefillRunner {
        PrefillRunner { sizes: sizes.to_vec(), ..PrefillRunner::default() }
    }

    fn batch(tokens: u32) -> PrefillBatch {
        PrefillBatch { tokens, requests: 1, ..PrefillBatch::default() }
    }

    #[test]
    fn a_step_is_never_padded_to_more_than_twice_its_tokens() {
        let runner = runner(&[4, 8, 128, 1024]);
        let run = |tokens| runner.can_run(&batch(tokens)).map(|key| key.tokens);
        assert_eq!([2, 5, 64, 512, 1024].map(run), [Ok(4), Ok(8), Ok(128), Ok(1024), Ok(1024)]);
        assert_eq!([1, 63, 511].map(run), [Err(PrefillRefusal::TooMuchPadding); 3]);
        assert_eq!(run(1025), Err(PrefillRefusal::AboveCeiling));
    }

    #[test]
    fn a_length_limit_needs_a_known_length() {
        let runner = PrefillRunner { max_context_size: Some(4096), max_seq_len: Some(2048), ..runner(&[64]) };
        let run = |longest_sequence| runner.can_run(&PrefillBatch { longest_sequence, ..batch(64) });
        assert!(run(Some(2048)).is_ok());
        assert_eq!([run(Some(2049)), run(None)], [Err(PrefillRefusal::SequenceTooLong); 2]);
    }

    #[test]
    fn full_graphs_hold_prefixes_in_chunks() {
        let prefix_chunks = PrefixChunks { chunk_tokens: 512, variants: PREFIX_CHUNK_VARIANTS.to_vec() };
        let full = Some(FullPrefill { request_slots: 4, prefix_chunks: Some(prefix_chunks) });
        let runner = PrefillRunner { full, ..runner(&[64]) };
        let run =
            |longest_prefix| runner.can_run(&PrefillBatch { longest_prefix, ..batch(64) }).map(|key| key.prefix_chunks);
        assert_eq!([None, Some(0)].map(run), [Ok(None); 2]);
        assert_eq!([1, 512, 513, 8192].map(|prefix| run(Some(prefix))), [1, 1, 2, 16].map(|n| Ok(Some(n))));
        assert_eq!(run(Some(8193)), Err(PrefillRefusal::PrefixTooLong));
        let crowd = PrefillBatch { requests: 5, ..batch(64) };
        assert_eq!(runner.can_run(&crowd), Err(PrefillRefusal::RequestSlots));
    }
}

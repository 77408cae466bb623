//! The decode runner: sizes are requests.

use super::padded;
use crate::engine::shape::FallbackCause;

/// The captured decode graphs and what bears on their use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeRunner {
    /// Captured sizes, in requests, ascending. Each exists in every LoRA variant.
    pub sizes: Vec<u32>,
    /// Tokens per request of a captured step.
    pub width: u32,
    /// Batches are padded to the next size; otherwise only exact ones run.
    pub padding: bool,
}

/// A decode step as the runner sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeBatch {
    /// Requests on this rank.
    pub requests: u32,
    /// Tokens per request that the batch states; `None` or 0 is no statement.
    pub width: Option<u32>,
    /// The most requests of any rank, where ranks gather their rows: the size is chosen for it.
    pub rank_requests_max: Option<u32>,
    /// The votes of all ranks, where they have to agree.
    pub ranks_agree: Option<bool>,
    /// Some request overrides token embeddings.
    pub replaces_embeddings: bool,
    /// Encoder-decoder models: every request has encoder output.
    pub all_encoded: bool,
    /// Two-batch overlap: the batch can be split.
    pub splittable: bool,
    /// N-gram speculation: the tokens of the step.
    pub ngram_tokens: Option<u32>,
}

/// Why a decode step runs without a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DecodeRefusal {
    /// Token embeddings are overridden.
    ReplacesEmbeddings,
    /// The batch has another width than the graphs.
    OtherWidth,
    /// More requests than the largest graph.
    AboveCeiling,
    /// Padding is off and this size is not captured.
    NotCaptured,
    /// Some rank voted against it: one that prefills is enough.
    RankVote,
    /// Some request has no encoder output.
    NotEncoded,
    /// The batch cannot be split in two.
    NotSplittable,
    /// The tokens of n-gram speculation are not requests times width.
    OffWidth,
}

impl DecodeBatch {
    /// A plain decode step of one rank.
    #[must_use]
    pub fn of(requests: u32, width: u32) -> Self {
        Self {
            requests,
            width: Some(width),
            rank_requests_max: None,
            ranks_agree: None,
            replaces_embeddings: false,
            all_encoded: true,
            splittable: true,
            ngram_tokens: None,
        }
    }
}

impl DecodeRunner {
    /// The size that the step is padded to, in requests.
    ///
    /// # Errors
    /// Why the step runs without a graph.
    pub fn can_run(&self, batch: &DecodeBatch) -> Result<u32, DecodeRefusal> {
        if batch.replaces_embeddings {
            return Err(DecodeRefusal::ReplacesEmbeddings);
        }
        if batch.width.is_some_and(|width| width > 0 && width != self.width) {
            return Err(DecodeRefusal::OtherWidth);
        }
        let size = self.size_for(batch.rank_requests_max.unwrap_or(batch.requests))?;
        if batch.ranks_agree == Some(false) {
            return Err(DecodeRefusal::RankVote);
        }
        if !batch.all_encoded {
            return Err(DecodeRefusal::NotEncoded);
        }
        if !batch.splittable {
            return Err(DecodeRefusal::NotSplittable);
        }
        if batch.ngram_tokens.is_some_and(|tokens| u64::from(tokens) != self.tokens(batch.requests)) {
            return Err(DecodeRefusal::OffWidth);
        }
        Ok(size)
    }

    #[inline]
    fn size_for(&self, requests: u32) -> Result<u32, DecodeRefusal> {
        let size = padded(&self.sizes, requests);
        match size {
            Some(size) if self.padding || size == requests => Ok(size),
            Some(_) => Err(DecodeRefusal::NotCaptured),
            None => Err(DecodeRefusal::AboveCeiling),
        }
    }

    /// Tokens of a step of so many requests.
    fn tokens(&self, requests: u32) -> u64 {
        u64::from(requests) * u64::from(self.width)
    }
}

impl DecodeRefusal {
    /// The cause under which reports count it.
    #[must_use]
    pub const fn cause(self) -> FallbackCause {
        match self {
            Self::AboveCeiling => FallbackCause::AboveCeiling,
            _ => FallbackCause::NoKey,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_pads_to_the_next_size_unless_padding_is_off() {
        let mut runner = DecodeRunner { sizes: vec![1, 2, 4, 8], width: 1, padding: true };
        let run = |runner: &DecodeRunner, requests| runner.can_run(&DecodeBatch::of(requests, 1));
        assert_eq!([3, 8, 9].map(|n| run(&runner, n)), [Ok(4), Ok(8), Err(DecodeRefusal::AboveCeiling)]);
        runner.padding = false;
        assert_eq!([3, 8].map(|n| run(&runner, n)), [Err(DecodeRefusal::NotCaptured), Ok(8)]);
    }

    #[test]
    fn the_busiest_rank_chooses_the_size_and_one_vote_against_stops_all() {
        let runner = DecodeRunner { sizes: vec![1, 2, 4, 8], width: 1, padding: true };
        let mut batch = DecodeBatch { rank_requests_max: Some(7), ranks_agree: Some(true), ..DecodeBatch::of(1, 1) };
        assert_eq!(runner.can_run(&batch), Ok(8));
        batch.ranks_agree = Some(false);
        assert_eq!(runner.can_run(&batch), Err(DecodeRefusal::RankVote));
    }

    #[test]
    fn the_width_must_be_the_captured_one_if_the_batch_states_it() {
        let runner = DecodeRunner { sizes: vec![4], width: 4, padding: true };
        let width = |width| runner.can_run(&DecodeBatch { width, ..DecodeBatch::of(3, 4) });
        assert_eq!([None, Some(0), Some(4)].map(width), [Ok(4); 3]);
        assert_eq!(width(Some(1)), Err(DecodeRefusal::OtherWidth));
        let ngram = |tokens| runner.can_run(&DecodeBatch { ngram_tokens: Some(tokens), ..DecodeBatch::of(3, 4) });
        assert_eq!([ngram(12), ngram(11)], [Ok(4), Err(DecodeRefusal::OffWidth)]);
    }
}

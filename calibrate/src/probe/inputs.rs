//! Requests for the steps that are timed: real tokens, blocks and contexts, never what memory happens to hold.

use kernels::random::Random;
use kernels::units::{Requests, Rows};

use super::error::ProbeError;
use crate::model::{Batch, Limits, Model, Request};

/// Requests of one kind.
#[derive(Clone, Debug)]
pub(super) struct Inputs {
    pub(super) batch: Batch,
    /// The cache did not hold them all apart.
    pub(super) shares_blocks: bool,
}

impl Inputs {
    /// `requests` requests that decode one token each, `context` tokens with it.
    pub(super) fn decodes(model: &Model, requests: Requests, context: u32) -> Result<Self, ProbeError> {
        Self::alike(model, requests.0, 1, context.saturating_sub(1))
    }

    /// One request whose chunk follows `context` tokens of its own.
    pub(super) fn chunk(model: &Model, chunk: Rows, context: u32) -> Result<Self, ProbeError> {
        Self::alike(model, 1, chunk.0, context)
    }

    /// Requests of as many new tokens behind as many old ones. Blocks are dealt in random order, and again from the first
    /// when all are dealt.
    fn alike(model: &Model, requests: u32, tokens: u32, context: u32) -> Result<Self, ProbeError> {
        let Limits { block_size, blocks_per_request, cache_blocks, .. } = model.limits();
        let most = blocks_per_request.min(cache_blocks).saturating_mul(block_size);
        let length = context.saturating_add(tokens);
        if length > most {
            return Err(ProbeError::plan(
                "tokens of a request",
                length,
                format!("at most {most}, which its blocks hold"),
            ));
        }
        let blocks = length.div_ceil(block_size);
        let mut random = Random::named("inputs", u64::from(requests));
        let dealt = random.order(cache_blocks);
        let mut supply = dealt.iter().map(|&block| block.cast_signed()).cycle();
        let vocabulary = model.geometry().vocabulary;
        let mut request = || Request {
            tokens: (0..tokens).map(|_| random.below(vocabulary).cast_signed()).collect(),
            context,
            blocks: supply.by_ref().take(blocks as usize).collect(),
        };
        let batch = Batch { requests: (0..requests).map(|_| request()).collect() };
        let shares_blocks = u64::from(requests) * u64::from(blocks) > u64::from(cache_blocks);
        Ok(Self { batch, shares_blocks })
    }
}

//! A model small enough to be computed by hand, so to speak: every kind of operation in it, ragged where kernels can be
//! wrong.

use kernels::bf16::{self, Bf16};
use kernels::geometry::{GeometryError, ModelGeometry, ModelShape};
use kernels::random::Random;
use kernels::step::Constants;
use kernels::units::{Requests, Rows};

use crate::device::{Blaslt, Session};
use crate::model::{Batch, Limits, Model, Request, StepError};

/// Tokens of a cache block.
const BLOCK_SIZE: u32 = 16;
/// Blocks of a request.
const BLOCKS_PER_REQUEST: u32 = 4;
/// Requests of a step.
pub(super) const REQUESTS: u32 = 8;
/// Rows of a step.
pub(super) const ROWS: u32 = 40;

/// Two layers with bias, QK-norm, grouped heads, a vocabulary that is no multiple of a tile, and an MLP wide enough for its
/// last product to be split, whose counters every replay must find at zero.
pub(super) fn geometry() -> Result<ModelGeometry, GeometryError> {
    ModelGeometry::new(ModelShape {
        layers: 2,
        hidden: 192,
        intermediate: 1_032,
        query_heads: 4,
        kv_heads: 2,
        head_size: 64,
        vocabulary: 328,
        weight_bits: 16,
        kv_bits: 16,
        tied_embeddings: false,
        qkv_bias: true,
        qk_norm: true,
    })
}

pub(super) fn load(
    session: &mut Session,
    geometry: ModelGeometry,
    library: Option<Blaslt>,
) -> Result<Model, StepError> {
    let limits = Limits {
        rows: Rows(ROWS),
        requests: Requests(ROWS),
        block_size: BLOCK_SIZE,
        blocks_per_request: BLOCKS_PER_REQUEST,
        cache_blocks: (REQUESTS + 1) * BLOCKS_PER_REQUEST,
    };
    Model::load(session, geometry, Constants::default(), limits, library)
}

/// Requests with these (new tokens, context) pairs, their tokens and blocks drawn by `name`.
pub(super) fn batch(name: &str, chunks: &[(u32, u32)], model: &Model) -> Batch {
    let mut random = Random::named(name, 0);
    let mut blocks = random.order(model.limits().cache_blocks).into_iter().map(u32::cast_signed);
    let vocabulary = model.geometry().vocabulary;
    let mut request = |&(chunk, context): &(u32, u32)| {
        let own = (chunk + context).div_ceil(BLOCK_SIZE) as usize;
        Request {
            tokens: (0..chunk).map(|_| random.below(vocabulary).cast_signed()).collect(),
            context,
            blocks: blocks.by_ref().take(own).collect(),
        }
    };
    Batch { requests: chunks.iter().map(&mut request).collect() }
}

/// What a layer's cache holds before a step: somebody's keys and values in every slot.
pub(super) fn cache(model: &Model, layer: usize) -> Vec<Bf16> {
    let (geometry, limits) = (model.geometry(), model.limits());
    let elements = u64::from(limits.cache_blocks * limits.block_size) * 2 * geometry.kv_width();
    Random::named(&format!("cache {layer}"), 0).bf16s(elements as usize, 1.0)
}

/// Gives every layer's cache that content.
pub(super) fn fill_caches(model: &mut Model, session: &mut Session) -> Result<(), StepError> {
    for layer in 0..model.geometry().layers as usize {
        let content = bf16::to_bytes(&cache(model, layer));
        model.set_cache(session, layer, &content)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernels::launch::{Address, Product, ProductPlan};

    #[test]
    fn the_last_product_of_the_mlp_is_split() {
        let geometry = geometry().unwrap();
        let (none, outputs, inputs) = (Address::NONE, geometry.hidden, geometry.intermediate);
        for rows in [1, 8, ROWS] {
            let operands =
                Product { out: none, input: none, weight: none, bias: none, rows: Rows(rows), outputs, inputs };
            assert!(ProductPlan::choose(&operands, 108).splits > 1, "{rows} rows");
        }
    }
}

//! What a step of the tiny model should leave, from the reference in f64.

use kernels::bf16::to_f64s;
use kernels::reference::{LayerValues, Model as Values, PagedCache, Precision, Row};

use crate::model::{Batch, Model, WeightName};

/// The model's weights as numbers.
pub(super) fn values(model: &Model) -> Values {
    let geometry = model.geometry();
    let content = |name: WeightName| to_f64s(&name.content(geometry));
    let content_if = |condition: bool, name: WeightName| if condition { content(name) } else { Vec::new() };
    let layer = |layer| LayerValues {
        input_norm: content(WeightName::InputNorm(layer)),
        qkv: content(WeightName::Qkv(layer)),
        qkv_bias: content_if(geometry.qkv_bias, WeightName::QkvBias(layer)),
        query_norm: content_if(geometry.qk_norm, WeightName::QueryNorm(layer)),
        key_norm: content_if(geometry.qk_norm, WeightName::KeyNorm(layer)),
        out_projection: content(WeightName::OutProjection(layer)),
        post_norm: content(WeightName::PostNorm(layer)),
        gate_up: content(WeightName::GateUp(layer)),
        down: content(WeightName::Down(layer)),
    };
    let embedding = content(WeightName::Embedding);
    let head = if geometry.tied_embeddings { embedding.clone() } else { content(WeightName::Head) };
    Values {
        geometry: geometry.clone(),
        constants: model.constants(),
        embedding,
        layers: (0..geometry.layers).map(layer).collect(),
        final_norm: content(WeightName::FinalNorm),
        head,
    }
}

/// The new tokens of a batch, in the order of their rows.
pub(super) fn rows(batch: &Batch, block_size: u32) -> Vec<Row> {
    let rows = batch.requests.iter().flat_map(|request| {
        request.tokens.iter().zip(request.context..).map(move |(&id, position)| {
            let block = request.blocks[(position / block_size) as usize];
            let slot = block * block_size.cast_signed() + (position % block_size).cast_signed();
            Row { id, position: position.cast_signed(), slot, blocks: request.blocks.clone() }
        })
    });
    rows.collect()
}

/// Logits of each request's last token, one row a request; the caches take the new tokens in.
pub(super) fn logits(values: &Values, batch: &Batch, rows: &[Row], caches: &mut [PagedCache<f64>]) -> Vec<f64> {
    let width = values.geometry.hidden as usize;
    let hidden = values.hidden(rows, caches, Precision::Bf16);
    let ends = batch.requests.iter().scan(0, |end, request| {
        *end += request.tokens.len();
        Some(*end)
    });
    let last: Vec<f64> = ends.flat_map(|end| hidden[(end - 1) * width..][..width].to_vec()).collect();
    values.logits(&last, Precision::Bf16)
}

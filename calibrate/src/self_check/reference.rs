//! A whole step in f64, operation by operation, rounded to bf16 where the kernels store bf16.

use kernels::bf16::to_f64s;
use kernels::geometry::ModelGeometry;
use kernels::reference::{
    Heads, PagedCache, Precision, add, attention, embed, head_norm, product, rms_norm, rotary, silu_mul,
};
use kernels::step::Constants;

use crate::model::{Batch, WeightName};

/// A model's weights as numbers.
pub(super) struct Reference {
    geometry: ModelGeometry,
    constants: Constants,
    weights: Vec<Layer>,
    embedding: Vec<f64>,
    final_norm: Vec<f64>,
    head: Vec<f64>,
}

struct Layer {
    input_norm: Vec<f64>,
    qkv: Vec<f64>,
    qkv_bias: Vec<f64>,
    query_norm: Vec<f64>,
    key_norm: Vec<f64>,
    out_projection: Vec<f64>,
    post_norm: Vec<f64>,
    gate_up: Vec<f64>,
    down: Vec<f64>,
}

/// A step's tokens, as the kernels see them.
struct Token {
    id: i32,
    position: i32,
    slot: i32,
    request: usize,
}

impl Reference {
    pub(super) fn new(geometry: &ModelGeometry, constants: Constants) -> Self {
        let content = |name: WeightName| to_f64s(&name.content(geometry));
        let content_if = |condition: bool, name: WeightName| if condition { content(name) } else { Vec::new() };
        let layer = |layer| Layer {
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
        Self {
            geometry: geometry.clone(),
            constants,
            weights: (0..geometry.layers).map(layer).collect(),
            embedding,
            final_norm: content(WeightName::FinalNorm),
            head,
        }
    }

    fn heads(&self) -> Heads {
        let [query, kv, size] =
            [self.geometry.query_heads, self.geometry.kv_heads, self.geometry.head_size].map(|count| count as usize);
        Heads { query, kv, size }
    }

    /// Logits of each request's last token, one row a request; the caches take the new tokens in.
    pub(super) fn logits(&self, batch: &Batch, caches: &mut [PagedCache<f64>]) -> Vec<f64> {
        let stored = |values| Precision::Bf16.stored(values);
        let epsilon = f64::from(self.constants.epsilon);
        let hidden = self.geometry.hidden as usize;
        let tokens = tokens(batch, caches);
        let ids: Vec<i32> = tokens.iter().map(|token| token.id).collect();
        let mut residual = embed(&self.embedding, &ids, hidden);
        let mut normed = stored(rms_norm(&residual, &self.weights[0].input_norm, epsilon));
        for (layer, cache) in self.weights.iter().zip(caches) {
            let qkv = self.qkv(layer, &normed, &tokens);
            let attended = stored(self.attend(&qkv, batch, &tokens, cache));
            let projected = stored(product(&attended, &layer.out_projection, &[], self.heads().query_width()));
            residual = stored(add(&residual, &projected));
            normed = stored(rms_norm(&residual, &layer.post_norm, epsilon));
            let gate_up = stored(product(&normed, &layer.gate_up, &[], hidden));
            let intermediate = self.geometry.intermediate as usize;
            let activated = stored(silu_mul(&gate_up, intermediate));
            residual = stored(add(&residual, &stored(product(&activated, &layer.down, &[], intermediate))));
            let next = self.weights.iter().skip_while(|other| !std::ptr::eq(*other, layer)).nth(1);
            let weight = next.map_or(&self.final_norm, |next| &next.input_norm);
            normed = stored(rms_norm(&residual, weight, epsilon));
        }
        let is_last = |row: &usize| tokens.get(row + 1).is_none_or(|next| next.request != tokens[*row].request);
        let last: Vec<f64> =
            (0..tokens.len()).filter(is_last).flat_map(|row| normed[row * hidden..][..hidden].to_vec()).collect();
        stored(product(&last, &self.head, &[], hidden))
    }

    fn qkv(&self, layer: &Layer, normed: &[f64], tokens: &[Token]) -> Vec<f64> {
        let stored = |values| Precision::Bf16.stored(values);
        let heads = self.heads();
        let positions: Vec<i32> = tokens.iter().map(|token| token.position).collect();
        let mut qkv = stored(product(normed, &layer.qkv, &layer.qkv_bias, self.geometry.hidden as usize));
        if self.geometry.qk_norm {
            let epsilon = f64::from(self.constants.epsilon);
            qkv = stored(head_norm(&qkv, heads, &layer.query_norm, &layer.key_norm, epsilon));
        }
        stored(rotary(&qkv, heads, &positions, f64::from(self.constants.rotary_base)))
    }

    fn attend(&self, qkv: &[f64], batch: &Batch, tokens: &[Token], cache: &mut PagedCache<f64>) -> Vec<f64> {
        let slots: Vec<i32> = tokens.iter().map(|token| token.slot).collect();
        cache.write(qkv, &slots);
        let heads = self.heads();
        let scale = 1.0 / (heads.size as f64).sqrt();
        let attended = qkv.chunks_exact(heads.qkv_width()).zip(tokens).flat_map(|(row, token)| {
            let blocks = &batch.requests[token.request].blocks;
            attention(cache, row, blocks, token.position.unsigned_abs() as usize + 1, scale)
        });
        attended.collect()
    }
}

/// The tokens of a batch, request after request.
fn tokens(batch: &Batch, caches: &[PagedCache<f64>]) -> Vec<Token> {
    let size = caches.first().map_or(1, |cache| cache.block_size) as u32;
    let tokens = batch.requests.iter().enumerate().flat_map(|(request, it)| {
        it.tokens.iter().zip(it.context..).map(move |(&id, position)| {
            let block = it.blocks[(position / size) as usize];
            let slot = block * size.cast_signed() + (position % size).cast_signed();
            Token { id, position: position.cast_signed(), slot, request }
        })
    });
    tokens.collect()
}

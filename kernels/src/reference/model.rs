//! A whole decoder step, one operation after the other, on the rows that real requests have.

use super::{Heads, PagedCache, Precision, add, attention, embed, head_norm, product, rms_norm, rotary, silu_mul};
use crate::geometry::ModelGeometry;
use crate::step::Constants;

/// The weights of one layer; see [`LayerWeights`](crate::step::LayerWeights) for the layouts. What the model does not have
/// is empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LayerValues {
    /// Norm before attention.
    pub input_norm: Vec<f64>,
    /// Query, key and value projection.
    pub qkv: Vec<f64>,
    /// Its bias.
    pub qkv_bias: Vec<f64>,
    /// Norm of query heads.
    pub query_norm: Vec<f64>,
    /// Norm of key heads.
    pub key_norm: Vec<f64>,
    /// Output projection.
    pub out_projection: Vec<f64>,
    /// Norm before the MLP.
    pub post_norm: Vec<f64>,
    /// Gate and up projection.
    pub gate_up: Vec<f64>,
    /// Down projection.
    pub down: Vec<f64>,
}

/// A model with the values of its weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Its shape.
    pub geometry: ModelGeometry,
    /// What its configuration says beside the shape.
    pub constants: Constants,
    /// `[vocabulary, hidden]`.
    pub embedding: Vec<f64>,
    /// Of each layer.
    pub layers: Vec<LayerValues>,
    /// Norm behind the last layer.
    pub final_norm: Vec<f64>,
    /// `[vocabulary, hidden]`.
    pub head: Vec<f64>,
}

/// One new token of some request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Token id.
    pub id: i32,
    /// Position in its request.
    pub position: i32,
    /// Cache slot that its key and value go to.
    pub slot: i32,
    /// Cache blocks of its request.
    pub blocks: Vec<i32>,
}

impl Model {
    /// Its heads.
    pub fn heads(&self) -> Heads {
        let [query, kv, size] = [self.geometry.query_heads, self.geometry.kv_heads, self.geometry.head_size];
        Heads { query: query as usize, kv: kv as usize, size: size as usize }
    }

    /// Hidden states `[rows, hidden]` behind the final norm. Keys and values of all rows are written into `caches`, one a
    /// layer, before any row attends; each row sees its request up to and including itself.
    pub fn hidden(&self, rows: &[Row], caches: &mut [PagedCache<f64>], precision: Precision) -> Vec<f64> {
        let heads = self.heads();
        let [hidden, intermediate] = [self.geometry.hidden, self.geometry.intermediate].map(|width| width as usize);
        let (epsilon, theta) = (f64::from(self.constants.epsilon), f64::from(self.constants.rotary_base));
        let ids: Vec<i32> = rows.iter().map(|row| row.id).collect();
        let positions: Vec<i32> = rows.iter().map(|row| row.position).collect();
        let slots: Vec<i32> = rows.iter().map(|row| row.slot).collect();
        let scale = 1.0 / (heads.size as f64).sqrt();
        let norm = |rows: &[f64], weight: &[f64]| precision.stored(rms_norm(rows, weight, epsilon));

        let mut residual = embed(&self.embedding, &ids, hidden);
        for (layer, cache) in self.layers.iter().zip(caches) {
            let normed = norm(&residual, &layer.input_norm);
            let mut qkv = precision.stored(product(&normed, &layer.qkv, &layer.qkv_bias, hidden));
            if self.geometry.qk_norm {
                qkv = precision.stored(head_norm(&qkv, heads, &layer.query_norm, &layer.key_norm, epsilon));
            }
            let qkv = precision.stored(rotary(&qkv, heads, &positions, theta));
            cache.write(&qkv, &slots);
            let mut attended = Vec::new();
            for (row, query) in rows.iter().zip(qkv.chunks_exact(heads.qkv_width())) {
                let seen = usize::try_from(row.position).map_or(0, |position| position + 1);
                attended.extend(attention(cache, query, &row.blocks, seen, scale));
            }
            let attended = precision.stored(attended);
            let projected = precision.stored(product(&attended, &layer.out_projection, &[], heads.query_width()));
            residual = precision.stored(add(&residual, &projected));
            let normed = norm(&residual, &layer.post_norm);
            let gate_up = precision.stored(product(&normed, &layer.gate_up, &[], hidden));
            let activated = precision.stored(silu_mul(&gate_up, intermediate));
            let down = precision.stored(product(&activated, &layer.down, &[], intermediate));
            residual = precision.stored(add(&residual, &down));
        }
        norm(&residual, &self.final_norm)
    }

    /// Logits `[rows, vocabulary]` of hidden states.
    pub fn logits(&self, hidden: &[f64], precision: Precision) -> Vec<f64> {
        precision.stored(product(hidden, &self.head, &[], self.geometry.hidden as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::ModelShape;
    use crate::random::Random;

    fn model() -> Model {
        let geometry = ModelGeometry::new(ModelShape {
            layers: 2,
            hidden: 8,
            intermediate: 16,
            query_heads: 4,
            kv_heads: 2,
            head_size: 4,
            vocabulary: 11,
            weight_bits: 16,
            kv_bits: 16,
            tied_embeddings: false,
            qkv_bias: true,
            qk_norm: true,
        })
        .unwrap();
        let mut random = Random::named("reference", 0);
        let mut values = |count: usize| (0..count).map(|_| random.signed()).collect::<Vec<f64>>();
        let mut layer = || LayerValues {
            input_norm: values(8),
            qkv: values(32 * 8),
            qkv_bias: values(32),
            query_norm: values(4),
            key_norm: values(4),
            out_projection: values(8 * 16),
            post_norm: values(8),
            gate_up: values(32 * 8),
            down: values(8 * 16),
        };
        let layers = vec![layer(), layer()];
        let (embedding, final_norm, head) = (values(88), values(8), values(88));
        Model { geometry, constants: Constants::default(), embedding, layers, final_norm, head }
    }

    fn row(id: i32, position: i32, blocks: &[i32]) -> Row {
        let slot = blocks[position as usize / 4] * 4 + position % 4;
        Row { id, position, slot, blocks: blocks.to_vec() }
    }

    #[test]
    fn a_prompt_at_once_is_the_prompt_token_by_token() {
        let model = model();
        let empty = || vec![PagedCache::filled(0.0, 4, model.heads(), 4); 2];
        let rows: Vec<Row> = [3, 1, 4, 1, 5, 9].into_iter().zip(0..).map(|(id, at)| row(id, at, &[2, 0])).collect();
        let (mut at_once, mut one_by_one) = (empty(), empty());
        let together = model.hidden(&rows, &mut at_once, Precision::Exact);
        let apart: Vec<f64> = rows
            .iter()
            .flat_map(|row| model.hidden(std::slice::from_ref(row), &mut one_by_one, Precision::Exact))
            .collect();
        assert!(together.iter().zip(&apart).all(|(a, b)| (a - b).abs() < 1e-12));
        assert_eq!(at_once, one_by_one);
    }

    #[test]
    fn requests_do_not_see_each_other() {
        let model = model();
        let empty = || vec![PagedCache::filled(0.0, 4, model.heads(), 4); 2];
        let (first, second) = (row(3, 0, &[2]), row(7, 0, &[1]));
        let both = model.hidden(&[first.clone(), second], &mut empty(), Precision::Exact);
        let alone = model.hidden(&[first], &mut empty(), Precision::Exact);
        assert_eq!(both[..8], alone);
        assert_eq!(model.logits(&alone, Precision::Exact).len(), 11);
    }

    #[test]
    fn storage_in_bf16_stays_near_the_truth() {
        let model = model();
        let mut caches = vec![PagedCache::filled(0.0, 4, model.heads(), 4); 2];
        let exact = model.hidden(&[row(3, 0, &[2])], &mut caches.clone(), Precision::Exact);
        let stored = model.hidden(&[row(3, 0, &[2])], &mut caches, Precision::Bf16);
        let off_by: f64 = exact.iter().zip(&stored).map(|(a, b)| (a - b).powi(2)).sum();
        let norm: f64 = exact.iter().map(|a| a * a).sum();
        assert!(off_by > 0.0 && (off_by / norm).sqrt() < 0.03, "{off_by} of {norm}");
    }
}

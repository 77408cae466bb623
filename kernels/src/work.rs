//! Flops and bytes of the operations of one step: the floor that no kernel can beat.
//!
//! Counts follow the usual accounting of decoder inference (Kaplan et al. 2020, "Scaling laws for neural language
//! models", section 2.1, for the matrix products; Williams et al. 2009, "Roofline", for the bound): a product of `m`
//! rows with a `k x n` weight is `2 m k n` flops and moves the weight once, its input and its output; attention of a
//! query over a key is one multiply-add per element for the score and one for the value. Flops of norms, rotary
//! embedding and activation are left out: those operations are bound by the bytes they move.

use std::iter::Sum;
use std::ops::{Add, Mul};

use crate::geometry::ModelGeometry;

/// Arithmetic and memory traffic of some operation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Floating-point operations, a multiply-add counted as two.
    pub flops: f64,
    /// Bytes read and written in device memory, everything once.
    pub bytes: f64,
}

impl Work {
    /// Microseconds that a device needs at least: the longer of computing and moving.
    ///
    /// `flops_per_us` and `bytes_per_us` are rates of the device, both positive.
    pub fn roofline_us(self, flops_per_us: f64, bytes_per_us: f64) -> f64 {
        (self.flops / flops_per_us).max(self.bytes / bytes_per_us)
    }
}

impl Add for Work {
    type Output = Self;
    fn add(self, rhs: Self) -> Self {
        Self { flops: self.flops + rhs.flops, bytes: self.bytes + rhs.bytes }
    }
}

impl Mul<f64> for Work {
    type Output = Self;
    fn mul(self, times: f64) -> Self {
        Self { flops: self.flops * times, bytes: self.bytes * times }
    }
}

impl Sum for Work {
    fn sum<I: Iterator<Item = Self>>(works: I) -> Self {
        works.fold(Self::default(), Add::add)
    }
}

/// One operation of a decoder layer, in the order of execution: what an engine with fused norms, projections and
/// activation launches one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// RMS norm before attention, with the residual addition fused in.
    InputNorm,
    /// Query, key and value projection in one product.
    Qkv,
    /// Norm of each query and key head.
    HeadNorm,
    /// Rotary embedding of queries and keys.
    Rotary,
    /// Writing keys and values into the paged cache.
    KvWrite,
    /// Attention itself. Its work depends on contexts, not on rows: see [`attention_work`].
    Attention,
    /// Output projection.
    OutProjection,
    /// RMS norm before the MLP, with the residual addition fused in.
    PostNorm,
    /// Gate and up projection in one product.
    GateUp,
    /// SiLU of the gate times the up half.
    Activation,
    /// Down projection.
    Down,
}

/// The operations of one decoder layer, in order.
pub fn layer_operations(model: &ModelGeometry) -> Vec<Operation> {
    use Operation as O;
    let before = [O::InputNorm, O::Qkv];
    let head_norm = model.qk_norm.then_some(O::HeadNorm);
    let after = [O::Rotary, O::KvWrite, O::Attention, O::OutProjection, O::PostNorm, O::GateUp, O::Activation, O::Down];
    before.into_iter().chain(head_norm).chain(after).collect()
}

/// Operations of one step outside the layers: embedding, final norm, LM head, sampling.
pub const OPERATIONS_OUTSIDE_LAYERS: u32 = 4;

/// Operations of one step of the whole model, launched one by one.
pub fn step_operations(model: &ModelGeometry) -> u32 {
    model.layers * layer_operations(model).len() as u32 + OPERATIONS_OUTSIDE_LAYERS
}

/// Bytes of one activation element: bf16 or fp16, whatever the weights' format.
const ACTIVATION_BYTES: f64 = 2.0;

/// `rows x inputs` times `inputs x outputs`.
fn product(model: &ModelGeometry, rows: f64, inputs: f64, outputs: f64) -> Work {
    let weights = inputs * outputs * f64::from(model.weight_bits) / 8.0;
    Work { flops: 2.0 * rows * inputs * outputs, bytes: weights + rows * (inputs + outputs) * ACTIVATION_BYTES }
}

/// An elementwise operation that moves `elements` activations per row.
fn elementwise(rows: f64, elements: f64) -> Work {
    Work { flops: 0.0, bytes: rows * elements * ACTIVATION_BYTES }
}

impl Operation {
    /// The work of this operation of one layer for `rows` rows; [`Operation::Attention`] counts nothing here.
    pub fn work(self, model: &ModelGeometry, rows: u32) -> Work {
        let rows = f64::from(rows);
        let hidden = f64::from(model.hidden);
        let intermediate = f64::from(model.intermediate);
        let (query, kv) = (model.query_width() as f64, model.kv_width() as f64);
        match self {
            // Reads the layer's output and the residual, writes the residual and the normed row.
            Self::InputNorm | Self::PostNorm => elementwise(rows, 4.0 * hidden),
            Self::Qkv => product(model, rows, hidden, query + 2.0 * kv),
            Self::HeadNorm | Self::Rotary => elementwise(rows, 2.0 * (query + kv)),
            Self::KvWrite => {
                let cached = 2.0 * kv * f64::from(model.kv_bits) / 8.0;
                Work { flops: 0.0, bytes: rows * (2.0 * kv * ACTIVATION_BYTES + cached) }
            }
            Self::Attention => Work::default(),
            Self::OutProjection => product(model, rows, query, hidden),
            Self::GateUp => product(model, rows, hidden, 2.0 * intermediate),
            Self::Activation => elementwise(rows, 3.0 * intermediate),
            Self::Down => product(model, rows, intermediate, hidden),
        }
    }
}

/// All layers without attention, for `rows` rows.
pub fn dense_work(model: &ModelGeometry, rows: u32) -> Work {
    let layer: Work = layer_operations(model).into_iter().map(|operation| operation.work(model, rows)).sum();
    layer * f64::from(model.layers)
}

/// LM head for `sequences` sampled rows. The matrix is read whole, tied or not.
pub fn head_work(model: &ModelGeometry, sequences: u32) -> Work {
    product(model, f64::from(sequences), f64::from(model.hidden), f64::from(model.vocabulary))
}

/// Embedding of `rows` tokens, or the choice of `rows` rows of the model's output: each row read and written.
pub fn row_copy_work(model: &ModelGeometry, rows: u32) -> Work {
    elementwise(f64::from(rows), 2.0 * f64::from(model.hidden))
}

/// Norm behind the last layer, with the residual addition fused in.
pub fn final_norm_work(model: &ModelGeometry, rows: u32) -> Work {
    Operation::InputNorm.work(model, rows)
}

/// Greedy sampling of `sequences` rows: every logit read, one token id of 4 bytes written.
pub fn sampling_work(model: &ModelGeometry, sequences: u32) -> Work {
    let sequences = f64::from(sequences);
    Work { flops: 0.0, bytes: sequences * (f64::from(model.vocabulary) * ACTIVATION_BYTES + 4.0) }
}

/// What cutting each context into `splits` ranges adds to [`attention_work`] of `requests` decoding requests in all
/// layers: per range of each query head its maximum, its sum and its values in f32, written once and read once. Nothing
/// for one range.
pub fn attention_split_work(model: &ModelGeometry, requests: u32, splits: u32) -> Work {
    if splits <= 1 {
        return Work::default();
    }
    let ranges = f64::from(requests) * f64::from(model.query_heads) * f64::from(splits);
    let layer = Work { flops: 0.0, bytes: 2.0 * ranges * (f64::from(model.head_size) + 2.0) * 4.0 };
    layer * f64::from(model.layers)
}

/// Causal attention of one request in all layers: `chunk` new tokens after `context` cached ones.
///
/// Each new token attends to the context, to the new tokens before it and to itself: `chunk * context +
/// chunk * (chunk + 1) / 2` pairs. A decode is a chunk of one. Bytes are the keys and values of context and chunk once,
/// and the queries and outputs.
pub fn attention_work(model: &ModelGeometry, chunk: u32, context: u32) -> Work {
    let (chunk, context) = (f64::from(chunk), f64::from(context));
    let pairs = chunk * context + chunk * (chunk + 1.0) / 2.0;
    let query = model.query_width() as f64;
    let cached = 2.0 * model.kv_width() as f64 * f64::from(model.kv_bits) / 8.0;
    let layer =
        Work { flops: 4.0 * query * pairs, bytes: cached * (context + chunk) + 2.0 * query * chunk * ACTIVATION_BYTES };
    layer * f64::from(model.layers)
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "whole numbers below 2^53, computed exactly")]
mod tests {
    use super::*;
    use crate::geometry::{ModelShape, PRESETS};

    fn llama_3_8b() -> ModelGeometry {
        ModelGeometry::preset("llama-3-8b").unwrap()
    }

    #[test]
    fn products_of_llama_3_8b_by_hand() {
        let model = llama_3_8b();
        // 4096 x (4096 + 2 * 1024) weights; 3 rows.
        let qkv = Operation::Qkv.work(&model, 3);
        assert_eq!(qkv.flops, 2.0 * 3.0 * 25_165_824.0);
        assert_eq!(qkv.bytes, 2.0 * 25_165_824.0 + 3.0 * (4096.0 + 6144.0) * 2.0);
        let gate_up = Operation::GateUp.work(&model, 1);
        assert_eq!(gate_up.flops, 234_881_024.0);
        assert_eq!(gate_up.bytes, 234_881_024.0 + (4096.0 + 28672.0) * 2.0);
        assert_eq!(Operation::Down.work(&model, 1).flops, 117_440_512.0);
        assert_eq!(Operation::OutProjection.work(&model, 1).flops, 33_554_432.0);
    }

    #[test]
    fn one_row_of_the_layers_moves_their_weights() {
        let model = llama_3_8b();
        let work = dense_work(&model, 1);
        // 32 x (25,165,824 + 16,777,216 + 176,160,768) weights, 2 flops and 2 bytes each.
        assert_eq!(work.flops, 2.0 * 6_979_321_856.0);
        let activations = work.bytes - 2.0 * 6_979_321_856.0;
        assert!(activations > 0.0 && activations < 0.001 * work.bytes, "{activations}");
    }

    #[test]
    fn head_reads_the_vocabulary_once() {
        let work = head_work(&llama_3_8b(), 2);
        assert_eq!(work.flops, 2.0 * 2.0 * 525_336_576.0);
        assert_eq!(work.bytes, 2.0 * 525_336_576.0 + 2.0 * (4096.0 + 128_256.0) * 2.0);
    }

    #[test]
    fn attention_by_hand() {
        let model = llama_3_8b();
        // Two new tokens after three cached: 2 * 3 + 1 + 2 = 9 pairs; 4 * 4096 flops a pair, 32 layers.
        let work = attention_work(&model, 2, 3);
        assert_eq!(work.flops, 32.0 * 4.0 * 4096.0 * 9.0);
        // Keys and values of 5 tokens at 4096 bytes a layer; queries and outputs of 2 tokens.
        assert_eq!(work.bytes, 32.0 * (4096.0 * 5.0 + 2.0 * 4096.0 * 2.0 * 2.0));
        // A chunk is its tokens decoded one after the other, as far as flops go.
        let one_by_one: Work = (0..2).map(|done| attention_work(&model, 1, 3 + done)).sum();
        assert_eq!(one_by_one.flops, work.flops);
    }

    #[test]
    fn operations_outside_the_layers_by_hand() {
        let model = llama_3_8b();
        // 3 rows of 4,096 bf16: read and written; the norm moves four rows.
        assert_eq!(row_copy_work(&model, 3), Work { flops: 0.0, bytes: 3.0 * 2.0 * 8_192.0 });
        assert_eq!(final_norm_work(&model, 3), Work { flops: 0.0, bytes: 3.0 * 4.0 * 8_192.0 });
        assert_eq!(sampling_work(&model, 2), Work { flops: 0.0, bytes: 2.0 * (2.0 * 128_256.0 + 4.0) });
    }

    #[test]
    fn splitting_attention_moves_partial_results_twice() {
        let model = llama_3_8b();
        // 5 requests x 32 heads x 3 ranges x 130 values of 4 bytes, out and in, 32 layers.
        assert_eq!(attention_split_work(&model, 5, 3).bytes, 2.0 * 249_600.0 * 32.0);
        assert_eq!(attention_split_work(&model, 5, 1), Work::default());
    }

    #[test]
    fn operations_are_counted_per_layer() {
        assert_eq!(layer_operations(&llama_3_8b()).len(), 10);
        assert_eq!(step_operations(&llama_3_8b()), 324);
        let with_norm = ModelGeometry::new(ModelShape { qk_norm: true, ..ModelShape::clone(&llama_3_8b()) }).unwrap();
        assert_eq!(layer_operations(&with_norm)[2], Operation::HeadNorm);
        assert_eq!(step_operations(&with_norm), 356);
    }

    #[test]
    fn roofline_takes_the_longer_side() {
        let work = Work { flops: 100.0, bytes: 10.0 };
        assert_eq!(work.roofline_us(10.0, 10.0), 10.0);
        assert_eq!(work.roofline_us(1000.0, 1.0), 10.0);
    }

    #[test]
    fn work_never_falls_with_rows() {
        for model in PRESETS.map(|name| ModelGeometry::preset(name).unwrap()) {
            for rows in 1..64 {
                let (less, more) = (dense_work(&model, rows), dense_work(&model, rows + 1));
                assert!(less.flops < more.flops && less.bytes < more.bytes);
            }
        }
    }
}

//! Models small enough for the CPU, on the machine and for the reference.

use kernels::bf16::{self, Bf16};
use kernels::geometry::{ModelGeometry, ModelShape};
use kernels::launch::Address;
use kernels::machine::Machine;
use kernels::random::Random;
use kernels::reference::{self, LayerValues, PagedCache};
use kernels::step::{Constants, LayerWeights, ModelWeights, StaticBuffers};

/// Tokens of a cache block.
pub(super) const BLOCK_SIZE: usize = 16;
/// Blocks of a cache.
pub(super) const BLOCKS: usize = 12;
/// Width of the block table.
pub(super) const BLOCKS_PER_REQUEST: usize = 4;
/// Most rows and requests of a step.
pub(super) const MOST_ROWS: usize = 80;

pub(super) const CONSTANTS: Constants = Constants { epsilon: 1e-5, rotary_base: 10_000.0 };

/// Plain Llama: grouped heads of 64.
pub(super) fn plain() -> ModelShape {
    ModelShape {
        layers: 2,
        hidden: 128,
        intermediate: 328,
        query_heads: 4,
        kv_heads: 2,
        head_size: 64,
        vocabulary: 264,
        weight_bits: 16,
        kv_bits: 16,
        tied_embeddings: false,
        qkv_bias: false,
        qk_norm: false,
    }
}

/// A bias on queries, keys and values, as Qwen2 has; heads of 128; the embedding is the head.
pub(super) fn biased() -> ModelShape {
    ModelShape { query_heads: 4, kv_heads: 1, head_size: 128, qkv_bias: true, tied_embeddings: true, ..plain() }
}

/// Norms of queries and keys, as Qwen3 has; no groups.
pub(super) fn normed() -> ModelShape {
    ModelShape { query_heads: 2, kv_heads: 2, qk_norm: true, ..plain() }
}

/// The values of a model's weights.
pub(super) struct Tiny {
    pub(super) geometry: ModelGeometry,
    embedding: Vec<Bf16>,
    layers: Vec<[Vec<Bf16>; 9]>,
    final_norm: Vec<Bf16>,
    head: Vec<Bf16>,
}

impl Tiny {
    /// Random values that keep the size of activations: matrices of variance 1 / inputs, norms about 1.
    pub(super) fn new(shape: ModelShape) -> Self {
        let geometry = ModelGeometry::new(shape).unwrap();
        let mut random = Random::named("tiny model", 7);
        let [hidden, intermediate, head, vocabulary] =
            [geometry.hidden, geometry.intermediate, geometry.head_size, geometry.vocabulary].map(|n| n as usize);
        let (query, qkv) =
            (geometry.query_width() as usize, (geometry.query_width() + 2 * geometry.kv_width()) as usize);
        let mut matrix = |outputs: usize, inputs: usize| random.bf16s(outputs * inputs, (3.0 / inputs as f64).sqrt());
        let mut random = Random::named("tiny model's vectors", 7);
        let mut norm =
            |width: usize| -> Vec<Bf16> { (0..width).map(|_| Bf16::from_f64(1.0 + 0.25 * random.signed())).collect() };
        let layers = (0..geometry.layers).map(|_| {
            [
                norm(hidden),
                matrix(qkv, hidden),
                if geometry.qkv_bias { matrix(qkv, 1) } else { Vec::new() },
                if geometry.qk_norm { norm(head) } else { Vec::new() },
                if geometry.qk_norm { norm(head) } else { Vec::new() },
                matrix(hidden, query),
                norm(hidden),
                matrix(2 * intermediate, hidden),
                matrix(hidden, intermediate),
            ]
        });
        let layers = layers.collect();
        let embedding = Random::named("tiny model's embedding", 7).bf16s(vocabulary * hidden, 1.7);
        let head = if geometry.tied_embeddings { embedding.clone() } else { matrix(vocabulary, hidden) };
        Self { final_norm: norm(hidden), embedding, layers, head, geometry }
    }

    /// The model for the reference.
    pub(super) fn reference(&self) -> reference::Model {
        let values = |weights: &Vec<Bf16>| bf16::to_f64s(weights);
        let layer = |weights: &[Vec<Bf16>; 9]| {
            let [input_norm, qkv, qkv_bias, query_norm, key_norm, out_projection, post_norm, gate_up, down] =
                weights.each_ref().map(values);
            LayerValues { input_norm, qkv, qkv_bias, query_norm, key_norm, out_projection, post_norm, gate_up, down }
        };
        reference::Model {
            geometry: self.geometry.clone(),
            constants: CONSTANTS,
            embedding: values(&self.embedding),
            layers: self.layers.iter().map(layer).collect(),
            final_norm: values(&self.final_norm),
            head: values(&self.head),
        }
    }

    /// Empty caches for the reference, one a layer.
    pub(super) fn caches(&self) -> Vec<PagedCache<f64>> {
        let cache = PagedCache::filled(f64::NAN, BLOCKS, self.reference().heads(), BLOCK_SIZE);
        vec![cache; self.layers.len()]
    }

    /// Bytes of one layer's cache.
    pub(super) fn cache_bytes(&self) -> usize {
        BLOCKS * 2 * BLOCK_SIZE * self.geometry.kv_width() as usize * 2
    }

    /// Copies the weights to a machine.
    pub(super) fn load<M: Machine>(&self, machine: &mut M) -> ModelWeights {
        let mut place = |values: &[Bf16]| {
            if values.is_empty() {
                return Address::NONE;
            }
            let bytes = bf16::to_bytes(values);
            let address = machine.allocate(bytes.len() as u64).unwrap();
            machine.write(address, &bytes).unwrap();
            address
        };
        let embedding = place(&self.embedding);
        let head = if self.geometry.tied_embeddings { embedding } else { place(&self.head) };
        let final_norm = place(&self.final_norm);
        let mut layer = |weights: &[Vec<Bf16>; 9]| {
            let [input_norm, qkv, qkv_bias, query_norm, key_norm, out_projection, post_norm, gate_up, down] =
                weights.each_ref().map(|weight| place(weight));
            LayerWeights { input_norm, qkv, qkv_bias, query_norm, key_norm, out_projection, post_norm, gate_up, down }
        };
        ModelWeights { embedding, layers: self.layers.iter().map(&mut layer).collect(), final_norm, head }
    }

    /// Allocates the static buffers; the caches hold NaN.
    pub(super) fn buffers<M: Machine>(&self, machine: &mut M) -> StaticBuffers {
        let mut words = |count: usize| machine.allocate(count as u64 * 4).unwrap();
        let [ids, positions, slots, context_lens, sampled_rows, tokens] = [(); 6].map(|()| words(MOST_ROWS));
        let (block_table, query_starts) = (words(MOST_ROWS * BLOCKS_PER_REQUEST), words(MOST_ROWS + 1));
        let bytes = self.cache_bytes();
        let mut cache = || {
            let address = machine.allocate(bytes as u64).unwrap();
            machine.write(address, &vec![0xff; bytes]).unwrap();
            address
        };
        let caches = self.layers.iter().map(|_| cache()).collect();
        StaticBuffers { ids, positions, slots, block_table, context_lens, query_starts, sampled_rows, tokens, caches }
    }
}

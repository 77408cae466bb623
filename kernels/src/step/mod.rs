//! One decoder step of a Llama-shaped model as launches, in the order of execution, with every activation allocated and
//! freed when an engine under PyTorch would.
//!
//! A [`Step`] is told where weights and static buffers lie and which shape the step has; [`Step::run`] hands its parts to
//! a [`StepRunner`], one after the other: whoever captures graphs, launches eagerly, or only writes down what comes. The
//! runner also is the allocator, so that a growing pool grows in the middle of a capture, as it does in an engine.
//!
//! Memory: every operation writes to a new activation, and its input is freed behind it; in place are only QK-norm, rotary
//! embedding and the residual stream, which begins as the embedding's output and lives to the final norm. Attention's
//! output is allocated before the cut, as vLLM does (`torch.empty` in the piece before). One launch more than
//! [`step_operations`] counts chooses the rows that are sampled, and where decode attention
//! cuts contexts into ranges there is one more per layer that joins them.

mod parts;

pub use parts::{Activations, Output, Place, StepOutputs, StepPart, StepRunner};

use crate::geometry::{ModelGeometry, preset_name};
use crate::launch::{
    Address, Argmax, DecodeAttention, DecodeAttentionMerge, DecodeSplits, Embed, HeadNorm, KvWrite, PrefillAttention,
    Product, RmsNorm, Rotary, ShapeError, SiluMul,
};
use crate::units::{Requests, Rows};
use crate::work::step_operations;

/// Bytes of a bf16 activation.
const ACTIVATION_BYTES: u64 = 2;
/// Bytes of an element of the static buffers.
const WORD_BYTES: u64 = 4;

/// What a configuration says beside the shape of the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// Added to the mean of squares in every norm (`rms_norm_eps`).
    pub epsilon: f32,
    /// Base of the rotary embedding (`rope_theta`).
    pub rotary_base: f32,
}

impl Constants {
    /// Those of a well-known model's published configuration, by a name that [`preset_name`] knows.
    pub fn preset(name: &str) -> Option<Self> {
        let (epsilon, rotary_base) = match preset_name(name)? {
            "llama-2-7b" | "llama-2-13b" | "llama-2-70b" => (1e-5, 10_000.0),
            "mistral-7b" => (1e-5, 1e6),
            "qwen2.5-7b" | "qwen3-8b" => (1e-6, 1e6),
            _ => return Some(Self::default()),
        };
        Some(Self { epsilon, rotary_base })
    }
}

impl Default for Constants {
    /// Llama 3's.
    fn default() -> Self {
        Self { epsilon: 1e-5, rotary_base: 500_000.0 }
    }
}

/// Where the weights of one layer lie, bf16, matrices `[outputs, inputs]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerWeights {
    /// `[hidden]`, the norm before attention.
    pub input_norm: Address,
    /// `[(query_heads + 2 kv_heads) * head_size, hidden]`.
    pub qkv: Address,
    /// `[(query_heads + 2 kv_heads) * head_size]`; read if the model has such a bias.
    pub qkv_bias: Address,
    /// `[head_size]`; read if the model norms queries and keys.
    pub query_norm: Address,
    /// `[head_size]`; read if the model norms queries and keys.
    pub key_norm: Address,
    /// `[hidden, query_heads * head_size]`.
    pub out_projection: Address,
    /// `[hidden]`, the norm before the MLP.
    pub post_norm: Address,
    /// `[2 * intermediate, hidden]`, gate first.
    pub gate_up: Address,
    /// `[hidden, intermediate]`.
    pub down: Address,
}

/// Where the weights of a model lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelWeights {
    /// `[vocabulary, hidden]`.
    pub embedding: Address,
    /// Of each layer.
    pub layers: Vec<LayerWeights>,
    /// `[hidden]`.
    pub final_norm: Address,
    /// `[vocabulary, hidden]`; the embedding again where it is tied.
    pub head: Address,
}

/// Buffers whose addresses a graph keeps and whose content changes from step to step. Before a first capture they must
/// hold something harmless: attention runs on them (GPU specification section 4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StaticBuffers {
    /// i32 `[rows]`, token ids; a padded row has 0.
    pub ids: Address,
    /// i32 `[rows]`, positions in their requests.
    pub positions: Address,
    /// i32 `[rows]`, cache slots; a padded row has -1.
    pub slots: Address,
    /// i32 `[requests, blocks_per_request]`.
    pub block_table: Address,
    /// i32 `[requests]`, tokens of context, the new ones included; a padded request has 0.
    pub context_lens: Address,
    /// i32 `[requests + 1]`, where each request's rows begin; read by mixed steps.
    pub query_starts: Address,
    /// i32 `[sampled]`, rows whose logits are wanted.
    pub sampled_rows: Address,
    /// i32 `[sampled]`, written: the chosen tokens.
    pub tokens: Address,
    /// The paged cache of each layer, as [`KvWrite`] lays it out.
    pub caches: Vec<Address>,
}

/// What attention of a step looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionShape {
    /// One new token per request: as many requests as rows, padded ones included.
    Decode {
        /// Ranges that contexts are cut into.
        splits: DecodeSplits,
    },
    /// Chunks of any length, decodes among them.
    Mixed {
        /// Requests, padded ones included.
        requests: Requests,
        /// Rows of the longest chunk that the launch must hold.
        longest_chunk: Rows,
    },
    /// Requests that decode first, one new token each, then chunks, a kernel for each kind, as backends launch them that
    /// have two. The rows at which the chunks begin are fixed with the number of decodes, so no graph holds it.
    Separate {
        /// Requests that decode, at least 1.
        decodes: Requests,
        /// Ranges that their contexts are cut into.
        splits: DecodeSplits,
        /// Requests with a chunk, at least 1.
        prefills: Requests,
        /// Rows of the longest chunk that the launch must hold.
        longest_chunk: Rows,
    },
}

impl AttentionShape {
    /// Requests of a step of so many rows.
    pub fn requests(self, rows: Rows) -> Requests {
        match self {
            Self::Decode { .. } => Requests(rows.0),
            Self::Mixed { requests, .. } => requests,
            Self::Separate { decodes, prefills, .. } => Requests(decodes.0.saturating_add(prefills.0)),
        }
    }
}

/// The shape of a step: what a graph holds fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepShape {
    /// Rows, padded ones included.
    pub rows: Rows,
    /// Attention.
    pub attention: AttentionShape,
    /// Rows whose logits are wanted.
    pub sampled: Rows,
    /// Tokens of a cache block.
    pub block_size: u32,
    /// Width of the block table.
    pub blocks_per_request: u32,
}

/// One step of one shape on one model.
#[derive(Clone, Debug, PartialEq)]
pub struct Step<'a> {
    model: &'a ModelGeometry,
    constants: Constants,
    weights: &'a ModelWeights,
    buffers: &'a StaticBuffers,
    shape: StepShape,
}

/// A hidden state on its way: the last sublayer's output, not yet added to the residual stream.
struct Stream {
    output: Address,
    residual: Address,
}

impl<'a> Step<'a> {
    /// A step of `shape`.
    ///
    /// # Errors
    /// A model that the kernels are not made for (weights or cache other than bf16), weights or caches of another number
    /// of layers, or a shape without rows, requests or sampled rows.
    pub fn new(
        model: &'a ModelGeometry,
        constants: Constants,
        weights: &'a ModelWeights,
        buffers: &'a StaticBuffers,
        shape: StepShape,
    ) -> Result<Self, ShapeError> {
        let refuse = |key, value: u32, expected: String| {
            Err(ShapeError { kernel: "decoder step", key, value: value.to_string(), expected })
        };
        for (key, bits) in [("weight_bits", model.weight_bits), ("kv_bits", model.kv_bits)] {
            if bits != 16 {
                return refuse(key, bits, "16: the kernels compute in bf16".into());
            }
        }
        for (key, layers) in [("layers of weights", weights.layers.len()), ("caches", buffers.caches.len())] {
            if layers != model.layers as usize {
                return refuse(key, layers as u32, format!("one for each of the model's {} layers", model.layers));
            }
        }
        let (decodes, chunks, chunk) = match shape.attention {
            AttentionShape::Decode { .. } => (shape.rows.0, 1, 1),
            AttentionShape::Mixed { requests, longest_chunk } => (1, requests.0, longest_chunk.0),
            AttentionShape::Separate { decodes, prefills, longest_chunk, .. } => {
                (decodes.0, prefills.0, longest_chunk.0)
            }
        };
        for (key, count) in [
            ("rows", shape.rows.0),
            ("decodes", decodes),
            ("requests", chunks),
            ("longest_chunk", chunk),
            ("sampled", shape.sampled.0),
        ] {
            if count == 0 {
                return refuse(key, count, "at least 1".into());
            }
        }
        if chunk > shape.rows.0 {
            return refuse("longest_chunk", chunk, format!("at most rows = {}", shape.rows));
        }
        Ok(Self { model, constants, weights, buffers, shape })
    }

    /// Launches of the step, products among them.
    pub fn launches(&self) -> u32 {
        let row_choice = 1;
        let layers = self.model.layers;
        let joins = |splits| if splits == DecodeSplits::WHOLE { 0 } else { layers };
        let more = match self.shape.attention {
            AttentionShape::Mixed { .. } => 0,
            AttentionShape::Decode { splits } => joins(splits),
            AttentionShape::Separate { splits, .. } => joins(splits) + layers,
        };
        step_operations(self.model) + row_choice + more
    }

    /// Hands every part to `runner`. The model's output is freed as `output` says. After an error, activations that were
    /// live stay allocated: their pool is to be given up.
    ///
    /// # Errors
    /// The runner's, or a shape that a kernel does not take.
    pub fn run<R: StepRunner>(&self, runner: &mut R, output: Output) -> Result<StepOutputs, R::Error> {
        runner.perform(StepPart::Enter(Place::Piece(0)))?;
        let hidden = self.embed(runner)?;
        let mut stream = Stream { output: hidden, residual: hidden };
        for (layer, weights) in (0..).zip(&self.weights.layers) {
            let normed = self.norm(runner, &mut stream, weights.input_norm)?;
            let qkv = self.qkv(runner, normed, weights)?;
            let attended = self.activation(runner, self.model.query_width())?;
            runner.perform(StepPart::Enter(Place::Attention(layer)))?;
            self.attention(runner, qkv, attended, self.buffers.caches[layer as usize])?;
            runner.free(qkv)?;
            runner.perform(StepPart::Enter(Place::Piece(layer + 1)))?;
            let (hidden, query) = (self.model.hidden, self.model.query_width() as u32);
            stream.output = self.product(runner, attended, weights.out_projection, Address::NONE, hidden, query)?;
            let normed = self.norm(runner, &mut stream, weights.post_norm)?;
            stream.output = self.mlp(runner, normed, weights)?;
        }
        let hidden = self.norm(runner, &mut stream, self.weights.final_norm)?;
        runner.free(stream.residual)?;
        if output == Output::HeldWeakly {
            runner.free(hidden)?;
        }
        runner.perform(StepPart::Enter(Place::Head))?;
        let logits = self.head(runner, hidden, output)?;
        Ok(StepOutputs { hidden, logits })
    }

    /// Memory for a row of `width` elements per row of the step.
    fn activation<R: StepRunner>(&self, runner: &mut R, width: u64) -> Result<Address, R::Error> {
        runner.allocate(u64::from(self.shape.rows.0) * width * ACTIVATION_BYTES)
    }

    fn embed<R: StepRunner>(&self, runner: &mut R) -> Result<Address, R::Error> {
        let out = self.activation(runner, self.model.hidden.into())?;
        let embed = Embed {
            out,
            table: self.weights.embedding,
            ids: self.buffers.ids,
            hidden: int(self.model.hidden),
            table_rows: int(self.model.vocabulary),
        };
        runner.perform(StepPart::Launch(embed.over(self.shape.rows)?))?;
        Ok(out)
    }

    /// Adds the stream's output to its residual, frees it, and gives the normed rows.
    fn norm<R: StepRunner>(&self, runner: &mut R, stream: &mut Stream, weight: Address) -> Result<Address, R::Error> {
        let out = self.activation(runner, self.model.hidden.into())?;
        let begins = stream.output == stream.residual;
        let norm = RmsNorm {
            out,
            residual: stream.residual,
            input: stream.output,
            weight,
            hidden: int(self.model.hidden),
            epsilon: self.constants.epsilon,
            add: i32::from(!begins),
        };
        runner.perform(StepPart::Launch(norm.over(self.shape.rows)?))?;
        if !begins {
            runner.free(stream.output)?;
        }
        Ok(out)
    }

    /// `input x weight^T (+ bias)`; frees the input.
    fn product<R: StepRunner>(
        &self,
        runner: &mut R,
        input: Address,
        weight: Address,
        bias: Address,
        outputs: u32,
        inputs: u32,
    ) -> Result<Address, R::Error> {
        let out = self.activation(runner, outputs.into())?;
        let product = Product { out, input, weight, bias, rows: self.shape.rows, outputs, inputs };
        runner.perform(StepPart::Product(product))?;
        runner.free(input)?;
        Ok(out)
    }

    /// Queries, keys and values, normed and turned.
    fn qkv<R: StepRunner>(&self, runner: &mut R, normed: Address, weights: &LayerWeights) -> Result<Address, R::Error> {
        let Constants { epsilon, rotary_base } = self.constants;
        let [query_heads, kv_heads, head_size] = self.heads();
        let width = (self.model.query_width() + 2 * self.model.kv_width()) as u32;
        let bias = if self.model.qkv_bias { weights.qkv_bias } else { Address::NONE };
        let qkv = self.product(runner, normed, weights.qkv, bias, width, self.model.hidden)?;
        if self.model.qk_norm {
            let (query_weight, key_weight) = (weights.query_norm, weights.key_norm);
            let norm = HeadNorm { qkv, query_weight, key_weight, query_heads, kv_heads, head_size, epsilon };
            runner.perform(StepPart::Launch(norm.over(self.shape.rows)?))?;
        }
        let (positions, log2_theta) = (self.buffers.positions, rotary_base.log2());
        let rotary = Rotary { qkv, positions, query_heads, kv_heads, head_size, log2_theta };
        runner.perform(StepPart::Launch(rotary.over(self.shape.rows)?))?;
        Ok(qkv)
    }

    /// What a PIECEWISE runner leaves out of its graphs: the cache write and attention.
    fn attention<R: StepRunner>(
        &self,
        runner: &mut R,
        qkv: Address,
        out: Address,
        cache: Address,
    ) -> Result<(), R::Error> {
        let [query_heads, kv_heads, head_size] = self.heads();
        let (slots, block_size) = (self.buffers.slots, int(self.shape.block_size));
        let write = KvWrite { cache, qkv, slots, query_heads, kv_heads, head_size, block_size };
        runner.perform(StepPart::Launch(write.over(self.shape.rows)?))?;
        match self.shape.attention {
            AttentionShape::Mixed { requests, longest_chunk } => {
                self.prefill_attention(runner, [qkv, out, cache], Requests(0), requests, longest_chunk)
            }
            AttentionShape::Decode { splits } => {
                self.decode_attention(runner, [qkv, out, cache], Requests(self.shape.rows.0), splits)
            }
            AttentionShape::Separate { decodes, splits, prefills, longest_chunk } => {
                self.decode_attention(runner, [qkv, out, cache], decodes, splits)?;
                self.prefill_attention(runner, [qkv, out, cache], decodes, prefills, longest_chunk)
            }
        }
    }

    /// Attention of `requests` requests behind the `first` ones, whose rows `query_starts` tells.
    fn prefill_attention<R: StepRunner>(
        &self,
        runner: &mut R,
        [qkv, out, cache]: [Address; 3],
        first: Requests,
        requests: Requests,
        longest_chunk: Rows,
    ) -> Result<(), R::Error> {
        let [query_heads, kv_heads, head_size] = self.heads();
        let (block_size, blocks_per_request) = (int(self.shape.block_size), int(self.shape.blocks_per_request));
        let first = u64::from(first.0);
        let prefill = PrefillAttention {
            out,
            qkv,
            cache,
            block_table: self.buffers.block_table.offset(first * u64::from(self.shape.blocks_per_request) * WORD_BYTES),
            query_starts: self.buffers.query_starts.offset(first * WORD_BYTES),
            context_lens: self.buffers.context_lens.offset(first * WORD_BYTES),
            query_heads,
            kv_heads,
            head_size,
            block_size,
            blocks_per_request,
            scale: self.scale(),
        };
        runner.perform(StepPart::Launch(prefill.over(requests, longest_chunk)?))
    }

    /// Attention of the first `requests` requests, a row each.
    fn decode_attention<R: StepRunner>(
        &self,
        runner: &mut R,
        [qkv, out, cache]: [Address; 3],
        requests: Requests,
        splits: DecodeSplits,
    ) -> Result<(), R::Error> {
        let [query_heads, kv_heads, head_size] = self.heads();
        let partial = match splits.partial_bytes(requests, self.model.query_heads, self.model.head_size) {
            0 => Address::NONE,
            bytes => runner.allocate(bytes)?,
        };
        let decode = DecodeAttention {
            out,
            partial,
            qkv,
            cache,
            block_table: self.buffers.block_table,
            context_lens: self.buffers.context_lens,
            query_heads,
            kv_heads,
            head_size,
            block_size: int(self.shape.block_size),
            blocks_per_request: int(self.shape.blocks_per_request),
            splits: int(splits.count()),
            scale: self.scale(),
        };
        runner.perform(StepPart::Launch(decode.over(requests)?))?;
        if partial == Address::NONE {
            return Ok(());
        }
        let splits = decode.splits;
        let merge = DecodeAttentionMerge { out, partial, query_heads, head_size, splits };
        runner.perform(StepPart::Launch(merge.over(requests)?))?;
        runner.free(partial)
    }

    /// Of the products of queries and keys.
    fn scale(&self) -> f32 {
        1.0 / (self.model.head_size as f32).sqrt()
    }

    fn mlp<R: StepRunner>(&self, runner: &mut R, normed: Address, weights: &LayerWeights) -> Result<Address, R::Error> {
        let (hidden, intermediate) = (self.model.hidden, self.model.intermediate);
        let gate_up = self.product(runner, normed, weights.gate_up, Address::NONE, 2 * intermediate, hidden)?;
        let out = self.activation(runner, intermediate.into())?;
        let activation = SiluMul { out, gate_up, rows: int(self.shape.rows.0), intermediate: int(intermediate) };
        runner.perform(StepPart::Launch(activation.whole()?))?;
        runner.free(gate_up)?;
        self.product(runner, out, weights.down, Address::NONE, hidden, intermediate)
    }

    /// From the model's output to tokens; gives the logits' address.
    fn head<R: StepRunner>(&self, runner: &mut R, hidden: Address, output: Output) -> Result<Address, R::Error> {
        let (rows, width, vocabulary) = (self.shape.sampled, self.model.hidden, self.model.vocabulary);
        let chosen = runner.allocate(u64::from(rows.0) * u64::from(width) * ACTIVATION_BYTES)?;
        let choice = Embed {
            out: chosen,
            table: hidden,
            ids: self.buffers.sampled_rows,
            hidden: int(width),
            table_rows: int(self.shape.rows.0),
        };
        runner.perform(StepPart::Launch(choice.over(rows)?))?;
        let logits = runner.allocate(u64::from(rows.0) * u64::from(vocabulary) * ACTIVATION_BYTES)?;
        let (weight, bias) = (self.weights.head, Address::NONE);
        let product = Product { out: logits, input: chosen, weight, bias, rows, outputs: vocabulary, inputs: width };
        runner.perform(StepPart::Product(product))?;
        runner.free(chosen)?;
        let argmax = Argmax { out: self.buffers.tokens, logits, vocabulary: int(vocabulary) };
        runner.perform(StepPart::Launch(argmax.over(rows)?))?;
        runner.free(logits)?;
        if output == Output::HeldThroughHead {
            runner.free(hidden)?;
        }
        Ok(logits)
    }

    fn heads(&self) -> [i32; 3] {
        [self.model.query_heads, self.model.kv_heads, self.model.head_size].map(int)
    }
}

/// A count as a kernel takes it; what is too large becomes negative, which every kernel's geometry refuses.
fn int(count: u32) -> i32 {
    count.cast_signed()
}

#[cfg(test)]
mod tests;

//! A model's weights: random, reproducible, and filled on the device, so that a large model takes no time to load.

use std::collections::HashMap;
use std::rc::Rc;

use kernels::bf16::{self, Bf16};
use kernels::geometry::ModelGeometry;
use kernels::launch::{Address, Copy};
use kernels::random::Random;
use kernels::step::{LayerWeights, ModelWeights};

use super::StepError;
use crate::device::{Arena, Session};

/// Values that are drawn; a weight repeats them from a place of its own on.
const DRAWN: usize = 1 << 18;
/// Values of one 16-byte vector: where a weight begins among the drawn ones is a multiple of it.
const VECTOR: usize = 8;
/// Seed of all weights.
const SEED: u64 = 0x3e16;
/// Blocks of a copy.
const COPY_BLOCKS: u32 = 128;

/// What values a weight has: uniform around `centre`, at most `spread` away.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Filling {
    centre: f64,
    spread: f64,
}

impl Filling {
    /// Norms: about 1.
    pub const NORM: Self = Self { centre: 1.0, spread: 0.25 };
    /// Biases: small.
    pub const BIAS: Self = Self { centre: 0.0, spread: 0.25 };
    /// Keys and values: variance 1.
    pub const CACHE: Self = Self { centre: 0.0, spread: 1.732_050_8 };
    /// Embeddings: variance 1.
    pub const EMBEDDING: Self = Self { centre: 0.0, spread: 1.732_050_8 };

    /// A matrix of `inputs` columns: outputs have the variance of the inputs.
    pub fn matrix(inputs: u32) -> Self {
        Self { centre: 0.0, spread: (3.0 / f64::from(inputs)).sqrt() }
    }

    fn drawn(self) -> Vec<Bf16> {
        let mut random = Random::named(&format!("weights {} {}", self.centre, self.spread), SEED);
        (0..DRAWN).map(|_| Bf16::from_f64(self.centre + self.spread * random.signed())).collect()
    }
}

/// Which weight of a model. Its name decides its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WeightName {
    /// [`ModelWeights::embedding`].
    Embedding,
    /// [`ModelWeights::final_norm`].
    FinalNorm,
    /// [`ModelWeights::head`], where it is not the embedding.
    Head,
    /// [`LayerWeights::input_norm`] of a layer.
    InputNorm(u32),
    /// [`LayerWeights::qkv`] of a layer.
    Qkv(u32),
    /// [`LayerWeights::qkv_bias`] of a layer.
    QkvBias(u32),
    /// [`LayerWeights::query_norm`] of a layer.
    QueryNorm(u32),
    /// [`LayerWeights::key_norm`] of a layer.
    KeyNorm(u32),
    /// [`LayerWeights::out_projection`] of a layer.
    OutProjection(u32),
    /// [`LayerWeights::post_norm`] of a layer.
    PostNorm(u32),
    /// [`LayerWeights::gate_up`] of a layer.
    GateUp(u32),
    /// [`LayerWeights::down`] of a layer.
    Down(u32),
}

impl WeightName {
    /// Values of this weight, and how they are drawn.
    fn extent(self, geometry: &ModelGeometry) -> (u64, Filling) {
        let [hidden, intermediate, head] = [geometry.hidden, geometry.intermediate, geometry.head_size].map(u64::from);
        let (query, vocabulary) = (geometry.query_width(), u64::from(geometry.vocabulary));
        let qkv = query + 2 * geometry.kv_width();
        let matrix = |outputs: u64, inputs: u64| (outputs * inputs, Filling::matrix(inputs as u32));
        match self {
            Self::Embedding => (vocabulary * hidden, Filling::EMBEDDING),
            Self::Head => matrix(vocabulary, hidden),
            Self::FinalNorm | Self::InputNorm(_) | Self::PostNorm(_) => (hidden, Filling::NORM),
            Self::QueryNorm(_) | Self::KeyNorm(_) => (head, Filling::NORM),
            Self::Qkv(_) => matrix(qkv, hidden),
            Self::QkvBias(_) => (qkv, Filling::BIAS),
            Self::OutProjection(_) => matrix(hidden, query),
            Self::GateUp(_) => matrix(2 * intermediate, hidden),
            Self::Down(_) => matrix(hidden, intermediate),
        }
    }

    /// Where among the drawn values it begins.
    fn start(self) -> usize {
        let vectors = (DRAWN / VECTOR) as u32;
        Random::named(&format!("{self:?}"), SEED).below(vectors) as usize * VECTOR
    }

    /// Its values, as the device has them.
    pub fn content(self, geometry: &ModelGeometry) -> Vec<Bf16> {
        let (values, filling) = self.extent(geometry);
        let drawn = filling.drawn();
        drawn.iter().cycle().skip(self.start()).take(values as usize).copied().collect()
    }
}

/// Allocates and fills every weight; of the layers those of the first `own_layers`, which the others share in turn.
pub(super) fn load(
    session: &mut Session,
    memory: &Arena,
    geometry: &ModelGeometry,
    own_layers: u32,
) -> Result<ModelWeights, StepError> {
    let drawn = session.arena();
    let mut loader = Loader { session, memory, geometry, drawn, sources: HashMap::new() };
    let mut layers = Vec::new();
    for layer in 0..geometry.layers.min(own_layers.max(1)) {
        let has = |condition: bool, name: WeightName| condition.then_some(name);
        layers.push(LayerWeights {
            input_norm: loader.weight(WeightName::InputNorm(layer))?,
            qkv: loader.weight(WeightName::Qkv(layer))?,
            qkv_bias: loader.optional(has(geometry.qkv_bias, WeightName::QkvBias(layer)))?,
            query_norm: loader.optional(has(geometry.qk_norm, WeightName::QueryNorm(layer)))?,
            key_norm: loader.optional(has(geometry.qk_norm, WeightName::KeyNorm(layer)))?,
            out_projection: loader.weight(WeightName::OutProjection(layer))?,
            post_norm: loader.weight(WeightName::PostNorm(layer))?,
            gate_up: loader.weight(WeightName::GateUp(layer))?,
            down: loader.weight(WeightName::Down(layer))?,
        });
    }
    let layers: Vec<LayerWeights> = layers.into_iter().cycle().take(geometry.layers as usize).collect();
    let embedding = loader.weight(WeightName::Embedding)?;
    let final_norm = loader.weight(WeightName::FinalNorm)?;
    let head = if geometry.tied_embeddings { embedding } else { loader.weight(WeightName::Head)? };
    // The drawn values go when the copies have been made.
    loader.session.synchronize()?;
    Ok(ModelWeights { embedding, layers, final_norm, head })
}

/// Fills caches of `bytes` each, a multiple of 16, with values of [`Filling::CACHE`]; each begins at a place of its own among
/// the drawn ones.
pub(super) fn fill_caches(session: &mut Session, caches: &[Address], bytes: u64) -> Result<(), StepError> {
    let drawn = session.arena();
    let source = drawn.allocate(DRAWN as u64 * 2)?;
    session.write(source, &bf16::to_bytes(&Filling::CACHE.drawn()))?;
    for (number, &cache) in caches.iter().enumerate() {
        let start = Random::named("cache", number as u64).below((DRAWN / VECTOR) as u32) as usize * VECTOR;
        repeat(session, source, start as u64, cache, bytes / 2)?;
    }
    // The drawn values go when the copies have been made.
    Ok(session.synchronize()?)
}

/// Copies so many of the drawn values, from `start` on and again from their beginning.
fn repeat(session: &mut Session, drawn: Address, mut start: u64, to: Address, values: u64) -> Result<(), StepError> {
    let mut done = 0;
    while done < values {
        let count = (DRAWN as u64 - start).min(values - done);
        let (to, from) = (to.offset(done * 2), drawn.offset(start * 2));
        session.launch(&Copy { to, from, vectors: count.div_ceil(VECTOR as u64) }.by(COPY_BLOCKS)?)?;
        done += count;
        start = 0;
    }
    Ok(())
}

struct Loader<'a> {
    session: &'a mut Session,
    memory: &'a Arena,
    geometry: &'a ModelGeometry,
    drawn: Rc<Arena>,
    /// Where drawn values lie on the device, by how they were drawn.
    sources: HashMap<[u64; 2], Address>,
}

impl Loader<'_> {
    fn optional(&mut self, name: Option<WeightName>) -> Result<Address, StepError> {
        name.map_or(Ok(Address::NONE), |name| self.weight(name))
    }

    fn weight(&mut self, name: WeightName) -> Result<Address, StepError> {
        let (values, filling) = name.extent(self.geometry);
        let source = self.source(filling)?;
        let to = self.memory.allocate(values * 2)?;
        repeat(self.session, source, name.start() as u64, to, values)?;
        Ok(to)
    }

    fn source(&mut self, filling: Filling) -> Result<Address, StepError> {
        let key = [filling.centre, filling.spread].map(f64::to_bits);
        if let Some(&address) = self.sources.get(&key) {
            return Ok(address);
        }
        let address = self.drawn.allocate(DRAWN as u64 * 2)?;
        self.session.write(address, &bf16::to_bytes(&filling.drawn()))?;
        self.sources.insert(key, address);
        Ok(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernels::geometry::ModelShape;

    fn geometry() -> ModelGeometry {
        let shape = ModelShape::clone(&ModelGeometry::preset("llama-3.2-1b").unwrap());
        ModelGeometry::new(ModelShape { vocabulary: 264, ..shape }).unwrap()
    }

    #[test]
    fn weights_depend_on_their_names_and_repeat_what_was_drawn() {
        let geometry = geometry();
        let embedding = WeightName::Embedding.content(&geometry);
        assert_eq!(embedding.len(), 264 * 2048);
        assert_eq!(embedding[..1000], embedding[DRAWN..][..1000]);
        assert_eq!(embedding, WeightName::Embedding.content(&geometry));
        let (first, second) = (WeightName::Qkv(0).content(&geometry), WeightName::Qkv(1).content(&geometry));
        assert_ne!(first[..1000], second[..1000]);
    }

    #[test]
    fn products_keep_the_variance_of_their_inputs() {
        let geometry = geometry();
        let down = WeightName::Down(0).content(&geometry);
        let squares: f64 = down.iter().map(|value| value.to_f64().powi(2)).sum();
        // Rows of the matrix have a norm of 1 on average.
        assert!((squares / 2048.0 - 1.0).abs() < 0.02, "{squares}");
        let norm = WeightName::FinalNorm.content(&geometry);
        assert!(norm.iter().all(|value| (0.75..=1.25).contains(&value.to_f64())));
    }
}

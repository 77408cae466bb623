//! A model on a device: weights, static buffers, KV cache and pools, run eagerly or through captured graphs as an engine
//! does it.
//!
//! Capture order and pools follow vLLM and PyTorch (GPU specification section 4): a rung is run once eagerly, then captured;
//! all graphs allocate from one private pool, everything eager from another; the head runs eagerly behind either mode.

mod batch;
mod call;
mod captured;
mod eager;
mod fitted;
mod planned;
mod products;
mod record;
mod weights;

use std::rc::Rc;

use kernels::geometry::ModelGeometry;
use kernels::launch::{Address, DecodeSplits, ShapeError};
use kernels::step::{AttentionShape, Constants, ModelWeights, Output, StaticBuffers, Step, StepOutputs, StepShape};
use kernels::units::{Requests, Rows};

pub use batch::{Batch, BatchError, Request};
pub use call::Call;
pub use captured::{Captured, Part, Recorded};
pub use fitted::Fitted;
pub use planned::Planned;
pub use weights::{Filling, WeightName};

use crate::device::{Arena, Attribute, Blaslt, BlasltError, DeviceError, Session};
use crate::gemm_backend::GemmBackend;
pub use crate::graph_mode::Mode;
use crate::pool::{NotAllocated, Pool};
use eager::EagerRunner;
use products::Products;
use record::{Recorder, Recording};

/// Why a step could not be run.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// cuBLASLt failed.
    #[error(transparent)]
    Blaslt(#[from] BlasltError),
    /// A kernel does not take the shape.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// An activation was freed that is not allocated: a mistake in the step.
    #[error(transparent)]
    Pool(#[from] NotAllocated),
    /// The requests do not fit the shape.
    #[error(transparent)]
    Batch(#[from] BatchError),
}

/// The largest step, and the size of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Rows of a step, padded ones included.
    pub rows: Rows,
    /// Requests of a step, padded ones included; at least as many as rows if decode steps are to be run.
    pub requests: Requests,
    /// Tokens of a cache block.
    pub block_size: u32,
    /// Width of the block table: what one request can have.
    pub blocks_per_request: u32,
    /// Blocks of each layer's cache.
    pub cache_blocks: u32,
}

/// A model on a device. Its memory is given back when it goes, and when the graphs that hold it have gone.
#[derive(Debug)]
pub struct Model {
    geometry: ModelGeometry,
    constants: Constants,
    limits: Limits,
    weights: ModelWeights,
    buffers: StaticBuffers,
    products: Rc<Products>,
    multiprocessors: u32,
    memory: Rc<Arena>,
    pools: Pools,
}

/// Where activations lie.
#[derive(Debug)]
struct Pools {
    /// The private pool that all graphs share; never given back while a graph lives.
    graphs: Pool<Rc<Arena>>,
    /// Everything eager. Nothing in it lives from one step to the next, and the stream runs its users one after the other.
    eager: Pool<Rc<Arena>>,
}

impl Model {
    /// Allocates a model and fills its weights: random values that their names decide (see [`WeightName::content`]). With a
    /// `library` that multiplies, else the own GEMM.
    ///
    /// # Errors
    /// There is not that much memory, or the device fails.
    pub fn load(
        session: &mut Session,
        geometry: ModelGeometry,
        constants: Constants,
        limits: Limits,
        library: Option<Blaslt>,
    ) -> Result<Self, StepError> {
        let own_layers = geometry.layers;
        Self::load_sharing(session, geometry, constants, limits, library, own_layers)
    }

    /// The same, with weights for `own_layers` layers only, which the others share in turn: for times, where the weights of
    /// all do not fit.
    ///
    /// # Errors
    /// As for [`Model::load`].
    pub fn load_sharing(
        session: &mut Session,
        geometry: ModelGeometry,
        constants: Constants,
        limits: Limits,
        library: Option<Blaslt>,
        own_layers: u32,
    ) -> Result<Self, StepError> {
        let memory = session.arena();
        let multiprocessors = session.card().attribute(Attribute::Multiprocessors)?.unsigned_abs();
        let weights = weights::load(session, &memory, &geometry, own_layers)?;
        let buffers = allocate_buffers(&memory, &geometry, limits)?;
        let products = Products::new(session, &memory, &geometry, limits.rows, multiprocessors, library)?;
        let pools = Pools { graphs: Pool::new(session.arena()), eager: Pool::new(session.arena()) };
        let mut model =
            Self { geometry, constants, limits, weights, buffers, products, multiprocessors, memory, pools };
        model.fill_cache(session)?;
        Ok(model)
    }

    /// The shape of a step of `rows` decodes.
    pub fn decode_shape(&self, rows: Rows) -> StepShape {
        let splits = self.splits(Requests(rows.0));
        self.shape(rows, AttentionShape::Decode { splits }, rows)
    }

    /// The shape of a step of chunks of any length, at most `requests` of them; each request's last row is sampled.
    pub fn mixed_shape(&self, rows: Rows, requests: Requests) -> StepShape {
        self.shape(rows, AttentionShape::Mixed { requests, longest_chunk: rows }, Rows(requests.0))
    }

    /// The shape of a step of `decodes` requests that decode, and behind them chunks of so many `prefills`, the longest of
    /// `longest_chunk` rows; a kernel for each kind. Eager, or between the graphs of PIECEWISE.
    pub fn separate_shape(&self, rows: Rows, decodes: Requests, prefills: Requests, longest_chunk: Rows) -> StepShape {
        let splits = self.splits(decodes);
        let attention = AttentionShape::Separate { decodes, splits, prefills, longest_chunk };
        self.shape(rows, attention, Rows(attention.requests(rows).0))
    }

    fn splits(&self, requests: Requests) -> DecodeSplits {
        DecodeSplits::choose(requests, self.geometry.kv_heads, self.limits.blocks_per_request, self.multiprocessors)
    }

    fn shape(&self, rows: Rows, attention: AttentionShape, sampled: Rows) -> StepShape {
        let Limits { block_size, blocks_per_request, .. } = self.limits;
        StepShape { rows, attention, sampled, block_size, blocks_per_request }
    }

    /// Writes what the next steps of this shape compute on; rows and requests that `batch` leaves are padded. The tokens of
    /// the step before are gone: each is -1 until a step has chosen another.
    ///
    /// # Errors
    /// The batch does not fit the shape, or the device fails.
    pub fn set_inputs(&mut self, session: &mut Session, batch: &Batch, shape: &StepShape) -> Result<(), StepError> {
        self.admit(shape)?;
        batch.within(self.limits.cache_blocks, self.geometry.vocabulary)?;
        let inputs = batch.inputs(shape)?;
        let &StaticBuffers {
            ids, positions, slots, block_table, context_lens, query_starts, sampled_rows, tokens, ..
        } = &self.buffers;
        for (address, values) in [
            (ids, &inputs.ids),
            (positions, &inputs.positions),
            (slots, &inputs.slots),
            (block_table, &inputs.block_table),
            (context_lens, &inputs.context_lens),
            (query_starts, &inputs.query_starts),
            (sampled_rows, &inputs.sampled_rows),
            (tokens, &vec![-1; inputs.sampled_rows.len()]),
        ] {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            session.write(address, &bytes)?;
        }
        Ok(())
    }

    /// Fills every layer's cache with random keys and values: zeros would draw less power, and so run at a higher clock
    /// (GPU specification section 4).
    ///
    /// # Errors
    /// The device fails.
    pub fn fill_cache(&mut self, session: &mut Session) -> Result<(), StepError> {
        weights::fill_caches(session, &self.buffers.caches, cache_bytes(&self.geometry, self.limits))
    }

    /// Runs a step eagerly on the inputs that were set.
    ///
    /// # Errors
    /// A shape beyond the limits or one that a kernel does not take, no memory, or a failure of the device.
    pub fn run(&mut self, session: &mut Session, shape: &StepShape) -> Result<StepOutputs, StepError> {
        self.admit(shape)?;
        let step = Step::new(&self.geometry, self.constants, &self.weights, &self.buffers, *shape)?;
        let mut runner = EagerRunner { session, pool: &mut self.pools.eager, products: &self.products };
        step.run(&mut runner, Output::HeldThroughHead)
    }

    /// Captures a step and makes it ready to be replayed, see [`Model::record`].
    ///
    /// # Errors
    /// As for [`Model::record`]; a graph that cannot be made executable.
    pub fn capture(&mut self, session: &mut Session, shape: &StepShape, mode: Mode) -> Result<Captured, StepError> {
        let captured = self.record(session, shape, mode)?.instantiate(session)?;
        captured.upload(session)?;
        session.synchronize()?;
        Ok(captured)
    }

    /// Records a step: a warm-up run first, then one graph (FULL) or one for each piece (PIECEWISE). Largest shapes should
    /// come first: smaller ones then lie over their memory. The inputs are padding afterwards.
    ///
    /// # Errors
    /// As for [`Model::run`]; a capture that is spoilt.
    pub fn record(&mut self, session: &mut Session, shape: &StepShape, mode: Mode) -> Result<Recorded, StepError> {
        self.set_inputs(session, &Batch::default(), shape)?;
        self.run(session, shape)?;
        session.synchronize()?;
        let step = Step::new(&self.geometry, self.constants, &self.weights, &self.buffers, *shape)?;
        let mut recorder = Recorder::new(session, mode, &mut self.pools, &self.products, &self.memory);
        let outputs = step.run(&mut recorder, Output::HeldWeakly)?;
        let Recording { session, parts, activations } = recorder.finish()?;
        session.synchronize()?;
        let (products, memory) = (Rc::clone(&self.products), self.held());
        Ok(Recorded { mode, parts, products, memory, activations, outputs })
    }

    /// A captured step with eager parts for this shape of as many rows: another number of sampled rows, and under PIECEWISE
    /// other requests. Under FULL attention must be that of the capture.
    ///
    /// # Errors
    /// As for [`Model::run`]; a shape that the graphs do not serve.
    pub fn fit(&mut self, captured: &Rc<Captured>, shape: &StepShape) -> Result<Fitted, StepError> {
        self.admit(shape)?;
        let step = Step::new(&self.geometry, self.constants, &self.weights, &self.buffers, *shape)?;
        let mut fitter = fitted::Fitter::new(captured, &mut self.pools.eager, &self.products);
        let outputs = step.run(&mut fitter, Output::HeldWeakly)?;
        let fitted = Fitted::new(captured, fitter.finish(), outputs);
        Ok(fitted.ok_or_else(|| ShapeError {
            kernel: "decoder step",
            key: "eager parts",
            value: "others".to_owned(),
            expected: "those between the graphs that were captured".to_owned(),
        })?)
    }

    /// The calls of an eager step, to be made again and again, or some of them alone. They are made once, so that every
    /// kernel is loaded; the inputs are padding afterwards.
    ///
    /// # Errors
    /// As for [`Model::run`].
    pub fn plan(&mut self, session: &mut Session, shape: &StepShape) -> Result<Planned, StepError> {
        self.set_inputs(session, &Batch::default(), shape)?;
        let step = Step::new(&self.geometry, self.constants, &self.weights, &self.buffers, *shape)?;
        let mut planner = planned::Planner::new(&mut self.pools.eager, &self.products);
        step.run(&mut planner, Output::HeldThroughHead)?;
        let calls = planner.calls();
        let planned = Planned::new(calls, Rc::clone(&self.products), self.held());
        planned.run(session)?;
        session.synchronize()?;
        Ok(planned)
    }

    /// What the private pool takes from the device if a step of this shape is the first that is captured.
    ///
    /// # Errors
    /// A shape beyond the limits, or one that a kernel does not take.
    pub fn pool_bytes(&self, shape: &StepShape) -> Result<u64, StepError> {
        self.admit(shape)?;
        let step = Step::new(&self.geometry, self.constants, &self.weights, &self.buffers, *shape)?;
        let mut pool = Pool::new(planned::Counted::default());
        step.run(&mut planned::Planner::new(&mut pool, &self.products), Output::HeldWeakly)?;
        Ok(pool.reserved_bytes())
    }

    /// The memory that graphs and eager steps run on.
    fn held(&self) -> [Rc<Arena>; 3] {
        [&self.memory, self.pools.graphs.source(), self.pools.eager.source()].map(Rc::clone)
    }

    /// A new private pool for the graphs that are captured from now on; those before keep theirs.
    pub fn renew_graph_pool(&mut self, session: &Session) {
        self.pools.graphs = Pool::new(session.arena());
    }

    /// The most bytes of the private pool that were allocated at a time since this was last asked.
    pub fn take_pool_peak_bytes(&mut self) -> u64 {
        let peak_bytes = self.pools.graphs.peak_bytes();
        self.pools.graphs.restart_peak();
        peak_bytes
    }

    /// Bytes that the graphs' private pool has taken.
    pub fn pool_reserved_bytes(&self) -> u64 {
        self.pools.graphs.reserved_bytes()
    }

    /// What multiplies in its steps.
    pub fn gemm_backend(&self) -> GemmBackend {
        self.products.backend()
    }

    /// Its shape.
    pub fn geometry(&self) -> &ModelGeometry {
        &self.geometry
    }

    /// What its configuration says beside the shape.
    pub fn constants(&self) -> Constants {
        self.constants
    }

    /// The largest step, and the size of the cache.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Tokens that the last step of `count` sampled rows chose.
    ///
    /// # Errors
    /// The device fails.
    pub fn tokens(&self, session: &mut Session, count: Rows) -> Result<Vec<i32>, StepError> {
        let mut bytes = vec![0; count.0 as usize * 4];
        session.read(self.buffers.tokens, &mut bytes)?;
        Ok(bytes.chunks_exact(4).map(|word| i32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect())
    }

    /// The content of one layer's cache.
    ///
    /// # Errors
    /// The device fails.
    pub fn cache(&self, session: &mut Session, layer: usize) -> Result<Vec<u8>, StepError> {
        let mut bytes = vec![0; cache_bytes(&self.geometry, self.limits) as usize];
        session.read(self.buffers.caches[layer], &mut bytes)?;
        Ok(bytes)
    }

    /// Changes the content of one layer's cache, from its beginning.
    ///
    /// # Errors
    /// The device fails.
    pub fn set_cache(&mut self, session: &mut Session, layer: usize, bytes: &[u8]) -> Result<(), StepError> {
        let bytes = &bytes[..bytes.len().min(cache_bytes(&self.geometry, self.limits) as usize)];
        Ok(session.write(self.buffers.caches[layer], bytes)?)
    }

    /// Launches of a step, head included.
    ///
    /// # Errors
    /// The model cannot be run in this shape.
    pub fn step_launches(&self, shape: &StepShape) -> Result<u32, StepError> {
        Ok(Step::new(&self.geometry, self.constants, &self.weights, &self.buffers, *shape)?.launches())
    }

    /// Refuses a shape that the buffers do not hold.
    fn admit(&self, shape: &StepShape) -> Result<(), StepError> {
        let requests = shape.attention.requests(shape.rows).0;
        for (key, value, most) in [
            ("rows", shape.rows.0, self.limits.rows.0),
            ("requests", requests, self.limits.requests.0),
            ("sampled", shape.sampled.0, self.limits.rows.0),
            ("block_size", shape.block_size, self.limits.block_size),
            ("blocks_per_request", shape.blocks_per_request, self.limits.blocks_per_request),
        ] {
            if value > most {
                let expected = format!("at most {most}, for which the model was loaded");
                let error = ShapeError { kernel: "decoder step", key, value: value.to_string(), expected };
                return Err(error.into());
            }
        }
        Ok(())
    }
}

/// Bytes of one layer's cache.
fn cache_bytes(geometry: &ModelGeometry, limits: Limits) -> u64 {
    let tokens = u64::from(limits.cache_blocks) * u64::from(limits.block_size);
    tokens * 2 * geometry.kv_width() * 2
}

/// Static buffers for the largest step.
fn allocate_buffers(memory: &Arena, geometry: &ModelGeometry, limits: Limits) -> Result<StaticBuffers, DeviceError> {
    let words = |count: u64| memory.allocate(count * 4);
    let (rows, requests) = (u64::from(limits.rows.0), u64::from(limits.requests.0));
    let caches: Result<Vec<Address>, DeviceError> =
        (0..geometry.layers).map(|_| memory.allocate(cache_bytes(geometry, limits))).collect();
    Ok(StaticBuffers {
        ids: words(rows)?,
        positions: words(rows)?,
        slots: words(rows)?,
        block_table: words(requests * u64::from(limits.blocks_per_request))?,
        context_lens: words(requests)?,
        query_starts: words(requests + 1)?,
        sampled_rows: words(rows)?,
        tokens: words(rows)?,
        caches: caches?,
    })
}

//! A candidate made ready: its graphs, its costs, its memory, its start-up.

use calibrate::profile::Profile;

use crate::cost::memory::{GraphMemory, KvPool, NoKvMemory};
use crate::cost::startup::Startup;
use crate::cost::{CostModel, EngineSide, Execution};
use crate::engine::error::EngineError;
use crate::engine::options::EngineOptions;
use crate::engine::plan::GraphPlan;
use crate::engine::scheduler::Scheduler;
use crate::engine::vllm;
use crate::engine::vllm::memory::PoolTooSmall;

/// Everything that is decided before the first request: one server with one candidate's graphs.
#[derive(Debug)]
pub struct Setup {
    /// What the server is started with.
    pub options: EngineOptions,
    /// What is captured, and how steps are dispatched.
    pub graphs: GraphPlan,
    /// What steps cost.
    pub cost: CostModel,
    /// What the graphs hold on the device.
    pub graph_memory: GraphMemory,
    /// What is left for the KV pool.
    pub kv_pool: KvPool,
    /// Tokens by which the graphs shrank the KV pool.
    pub kv_tokens_lost: u64,
    /// Seconds to the first request.
    pub startup: Startup,
    /// Attention layers of the profile's model.
    pub attention_layers: u32,
}

/// Why a server would not start with a candidate.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The engine refuses the options.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// No memory for the KV pool.
    #[error(transparent)]
    NoKvMemory(#[from] NoKvMemory),
    /// The KV pool cannot hold one request of the longest length.
    #[error(transparent)]
    PoolTooSmall(#[from] PoolTooSmall),
}

impl SetupError {
    /// What to do about it, where the message does not say so itself.
    #[must_use]
    pub fn help(&self) -> String {
        match self {
            Self::Engine(_) | Self::PoolTooSmall(_) => String::new(),
            Self::NoKvMemory(_) => "raise gpu_memory_utilization, lower max_num_batched_tokens or capture fewer and \
                 smaller graphs, or give num_gpu_blocks_override"
                .to_owned(),
        }
    }
}

impl Setup {
    /// Starts a server, in the engine's order: graphs are chosen, the KV pool is sized from what they leave, and the pool
    /// must hold one longest request.
    ///
    /// # Errors
    /// Where the engine would refuse to start.
    pub fn prepare(options: &EngineOptions, profile: &Profile) -> Result<Self, SetupError> {
        let plan = GraphPlan::build(options)?;
        let descriptors = plan.capture_order();
        let graph_memory = GraphMemory::of(profile, descriptors);
        let (kv_pool, without_graphs) = match options {
            EngineOptions::Vllm(options) => {
                let scheduler = &options.scheduler;
                let kv_pool = KvPool::size(profile, scheduler, &options.kv, graph_memory)?;
                let without_graphs = KvPool::size(profile, scheduler, &options.kv, GraphMemory::default())?;
                vllm::memory::check_pool(scheduler, kv_pool.num_gpu_blocks)?;
                (kv_pool, without_graphs)
            }
        };
        let side = EngineSide::of(options, &plan, profile);
        let startup = Startup::of(profile, descriptors, side.eager == Execution::CompiledEager);
        Ok(Self {
            graph_memory,
            kv_pool,
            kv_tokens_lost: without_graphs.tokens() - kv_pool.tokens(),
            startup,
            attention_layers: side.attention_layers,
            cost: CostModel::new(profile, &side),
            graphs: plan,
            options: options.clone(),
        })
    }

    /// CUDA graphs captured: one a FULL descriptor, one a piece for a PIECEWISE one.
    #[must_use]
    pub fn cuda_graphs(&self) -> u64 {
        self.graphs.cuda_graphs(self.attention_layers)
    }

    /// A fresh scheduler over this setup's KV pool.
    #[must_use]
    pub fn scheduler(&self) -> Scheduler {
        let blocks = self.kv_pool.num_gpu_blocks;
        match &self.options {
            EngineOptions::Vllm(options) => Scheduler::Vllm(vllm::scheduler::Scheduler::new(options, blocks)),
        }
    }
}

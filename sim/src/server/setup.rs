//! A candidate made ready: its graphs, its costs, its memory, its start-up.

use calibrate::profile::Profile;

use super::start::{Capture, Start};
use crate::cost::memory::{GraphMemory, GraphReserve, KvBlocks, KvPool, NoKvMemory};
use crate::cost::startup::Startup;
use crate::cost::{CostModel, EngineSide};
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
    /// Every capture, in order, with what it takes.
    pub captures: Vec<Capture>,
    /// What the graphs hold on the device.
    pub graph_memory: GraphMemory,
    /// What the engine expects them to hold.
    pub graph_reserve: GraphReserve,
    /// What is left for the KV pool.
    pub kv_pool: KvPool,
    /// The pool's blocks if graphs took other memory out of it.
    pub kv_blocks: KvBlocks,
    /// Tokens by which what is set aside for graphs shrank the KV pool.
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
    /// Starts a server, in the engine's order: graphs are chosen, the KV pool is sized from what the engine expects them to
    /// leave, and the pool must hold one longest request.
    ///
    /// # Errors
    /// Where the engine would refuse to start.
    pub fn prepare(options: &EngineOptions, profile: &Profile) -> Result<Self, SetupError> {
        let plan = GraphPlan::build(options)?;
        let side = EngineSide::of(options, &plan, profile);
        let start = match (options, &plan) {
            (EngineOptions::Vllm(options), GraphPlan::Vllm(plan)) => Start::vllm(options, plan, profile)?,
        };
        let Start { captures, graph_memory, graph_reserve, kv_pool, kv_blocks, kv_tokens_lost, startup } = start;
        Ok(Self {
            captures,
            graph_memory,
            graph_reserve,
            kv_pool,
            kv_blocks,
            kv_tokens_lost,
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

    /// A fresh scheduler for each data-parallel rank, each over a KV pool of its own.
    #[must_use]
    pub fn schedulers(&self) -> Vec<Scheduler> {
        let (_, data_parallel_ranks) = self.options.ranks();
        (0..data_parallel_ranks).map(|_| self.scheduler()).collect()
    }

    /// A fresh scheduler over this setup's KV pool.
    fn scheduler(&self) -> Scheduler {
        let blocks = self.kv_pool.num_gpu_blocks;
        match &self.options {
            EngineOptions::Vllm(options) => Scheduler::Vllm(vllm::scheduler::Scheduler::new(options, blocks)),
        }
    }
}

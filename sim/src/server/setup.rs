//! A candidate made ready: its graphs, its costs, its memory, its start-up.

use calibrate::profile::Profile;
use kernels::units::Bytes;

use super::error::SetupError;
use super::start::{Capture, Start};
use crate::cost::memory::{GraphMemory, GraphReserve, KvBlocks, KvPool, StaticShare};
use crate::cost::startup::Startup;
use crate::cost::{CostModel, EngineSide};
use crate::engine::error::EngineError;
use crate::engine::options::EngineOptions;
use crate::engine::plan::GraphPlan;
use crate::engine::scheduler::{Scheduler, Stepping};
use crate::engine::sglang::memory::request_rows;
use crate::engine::sglang::options::SglangOptions;
use crate::engine::sglang::scheduler::{ServerMemory, check_memory};
use crate::engine::vllm::options::VllmOptions;
use crate::engine::{sglang, vllm};

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
    /// What they hold less because some share their executables.
    pub graph_memory_spared: Bytes,
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
    /// A scheduler over this setup's KV pool that has seen no request.
    idle_scheduler: Scheduler,
}

impl Setup {
    /// Starts a server, in the engine's order. vLLM: graphs are chosen, the KV pool is sized from what the engine expects
    /// them to leave, and the pool must hold one longest request. SGLang: the KV pool is a share of the device, the rows of
    /// the request pool follow from it, and graphs are chosen and captured for those.
    ///
    /// # Errors
    /// Where the engine would refuse to start.
    pub fn prepare(options: &EngineOptions, profile: &Profile) -> Result<Self, SetupError> {
        let (graphs, start, idle_scheduler) = match options {
            EngineOptions::Vllm(options) => start_vllm(options, profile)?,
            EngineOptions::Sglang(options) => start_sglang(options, profile)?,
        };
        let side = EngineSide::of(options, &graphs, profile);
        let Start {
            captures,
            graph_memory,
            graph_memory_spared,
            graph_reserve,
            kv_pool,
            kv_blocks,
            kv_tokens_lost,
            startup,
        } = start;
        Ok(Self {
            captures,
            graph_memory,
            graph_memory_spared,
            graph_reserve,
            kv_pool,
            kv_blocks,
            kv_tokens_lost,
            startup,
            attention_layers: side.attention_layers,
            cost: CostModel::new(profile, &side),
            graphs,
            options: options.clone(),
            idle_scheduler,
        })
    }

    /// The graphs alone, on the device of `profile`. A vLLM server needs no memory for that; SGLang sizes its KV pool first.
    ///
    /// # Errors
    /// As [`Setup::prepare`].
    pub fn plan(options: &EngineOptions, profile: &Profile) -> Result<GraphPlan, SetupError> {
        let kv_tokens = match options {
            EngineOptions::Vllm(_) => None,
            EngineOptions::Sglang(options) => Some(StaticShare::of(options, profile)?.tokens_before_capture()?),
        };
        Ok(GraphPlan::build(options, kv_tokens)?)
    }

    /// Memory of the device: that which the KV pool was sized for.
    #[must_use]
    pub fn device_memory(&self, profile: &Profile) -> Bytes {
        self.options.device_memory().unwrap_or(profile.machine.memory.figures.total)
    }

    /// CUDA graphs captured: one a FULL descriptor, one a piece for a PIECEWISE one.
    #[must_use]
    pub fn cuda_graphs(&self) -> u64 {
        self.graphs.cuda_graphs(self.attention_layers)
    }

    /// A fresh scheduler for each data-parallel rank, each over a KV pool of its own.
    #[must_use]
    pub fn schedulers(&self, stepping: Stepping) -> Vec<Scheduler> {
        let (_, data_parallel_ranks) = self.options.ranks();
        (0..data_parallel_ranks).map(|_| self.idle_scheduler.clone().stepping(stepping)).collect()
    }
}

fn start_vllm(options: &VllmOptions, profile: &Profile) -> Result<(GraphPlan, Start, Scheduler), SetupError> {
    let plan = vllm::plan::GraphPlan::build(options).map_err(EngineError::from)?;
    let start = Start::vllm(options, &plan, profile)?;
    let scheduler = vllm::scheduler::Scheduler::new(options, start.kv_pool.num_gpu_blocks);
    Ok((GraphPlan::Vllm(plan), start, Scheduler::Vllm(scheduler)))
}

fn start_sglang(options: &SglangOptions, profile: &Profile) -> Result<(GraphPlan, Start, Scheduler), SetupError> {
    let share = StaticShare::of(options, profile)?;
    let request_rows = request_rows(options, share.tokens_before_capture()?);
    let plan = sglang::plan::GraphPlan::build(options, request_rows)?;
    let start = Start::sglang(&share, &plan, profile)?;
    let memory = ServerMemory { kv_tokens: start.kv_pool.tokens(), request_rows };
    let chunked_prefill_size = plan.settings().chunked_prefill_size;
    check_memory(options, chunked_prefill_size, memory)?;
    let scheduler = sglang::scheduler::Scheduler::new(options, chunked_prefill_size, memory);
    Ok((GraphPlan::Sglang(plan), start, Scheduler::Sglang(scheduler)))
}

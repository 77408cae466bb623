//! What a start does to memory and time, engine by engine.

use calibrate::profile::Profile;
use kernels::units::Bytes;

use super::error::SetupError;
use crate::cost::memory::{
    CaptureMemory, GraphMemory, GraphReserve, KvBlocks, KvPool, StaticShare, captures, estimate, share_executables,
};
use crate::cost::startup::{Startup, capture_seconds, sglang as sglang_startup, vllm as vllm_startup};
use crate::engine::sglang;
use crate::engine::shape::{Descriptor, RuntimeMode};
use crate::engine::vllm::memory::check_pool;
use crate::engine::vllm::options::{CaptureOrder, GraphPool, VllmOptions, WhatIf};
use crate::engine::vllm::plan::GraphPlan;

/// What is decided about memory and time before the first request.
#[derive(Clone, Debug)]
pub struct Start {
    /// Every capture, in order.
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
    /// Tokens by which what is set aside for graphs shrinks the KV pool.
    pub kv_tokens_lost: u64,
    /// Seconds to the first request.
    pub startup: Startup,
}

/// One capture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capture {
    /// The graph.
    pub descriptor: Descriptor,
    /// How long it takes, its warm-up run included.
    pub seconds: f64,
    /// By how much it lowers the free device memory.
    pub memory: CaptureMemory,
}

impl Start {
    /// The start of a vLLM server: the pool must hold one longest request.
    ///
    /// # Errors
    /// If no memory is left for the KV pool, or too little of it.
    pub fn vllm(options: &VllmOptions, plan: &GraphPlan, profile: &Profile) -> Result<Self, SetupError> {
        let (scheduler, kv, what_if) = (&options.scheduler, &options.kv, options.graphs.what_if);
        let order = in_order(plan.capture_order(), what_if);
        let taken = captures(profile, &order, what_if.graph_pool);
        let graph_memory = GraphMemory::sum(&taken);
        // A KV pool given in bytes needs no profile of the graphs.
        let profiled = kv.kv_cache_memory_bytes.is_none();
        let estimate = profiled.then(|| estimate(profile, plan.runner(), plan.capture_order(), what_if));
        let set_aside = estimate.filter(|_| kv.memory_profiler_estimate_cudagraphs).unwrap_or_default();
        let kv_pool = KvPool::size(profile, scheduler, kv, set_aside)?;
        let without_graphs = KvPool::size(profile, scheduler, kv, Bytes(0))?;
        check_pool(scheduler, kv, kv_pool.num_gpu_blocks)?;
        let blocks = |graphs| kv_pool.blocks_with(profile, scheduler, kv, graphs);
        Ok(Self {
            captures: Capture::all(profile, order, taken),
            graph_memory,
            graph_memory_spared: Bytes(0),
            graph_reserve: GraphReserve { estimate, set_aside },
            kv_pool,
            kv_blocks: KvBlocks {
                without_graphs: blocks(Bytes(0)),
                less_estimate: estimate.and_then(blocks),
                less_actual: blocks(graph_memory.total()),
            },
            kv_tokens_lost: without_graphs.tokens() - kv_pool.tokens(),
            startup: vllm_startup(profile, options, plan),
        })
    }

    /// The start of an SGLang server whose graphs `plan` was made with the rows that `share` allows.
    ///
    /// # Errors
    /// If no memory is left for the KV pool, or too little of it.
    pub fn sglang(
        share: &StaticShare<'_>,
        plan: &sglang::plan::GraphPlan,
        profile: &Profile,
    ) -> Result<Self, SetupError> {
        let order = plan.capture_order().to_vec();
        let mut taken = captures(profile, &order, GraphPool::Shared);
        let graph_memory_spared = if plan.settings().dedup { share_executables(&mut taken, &order) } else { Bytes(0) };
        let graph_memory = GraphMemory::sum(&taken);
        let kv_pool = share.pool(graph_memory.total())?;
        let kv_blocks = share.pages_by_graphs(graph_memory.total());
        let lost = kv_blocks.without_graphs.map_or(0, |blocks| blocks.saturating_sub(kv_pool.num_gpu_blocks));
        Ok(Self {
            captures: Capture::all(profile, order, taken),
            graph_memory,
            graph_memory_spared,
            graph_reserve: share.reserve(),
            kv_pool,
            kv_blocks,
            kv_tokens_lost: u64::from(lost) * u64::from(kv_pool.block_size),
            startup: sglang_startup(profile, share.options(), plan),
        })
    }
}

impl Capture {
    /// All captures of a start, in order, with the memory that each takes.
    fn all(profile: &Profile, order: Vec<Descriptor>, taken: Vec<CaptureMemory>) -> Vec<Self> {
        let seconds = capture_seconds(profile, &order);
        let capture = |((descriptor, memory), seconds)| Self { descriptor, seconds, memory };
        order.into_iter().zip(taken).zip(seconds).map(capture).collect()
    }
}

/// The captures in the order that a what-if asks for; the engine's own is PIECEWISE, then FULL, each largest first.
fn in_order(captures: &[Descriptor], what_if: WhatIf) -> Vec<Descriptor> {
    let of_mode = |mode| {
        let mut keys: Vec<Descriptor> = captures.iter().filter(|key| key.mode == mode).copied().collect();
        if what_if.capture_order == CaptureOrder::Ascending {
            keys.reverse();
        }
        keys
    };
    [RuntimeMode::Piecewise, RuntimeMode::Full].into_iter().flat_map(of_mode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::vllm::options::{GraphOptions, GraphPool, KvOptions, Runner, SchedulerOptions, Version};

    const MIB: u64 = 1 << 20;

    /// PIECEWISE and FULL at 1, 2, 4 and 8; a pool of 10 MiB and 1 MiB a row, executables of 20 MiB.
    fn start(runner: Runner, kv: KvOptions, what_if: WhatIf) -> Start {
        let mut profile = Profile::builtin("a100-llama-3-8b").expect("built in");
        let pool = &mut profile.machine.pool.figures;
        (pool.base, pool.per_row) = (Bytes(10 * MIB), Bytes(MIB));
        (pool.full_executable, pool.piecewise_executable) = (Bytes(20 * MIB), Bytes(20 * MIB));
        let sizes = Some(vec![1, 2, 4, 8]);
        let options = VllmOptions {
            version: Version::V0_33_0,
            runner: Some(runner),
            scheduler: SchedulerOptions::default(),
            kv,
            graphs: GraphOptions { cudagraph_capture_sizes: sizes, what_if, ..GraphOptions::default() },
        };
        let plan = GraphPlan::build(&options).expect("starts");
        Start::vllm(&options, &plan, &profile).expect("starts")
    }

    fn mib(bytes: Bytes) -> u64 {
        bytes.0 / MIB
    }

    #[test]
    fn the_kv_pool_follows_the_estimate_and_not_what_the_graphs_hold() {
        // One block of 16 tokens takes 2 MiB of an 8B model with 8 KV heads.
        let v1 = start(Runner::V1, KvOptions::default(), WhatIf::default());
        assert_eq!(mib(v1.graph_memory.total()), 18 + 8 * 20);
        assert_eq!(v1.graph_reserve.estimate.map(mib), Some(38 + 3 * 20 + 3 * 20), "one executable short");
        assert_eq!(v1.graph_reserve.estimate, Some(v1.graph_reserve.set_aside));
        let KvBlocks { without_graphs: Some(most), less_estimate: Some(estimated), less_actual: Some(actual) } =
            v1.kv_blocks
        else {
            panic!("the pool is the rest: {:?}", v1.kv_blocks)
        };
        assert_eq!(v1.kv_pool.num_gpu_blocks, estimated);
        assert_eq!((most - estimated, most - actual), (79, 89));
        assert_eq!(v1.kv_tokens_lost, 79 * 16);
        let v2 = start(Runner::V2, KvOptions::default(), WhatIf::default());
        assert_eq!(v2.graph_reserve.estimate, Some(v2.graph_memory.total()), "every PIECEWISE graph was measured");
    }

    #[test]
    fn the_estimate_can_be_left_out_of_the_pool() {
        let kv = KvOptions { memory_profiler_estimate_cudagraphs: false, ..KvOptions::default() };
        let off = start(Runner::V2, kv, WhatIf::default());
        assert_eq!(off.graph_reserve.set_aside, Bytes(0));
        assert_eq!(off.graph_reserve.estimate.map(mib), Some(178), "made all the same");
        assert_eq!(Some(off.kv_pool.num_gpu_blocks), off.kv_blocks.without_graphs);
        assert_eq!(off.kv_tokens_lost, 0);
        let given = KvOptions { kv_cache_memory_bytes: Some(Bytes(4 << 30)), ..KvOptions::default() };
        let given = start(Runner::V2, given, WhatIf::default());
        assert_eq!(given.graph_reserve, GraphReserve::default(), "not made at all");
        assert_eq!(given.kv_blocks, KvBlocks::default());
        let blocks = KvOptions { num_gpu_blocks_override: Some(2000), ..KvOptions::default() };
        let overridden = start(Runner::V2, blocks, WhatIf::default());
        assert_eq!((overridden.kv_pool.num_gpu_blocks, overridden.kv_tokens_lost), (2000, 0));
        assert_eq!(overridden.graph_reserve.estimate.map(mib), Some(178));
        assert_eq!(overridden.kv_blocks, KvBlocks::default());
    }

    #[test]
    fn what_ifs_change_the_captures() {
        let what_if =
            |capture_order, graph_pool| start(Runner::V1, KvOptions::default(), WhatIf { capture_order, graph_pool });
        let ascending = what_if(CaptureOrder::Ascending, GraphPool::Shared);
        assert_eq!(mib(ascending.graph_memory.pool), 10 + 1 + 2 + 4 + 8);
        let sizes: Vec<u32> = ascending.captures.iter().map(|capture| capture.descriptor.tokens).collect();
        assert_eq!(sizes, [1, 2, 4, 8, 1, 2, 4, 8]);
        let private = what_if(CaptureOrder::LargestFirst, GraphPool::Private);
        assert_eq!(mib(private.graph_memory.pool), 8 * 10 + 2 * 15);
        assert_eq!(private.graph_memory.executables, ascending.graph_memory.executables);
    }
}

//! What a ladder does to memory: laws of the graph pool and of the KV pool beside it.

use std::collections::BTreeSet;

use calibrate::profile::{Pool, Profile};
use kernels::units::Bytes;
use proptest::collection::btree_set;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use sim::engine::shape::{Descriptor, RuntimeMode};
use sim::engine::vllm::options::{
    AttentionSupport, CaptureOrder, CudagraphMode, GraphOptions, GraphPool, KvOptions, Runner, SchedulerOptions,
    Version, VllmOptions, WhatIf,
};
use sim::engine::vllm::plan::GraphPlan;
use sim::server::start::Start;

/// A server, a ladder, one more rung, and the figures of a graph pool.
#[derive(Clone, Debug)]
struct Case {
    runner: Runner,
    mode: CudagraphMode,
    support: AttentionSupport,
    drafts: u32,
    max_loras: Option<u32>,
    sizes: BTreeSet<u32>,
    rung: u32,
    pool: Pool,
}

fn cases() -> impl Strategy<Value = Case> {
    let modes = [
        CudagraphMode::None,
        CudagraphMode::Piecewise,
        CudagraphMode::Full,
        CudagraphMode::FullDecodeOnly,
        CudagraphMode::FullAndPiecewise,
    ];
    let server = (
        select(vec![Runner::V1, Runner::V2]),
        select(modes.to_vec()),
        select(vec![AttentionSupport::UniformBatch, AttentionSupport::Always]),
        0_u32..4,
        proptest::option::of(1_u32..5),
    );
    let bytes = |mib: u64| (0..=mib << 20).prop_map(Bytes);
    let pool = (bytes(64), bytes(1), bytes(30), bytes(30)).prop_map(|(base, per_row, full, piecewise)| Pool {
        base,
        per_row,
        full_executable: full,
        piecewise_executable: piecewise,
    });
    (server, btree_set(1_u32..600, 1..12), 1_u32..600, pool).prop_map(|(server, sizes, rung, pool)| {
        let (runner, mode, support, drafts, max_loras) = server;
        Case { runner, mode, support, drafts, max_loras, sizes, rung, pool }
    })
}

/// A server's start with the graphs that it captured.
struct Started {
    start: Start,
    keys: Vec<Descriptor>,
}

impl Case {
    /// The server with a ladder, if it starts.
    fn start(&self, profile: &Profile, sizes: &BTreeSet<u32>, what_if: WhatIf) -> Option<Started> {
        let mut profile = profile.clone();
        profile.machine.pool.figures = self.pool;
        let options = VllmOptions {
            version: Version::V0_33_0,
            runner: Some(self.runner),
            scheduler: SchedulerOptions::default(),
            kv: KvOptions::default(),
            graphs: GraphOptions {
                cudagraph_mode: Some(self.mode),
                cudagraph_capture_sizes: Some(sizes.iter().copied().collect()),
                attention_support: self.support,
                num_speculative_tokens: self.drafts,
                max_loras: self.max_loras,
                what_if,
                ..GraphOptions::default()
            },
        };
        let plan = GraphPlan::build(&options).ok()?;
        let start = Start::vllm(&options, &plan, &profile).ok()?;
        Some(Started { start, keys: plan.capture_order().to_vec() })
    }
}

fn for_all(name: &str, check: impl Fn(&Case, &Profile) -> bool) {
    let profile = Profile::builtin("a100-llama-3-8b").expect("built in");
    let mut config = Config { failure_persistence: None, ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 600;
    }
    if std::env::var_os("PROPTEST_RNG_SEED").is_none() {
        config.rng_seed = RngSeed::Fixed(7);
    }
    let started = std::cell::Cell::new(0_u32);
    let outcome = TestRunner::new(config).run(&cases(), |case| {
        started.set(started.get() + u32::from(check(&case, &profile)));
        Ok(())
    });
    println!("{name}: {} servers started", started.get());
    outcome.unwrap_or_else(|fault| panic!("{name}: {fault}"));
    assert!(started.get() > 0, "{name}: no server ever started");
}

/// One more rung never lowers what graphs hold, nor what the engine expects them to hold, and never adds a KV block.
#[test]
fn a_rung_never_gives_memory_back() {
    for_all("one more rung", |case, profile| {
        let more = case.sizes.iter().copied().chain([case.rung]).collect();
        let [before, after] = [&case.sizes, &more].map(|sizes| case.start(profile, sizes, WhatIf::default()));
        let (Some(Started { start: before, .. }), Some(Started { start: after, .. })) = (before, after) else {
            return false;
        };
        assert!(before.graph_memory.total() <= after.graph_memory.total());
        assert!(before.graph_reserve.estimate <= after.graph_reserve.estimate);
        assert!(before.kv_pool.num_gpu_blocks >= after.kv_pool.num_gpu_blocks);
        assert!(before.kv_blocks.less_actual >= after.kv_blocks.less_actual);
        assert_eq!(before.kv_blocks.without_graphs, after.kv_blocks.without_graphs);
        true
    });
}

/// Ascending captures and private pools hold at least what the engine's own way holds, and each holds what a sum over
/// its sizes says.
#[test]
fn every_other_way_to_capture_holds_more() {
    for_all("what-ifs", |case, profile| {
        let holds = |capture_order, graph_pool| {
            let Started { start, keys } = case.start(profile, &case.sizes, WhatIf { capture_order, graph_pool })?;
            let memory: u64 = start.captures.iter().map(|capture| capture.memory.total().0).sum();
            assert_eq!(memory, start.graph_memory.total().0, "captures make up the whole");
            Some((start.graph_memory, keys))
        };
        let Some((own, keys)) = holds(CaptureOrder::LargestFirst, GraphPool::Shared) else { return false };
        let (ascending, _) = holds(CaptureOrder::Ascending, GraphPool::Shared).expect("starts as well");
        let private = [CaptureOrder::LargestFirst, CaptureOrder::Ascending]
            .map(|order| holds(order, GraphPool::Private).expect("starts as well").0);
        assert_eq!(private[0], private[1], "order is nothing to private pools");
        assert!(own.pool <= ascending.pool && ascending.pool <= private[0].pool);
        assert!([ascending, private[0]].iter().all(|memory| memory.executables == own.executables));

        let (base, per_row) = (case.pool.base.0, case.pool.per_row.0);
        let mut distinct: Vec<u32> = keys.iter().map(|key| key.tokens).collect();
        let all: u64 = distinct.iter().map(|&tokens| base + per_row * u64::from(tokens)).sum();
        assert_eq!(private[0].pool.0, all);
        let piecewise = keys.iter().any(|key| key.mode == RuntimeMode::Piecewise);
        distinct.sort_unstable();
        distinct.dedup();
        let largest = distinct.last().map_or(0, |&tokens| base + per_row * u64::from(tokens));
        assert_eq!(own.pool.0, largest);
        // PIECEWISE graphs come first and hold every size up to the ceiling that a FULL graph could have.
        let of_first_mode = |tokens: &&u32| {
            !piecewise || keys.iter().any(|key| key.mode == RuntimeMode::Piecewise && key.tokens == **tokens)
        };
        let rows: u64 = distinct.iter().filter(of_first_mode).map(|&tokens| u64::from(tokens)).sum();
        let grown = if distinct.is_empty() { 0 } else { base + per_row * rows };
        assert_eq!(ascending.pool.0, grown);
        true
    });
}

/// Runner V2 measures what it captures: only its floor of 1 MiB a FULL graph lies above what the graphs hold. Runner V1
/// takes one mode's first graph for both.
#[test]
fn the_estimate_is_off_by_what_the_rule_leaves_out() {
    for_all("estimate", |case, profile| {
        let Some(Started { start, keys }) = case.start(profile, &case.sizes, WhatIf::default()) else { return false };
        let (estimate, actual) = (start.graph_reserve.estimate.expect("made"), start.graph_memory.total());
        let floor = |mode, executable: Bytes| {
            let graphs = keys.iter().filter(|key| key.mode == mode).count() as u64;
            graphs.saturating_sub(1) * (1_u64 << 20).saturating_sub(executable.0)
        };
        let of_full = floor(RuntimeMode::Full, case.pool.full_executable);
        let expected = match case.runner {
            Runner::V2 => actual.0 + of_full,
            Runner::V1 => {
                let modes: BTreeSet<_> = keys.iter().map(|key| key.mode).collect();
                let twice = modes.len() == 2;
                let of_piecewise = floor(RuntimeMode::Piecewise, case.pool.piecewise_executable);
                let pool = start.graph_memory.pool.0;
                let firsts = [pool + case.pool.piecewise_executable.0, case.pool.full_executable.0];
                let lost = if twice { firsts[0].min(firsts[1]) } else { 0 };
                actual.0 + of_full + of_piecewise - lost
            }
        };
        assert_eq!(estimate.0, expected, "{:?}", start.graph_memory);
        true
    });
}

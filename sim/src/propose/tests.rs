//! The landscape against the engine's own dispatcher and the cost model: what the optimum thinks a ladder costs is what it
//! costs.

use calibrate::profile::{Overlap, Profile};
use proptest::prelude::*;

use super::histogram::{figures, shapes};
use super::ladders::{Ladders, List};
use super::landscape::Landscape;
use crate::engine::options::EngineOptions;
use crate::engine::sglang::options::SglangOptions;
use crate::engine::vllm::options::{
    AttentionSupport, CudagraphMode, GraphOptions, KvOptions, Runner, SchedulerOptions, Version, VllmOptions,
};
use crate::optimum::Budget;
use crate::server::Setup;
use crate::traffic::{StepHistogram, StepRow};

/// A server whose steps hold at most 64 requests and 256 tokens.
fn vllm(
    version: Version,
    runner: Runner,
    mode: Option<CudagraphMode>,
    drafts: u32,
    asynchronous: bool,
) -> EngineOptions {
    let scheduler = SchedulerOptions {
        max_num_seqs: 64,
        max_num_batched_tokens: 256,
        async_scheduling: asynchronous,
        ..SchedulerOptions::default()
    };
    let graphs = GraphOptions {
        cudagraph_mode: mode,
        num_speculative_tokens: drafts,
        attention_support: AttentionSupport::Always,
        ..GraphOptions::default()
    };
    EngineOptions::Vllm(VllmOptions { version, runner: Some(runner), scheduler, kv: KvOptions::default(), graphs })
}

fn sglang() -> EngineOptions {
    let mut options = SglangOptions::default();
    options.scheduler.max_running_requests = Some(64);
    options.scheduler.chunked_prefill_size = Some(256);
    options.scheduler.max_prefill_tokens = 256;
    options.kv.gpu_mem_mib = Some(81_559);
    EngineOptions::Sglang(options)
}

fn server() -> impl Strategy<Value = EngineOptions> {
    let mode = prop_oneof![
        Just(None),
        Just(Some(CudagraphMode::Piecewise)),
        Just(Some(CudagraphMode::Full)),
        Just(Some(CudagraphMode::FullDecodeOnly)),
        Just(Some(CudagraphMode::FullAndPiecewise)),
    ];
    let version = prop_oneof![Just(Version::V0_31_0), Just(Version::V0_33_0), Just(Version::Main)];
    let runner = prop_oneof![Just(Runner::V1), Just(Runner::V2)];
    let of_vllm = (version, runner, mode, prop_oneof![Just(0_u32), 1_u32..4], any::<bool>());
    prop_oneof![
        6 => of_vllm.prop_map(|(version, runner, mode, drafts, asynchronous)| {
            vllm(version, runner, mode, drafts, asynchronous)
        }),
        1 => Just(sglang()),
    ]
}

/// Decode batches, and others.
fn rows(decode_tokens: u32) -> impl Strategy<Value = Vec<StepRow>> {
    let decode = (1_u64..=(256 / u64::from(decode_tokens)).min(64), 1_u64..1000).prop_map(move |(requests, count)| {
        let query = u64::from(decode_tokens);
        StepRow::new(requests * query, requests, Some(query), count).expect("a decode batch")
    });
    let other = (1_u64..32, 8_u64..200, 1_u64..1000).prop_map(|(decodes, chunk, count)| {
        StepRow::new(decodes + chunk, decodes + 1, Some(chunk), count).expect("a chunk beside decodes")
    });
    proptest::collection::vec(prop_oneof![decode, other], 1..12).prop_map(|mut rows| {
        rows.sort_by_key(|row| (row.tokens, row.requests, row.query_len));
        rows.dedup_by_key(|row| (row.tokens, row.requests, row.query_len));
        rows
    })
}

/// Sizes that the lists may hold: shares of 256, whole decodes.
fn sizes(picked: &[u8], stride: u32, most: u32) -> Vec<u32> {
    let mut sizes: Vec<u32> =
        picked.iter().map(|&size| (u32::from(size) % most + 1).next_multiple_of(stride)).collect();
    sizes.retain(|&size| size <= most);
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever ladder is captured: the steps of a histogram cost what the dispatcher and the cost model say, to the
    /// nanosecond of a step.
    #[test]
    fn a_ladder_costs_what_its_steps_cost_as_dispatched(
        (options, rows) in server().prop_flat_map(|options| {
            let decode_tokens = options.decode_tokens();
            (Just(options), rows(decode_tokens))
        }),
        picked in proptest::collection::vec(any::<u8>(), 1..8),
        additive in any::<bool>(),
        pays_for_padded_requests in any::<bool>(),
    ) {
        let mut profile = Profile::builtin("h100-llama-2-7b").expect("built in");
        profile.overlap = if additive { Overlap::Additive } else { Overlap::Pipelined };
        for attention in [&mut profile.machine.attention, &mut profile.engine.attention].into_iter().flatten() {
            attention.figures.padded_request_us = if pays_for_padded_requests { 3.0 } else { 0.0 };
        }
        let Ok(setup) = Setup::prepare(&options, &profile) else { return Ok(()) };
        let form = Ladders::of(&setup.graphs);
        let landscape = Landscape::survey(&options, &profile, &form, None).expect("starts");
        let stride = options.decode_tokens();
        let ladders = match &form {
            Ladders::Together(_) => {
                let mut all = sizes(&picked, stride, 256);
                // A decode batch that finds no FULL graph pads no request: what it would have paid is a bound there.
                if pays_for_padded_requests && let Err(place) = all.binary_search(&(64 * stride).min(256)) {
                    all.insert(place, (64 * stride).min(256));
                }
                Ladders::Together(all)
            }
            Ladders::Apart { .. } => {
                let mut decode = sizes(&picked, 1, 64);
                // Decode batches above their ceiling run prefill graphs under vLLM: then each list is no problem of its own.
                decode.push(64);
                decode.dedup();
                Ladders::Apart { decode, prefill: sizes(&picked, 1, 256) }
            }
        };
        let Ok(setup) = Setup::prepare(&ladders.applied(&options), &profile) else { return Ok(()) };
        // SGLang's prefill steps run without a graph rather than padded to more than twice their tokens: that is left to the
        // simulation.
        let rows: Vec<StepRow> =
            rows.into_iter().filter(|row| options.vllm().is_some() || row.query_len == options.decode_tokens()).collect();
        let Ok(histogram) = StepHistogram::new(rows) else { return Ok(()) };
        let loads = landscape.loads(&shapes(&histogram, &setup)).expect("small counts");
        let Some(cost_ns) = loads.cost_ns(&ladders) else { return Ok(()) };
        let figures = figures(&histogram, &setup, "");
        let (steps, mean_ms) = (figures.steps.mean().expect("counted"), figures.mean_step_ms.mean().expect("priced"));
        let (ours_ms, theirs_ms) = (cost_ns as f64 / 1e6, steps * mean_ms);
        prop_assert!(
            (ours_ms - theirs_ms).abs() <= steps * 2e-6,
            "{ours_ms} {theirs_ms} {ladders:?} {:?}", setup.graphs.mode_name()
        );
    }

    /// The best ladders of the landscape are no worse than any other that the budget allows.
    #[test]
    fn no_ladder_is_better_than_the_best_of_its_size(
        rows in rows(1),
        picked in proptest::collection::vec(any::<u8>(), 1..6),
    ) {
        let profile = Profile::builtin("h100-llama-2-7b").expect("built in");
        let options = vllm(Version::V0_33_0, Runner::V2, None, 0, true);
        let setup = Setup::prepare(&options, &profile).expect("starts");
        let form = Ladders::of(&setup.graphs);
        let landscape = Landscape::survey(&options, &profile, &form, None).expect("starts");
        let histogram = StepHistogram::new(rows).expect("rows, none twice");
        let loads = landscape.loads(&shapes(&histogram, &setup)).expect("small counts");
        let other = Ladders::Together(sizes(&picked, 1, 256));
        let best = loads.best(&form, &Budget::default(), other.len()).expect("one list");
        let best = best[other.len()].as_ref().expect("no budget");
        prop_assert_eq!(loads.cost_ns(&best.ladders), Some(best.cost_ns));
        prop_assert!(best.cost_ns <= loads.cost_ns(&other).expect("every size may be captured"));
    }
}

#[test]
fn lists_are_those_that_the_engine_makes_of_them() {
    let profile = Profile::builtin("h100-llama-2-7b").expect("built in");
    let servers = [
        vllm(Version::V0_33_0, Runner::V2, None, 0, true),
        vllm(Version::V0_31_0, Runner::V1, None, 0, false),
        vllm(Version::Main, Runner::V2, None, 0, true),
        sglang(),
    ];
    for options in servers {
        let setup = Setup::prepare(&options, &profile).expect("starts");
        let mut wanted = Ladders::of(&setup.graphs).none();
        for (list, size) in [(List::All, 3), (List::All, 24), (List::Decode, 5), (List::Decode, 9), (List::Prefill, 96)]
        {
            wanted = wanted.toggled(list, size);
        }
        let made = Setup::prepare(&wanted.applied(&options), &profile).expect("starts");
        assert_eq!(Ladders::of(&made.graphs), wanted, "{options:?}");
        let none = Setup::prepare(&wanted.none().applied(&options), &profile).expect("starts");
        assert!(none.captures.is_empty());
    }
}

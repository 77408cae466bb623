//! The plan against worked cases, slow references and laws 3, 4 and 8.

use proptest::prelude::*;

use super::*;
use crate::engine::options::DecodeBatch;
use crate::engine::vllm::options::{
    AttentionSupport, GraphOptions, KvOptions, SchedulerOptions, SplittingOps, Version,
};

fn options(runner: Runner, max_num_seqs: u32, budget: u32, graphs: GraphOptions) -> VllmOptions {
    VllmOptions {
        version: Version::V0_33_0,
        runner: Some(runner),
        scheduler: SchedulerOptions { max_num_seqs, max_num_batched_tokens: budget, ..SchedulerOptions::default() },
        kv: KvOptions::default(),
        graphs,
    }
}

fn plan(runner: Runner, max_num_seqs: u32, budget: u32, graphs: GraphOptions) -> GraphPlan {
    GraphPlan::build(&options(runner, max_num_seqs, budget, graphs)).expect("the options are valid")
}

/// A step of `requests` decodes, `query_len` tokens each.
fn decode(requests: u32, query_len: u32, plan_query_len: u32) -> StepShape {
    StepShape {
        requests,
        tokens: requests * query_len,
        max_query: query_len,
        uniform_v1: query_len == plan_query_len,
        uniform_v2: Some(query_len),
        prefilling: false,
        active_loras: 0,
        encoder_inputs: false,
    }
}

/// A step with a prefill chunk in it.
fn mixed(requests: u32, tokens: u32) -> StepShape {
    StepShape {
        requests,
        tokens,
        max_query: tokens - requests + 1,
        uniform_v1: false,
        uniform_v2: None,
        prefilling: true,
        active_loras: 0,
        encoder_inputs: false,
    }
}

fn answer(plan: &GraphPlan, shape: &StepShape) -> (RuntimeMode, u32, Option<FallbackCause>, bool) {
    let Dispatch { descriptor, cause, relaxed } = plan.dispatch(shape);
    (descriptor.mode, descriptor.tokens, cause, relaxed)
}

#[test]
fn the_512_ceiling_case() {
    for runner in [Runner::V1, Runner::V2] {
        let made = plan(runner, 256, 8192, GraphOptions::default());
        assert_eq!((made.capture_sizes().len(), made.ceiling()), (51, 512));
        assert_eq!(made.descriptors_captured(), 86);
        assert_eq!(made.cuda_graphs(32), 51 * 33 + 35);
        assert_eq!(made.capture_order()[0].mode, RuntimeMode::Piecewise);
        assert_eq!(made.capture_order()[85].tokens, 1);
        assert_eq!(made.eager_kind(), EagerKind::Compiled);
        assert_eq!(answer(&made, &decode(100, 1, 1)), (RuntimeMode::Full, 104, None, false));
        assert_eq!(answer(&made, &mixed(3, 300)), (RuntimeMode::Piecewise, 304, None, false));
        let above = Some(FallbackCause::AboveCeiling);
        assert_eq!(answer(&made, &mixed(3, 513)), (RuntimeMode::None, 513, above, false));
    }
}

#[test]
fn causes_follow_the_mode() {
    let with = |mode| GraphOptions { cudagraph_mode: Some(mode), ..GraphOptions::default() };
    for runner in [Runner::V1, Runner::V2] {
        let off = plan(runner, 64, 2048, with(CudagraphMode::None));
        assert_eq!(answer(&off, &decode(3, 1, 1)).2, Some(FallbackCause::GraphsOff));
        assert_eq!(off.eager_kind(), EagerKind::Compiled);
        let decode_only = plan(runner, 64, 2048, with(CudagraphMode::FullDecodeOnly));
        assert_eq!(answer(&decode_only, &mixed(2, 20)).2, Some(FallbackCause::ModeExcluded));
        assert_eq!(answer(&decode_only, &mixed(2, 200)).2, Some(FallbackCause::AboveCeiling));
        assert_eq!(answer(&decode_only, &decode(20, 1, 1)), (RuntimeMode::Full, 24, None, false));
        let eager = plan(runner, 64, 2048, GraphOptions { enforce_eager: true, ..GraphOptions::default() });
        assert_eq!((eager.mode(), eager.eager_kind()), (CudagraphMode::None, EagerKind::True));
        assert_eq!(eager.requested_mode(), CudagraphMode::FullAndPiecewise);
    }
}

#[test]
fn an_explicit_ceiling_leaves_the_full_speculative_batch_eager() {
    let graphs =
        GraphOptions { num_speculative_tokens: 6, max_cudagraph_capture_size: Some(42), ..GraphOptions::default() };
    let largest = DecodeBatch { requests: 6, drafts: 6 };
    for (runner, ceiling) in [(Runner::V1, 35), (Runner::V2, 40)] {
        let made = plan(runner, 6, 8192, graphs.clone());
        assert_eq!(made.ceiling(), ceiling);
        assert_eq!(answer(&made, &decode(6, 7, 7)), (RuntimeMode::None, 42, Some(FallbackCause::AboveCeiling), false));
        assert_eq!(answer(&made, &decode(5, 7, 7)), (RuntimeMode::Full, 35, None, false));
        assert!(made.warnings().contains(&GraphWarning::FullBatchAboveCeiling { largest, is_full: true, ceiling }));
    }
}

#[test]
fn a_schedule_says_which_decode_batch_is_the_largest() {
    let above = |ceiling| {
        let graphs = GraphOptions {
            num_speculative_tokens: 4,
            dynamic_sd_schedule: Some(vec![(1, 4, 4), (5, 8, 2), (9, 16, 0)]),
            max_cudagraph_capture_size: Some(ceiling),
            ..GraphOptions::default()
        };
        let made = plan(Runner::V2, 16, 256, graphs);
        let above = |warning: &&GraphWarning| warning.code() == "full_batch_above_ceiling";
        made.warnings().iter().find(above).map(ToString::to_string)
    };
    assert_eq!(above(40), None, "8 requests with 2 drafts each are 24 tokens, 16 without drafts are 16");
    let message = above(16).expect("24 tokens are more than 16");
    assert!(message.starts_with("a decode batch of 8 requests with 2 drafts each has 24 tokens"), "{message}");
}

#[test]
fn a_full_size_lost_to_rounding_relaxes_to_piecewise() {
    let graphs = GraphOptions {
        num_speculative_tokens: 6,
        cudagraph_capture_sizes: Some(vec![8, 44]),
        ..GraphOptions::default()
    };
    let made = plan(Runner::V2, 6, 8192, graphs);
    assert_eq!(answer(&made, &decode(2, 7, 7)), (RuntimeMode::Full, 14, None, false));
    assert_eq!(answer(&made, &decode(3, 7, 7)), (RuntimeMode::Piecewise, 44, None, true));
    // Draft-free steps have no full graphs of their own, so nothing was relaxed.
    assert_eq!(answer(&made, &decode(3, 1, 7)), (RuntimeMode::Piecewise, 8, None, false));
}

#[test]
fn support_of_the_backend_decides() {
    let full = |support, splitting_ops| GraphOptions {
        cudagraph_mode: Some(CudagraphMode::Full),
        attention_support: support,
        splitting_ops,
        ..GraphOptions::default()
    };
    let build = |graphs| GraphPlan::build(&options(Runner::V2, 8, 2048, graphs));
    let mode = |support, splitting_ops| build(full(support, splitting_ops)).map(|made| made.mode());
    assert_eq!(mode(AttentionSupport::Always, SplittingOps::Default), Ok(CudagraphMode::Full));
    assert_eq!(mode(AttentionSupport::UniformBatch, SplittingOps::Default), Ok(CudagraphMode::FullAndPiecewise));
    assert_eq!(mode(AttentionSupport::UniformBatch, SplittingOps::empty()), Ok(CudagraphMode::FullDecodeOnly));
    assert!(matches!(mode(AttentionSupport::Never, SplittingOps::Default), Err(EngineError::FullUnsupported { .. })));
}

#[test]
fn refusals_of_runner_v1() {
    let custom = GraphOptions { splitting_ops: SplittingOps::custom(), ..GraphOptions::default() };
    let error = GraphPlan::build(&options(Runner::V1, 8, 2048, custom.clone())).expect_err("not cut at attention");
    assert_eq!(error, EngineError::PiecewiseNotCompiled { mode: CudagraphMode::FullAndPiecewise });
    assert!(GraphPlan::build(&options(Runner::V2, 8, 2048, custom)).is_ok(), "runner v2 has no such assertion");
    let parallel = GraphOptions { enable_sp: true, tensor_parallel_size: 4, ..GraphOptions::default() };
    let mut older = options(Runner::V2, 8, 2048, parallel);
    let at_0_33 = GraphPlan::build(&older).expect_err("0.33.0 dropped the pass");
    assert!(matches!(at_0_33, EngineError::NoSuchOption { option: "enable_sp", .. }));
    older.version = Version::V0_31_0;
    assert!(matches!(GraphPlan::build(&older), Err(EngineError::NeedsRunnerV1 { .. })));
    older.runner = Some(Runner::V1);
    let made = GraphPlan::build(&older).expect("0.31.0 has the pass on runner v1");
    assert_eq!((made.mode(), made.capture_sizes()), (CudagraphMode::Full, &[4, 8, 16][..]));
    assert_eq!(answer(&made, &mixed(1, 9)), (RuntimeMode::Full, 16, None, false));
}

#[test]
fn explanations_name_the_guard_that_decided() {
    let made = plan(Runner::V2, 256, 8192, GraphOptions::default());
    let fired = |shape: &StepShape| -> Vec<Rule> {
        made.explain(shape).iter().filter(|check| check.fired).map(|check| check.rule).collect()
    };
    assert_eq!(fired(&mixed(3, 513)), [Rule::Ceiling]);
    assert_eq!(fired(&mixed(3, 200)), [Rule::UniformLength], "the full graph is sent away, the piecewise one fits");
    assert!(fired(&decode(200, 1, 1)).is_empty(), "the first candidate fits");
}

#[test]
fn neighbours_stay_among_graphs_of_a_kind() {
    let made = plan(Runner::V2, 256, 8192, GraphOptions::default());
    let tokens = |shape: &StepShape| {
        let NeighbourRungs { lower, higher } = made.neighbours(shape);
        (lower.map(|graph| (graph.mode, graph.tokens)), higher.map(|graph| (graph.mode, graph.tokens)))
    };
    let (full, piecewise) = (RuntimeMode::Full, RuntimeMode::Piecewise);
    assert_eq!(tokens(&decode(100, 1, 1)), (Some((full, 96)), Some((full, 112))));
    assert_eq!(tokens(&decode(256, 1, 1)), (Some((full, 248)), None));
    assert_eq!(tokens(&mixed(2, 256)), (Some((piecewise, 248)), Some((piecewise, 272))));
    assert_eq!(tokens(&mixed(2, 900)), (Some((piecewise, 512)), None));
}

#[test]
fn main_pads_prefill_and_decode_batches_on_ladders_of_their_own() {
    let graphs = GraphOptions {
        prefill_cudagraph_capture_token_sizes: Some(vec![64, 256]),
        decode_cudagraph_capture_request_sizes: Some(vec![3, 10]),
        num_speculative_tokens: 1,
        ..GraphOptions::default()
    };
    let main = VllmOptions { version: Version::Main, ..options(Runner::V2, 64, 2048, graphs) };
    let made = GraphPlan::build(&main).expect("the options are valid");
    assert_eq!((made.capture_sizes(), made.ceiling()), (&[6, 20, 64, 256][..], 256));
    assert_eq!(answer(&made, &decode(4, 2, 2)), (RuntimeMode::Full, 20, None, false));
    // A wider decode batch takes the prefill graphs; so does one without drafts, for which there is no decode graph.
    assert_eq!(answer(&made, &decode(11, 2, 2)), (RuntimeMode::Piecewise, 64, None, true));
    assert_eq!(answer(&made, &decode(4, 1, 2)), (RuntimeMode::Piecewise, 64, None, false));
    assert_eq!(answer(&made, &mixed(2, 65)), (RuntimeMode::Piecewise, 256, None, false));
    assert_eq!(answer(&made, &mixed(2, 257)).2, Some(FallbackCause::AboveCeiling));
    assert!(made.warnings().iter().any(|warning| warning.code() == "inferred"));
}

#[test]
fn main_without_prefill_sizes_captures_decode_alone() {
    let graphs = GraphOptions { prefill_cudagraph_capture_token_sizes: Some(Vec::new()), ..GraphOptions::default() };
    let main = VllmOptions { version: Version::Main, ..options(Runner::V2, 64, 2048, graphs) };
    let made = GraphPlan::build(&main).expect("the options are valid");
    assert!(made.capture_order().iter().all(|graph| graph.mode == RuntimeMode::Full));
    assert_eq!(answer(&made, &mixed(2, 10)).2, Some(FallbackCause::ModeExcluded));
}

#[test]
fn main_on_runner_v1_is_as_before() {
    let before = plan(Runner::V1, 64, 2048, GraphOptions::default());
    let main = VllmOptions { version: Version::Main, ..options(Runner::V1, 64, 2048, GraphOptions::default()) };
    let made = GraphPlan::build(&main).expect("the options are valid");
    assert_eq!(made.capture_order(), before.capture_order());
    assert!(matches!(made.warnings(), [GraphWarning::Inferred { .. }]));
}

#[test]
fn encoder_inputs_keep_a_step_out_of_full_graphs() {
    let with = |shape: StepShape| StepShape { encoder_inputs: true, ..shape };
    let encoder = Some(FallbackCause::EncoderInputs);
    let v1 = plan(Runner::V1, 64, 2048, GraphOptions::default());
    assert_eq!(answer(&v1, &with(decode(20, 1, 1))), (RuntimeMode::Piecewise, 24, None, true));
    let v2 = plan(Runner::V2, 64, 2048, GraphOptions::default());
    assert_eq!(answer(&v2, &with(decode(20, 1, 1))), (RuntimeMode::None, 20, encoder, false));
    let decode_only = GraphOptions { cudagraph_mode: Some(CudagraphMode::FullDecodeOnly), ..GraphOptions::default() };
    let v1 = plan(Runner::V1, 64, 2048, decode_only);
    assert_eq!(answer(&v1, &with(decode(20, 1, 1))), (RuntimeMode::None, 20, encoder, false));
    assert_eq!(answer(&v1, &with(mixed(2, 20))).2, encoder);
}

fn ranks(plan: &GraphPlan, shapes: &[StepShape]) -> Vec<(RuntimeMode, u32, Option<FallbackCause>)> {
    let steps = plan.dispatch_ranks(shapes);
    steps
        .iter()
        .map(|step| (step.dispatch.descriptor.mode, step.dispatch.descriptor.tokens, step.dispatch.cause))
        .collect()
}

#[test]
fn ranks_run_one_size_or_no_graph() {
    use FallbackCause::{AboveCeiling, OtherRank};
    let (full, piecewise, none) = (RuntimeMode::Full, RuntimeMode::Piecewise, RuntimeMode::None);
    for runner in [Runner::V1, Runner::V2] {
        let made = plan(runner, 64, 2048, GraphOptions::default());
        let idle = StepShape::default();
        assert_eq!(ranks(&made, &[decode(5, 1, 1), decode(30, 1, 1)]), [(full, 32, None); 2]);
        assert_eq!(ranks(&made, &[decode(5, 1, 1), mixed(3, 100)]), [(piecewise, 104, None); 2]);
        assert_eq!(ranks(&made, &[idle, decode(30, 1, 1)]), [(full, 32, None); 2]);
        assert!(made.dispatch_ranks(&[idle, idle]).is_empty());
        let steps = made.dispatch_ranks(&[idle, decode(30, 1, 1)]);
        assert_eq!((steps[0].is_dummy, steps[0].shape.tokens, steps[1].is_dummy), (true, 1, false));
        // Runner V1 keeps the padding of a graph that it gave up; V2 goes back to the real tokens.
        let given_up = if runner == Runner::V1 { 8 } else { 5 };
        let beside_a_large_one = ranks(&made, &[decode(5, 1, 1), mixed(3, 1000)]);
        assert_eq!(beside_a_large_one, [(none, given_up, Some(OtherRank)), (none, 1000, Some(AboveCeiling))]);
    }
}

#[test]
fn ranks_reach_the_microbatched_twins_together_or_not_at_all() {
    let graphs = GraphOptions {
        data_parallel_size: 2,
        ubatch: Some(Ubatch { num_ubatches: 2, decode_threshold: 16, prefill_threshold: 512 }),
        ..GraphOptions::default()
    };
    let made = plan(Runner::V2, 64, 2048, graphs);
    let ubatches = |shapes: &[StepShape]| -> Vec<(u32, u32)> {
        let steps = made.dispatch_ranks(shapes);
        steps.iter().map(|step| (step.dispatch.descriptor.ubatches, step.dispatch.descriptor.tokens)).collect()
    };
    assert_eq!(ubatches(&[decode(20, 1, 1), decode(30, 1, 1)]), [(2, 32); 2]);
    assert_eq!(ubatches(&[decode(8, 1, 1), decode(30, 1, 1)]), [(1, 32); 2]);
    assert_eq!(ubatches(&[StepShape::default(), decode(30, 1, 1)]), [(1, 32); 2]);
}

/// https://github.com/vllm-project/vllm/pull/36370: eight slots, counts specialised, one sequence. Counts of adapters above
/// max_num_seqs can never be active, and later releases skip them; 0.31, 0.33 and, as far as is known, main capture them all.
#[test]
fn adapter_counts_above_the_sequences_are_captured_all_the_same() {
    let graphs = GraphOptions { max_loras: Some(8), specialize_active_lora: true, ..GraphOptions::default() };
    for runner in [Runner::V1, Runner::V2] {
        let made = plan(runner, 1, 2048, graphs.clone());
        let mut loras: Vec<u32> = made.capture_order().iter().map(|graph| graph.loras).collect();
        loras.sort_unstable();
        loras.dedup();
        assert_eq!(loras, [0, 1, 2, 4, 8, 9]);
        // Sizes 1 and 2 piecewise, 1 full; with the counts above one sequence skipped it would be 6.
        assert_eq!(made.descriptors_captured(), 18);
    }
}

/// https://github.com/vllm-project/vllm/pull/25914: a second set of graphs, for steps without adapters.
#[test]
fn a_set_without_adapters_doubles_the_graphs_of_runner_v1() {
    let with = |cudagraph_specialize_lora| {
        let graphs = GraphOptions { max_loras: Some(4), cudagraph_specialize_lora, ..GraphOptions::default() };
        plan(Runner::V1, 64, 2048, graphs).descriptors_captured()
    };
    assert_eq!(with(true), 2 * with(false));
}

/// https://github.com/SemiAnalysisAI/InferenceX/issues/117: "67 -> 81 graphs" for ceilings 512 -> 992. 81 is this ladder:
/// 1, 2, 4, then 31 sizes to 248 in steps of 8 and 47 from 256 to 992 in steps of 16. 67 is the one before it, in steps of
/// 8 all the way: 3 + 512 / 8. This ladder has 51 sizes up to 512.
#[test]
fn a_ceiling_of_992_has_81_sizes() {
    let sizes = |ceiling| {
        let graphs = GraphOptions { max_cudagraph_capture_size: Some(ceiling), ..GraphOptions::default() };
        plan(Runner::V2, 256, 8192, graphs).capture_sizes().len()
    };
    assert_eq!((sizes(512), sizes(992)), (51, 81));
    assert_eq!(3 + (8..=512).step_by(8).count(), 67);
}

/// Runner V2's search as the specification words it, over the captured descriptors.
fn reference_v2(plan: &GraphPlan, options: &VllmOptions, shape: &StepShape) -> (RuntimeMode, u32) {
    let cases = lora_slots(options).cases_v2();
    let loras = cases.iter().copied().find(|&case| case >= shape.active_loras).unwrap_or(cases[cases.len() - 1]);
    let max_query = (!shape.prefilling).then_some(shape.max_query);
    for mode in [RuntimeMode::Full, RuntimeMode::Piecewise] {
        let of_case = || plan.capture_order().iter().filter(|graph| graph.mode == mode && graph.loras == loras);
        let smallest = of_case().map(|graph| graph.tokens).filter(|&tokens| tokens >= shape.tokens).min();
        let found = of_case().filter(|graph| Some(graph.tokens) == smallest).any(|graph| {
            (graph.uniform.is_none() || graph.uniform == shape.uniform_v2)
                && graph.requests.is_none_or(|requests| requests >= shape.requests)
                && graph.max_query.is_none_or(|most| max_query.is_some_and(|longest| longest <= most))
        });
        if let Some(tokens) = smallest.filter(|_| found && shape.tokens > 0) {
            return (mode, tokens);
        }
    }
    (RuntimeMode::None, shape.tokens)
}

/// Runner V1's search as the specification words it, over the captured keys.
fn reference_v1(plan: &GraphPlan, options: &VllmOptions, shape: &StepShape) -> (RuntimeMode, u32) {
    let query_len = options.graphs.num_speculative_tokens + 1;
    let eager = (RuntimeMode::None, shape.tokens);
    let Some(padded) = plan.capture_sizes().iter().copied().find(|&size| size >= shape.tokens) else { return eager };
    let loras = match (shape.active_loras, options.graphs.max_loras) {
        (0, _) => 0,
        (_, None) => return eager,
        (active, Some(_)) if options.graphs.specialize_active_lora => {
            lora_slots(options).counts().into_iter().find(|&count| count >= active).unwrap_or(active)
        }
        (_, Some(max_loras)) => max_loras + 1,
    };
    let uniform = (shape.uniform_v1 && plan.mode().separate_routine()).then_some(query_len);
    for (mode, uniform) in [(RuntimeMode::Full, uniform), (RuntimeMode::Piecewise, None)] {
        let held = |graph: &&Descriptor| {
            (graph.mode, graph.tokens, graph.uniform, graph.loras) == (mode, padded, uniform, loras)
        };
        if shape.tokens > 0 && plan.capture_order().iter().any(|graph| held(&graph)) {
            return (mode, padded);
        }
    }
    eager
}

fn any_options() -> impl Strategy<Value = VllmOptions> {
    let mode = prop::sample::select(vec![
        CudagraphMode::Piecewise,
        CudagraphMode::Full,
        CudagraphMode::FullDecodeOnly,
        CudagraphMode::FullAndPiecewise,
    ]);
    let sizes = prop::option::of(prop::collection::vec(1_u32..160, 1..12));
    let ceiling = prop::option::of(1_u32..300);
    let loras = (prop::option::of(1_u32..9), any::<bool>(), any::<bool>());
    let shape_of_drafts = (0_u32..6, any::<bool>(), any::<bool>());
    (any::<bool>(), 1_u32..80, 64_u32..400, mode, sizes, ceiling, loras, shape_of_drafts).prop_map(
        |(v1, seqs, budget, mode, sizes, ceiling, loras, (drafts, varlen_decode, dynamic))| {
            let runner = if v1 { Runner::V1 } else { Runner::V2 };
            let schedule = vec![(1, 4, drafts), (5, 40, drafts / 2)];
            let graphs = GraphOptions {
                cudagraph_mode: Some(mode),
                max_cudagraph_capture_size: ceiling.filter(|_| sizes.is_none()),
                cudagraph_capture_sizes: sizes,
                num_speculative_tokens: drafts,
                varlen_decode,
                dynamic_sd_schedule: Some(schedule).filter(|_| dynamic),
                max_loras: loras.0,
                specialize_active_lora: loras.1,
                cudagraph_specialize_lora: loras.2,
                ..GraphOptions::default()
            };
            options(runner, seqs, budget, graphs)
        },
    )
}

/// Shapes that a scheduler could produce for a server of 80 sequences.
fn any_shape(query_len: u32) -> impl Strategy<Value = StepShape> {
    let loras = prop_oneof![3 => Just(0_u32), 1 => 1_u32..12];
    (1_u32..80, 1_u32..320, 1_u32..7, any::<bool>(), loras).prop_map(
        move |(requests, tokens, length, uniform, active_loras)| {
            let base = if uniform { decode(requests, length, query_len) } else { mixed(requests, requests + tokens) };
            StepShape { active_loras, ..base }
        },
    )
}

proptest! {
    #[test]
    fn dispatch_agrees_with_the_slow_search(
        (options, shape) in any_options().prop_flat_map(|options| {
            let query_len = options.graphs.num_speculative_tokens + 1;
            (Just(options), any_shape(query_len))
        })
    ) {
        let Ok(made) = GraphPlan::build(&options) else { return Ok(()) };
        let answer = made.dispatch(&shape);
        let expected = match options.runner {
            Some(Runner::V1) => reference_v1(&made, &options, &shape),
            Some(Runner::V2) | None => reference_v2(&made, &options, &shape),
        };
        prop_assert_eq!((answer.descriptor.mode, answer.descriptor.tokens), expected);
        prop_assert_eq!(answer.cause.is_some(), answer.descriptor.mode == RuntimeMode::None);
        // Law 3: never below the real size, and no smaller size of the ladder the rule looks at would do.
        prop_assert!(answer.descriptor.tokens >= shape.tokens);
        // Law 4.
        let graph = answer.descriptor.mode != RuntimeMode::None;
        let padding = if graph { answer.descriptor.tokens - shape.tokens } else { 0 };
        prop_assert_eq!(answer.padded_rows(&shape), padding);
        if graph {
            let smaller = made.capture_order().iter().any(|other| {
                Descriptor { tokens: 0, requests: None, ..*other }
                    == Descriptor { tokens: 0, requests: None, ..answer.descriptor }
                    && (shape.tokens..answer.descriptor.tokens).contains(&other.tokens)
            });
            prop_assert!(!smaller, "a smaller graph of the same kind holds the step");
        }
    }

    /// Law 8.
    #[test]
    fn a_ladder_of_every_size_never_pads(v1 in any::<bool>(), shape in any_shape(1)) {
        let graphs = GraphOptions { cudagraph_capture_sizes: Some((1..=1024).collect()), ..GraphOptions::default() };
        let made = plan(if v1 { Runner::V1 } else { Runner::V2 }, 80, 1024, graphs);
        let shape = StepShape { active_loras: 0, ..shape };
        let answer = made.dispatch(&shape);
        prop_assert_eq!(answer.descriptor.tokens, shape.tokens);
        prop_assert_eq!(answer.padded_rows(&shape), 0);
        prop_assert!(answer.descriptor.mode != RuntimeMode::None);
    }
}

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;
use crate::engine::plan::GraphPlan;
use crate::engine::sglang::options::{
    GraphBackend, GraphOptions as SglangGraphs, KvOptions as SglangKv, SglangOptions, Version as SglangVersion,
};
use crate::engine::shape::Descriptor;
use crate::engine::vllm::encoder::EncoderOptions;
use crate::engine::vllm::options::{
    AttentionSupport, CaptureOrder, CompilationMode, CompileSize, CudagraphMode, Drafter, GraphOptions, KvOptions,
    OptimizationLevel, PerformanceMode, Runner, SchedulerOptions, SpeculativeMethod, SplittingOps, Version,
    VllmOptions, WhatIf,
};

const TARGETS: [Version; 3] = [Version::V0_31_0, Version::V0_33_0, Version::Main];

fn vllm(version: Version, graphs: GraphOptions) -> VllmOptions {
    let drafter = Drafter { method: SpeculativeMethod::Eagle, ..Drafter::default() };
    let scheduler =
        SchedulerOptions { max_num_seqs: 64, max_num_batched_tokens: 2048, drafter, ..SchedulerOptions::default() };
    VllmOptions { version, runner: None, scheduler, kv: KvOptions::default(), graphs }
}

fn listed(sizes: &[u32]) -> GraphOptions {
    GraphOptions { cudagraph_capture_sizes: Some(sizes.to_vec()), ..GraphOptions::default() }
}

fn sglang(graphs: SglangGraphs) -> EngineOptions {
    let kv = SglangKv { gpu_mem_mib: Some(81_559), ..SglangKv::default() };
    EngineOptions::Sglang(SglangOptions { kv, graphs, ..SglangOptions::default() })
}

fn on(options: &VllmOptions, target: Version) -> Advice {
    advise(&EngineOptions::Vllm(options.clone()), Target::Vllm(target), None).expect("the options are the engine's own")
}

/// Everything that is shown of an advice.
fn shown(advice: &Advice) -> String {
    let mut text = format!("{}: {}\n{}\n", advice.target, advice.shell, advice.json);
    for note in &advice.notes {
        writeln!(text, "- {note}").expect("memory takes it");
    }
    if let Some(file) = &advice.file {
        write!(text, "{}:\n{}", file.name, file.text).expect("memory takes it");
    }
    let verdict = match &advice.checked {
        Rebuilt::Same(captured) => format!("same: {} descriptors, {}", captured.descriptors, captured.mode),
        Rebuilt::Differs { captured, .. } => {
            format!("differs: {} descriptors, {}", captured.descriptors, captured.mode)
        }
        Rebuilt::Refused { .. } => "refused".to_owned(),
        Rebuilt::ListOnly { sizes, .. } => format!("list only: {:?}", sizes.sizes),
    };
    text + &verdict
}

#[test]
fn a_list_of_one_release_is_one_key_there_and_two_lists_on_main() {
    let options = vllm(Version::V0_33_0, listed(&[1, 2, 4, 8, 24, 64, 512]));
    insta::assert_snapshot!(shown(&on(&options, Version::V0_31_0)), @r#"
    vLLM 0.31.0: --compilation-config '{"cudagraph_capture_sizes": [1, 2, 4, 8, 24, 64, 512]}'
    {"compilation_config":{"cudagraph_capture_sizes":[1,2,4,8,24,64,512]}}
    - --compilation-config counts once, the last one: put keys of your own into this one, and take every other graph flag out of the command
    same: 13 descriptors, FULL_AND_PIECEWISE
    "#);
    insta::assert_snapshot!(shown(&on(&options, Version::V0_33_0)), @r#"
    vLLM 0.33.0: --compilation-config '{"cudagraph_capture_sizes": [1, 2, 4, 8, 24, 64, 512]}'
    {"compilation_config":{"cudagraph_capture_sizes":[1,2,4,8,24,64,512]}}
    - --compilation-config counts once, the last one: put keys of your own into this one, and take every other graph flag out of the command
    same: 13 descriptors, FULL_AND_PIECEWISE
    "#);
    insta::assert_snapshot!(shown(&on(&options, Version::Main)), @r#"
    vLLM main: --compilation-config '{"decode_cudagraph_capture_request_sizes": [1, 2, 4, 8, 24, 64], "prefill_cudagraph_capture_token_sizes": [1, 2, 4, 8, 24, 64, 512]}'
    {"compilation_config":{"decode_cudagraph_capture_request_sizes":[1,2,4,8,24,64],"prefill_cudagraph_capture_token_sizes":[1,2,4,8,24,64,512]}}
    - --compilation-config counts once, the last one: put keys of your own into this one, and take every other graph flag out of the command
    - vLLM main reads two lists: prefill_cudagraph_capture_token_sizes in tokens, and decode_cudagraph_capture_request_sizes in requests of one token each, for batches in which every request decodes
    same: 13 descriptors, FULL_AND_PIECEWISE
    "#);
}

#[test]
fn drafts_make_decode_sizes_whole_requests() {
    let graphs = GraphOptions { num_speculative_tokens: 2, ..listed(&[3, 6, 12, 96, 192, 384]) };
    let options = vllm(Version::V0_33_0, graphs);
    insta::assert_snapshot!(shown(&on(&options, Version::V0_33_0)), @r#"
    vLLM 0.33.0: --compilation-config '{"cudagraph_capture_sizes": [3, 6, 12, 96, 192, 384]}'
    {"compilation_config":{"cudagraph_capture_sizes":[3,6,12,96,192,384]}}
    - --compilation-config counts once, the last one: put keys of your own into this one, and take every other graph flag out of the command
    same: 11 descriptors, FULL_AND_PIECEWISE
    "#);
    insta::assert_snapshot!(shown(&on(&options, Version::Main)), @r#"
    vLLM main: --compilation-config '{"decode_cudagraph_capture_request_sizes": [1, 2, 4, 32, 64], "prefill_cudagraph_capture_token_sizes": [3, 6, 12, 96, 192, 384]}'
    {"compilation_config":{"decode_cudagraph_capture_request_sizes":[1,2,4,32,64],"prefill_cudagraph_capture_token_sizes":[3,6,12,96,192,384]}}
    - --compilation-config counts once, the last one: put keys of your own into this one, and take every other graph flag out of the command
    - vLLM main reads two lists: prefill_cudagraph_capture_token_sizes in tokens, and decode_cudagraph_capture_request_sizes in requests of 3 tokens each, for batches in which every request decodes
    same: 11 descriptors, FULL_AND_PIECEWISE
    "#);
}

#[test]
fn the_two_lists_of_main_become_one_before_it() {
    let graphs = GraphOptions {
        prefill_cudagraph_capture_token_sizes: Some(vec![64, 256, 1024]),
        decode_cudagraph_capture_request_sizes: Some(vec![1, 2, 4, 8, 16]),
        ..GraphOptions::default()
    };
    let options = vllm(Version::Main, graphs);
    insta::assert_snapshot!(shown(&on(&options, Version::Main)), @r#"
    vLLM main: --compilation-config '{"decode_cudagraph_capture_request_sizes": [1, 2, 4, 8, 16], "prefill_cudagraph_capture_token_sizes": [64, 256, 1024]}'
    {"compilation_config":{"decode_cudagraph_capture_request_sizes":[1,2,4,8,16],"prefill_cudagraph_capture_token_sizes":[64,256,1024]}}
    - --compilation-config counts once, the last one: put keys of your own into this one, and take every other graph flag out of the command
    - vLLM main reads two lists: prefill_cudagraph_capture_token_sizes in tokens, and decode_cudagraph_capture_request_sizes in requests of one token each, for batches in which every request decodes
    same: 8 descriptors, FULL_AND_PIECEWISE
    "#);
    insta::assert_snapshot!(shown(&on(&options, Version::V0_33_0)), @r#"
    vLLM 0.33.0: --compilation-config '{"cudagraph_capture_sizes": [1, 2, 4, 8, 16, 64, 256, 1024]}'
    {"compilation_config":{"cudagraph_capture_sizes":[1,2,4,8,16,64,256,1024]}}
    - not as advised: PIECEWISE graphs for any batch, in tokens: added 1, 2, 4, 8, 16
    - not as advised: FULL graphs for decode batches, in tokens: added 64
    - --compilation-config counts once, the last one: put keys of your own into this one, and take every other graph flag out of the command
    - vLLM 0.33.0 has one list for all batches, in tokens: cudagraph_capture_sizes holds the sizes of both
    differs: 14 descriptors, FULL_AND_PIECEWISE
    "#);
}

#[test]
fn the_engines_own_ladder_needs_no_list() {
    let default = vllm(Version::V0_33_0, GraphOptions::default());
    let own =
        GraphPlan::build(&EngineOptions::Vllm(default.clone()), None).expect("it starts").capture_sizes().to_vec();
    insta::assert_snapshot!(shown(&on(&default, Version::V0_33_0)), @r"
    vLLM 0.33.0: 
    {}
    - no flag is needed: take every graph flag out of the command
    same: 30 descriptors, FULL_AND_PIECEWISE
    ");
    let mode = GraphOptions { cudagraph_mode: Some(CudagraphMode::FullDecodeOnly), ..listed(&own) };
    insta::assert_snapshot!(shown(&on(&vllm(Version::V0_33_0, mode), Version::V0_33_0)), @r#"
    vLLM 0.33.0: --compilation-config '{"cudagraph_mode": "FULL_DECODE_ONLY"}'
    {"compilation_config":{"cudagraph_mode":"FULL_DECODE_ONLY"}}
    - no list is needed: the engine's own sizes are the advised ones
    - --compilation-config counts once, the last one: put keys of your own into this one, and take every other graph flag out of the command
    same: 11 descriptors, FULL_DECODE_ONLY
    "#);
    // Main's own grid is another one: the sizes of 0.33.0 are written out.
    let on_main = on(&default, Version::Main);
    assert!(on_main.shell.contains("prefill_cudagraph_capture_token_sizes"), "{}", on_main.shell);
    assert!(on_main.checked.is_same(), "{:?}", on_main.checked);
}

#[test]
fn without_graphs_only_the_mode_is_said() {
    let mode = GraphOptions { cudagraph_mode: Some(CudagraphMode::None), ..listed(&[1, 2]) };
    insta::assert_snapshot!(shown(&on(&vllm(Version::V0_33_0, mode), Version::V0_33_0)), @r#"
    vLLM 0.33.0: --compilation-config '{"cudagraph_mode": "NONE"}'
    {"compilation_config":{"cudagraph_mode":"NONE"}}
    - --compilation-config counts once, the last one: put keys of your own into this one, and take every other graph flag out of the command
    - the model stays compiled: --enforce-eager would turn off compilation as well, which is another thing
    same: 0 descriptors, NONE
    "#);
    let eager = GraphOptions { enforce_eager: true, ..GraphOptions::default() };
    insta::assert_snapshot!(shown(&on(&vllm(Version::V0_33_0, eager), Version::V0_31_0)), @r#"
    vLLM 0.31.0: --enforce-eager
    {"enforce_eager":true}
    - by the engine's rules: cudagraph_mode FULL_AND_PIECEWISE becomes NONE because enforce_eager is set
    - --enforce-eager turns off compilation as well as graphs; graphs alone go with cudagraph_mode NONE
    same: 0 descriptors, NONE
    "#);
    // Main takes an empty list for no graphs; the releases before it refuse one.
    insta::assert_snapshot!(shown(&on(&vllm(Version::Main, listed(&[])), Version::V0_33_0)), @r#"
    vLLM 0.33.0: --compilation-config '{"cudagraph_mode": "NONE"}'
    {"compilation_config":{"cudagraph_mode":"NONE"}}
    - not as advised: the mode is NONE instead of FULL_AND_PIECEWISE
    - --compilation-config counts once, the last one: put keys of your own into this one, and take every other graph flag out of the command
    differs: 0 descriptors, NONE
    "#);
}

#[test]
fn keys_beside_the_ladder_are_said_again() {
    let graphs = GraphOptions {
        optimization_level: OptimizationLevel::O1,
        compilation_mode: Some(CompilationMode::VllmCompile),
        compile_sizes: vec![CompileSize::Tokens(2), CompileSize::Word("cudagraph_capture_sizes".to_owned())],
        compile_ranges_endpoints: vec![256],
        splitting_ops: SplittingOps::Listed(vec!["vllm::unified_attention_with_output".to_owned()]),
        use_inductor_graph_partition: true,
        performance_mode: PerformanceMode::Interactivity,
        max_loras: Some(4),
        specialize_active_lora: true,
        cudagraph_specialize_lora: false,
        use_breakable_cudagraph: true,
        enable_sp: true,
        tensor_parallel_size: 2,
        ..listed(&[2, 4, 8])
    };
    let options = VllmOptions { runner: Some(Runner::V1), ..vllm(Version::V0_31_0, graphs) };
    insta::assert_snapshot!(shown(&on(&options, Version::V0_31_0)), @r#"
    vLLM 0.31.0: --compilation-config '{"compile_ranges_endpoints": [256], "compile_sizes": [2, "cudagraph_capture_sizes"], "cudagraph_capture_sizes": [2, 4, 8], "cudagraph_specialize_lora": false, "mode": "VLLM_COMPILE", "pass_config": {"enable_sp": true}, "splitting_ops": ["vllm::unified_attention_with_output"], "use_inductor_graph_partition": true}' --optimization-level 1 --performance-mode interactivity --specialize-active-lora
    {"compilation_config":{"compile_ranges_endpoints":[256],"compile_sizes":[2,"cudagraph_capture_sizes"],"cudagraph_capture_sizes":[2,4,8],"cudagraph_specialize_lora":false,"mode":"VLLM_COMPILE","pass_config":{"enable_sp":true},"splitting_ops":["vllm::unified_attention_with_output"],"use_inductor_graph_partition":true},"optimization_level":1,"performance_mode":"interactivity","specialize_active_lora":true}
    - by the engine's rules: compile_ranges_endpoints changes nothing: only the compilation mode VLLM_COMPILE compiles ranges of sizes
    - --compilation-config counts once, the last one: put keys of your own into this one, and take every other graph flag out of the command
    - the server runs model runner v1 (VLLM_USE_V2_MODEL_RUNNER=0), and the flags are for that
    - set VLLM_USE_BREAKABLE_CUDAGRAPH=1 in the server's environment
    same: 3 descriptors, PIECEWISE
    "#);
    insta::assert_snapshot!(shown(&on(&options, Version::V0_33_0)), @r#"
    vLLM 0.33.0: --compilation-config '{"compile_ranges_endpoints": [256], "compile_sizes": [2, "cudagraph_capture_sizes"], "cudagraph_capture_sizes": [2, 4, 8], "cudagraph_specialize_lora": false, "mode": "VLLM_COMPILE", "splitting_ops": ["vllm::unified_attention_with_output"], "use_inductor_graph_partition": true}' --optimization-level 1 --performance-mode interactivity --specialize-active-lora
    {"compilation_config":{"compile_ranges_endpoints":[256],"compile_sizes":[2,"cudagraph_capture_sizes"],"cudagraph_capture_sizes":[2,4,8],"cudagraph_specialize_lora":false,"mode":"VLLM_COMPILE","splitting_ops":["vllm::unified_attention_with_output"],"use_inductor_graph_partition":true},"optimization_level":1,"performance_mode":"interactivity","specialize_active_lora":true}
    - not as advised: enable_sp is left out: vLLM 0.33.0 has no sequence-parallel pass
    - by the engine's rules: compile_ranges_endpoints changes nothing: only the compilation mode VLLM_COMPILE compiles ranges of sizes
    - --compilation-config counts once, the last one: put keys of your own into this one, and take every other graph flag out of the command
    - the server runs model runner v1 (VLLM_USE_V2_MODEL_RUNNER=0), and the flags are for that
    - set VLLM_USE_BREAKABLE_CUDAGRAPH=1 in the server's environment
    differs: 3 descriptors, PIECEWISE
    "#);
}

#[test]
fn what_a_target_lacks_is_named() {
    let encoder = EncoderOptions { encoder_cudagraph_max_vision_items_per_batch: 4, ..EncoderOptions::default() };
    let what_if = WhatIf { capture_order: CaptureOrder::Ascending, ..WhatIf::default() };
    let graphs = GraphOptions { encoder, what_if, splitting_ops: SplittingOps::custom(), ..listed(&[1, 8]) };
    insta::assert_snapshot!(shown(&on(&vllm(Version::Main, graphs), Version::V0_33_0)), @r#"
    vLLM 0.33.0: --compilation-config '{"cudagraph_capture_sizes": [1, 8]}'
    {"compilation_config":{"cudagraph_capture_sizes":[1,8]}}
    - not as advised: splitting_ops is left out: the scenario says "custom" in place of the names: add your own list
    - not as advised: encoder_cudagraph_max_vision_items_per_batch is left out: vLLM 0.33.0 has no such option; it came after 0.33.0
    - not as advised: what_if is left out: it asks what another engine would do, and this one has no flag for it
    - --compilation-config counts once, the last one: put keys of your own into this one, and take every other graph flag out of the command
    differs: 4 descriptors, FULL_AND_PIECEWISE
    "#);
}

#[test]
fn a_refusal_of_the_target_is_an_answer_and_one_of_the_options_is_a_fault() {
    let graphs = GraphOptions { num_speculative_tokens: 3, ..listed(&[4, 6, 8]) };
    let ngram = |runner, version| VllmOptions {
        runner,
        scheduler: SchedulerOptions { drafter: Drafter::default(), ..vllm(version, graphs.clone()).scheduler },
        ..vllm(version, graphs.clone())
    };
    insta::assert_snapshot!(shown(&on(&ngram(Some(Runner::V2), Version::V0_33_0), Version::V0_31_0)), @r#"
    vLLM 0.31.0: 
    {}
    - vLLM 0.31.0 does not start with these flags: vLLM 0.31.0 does not run `spec_method = ngram (the method where none is given)` on model runner v2: set runner = "v1"
    - no flag is needed: take every graph flag out of the command
    refused
    "#);
    let empty = EngineOptions::Vllm(vllm(Version::V0_33_0, listed(&[])));
    let fault = advise(&empty, Target::Vllm(Version::V0_33_0), None).expect_err("an empty list is refused");
    insta::assert_snapshot!(fault, @"vLLM 0.33.0 does not start with the advised options: `cudagraph_capture_sizes` is empty while cudagraph_mode is FULL_AND_PIECEWISE: list at least one size, leave the flag out for the engine's own ladder, or set cudagraph_mode to NONE");
    let fault = advise(&empty, Target::Sglang(SglangVersion::V0_5_23), None).expect_err("another engine");
    insta::assert_snapshot!(fault, @"the options are for vLLM 0.33.0 and the flags are wanted for SGLang 0.5.23: sizes of one engine mean nothing to the other; choose a version of the same engine, or tensorrt-llm, which takes the decode sizes");
}

#[test]
fn what_the_engine_does_to_a_list_is_said() {
    // Runner v1 rounds to whole requests, and nobody captures above the token budget.
    let graphs = GraphOptions { num_speculative_tokens: 3, ..listed(&[4, 6, 8, 4096]) };
    let options = VllmOptions { runner: Some(Runner::V1), ..vllm(Version::V0_33_0, graphs.clone()) };
    insta::assert_snapshot!(shown(&on(&options, Version::V0_33_0)), @r#"
    vLLM 0.33.0: --compilation-config '{"cudagraph_capture_sizes": [4, 6, 8, 4096]}'
    {"compilation_config":{"cudagraph_capture_sizes":[4,6,8,4096]}}
    - by the engine's rules: 1 of cudagraph_capture_sizes lie above max_num_batched_tokens = 2048 and are not captured
    - by the engine's rules: runner v1 rounds the ladder to multiples of 4 tokens
    - --compilation-config counts once, the last one: put keys of your own into this one, and take every other graph flag out of the command
    - the server runs model runner v1 (VLLM_USE_V2_MODEL_RUNNER=0), and the flags are for that
    same: 4 descriptors, FULL_AND_PIECEWISE
    "#);
    // 0.31.0 has no runner v2 for n-gram drafts: there the list is rounded. Under v1, main has one list, too.
    let scheduler = SchedulerOptions { drafter: Drafter::default(), ..options.scheduler.clone() };
    let ngram = VllmOptions { runner: None, scheduler, ..vllm(Version::V0_33_0, graphs) };
    insta::assert_snapshot!(shown(&on(&ngram, Version::V0_31_0)), @r#"
    vLLM 0.31.0: --compilation-config '{"cudagraph_capture_sizes": [4, 6, 8, 4096]}'
    {"compilation_config":{"cudagraph_capture_sizes":[4,6,8,4096]}}
    - not as advised: model runner v1 dispatches the steps instead of v2
    - not as advised: PIECEWISE graphs for any batch, in tokens: missing 6
    - by the engine's rules: 1 of cudagraph_capture_sizes lie above max_num_batched_tokens = 2048 and are not captured
    - by the engine's rules: runner v1 rounds the ladder to multiples of 4 tokens
    - --compilation-config counts once, the last one: put keys of your own into this one, and take every other graph flag out of the command
    differs: 4 descriptors, FULL_AND_PIECEWISE
    "#);
    insta::assert_snapshot!(shown(&on(&options, Version::Main)), @r#"
    vLLM main: --compilation-config '{"cudagraph_capture_sizes": [4, 6, 8, 4096]}'
    {"compilation_config":{"cudagraph_capture_sizes":[4,6,8,4096]}}
    - by the engine's rules: 1 of cudagraph_capture_sizes lie above max_num_batched_tokens = 2048 and are not captured
    - by the engine's rules: runner v1 rounds the ladder to multiples of 4 tokens
    - --compilation-config counts once, the last one: put keys of your own into this one, and take every other graph flag out of the command
    - the server runs model runner v1 (VLLM_USE_V2_MODEL_RUNNER=0), and the flags are for that
    same: 4 descriptors, FULL_AND_PIECEWISE
    "#);
    let odd = GraphOptions { enable_sp: true, tensor_parallel_size: 4, ..listed(&[6, 8]) };
    let fault = advise(&EngineOptions::Vllm(vllm(Version::V0_33_0, odd)), Target::Vllm(Version::V0_33_0), None);
    insta::assert_snapshot!(fault.expect_err("there is no such pass"), @"vLLM 0.33.0 does not start with the advised options: vLLM 0.33.0 has no `enable_sp`: remove it, or choose another version");
}

#[test]
fn sglang_has_a_flag_for_each_phase() {
    let of =
        |graphs| advise(&sglang(graphs), Target::Sglang(SglangVersion::V0_5_23), Some(400_000)).expect("it starts");
    let lists = SglangGraphs {
        cuda_graph_bs_decode: Some(vec![1, 2, 4, 8, 24, 4000]),
        cuda_graph_max_bs_decode: Some(4000),
        cuda_graph_bs_prefill: Some(vec![256, 1024]),
        enable_cuda_graph_dedup: true,
        ..SglangGraphs::default()
    };
    insta::assert_snapshot!(shown(&of(lists)), @r#"
    SGLang 0.5.23: --cuda-graph-bs-decode 1 2 4 8 24 4000 --cuda-graph-bs-prefill 256 1024
    {"cuda_graph_bs_decode":[1,2,4,8,24,4000],"cuda_graph_bs_prefill":[256,1024]}
    - a --cuda-graph-config of your own would win over these flags: take it, and every other graph flag, out of the command
    - decode sizes count requests; --cuda-graph-bs and --cuda-graph-max-bs of older releases are refused now
    - prefill sizes count the new tokens of a step
    - cuda_graph_max_bs_decode is left out: beside a list the engine ignores it
    - set SGLANG_ENABLE_CUDA_GRAPH_DEDUP=1 in the server's environment
    same: 8 descriptors, decode full, prefill breakable
    "#);
    let off = SglangGraphs { disable_cuda_graph: true, ..SglangGraphs::default() };
    insta::assert_snapshot!(shown(&of(off)), @r#"
    SGLang 0.5.23: --disable-decode-cuda-graph --disable-prefill-cuda-graph
    {"disable_decode_cuda_graph":true,"disable_prefill_cuda_graph":true}
    - a --cuda-graph-config of your own would win over these flags: take it, and every other graph flag, out of the command
    - --disable-cuda-graph says the same for both phases and is deprecated
    same: 0 descriptors, decode disabled, prefill disabled
    "#);
    let mut config = SglangGraphs { cuda_graph_max_bs_decode: Some(32), ..SglangGraphs::default() };
    config.cuda_graph_config.decode.backend = Some(GraphBackend::Breakable);
    config.cuda_graph_config.prefill.backend = Some(GraphBackend::Full);
    config.cuda_graph_config.prefill.full_prefill_max_req = Some(4);
    config.cuda_graph_config.prefill.max_seq_len = Some(2048);
    insta::assert_snapshot!(shown(&of(config)), @r#"
    SGLang 0.5.23: --cuda-graph-backend-decode breakable --cuda-graph-backend-prefill full --cuda-graph-max-bs-decode 32 --cuda-graph-max-seq-len-prefill 2048 --cuda-graph-config '{"prefill": {"full_prefill_max_req": 4}}'
    {"cuda_graph_backend_decode":"breakable","cuda_graph_backend_prefill":"full","cuda_graph_config":{"prefill":{"full_prefill_max_req":4}},"cuda_graph_max_bs_decode":32,"cuda_graph_max_seq_len_prefill":2048}
    - a --cuda-graph-config of your own would win over these flags: take it, and every other graph flag, out of the command
    same: 66 descriptors, decode breakable, prefill full
    "#);
    insta::assert_snapshot!(shown(&of(SglangGraphs::default())), @r"
    SGLang 0.5.23: 
    {}
    - no flag is needed: take every graph flag out of the command
    same: 94 descriptors, decode full, prefill breakable
    ");
}

#[test]
fn tensorrt_llm_takes_the_decode_sizes_in_requests() {
    let of = |options: EngineOptions| shown(&advise(&options, Target::TensorRtLlm, None).expect("it starts"));
    let drafts = GraphOptions { num_speculative_tokens: 2, ..listed(&[3, 6, 12, 96, 384]) };
    insta::assert_snapshot!(of(EngineOptions::Vllm(vllm(Version::V0_33_0, drafts))), @r#"
    TensorRT-LLM: --config llm_api_options.yaml
    {"cuda_graph_config":{"batch_sizes":[1,2,4,32],"enable_padding":true}}
    - TensorRT-LLM is not simulated: the sizes are those of the decode graphs above, and only its rules for this list were applied
    - the server's max_batch_size is taken to be 64 and its max_num_tokens 2048, as max_num_seqs and max_num_batched_tokens here
    - graphs for steps that compute prompts are other options there, and are not carried over
    - earlier releases name the flag --extra_llm_api_options
    llm_api_options.yaml:
    cuda_graph_config:
      batch_sizes: [1, 2, 4, 32]
      enable_padding: true
    list only: [1, 2, 4, 32]
    "#);
    let piecewise = GraphOptions { cudagraph_mode: Some(CudagraphMode::Piecewise), ..listed(&[1, 8, 512]) };
    insta::assert_snapshot!(of(EngineOptions::Vllm(vllm(Version::V0_33_0, piecewise))), @r#"
    TensorRT-LLM: --config llm_api_options.yaml
    {"cuda_graph_config":{"batch_sizes":[1,8,64],"enable_padding":true}}
    - TensorRT-LLM is not simulated: the sizes are those of the decode graphs above, and only its rules for this list were applied
    - the server's max_batch_size is taken to be 64 and its max_num_tokens 2048, as max_num_seqs and max_num_batched_tokens here
    - graphs for steps that compute prompts are other options there, and are not carried over
    - earlier releases name the flag --extra_llm_api_options
    llm_api_options.yaml:
    cuda_graph_config:
      batch_sizes: [1, 8, 64]
      enable_padding: true
    list only: [1, 8, 64]
    "#);
    let none = SglangGraphs { disable_decode_cuda_graph: true, ..SglangGraphs::default() };
    insta::assert_snapshot!(of(sglang(none)), @r#"
    TensorRT-LLM: --config llm_api_options.yaml
    {"cuda_graph_config":null}
    - TensorRT-LLM is not simulated: the sizes are those of the decode graphs above, and only its rules for this list were applied
    - the server's max_batch_size is taken to be 4096 and its max_num_tokens 8192, as max_running_requests and chunked_prefill_size here
    - graphs for steps that compute prompts are other options there, and are not carried over
    - earlier releases name the flag --extra_llm_api_options
    - cuda_graph_config: null turns decode graphs off
    llm_api_options.yaml:
    cuda_graph_config: null
    list only: []
    "#);
}

fn any_graphs() -> impl Strategy<Value = (Option<Runner>, GraphOptions)> {
    let mode = prop::option::of(prop::sample::select(vec![
        CudagraphMode::None,
        CudagraphMode::Piecewise,
        CudagraphMode::Full,
        CudagraphMode::FullDecodeOnly,
        CudagraphMode::FullAndPiecewise,
    ]));
    let runner = prop::sample::select(vec![None, Some(Runner::V1), Some(Runner::V2)]);
    let list = || prop::option::of(prop::collection::vec(1_u32..700, 0..8));
    let support = prop::sample::select(vec![
        AttentionSupport::Never,
        AttentionSupport::UniformSingleTokenDecode,
        AttentionSupport::UniformBatch,
        AttentionSupport::Always,
    ]);
    let level = prop::sample::select(OptimizationLevel::ALL.to_vec());
    let maximum = || prop::option::of(1_u32..600);
    let lora = (prop::option::of(1_u32..5), any::<bool>(), any::<bool>());
    let old = (list(), maximum());
    let new = (list(), maximum(), list(), maximum());
    (runner, mode, old, new, support, level, 0_u32..4, lora, any::<[bool; 5]>()).prop_map(
        |(runner, mode, old, new, attention_support, optimization_level, drafts, lora, flags)| {
            let [use_old, use_new, varlen, interactive, eager] = flags;
            let graphs = GraphOptions {
                cudagraph_mode: mode,
                cudagraph_capture_sizes: old.0.filter(|_| use_old),
                max_cudagraph_capture_size: old.1.filter(|_| use_old && !use_new),
                prefill_cudagraph_capture_token_sizes: new.0.filter(|_| use_new && !use_old),
                max_prefill_cudagraph_capture_tokens: new.1.filter(|_| use_new && !use_old),
                decode_cudagraph_capture_request_sizes: new.2.filter(|_| use_new && !use_old),
                max_decode_cudagraph_capture_requests: new.3.filter(|_| use_new && !use_old),
                attention_support,
                optimization_level,
                num_speculative_tokens: drafts,
                varlen_decode: varlen && drafts > 0,
                max_loras: lora.0,
                specialize_active_lora: lora.1 && lora.0.is_some(),
                cudagraph_specialize_lora: lora.2,
                performance_mode: if interactive { PerformanceMode::Interactivity } else { PerformanceMode::Balanced },
                enforce_eager: eager && interactive,
                ..GraphOptions::default()
            };
            (runner, graphs)
        },
    )
}

/// What one plan captures and the other does not, looked up one by one.
fn lacking(of: &[Descriptor], beside: &[Descriptor]) -> Vec<Descriptor> {
    let mut lacking: Vec<Descriptor> = of.iter().filter(|graph| !beside.contains(graph)).copied().collect();
    lacking.sort_unstable();
    lacking
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, ..ProptestConfig::default() })]

    /// The flags on another server of the target, by hand: what differs is what was named, and nothing else differs.
    #[test]
    fn what_the_target_captures_is_as_advised_or_named(
        (runner, graphs) in any_graphs(),
        from in prop::sample::select(TARGETS.to_vec()),
        to in prop::sample::select(TARGETS.to_vec()),
    ) {
        let options = VllmOptions { runner, ..vllm(from, graphs) };
        let engine = EngineOptions::Vllm(options.clone());
        let Ok(advised) = GraphPlan::build(&engine, None) else {
            let fault = advise(&engine, Target::Vllm(to), None).err();
            prop_assert!(matches!(fault, Some(Fault::Refused { .. })), "refused by its own engine");
            return Ok(());
        };
        let advice = advise(&engine, Target::Vllm(to), None).expect("the options are the engine's own");
        // Both forms say the same.
        let server = read::vllm::server_without_graph_flags(&options, to);
        let by_line = read::vllm::line(server.clone(), &advice.environment, &advice.shell);
        let by_json = read::vllm::json(server, &advice.environment, &advice.json);
        prop_assert_eq!(&by_line, &by_json);
        let read = EngineOptions::Vllm(by_line.expect("it was read before"));
        match (&advice.checked, GraphPlan::build(&read, None)) {
            (Rebuilt::Refused { error, .. }, built) => prop_assert_eq!(Some(error.clone()), built.err()),
            (checked, built) => {
                let built = built.expect("it starts");
                let (of, by) = (advised.capture_order(), built.capture_order());
                let (mut missing, mut added): (Vec<Descriptor>, Vec<Descriptor>) = (Vec::new(), Vec::new());
                for difference in checked.differences() {
                    if let Difference::Graphs { missing: few, added: more, .. } = difference {
                        missing.extend(few);
                        added.extend(more);
                    }
                }
                missing.sort_unstable();
                added.sort_unstable();
                prop_assert_eq!(missing, lacking(of, by));
                prop_assert_eq!(added, lacking(by, of));
                let other_mode = checked.differences().iter().any(|it| matches!(it, Difference::Mode { .. }));
                prop_assert_eq!(other_mode, advised.mode_name() != built.mode_name());
                if checked.is_same() {
                    prop_assert_eq!(of, by);
                    prop_assert_eq!(advised.compiled(), built.compiled());
                    prop_assert_eq!(advised.eager_kind(), built.eager_kind());
                }
                let notes = advice.notes.iter().filter(|note| note.starts_with("not as advised")).count();
                prop_assert_eq!(notes, checked.differences().len());
            }
        }
        // On its own release nothing is ever lost.
        if from == to {
            prop_assert!(advice.checked.is_same(), "{:?}", advice.checked);
        }
    }

    /// Whatever runner v2 of a release captures, the other releases can be told to, and main by its two lists.
    #[test]
    fn what_one_release_captures_the_others_capture(
        (_, graphs) in any_graphs(),
        from in prop::sample::select(vec![Version::V0_31_0, Version::V0_33_0]),
        to in prop::sample::select(TARGETS.to_vec()),
    ) {
        let graphs = GraphOptions { varlen_decode: false, ..graphs };
        let options = VllmOptions { runner: Some(Runner::V2), ..vllm(from, graphs) };
        if GraphPlan::build(&EngineOptions::Vllm(options.clone()), None).is_ok() {
            let advice = on(&options, to);
            prop_assert!(advice.checked.is_same(), "{}\n{:?}", advice.shell, advice.checked);
        }
    }

    #[test]
    fn sglang_flags_always_stand_for_the_same_graphs(
        decode in prop::option::of(prop::collection::vec(1_u32..600, 1..8)),
        prefill in prop::option::of(prop::collection::vec(1_u32..5000, 0..8)),
        maxima in (prop::option::of(1_u32..600), prop::option::of(1_u32..5000)),
        backends in prop::array::uniform2(prop::option::of(prop::sample::select(vec![
            GraphBackend::Full, GraphBackend::Breakable, GraphBackend::Disabled,
        ]))),
        in_config in any::<[bool; 6]>(),
        off in any::<[bool; 4]>(),
        requests in prop::option::of(1_u32..64),
    ) {
        let mut graphs = SglangGraphs {
            disable_cuda_graph: off[0] && off[1],
            disable_decode_cuda_graph: off[1] && off[2],
            disable_prefill_cuda_graph: off[2] && off[3],
            disable_cuda_graph_padding: off[0] && off[3],
            ..SglangGraphs::default()
        };
        // Each key in the flag or in the configuration, and sometimes another value in the flag, which the latter hides.
        let config = &mut graphs.cuda_graph_config;
        config.prefill.full_prefill_max_req = requests;
        if in_config[0] { config.decode.bs = decode.clone() }
        if !in_config[0] || in_config[1] { graphs.cuda_graph_bs_decode = decode }
        if in_config[2] { config.prefill.bs = prefill.clone() }
        if !in_config[2] || in_config[3] { graphs.cuda_graph_bs_prefill = prefill.map(|sizes| sizes[..sizes.len().min(3)].to_vec()) }
        if in_config[4] { (config.decode.max_bs, config.prefill.max_bs) = maxima } else {
            (graphs.cuda_graph_max_bs_decode, graphs.cuda_graph_max_bs_prefill) = maxima;
        }
        if in_config[5] { [config.decode.backend, config.prefill.backend] = backends } else {
            [graphs.cuda_graph_backend_decode, graphs.cuda_graph_backend_prefill] = backends;
        }
        let options = sglang(graphs);
        let target = Target::Sglang(SglangVersion::V0_5_23);
        let Ok(advised) = GraphPlan::build(&options, Some(100_000)) else {
            let fault = advise(&options, target, Some(100_000)).err();
            prop_assert!(matches!(fault, Some(Fault::Refused { .. })), "refused by its own engine");
            return Ok(());
        };
        let advice = advise(&options, target, Some(100_000)).expect("the options are the engine's own");
        prop_assert!(advice.checked.is_same(), "{:?}", advice.checked);
        prop_assert_eq!(advice.checked.captured().map(|captured| captured.ladders.clone()), Some(advised.ladders()));
        let server = read::sglang::server_without_graph_flags(options.sglang().expect("it is"), SglangVersion::V0_5_23);
        let by_line = read::sglang::line(server.clone(), &advice.environment, &advice.shell).expect("it was read before");
        let by_json = read::sglang::json(server, &advice.environment, &advice.json).expect("the same flags");
        prop_assert_eq!(&by_line, &by_json);
        // Nothing but the graphs: the memory that is kept free follows from the settings, too.
        let settings = |options: &EngineOptions| {
            crate::engine::sglang::settings::GraphSettings::resolve(options.sglang().expect("it is")).expect("it starts")
        };
        let (mut ours, mut theirs) = (settings(&options), settings(&EngineOptions::Sglang(by_line)));
        ours.warnings.clear();
        theirs.warnings.clear();
        prop_assert_eq!(ours, theirs);
    }
}

#[test]
fn flags_that_are_not_graph_flags_are_not_read() {
    let server =
        || read::vllm::server_without_graph_flags(&vllm(Version::V0_33_0, GraphOptions::default()), Version::V0_33_0);
    let fault = |line: &str| read::vllm::line(server(), &[], line).expect_err("it is wrong").to_string();
    let lines = [
        "--compilation-config '{\"cudagraph_capture_sizes\": [1]",
        "--compilation-config [1]",
        "--compilation-config '{\"cudagraph_capture_sizes\": [1.5]}'",
        "--compilation-config '{\"cudagraph_mode\": \"SOME\"}'",
        "--compilation-config '{\"cudagraph_sizes\": [1]}'",
        "--compilation-config",
        "--max-num-seqs 8",
        "--enforce-eager yes",
        "--optimization-level 4",
    ];
    insta::assert_snapshot!(lines.map(fault).join("\n"), @r#"
    a quote is not closed
    `--compilation-config` wants an object in JSON, and has [1]
    `cudagraph_capture_sizes` wants a whole number, and has 1.5
    `cudagraph_mode` wants a CUDA graph mode, and has "SOME"
    `cudagraph_sizes` is no graph option of this engine
    `--compilation-config` wants a value, and has 
    `--max-num-seqs` is no graph option of this engine
    `yes` belongs to no flag
    `optimization_level` wants 0, 1, 2 or 3, and has 4
    "#);
    let read = read::vllm::line(
        server(),
        &[],
        "--enforce-eager --compilation-config {} --compilation-config '{\"cudagraph_mode\": \"FULL\"}'",
    );
    assert_eq!(read.expect("the last counts").graphs.cudagraph_mode, Some(CudagraphMode::Full));
    let sglang =
        |line: &str| read::sglang::line(SglangOptions::default(), &[], line).expect_err("it is wrong").to_string();
    let lines = [
        "--cuda-graph-bs 1 2",
        "--cuda-graph-bs-decode",
        "--cuda-graph-bs-decode 1 x",
        "--cuda-graph-backend-decode tc_piecewise",
    ];
    insta::assert_snapshot!(lines.map(sglang).join("\n"), @r#"
    `--cuda-graph-bs` is no graph option of this engine
    `--cuda-graph-bs-decode` wants a value, and has 
    `--cuda-graph-bs-decode` wants whole numbers, and has 1 x
    `cuda_graph_backend_decode` wants full, breakable or disabled, and has "tc_piecewise"
    "#);
}

//! `[server.sglang]`: every key into its field, what is refused, and candidates.

use super::*;
use crate::engine::sglang::options::{
    CudaGraphConfig, DecodeGraphConfig, DisaggregationMode, GraphBackend, GraphOptions, KvOptions, ModelFamily,
    ModelTraits, MoeA2aBackend, OutputEnd, ParallelOptions, PrefillBlocker, PrefillGraphConfig, SchedulerOptions,
    SglangOptions, Speculative, SpeculativeAlgorithm, Version,
};
use crate::scenario::file::sglang::SglangFile;

fn sglang(options: &EngineOptions) -> &SglangOptions {
    options.sglang().expect("an SGLang server")
}

/// A complete scenario with more lines in three of its places.
fn text(server: &str, traffic: &str, rest: &str) -> String {
    let length = if server.contains("context_length") { "" } else { "context_length = 16384\n" };
    format!(
        "schema = 1\nname = \"test\"\n[server.sglang]\n{length}{server}\n[profile]\nbuiltin = \"h100-llama-2-7b\"\n\
         [traffic]\nrequests = 10\n{traffic}\n[traffic.arrivals.poisson]\nrate = 5\n\
         [traffic.lengths.fixed]\nprompt = 100\noutput = 20\n{rest}"
    )
}

fn accepted(server: &str, rest: &str) -> Scenario {
    parse(&text(server, "", rest)).unwrap_or_else(|fault| panic!("{fault} in\n{server}\n{rest}"))
}

fn refused(server: &str, rest: &str) -> String {
    let fault = parse(&text(server, "", rest)).map(|_| format!("{server}\n{rest}")).expect_err("refused");
    let help = match &fault {
        ScenarioError::Rejected(rejection) => miette::Diagnostic::help(&**rejection).map(|help| help.to_string()),
        other => panic!("{other}"),
    };
    format!("{fault} | {}", help.unwrap_or_default())
}

#[test]
fn what_is_left_out_takes_the_engines_defaults() {
    let scenario = accepted("", "");
    assert_eq!(scenario.warnings, [] as [String; 0]);
    let expected = SglangOptions {
        scheduler: SchedulerOptions { context_length: 16_384, ..SchedulerOptions::default() },
        // What the profile's device has.
        kv: KvOptions { gpu_mem_mib: Some(81_007), ..KvOptions::default() },
        ..SglangOptions::default()
    };
    assert_eq!(*sglang(&scenario.server), expected);
    assert!(scenario.simulable().is_ok());
    let [only] = &scenario.candidates[..] else { panic!("{:?}", scenario.candidates) };
    assert_eq!((only.name.as_str(), &only.options), ("engine default", &scenario.server));
}

/// Every key that can stand beside the others.
const ALL_KEYS: &str = r#"
version = "0.5.23"
max_prefill_tokens = 8000
prefill_max_requests = 9
page_size = 16
context_length = 4096
schedule_conservativeness = 0.3
disable_overlap_schedule = true
disable_radix_cache = true
gpu_mem_mib = 46068
disaggregation_mode = "decode"
tp_size = 16
pp_size = 2
dp_size = 2
enable_dp_attention = true
attn_cp_size = 4
dcp_size = 3
moe_dense_tp_size = 1
moe_a2a_backend = "deepep"
enable_two_batch_overlap = true
enable_mixed_chunk = true
enable_lora = true
mla = true
llama_2 = true
model_family = "muse_spark"
prefill_graph_blockers = ["multimodal", "lora"]
disable_cuda_graph = true
disable_decode_cuda_graph = true
disable_prefill_cuda_graph = true
cuda_graph_backend_decode = "breakable"
cuda_graph_backend_prefill = "full"
cuda_graph_max_bs_decode = 31
cuda_graph_max_bs_prefill = 32
cuda_graph_bs_decode = [1, 2]
cuda_graph_bs_prefill = [4, 8]
cuda_graph_max_seq_len_prefill = 33
cuda_graph_prefill_max_context = 34
disable_cuda_graph_padding = true
enable_cuda_graph_dedup = true
chunked_prefill_size = 4000
max_running_requests = 64
max_total_tokens = 100000
mem_fraction_static = 0.75
enable_post_capture_kv_sizing = true
[server.sglang.cuda_graph_config.decode]
backend = "disabled"
max_bs = 41
bs = [3]
[server.sglang.cuda_graph_config.prefill]
backend = "breakable"
max_bs = 51
bs = []
max_context_size = 52
full_prefill_max_req = 53
full_prefill_prefix_chunk_tokens = 54
max_seq_len = 55
"#;

/// What [`ALL_KEYS`] become.
fn all_fields() -> SglangOptions {
    SglangOptions {
        version: Version::V0_5_23,
        scheduler: SchedulerOptions {
            chunked_prefill_size: Some(4000),
            max_prefill_tokens: 8000,
            max_running_requests: Some(64),
            prefill_max_requests: Some(9),
            page_size: 16,
            schedule_conservativeness: 0.3,
            enable_mixed_chunk: true,
            disable_overlap_schedule: true,
            disable_radix_cache: true,
            return_logprob: true,
            context_length: 4096,
            output_end: OutputEnd::Eos { max_new_tokens: 77 },
        },
        kv: KvOptions {
            gpu_mem_mib: Some(46_068),
            mem_fraction_static: Some(0.75),
            max_total_tokens: Some(100_000),
            post_capture_kv_sizing: true,
            disaggregation_mode: DisaggregationMode::Decode,
        },
        parallel: ParallelOptions {
            tp_size: 16,
            pp_size: 2,
            dp_size: 2,
            enable_dp_attention: true,
            attn_cp_size: 4,
            dcp_size: 3,
            moe_dense_tp_size: Some(1),
            moe_a2a_backend: MoeA2aBackend::Deepep,
            enable_two_batch_overlap: true,
        },
        speculative: None,
        model: ModelTraits {
            mla: true,
            llama_2: true,
            family: ModelFamily::MuseSpark,
            prefill_graph_blockers: vec![PrefillBlocker::Multimodal, PrefillBlocker::Lora],
        },
        graphs: GraphOptions {
            disable_cuda_graph: true,
            disable_decode_cuda_graph: true,
            disable_prefill_cuda_graph: true,
            cuda_graph_backend_decode: Some(GraphBackend::Breakable),
            cuda_graph_backend_prefill: Some(GraphBackend::Full),
            cuda_graph_max_bs_decode: Some(31),
            cuda_graph_max_bs_prefill: Some(32),
            cuda_graph_bs_decode: Some(vec![1, 2]),
            cuda_graph_bs_prefill: Some(vec![4, 8]),
            cuda_graph_max_seq_len_prefill: Some(33),
            cuda_graph_prefill_max_context: Some(34),
            cuda_graph_config: CudaGraphConfig {
                decode: DecodeGraphConfig {
                    backend: Some(GraphBackend::Disabled),
                    max_bs: Some(41),
                    bs: Some(vec![3]),
                },
                prefill: PrefillGraphConfig {
                    backend: Some(GraphBackend::Breakable),
                    max_bs: Some(51),
                    bs: Some(Vec::new()),
                    max_context_size: Some(52),
                    full_prefill_max_req: Some(53),
                    full_prefill_prefix_chunk_tokens: Some(54),
                    max_seq_len: Some(55),
                },
            },
            disable_cuda_graph_padding: true,
            enable_cuda_graph_dedup: true,
            enable_lora: true,
        },
    }
}

#[test]
fn every_key_reaches_its_field() {
    let traffic = "output_end.eos.max_new_tokens = 77\nreturn_logprob = true";
    let scenario = parse(&text(ALL_KEYS, traffic, "")).expect("accepted");
    assert_eq!(*sglang(&scenario.server), all_fields());
    let drafting = accepted("speculative_algorithm = \"NGRAM\"\nspeculative_num_draft_tokens = 8", "");
    let expected = Speculative { algorithm: SpeculativeAlgorithm::Ngram, num_draft_tokens: 8 };
    assert_eq!(sglang(&drafting.server).speculative, Some(expected));
    let chunk = |size: &str| sglang(&accepted(size, "").server).scheduler.chunked_prefill_size;
    assert_eq!(["chunked_prefill_size = -1", "chunked_prefill_size = 0"].map(chunk), [Some(-1), Some(0)]);
}

#[test]
fn every_number_outside_its_range_is_refused_by_the_name_of_its_key() {
    for key in [
        "max_prefill_tokens",
        "prefill_max_requests",
        "page_size",
        "context_length",
        "gpu_mem_mib",
        "tp_size",
        "pp_size",
        "dp_size",
        "attn_cp_size",
        "dcp_size",
        "moe_dense_tp_size",
        "cuda_graph_max_bs_decode",
        "cuda_graph_max_bs_prefill",
        "cuda_graph_max_seq_len_prefill",
        "cuda_graph_prefill_max_context",
        "max_running_requests",
        "max_total_tokens",
        "cuda_graph_config.decode.max_bs",
        "cuda_graph_config.prefill.max_bs",
        "cuda_graph_config.prefill.max_context_size",
        "cuda_graph_config.prefill.full_prefill_max_req",
        "cuda_graph_config.prefill.full_prefill_prefix_chunk_tokens",
        "cuda_graph_config.prefill.max_seq_len",
    ] {
        for wrong in ["0", "-1", "99999999999"] {
            let message = refused(&format!("{key} = {wrong}"), "");
            assert!(message.starts_with(&format!("server.sglang.{key}: ")), "{message}");
            assert!(message.contains(&format!("found {wrong}")), "{message}");
        }
    }
    for list in ["cuda_graph_bs_decode", "cuda_graph_bs_prefill", "cuda_graph_config.prefill.bs"] {
        for wrong in ["[4, 0]", "[-4]", "[99999999999]"] {
            let message = refused(&format!("{list} = {wrong}"), "");
            assert!(message.starts_with(&format!("server.sglang.{list}: ")), "{message}");
        }
    }
    for (key, wrong) in [
        ("schedule_conservativeness", "-0.1"),
        ("schedule_conservativeness", "nan"),
        ("mem_fraction_static", "0.0"),
        ("mem_fraction_static", "1.01"),
        ("mem_fraction_static", "inf"),
        ("chunked_prefill_size", "-2"),
        ("chunked_prefill_size", "99999999999"),
        ("version", "\"0.5.22\""),
        ("cuda_graph_backend_decode", "\"tc_piecewise\""),
        ("disaggregation_mode", "\"both\""),
        ("prefill_graph_blockers", "[\"rope\"]"),
        ("cuda_graph_config.decode.full_prefill_max_req", "8"),
        ("cuda_graph_config.mixed", "{}"),
    ] {
        let message = refused(&format!("{key} = {wrong}"), "");
        assert!(message.starts_with(&format!("server.sglang.{key}: ")), "{message}");
    }
    let end = |line: &str| parse(&text("", line, "")).expect_err("refused").to_string();
    assert!(end("output_end.eos.max_new_tokens = 0").starts_with("traffic.output_end.eos.max_new_tokens: "));
    assert!(end("output_end = \"stop\"").contains("expected one of `length`, `ignore_eos`, `eos`"));
}

#[test]
fn what_the_engine_refuses_is_refused_with_a_way_out() {
    let all = [
        ("cuda_graph_bs_decode = []", ""),
        ("cuda_graph_max_bs_decode = 0", ""),
        ("cuda_graph_max_bs = 64", ""),
        ("", "[[candidate]]\nname = \"a\"\npiecewise_cuda_graph_max_tokens = 64"),
        ("cuda_graph_backend_prefill = \"tc_piecewise\"", ""),
        ("cuda_graph_config.prefill.tc_compiler = \"eager\"", ""),
        ("page_size = 24\nchunked_prefill_size = 1000", ""),
        ("page_size = 24", ""),
        ("page_size = 16", "[[candidate]]\nname = \"a\"\nchunked_prefill_size = 1000"),
        ("tp_size = 4\ndp_size = 3\nenable_dp_attention = true", ""),
        ("tp_size = 4\nattn_cp_size = 8", ""),
        ("tp_size = 4\nmoe_dense_tp_size = 2", ""),
        ("pp_size = 2", ""),
        ("speculative_algorithm = \"EAGLE\"", ""),
        ("speculative_num_draft_tokens = 4", ""),
        ("speculative_algorithm = \"EAGLE\"\nspeculative_num_draft_tokens = 4\nenable_mixed_chunk = true", ""),
        ("context_length = 9000", "[model]\nname = \"m\"\nmax_position_embeddings = 8192"),
        ("", "[traffic.adapters]\ncount = 2"),
        ("max_num_seqs = 64", ""),
        ("", "[[candidate]]\nname = \"a\"\ncudagraph_capture_sizes = [1]"),
        ("", "[[candidate]]\nname = \"a\"\nwhat_if.graph_pool = \"private\""),
        ("", "[[candidate]]\nname = \"a\"\npage_size = 1"),
        ("max_runing_requests = 64", ""),
    ];
    insta::assert_snapshot!(all.map(|(server, rest)| refused(server, rest)).join("\n"), @r#"
    server.sglang.cuda_graph_bs_decode: expected at least one size: SGLang refuses an empty list | leave it out for the engine's own list, or set disable_decode_cuda_graph = true for no decode graphs
    server.sglang.cuda_graph_max_bs_decode: a graph holds at least 1 request, found 0 | write 1 or more, or disable_decode_cuda_graph = true for no decode graphs
    server.sglang.cuda_graph_max_bs: SGLang 0.5.23 no longer has `cuda_graph_max_bs` | write cuda_graph_max_bs_decode (requests) or cuda_graph_max_bs_prefill (tokens)
    candidate.piecewise_cuda_graph_max_tokens: SGLang 0.5.23 no longer has `piecewise_cuda_graph_max_tokens` | write cuda_graph_max_bs_prefill
    server.sglang.cuda_graph_backend_prefill: unknown choice `tc_piecewise`, expected one of `full`, `breakable`, `disabled` | SGLang 0.5.23 refuses it: write "breakable", whose graphs took its place
    server.sglang.cuda_graph_config.prefill.tc_compiler: unknown key `tc_compiler` | the keys here are: backend, max_bs, bs, max_context_size, full_prefill_max_req, full_prefill_prefix_chunk_tokens, max_seq_len
    server.sglang.chunked_prefill_size: chunked_prefill_size (1000) is no multiple of page_size (24), which SGLang refuses | set chunked_prefill_size = 1008, or -1 to compute every prompt in one step
    server.sglang.page_size: chunked_prefill_size (8192) is no multiple of page_size (24), which SGLang refuses | set chunked_prefill_size = 8208, or -1 to compute every prompt in one step
    candidate.chunked_prefill_size: chunked_prefill_size (1000) is no multiple of page_size (16), which SGLang refuses | set chunked_prefill_size = 1008, or -1 to compute every prompt in one step
    server.sglang.dp_size: 4 tensor-parallel ranks do not divide into 3 groups of attention (dp_size times attn_cp_size), which SGLang refuses | raise tp_size to a multiple of 3, or lower this
    server.sglang.attn_cp_size: 4 tensor-parallel ranks do not divide into 8 groups of attention (dp_size times attn_cp_size), which SGLang refuses | raise tp_size to a multiple of 8, or lower this
    server.sglang.moe_dense_tp_size: 2 is neither 1 nor tp_size (4), which SGLang refuses | write 1, or leave it out
    server.sglang.pp_size: pipeline parallelism excludes the overlap schedule and speculative decoding, which SGLang refuses | set disable_overlap_schedule = true and leave speculative_algorithm out
    server.sglang.speculative_algorithm: how many tokens of a request one step verifies is not given: SGLang's default depends on the model | add speculative_num_draft_tokens; the server's log names it
    server.sglang.speculative_num_draft_tokens: without speculative_algorithm nobody drafts | add speculative_algorithm, or leave speculative_num_draft_tokens out
    server.sglang.enable_mixed_chunk: steps that mix prompts with decodes exclude speculative decoding, which SGLang refuses | leave enable_mixed_chunk or speculative_algorithm out
    server.sglang.context_length: 9000 is above the model's max_position_embeddings (8192), which SGLang refuses | lower context_length
    traffic.adapters: the server runs without LoRA and refuses requests with adapters | leave [traffic.adapters] out: adapters on an SGLang server are not simulated yet
    server.sglang.max_num_seqs: `max_num_seqs` is a key of vLLM, and this server is one of SGLang | what comes nearest to it in SGLang is max_running_requests
    candidate.cudagraph_capture_sizes: `cudagraph_capture_sizes` is a key of vLLM, and this server is one of SGLang | what comes nearest to it in SGLang is cuda_graph_bs_decode
    candidate.what_if: `what_if` is a key of vLLM, and this server is one of SGLang | leave it out: nothing in SGLang corresponds to it
    candidate.page_size: unknown key `page_size` | the keys here are: name, disable_cuda_graph, disable_decode_cuda_graph, disable_prefill_cuda_graph, cuda_graph_backend_decode, cuda_graph_backend_prefill, cuda_graph_max_bs_decode, cuda_graph_max_bs_prefill, cuda_graph_bs_decode, cuda_graph_bs_prefill, cuda_graph_max_seq_len_prefill, cuda_graph_prefill_max_context, cuda_graph_config, disable_cuda_graph_padding, enable_cuda_graph_dedup, chunked_prefill_size, max_running_requests, max_total_tokens, mem_fraction_static, enable_post_capture_kv_sizing; what else describes the server belongs under [server.sglang]
    server.sglang.max_runing_requests: unknown key `max_runing_requests` | did you mean `max_running_requests`?
    "#);
}

#[test]
fn a_vllm_server_knows_none_of_it() {
    let refused = |server: &str, rest: &str| parse(&scenario(server, rest)).expect_err("refused").to_string();
    let all = [
        refused("mem_fraction_static = 0.8", ""),
        refused("", "[[candidate]]\nname = \"a\"\ncuda_graph_bs_decode = [1]"),
        parse(&scenario("", "").replace("seed = 7", "output_end = \"ignore_eos\"")).expect_err("refused").to_string(),
        parse(&scenario("", "").replace("seed = 7", "return_logprob = true")).expect_err("refused").to_string(),
        parse(&scenario("", "").replace("server.vllm", "server.sglnag")).expect_err("refused").to_string(),
    ];
    insta::assert_snapshot!(all.join("\n"), @r"
    server.vllm.mem_fraction_static: `mem_fraction_static` is a key of SGLang, and this server is one of vLLM
    candidate.cuda_graph_bs_decode: `cuda_graph_bs_decode` is a key of SGLang, and this server is one of vLLM
    traffic.output_end: only SGLang's scheduler takes this into account
    traffic.return_logprob: only SGLang's scheduler takes this into account
    server.sglnag: unknown engine `sglnag`, expected `vllm` or `sglang`
    ");
    let same = scenario("", "").replace("seed = 7", "output_end = \"length\"\nreturn_logprob = false");
    assert!(parse(&same).is_ok());
}

#[test]
fn what_is_odd_is_accepted_with_a_warning() {
    let all = [
        accepted("cuda_graph_bs_decode = [8, 1, 8]", ""),
        accepted("enable_dp_attention = true", ""),
        accepted("enable_dp_attention = true\ntp_size = 4\ndp_size = 2", ""),
        accepted("enable_post_capture_kv_sizing = true\nmla = true", ""),
        accepted("context_length = 110", ""),
        parse(&text("", "output_end.eos.max_new_tokens = 19", "")).expect("accepted"),
        accepted("enable_lora = true", ""),
        accepted("", "[traffic.acceptance]\nrates = [0.5]\n[[traffic.priorities]]\npriority = 1\nshare = 1"),
    ];
    let warnings = all.map(|scenario| scenario.warnings.join("\n")).join("\n");
    insta::assert_snapshot!(warnings, @r"
    test.toml:5: server.sglang.cuda_graph_bs_decode: 1 comes after 8; the engine sorts the sizes
    test.toml:5: server.sglang.cuda_graph_bs_decode: 8 is there twice; the engine drops repeats
    test.toml:5: server.sglang.enable_dp_attention: without effect: SGLang turns it off where dp_size is 1
    test.toml:5: server.sglang.enable_dp_attention: SGLang divides chunked_prefill_size by dp_size under data-parallel attention; here it is used as written: give the size per rank
    test.toml:5: server.sglang.enable_post_capture_kv_sizing: without effect: SGLang sizes the pool before capture with latent attention and with dcp_size above 1
    test.toml:14: traffic.lengths.fixed.output: prompt and output of up to 120 tokens are longer than context_length (110); outputs are cut there
    test.toml:10: traffic.output_end.eos.max_new_tokens: outputs of up to 20 tokens are longer than this; they are cut there
    test.toml:8: traffic: enable_lora is set, but requests carry no adapters: every step runs without one
    test.toml:18: traffic.priorities: requests are served in the order of their arrival: priorities decide nothing
    test.toml:16: traffic.acceptance: speculative_num_draft_tokens is not above 1: there are no drafts to accept
    ");
    let lone = accepted("enable_dp_attention = true", "");
    assert!(!sglang(&lone.server).parallel.enable_dp_attention);
}

#[test]
fn lengths_and_names_come_from_the_model() {
    let model = "[model]\nname = \"Llama-2-7B\"\nmax_position_embeddings = 4096\n";
    let named = parse(&text("", "", model).replace("context_length = 16384\n", "")).expect("accepted");
    assert_eq!(sglang(&named.server).scheduler.context_length, 4096);
    assert!(sglang(&named.server).model.llama_2);
    let own = accepted("context_length = 4096\nllama_2 = false", model);
    assert!(!sglang(&own.server).model.llama_2);
    let missing = text("", "", "").replace("context_length = 16384\n", "");
    assert!(parse(&missing).expect_err("refused").to_string().contains("context_length is missing"));
}

#[test]
fn what_ladders_alone_know_is_not_simulated() {
    for (option, key) in [
        ("disaggregation_mode = \"prefill\"", "disaggregation_mode"),
        ("tp_size = 2", "tp_size"),
        ("pp_size = 2\ndisable_overlap_schedule = true", "pp_size"),
        ("dp_size = 2", "dp_size"),
        ("tp_size = 2\ndp_size = 2\nenable_dp_attention = true", "tp_size"),
        ("tp_size = 2\nattn_cp_size = 2", "tp_size"),
        ("dcp_size = 2", "dcp_size"),
        ("enable_two_batch_overlap = true", "enable_two_batch_overlap"),
        ("enable_lora = true", "enable_lora"),
    ] {
        let fault = accepted(option, "").simulable().expect_err("not simulated").to_string();
        assert!(fault.starts_with(&format!("{key}: ")) && fault.ends_with("not simulated yet"), "{fault}");
    }
    let plain = "tp_size = 1\ndp_size = 1\nenable_two_batch_overlap = false\nenable_lora = false\n\
                 disaggregation_mode = \"null\"";
    assert!(accepted(plain, "").simulable().is_ok());
    let pooling = "[model]\nname = \"m\"\ntask = \"pooling\"\n";
    assert!(accepted("", pooling).simulable().is_err());
}

/// The graph options of one candidate over a server's.
fn candidate(server: &str, keys: &str) -> GraphOptions {
    let scenario = accepted(server, &format!("[[candidate]]\nname = \"a\"\n{keys}\n"));
    sglang(&scenario.candidates[0].options).graphs.clone()
}

#[test]
fn a_candidate_replaces_every_way_in_which_the_server_said_the_same() {
    let config = "cuda_graph_config.decode = { backend = \"full\", max_bs = 64 }\n\
                  cuda_graph_config.prefill = { bs = [64], max_seq_len = 9 }";
    let off = candidate(config, "disable_cuda_graph = true");
    assert!(off.disable_cuda_graph && off.cuda_graph_config.decode.backend.is_none());
    assert_eq!(off.cuda_graph_config.decode.max_bs, Some(64));
    let broken = candidate(config, "cuda_graph_backend_decode = \"breakable\"");
    assert_eq!(
        (broken.cuda_graph_backend_decode, broken.cuda_graph_config.decode.backend),
        (Some(GraphBackend::Breakable), None)
    );
    let listed = candidate(&format!("{config}\ncuda_graph_max_bs_decode = 32"), "cuda_graph_bs_decode = [8]");
    assert_eq!((listed.cuda_graph_max_bs_decode, listed.cuda_graph_bs_decode), (None, Some(vec![8])));
    assert_eq!(listed.cuda_graph_config.decode.max_bs, None);
    let higher = candidate("cuda_graph_bs_decode = [8]", "cuda_graph_config = { decode = { max_bs = 128 } }");
    assert_eq!((higher.cuda_graph_bs_decode, higher.cuda_graph_config.decode.max_bs), (None, Some(128)));
    let prefill = candidate(config, "cuda_graph_max_bs_prefill = 512\ncuda_graph_max_seq_len_prefill = 10");
    assert_eq!(prefill.cuda_graph_max_bs_prefill, Some(512));
    assert_eq!(prefill.cuda_graph_config.prefill, PrefillGraphConfig::default());
    assert_eq!(prefill.cuda_graph_config.decode.max_bs, Some(64), "the other phase is as it was");
    let back = candidate("disable_cuda_graph = true", "disable_cuda_graph = false");
    assert_eq!(back, GraphOptions::default());
    assert_eq!(candidate(config, ""), sglang(&accepted(config, "").server).graphs);
}

#[test]
fn a_candidate_varies_what_lists_and_room_follow_from() {
    let keys = "chunked_prefill_size = 2048\nmax_running_requests = 8\nmax_total_tokens = 9000\n\
                mem_fraction_static = 0.7\nenable_post_capture_kv_sizing = true";
    let rest = format!("[[candidate]]\nname = \"a\"\n{keys}\n[[candidate]]\nname = \"b\"\ncuda_graph_bs_prefill = [8]");
    let scenario = accepted("max_running_requests = 64", &rest);
    let [a, b] = [0, 1].map(|candidate| sglang(&scenario.candidates[candidate].options));
    assert_eq!((a.scheduler.chunked_prefill_size, a.scheduler.max_running_requests), (Some(2048), Some(8)));
    assert_eq!((a.kv.max_total_tokens, a.kv.mem_fraction_static), (Some(9000), Some(0.7)));
    assert!(a.kv.post_capture_kv_sizing && !b.kv.post_capture_kv_sizing);
    assert_eq!(b.scheduler, sglang(&scenario.server).scheduler);
    assert_eq!(&scenario.source[scenario.candidates[1].span.clone()], "[8]");
}

proptest::proptest! {
    /// Whatever one key of a server or of a candidate is set to, the answer is a scenario or an error.
    #[test]
    fn no_value_makes_the_checks_panic(
        key in proptest::sample::select(SglangFile::KEYS),
        in_candidate in proptest::bool::ANY,
        value in "(-?(0|[1-9][0-9]{0,10})|[0-9]\\.[0-9]{1,3}|\\[-?[1-9][0-9]{0,6}(, [1-9][0-9]{0,6}){0,3}\\]|true|\"[a-zA-Z_]{0,12}\"|\\{\\}|inf)",
    ) {
        let line = format!("{key} = {value}\n");
        let written = if in_candidate {
            text("", "", &format!("[[candidate]]\nname = \"a\"\n{line}"))
        } else {
            text(&line, "", "")
        };
        if let Err(fault) = parse(&written) {
            proptest::prop_assert!(fault.to_string().contains(key), "{fault}");
        }
    }
}

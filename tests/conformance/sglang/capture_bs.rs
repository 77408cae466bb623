//! From flags to settings, the share of memory, and the sizes that the runners capture.

use serde::Deserialize;
use serde_json::{Value, json};
use sim::engine::sglang::ladder::CaptureRules;
use sim::engine::sglang::memory::mem_fraction_static;
use sim::engine::sglang::options::{
    CudaGraphConfig, DisaggregationMode, GraphBackend, GraphOptions, KvOptions, ModelTraits, ParallelOptions,
    SchedulerOptions, SglangOptions, Speculative, SpeculativeAlgorithm,
};
use sim::engine::sglang::settings::GraphSettings;

use super::check_answers;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "the fields of the file")]
struct Input {
    gpu_mem_mib: Option<u32>,
    #[serde(default = "one")]
    tp_size: u32,
    #[serde(default = "one")]
    pp_size: u32,
    chunked_prefill_size: Option<i32>,
    max_prefill_tokens: Option<u32>,
    max_running_requests: Option<u32>,
    max_total_tokens: Option<u32>,
    #[serde(default)]
    mla: bool,
    speculative_algorithm: Option<SpeculativeAlgorithm>,
    speculative_num_draft_tokens: Option<u32>,
    #[serde(default)]
    disaggregation_mode: DisaggregationMode,
    #[serde(default)]
    disable_cuda_graph: bool,
    #[serde(default)]
    disable_decode_cuda_graph: bool,
    #[serde(default)]
    disable_prefill_cuda_graph: bool,
    #[serde(default)]
    disable_cuda_graph_padding: bool,
    cuda_graph_backend_decode: Option<GraphBackend>,
    cuda_graph_backend_prefill: Option<GraphBackend>,
    cuda_graph_max_bs_decode: Option<u32>,
    cuda_graph_max_bs_prefill: Option<u32>,
    cuda_graph_bs_decode: Option<Vec<u32>>,
    cuda_graph_bs_prefill: Option<Vec<u32>>,
    cuda_graph_max_seq_len_prefill: Option<u32>,
    cuda_graph_prefill_max_context: Option<u32>,
    cuda_graph_config: Option<CudaGraphConfig>,
    runner: Option<Runner>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Runner {
    req_pool_size: u32,
    width: u32,
    gathered: bool,
    tbo: bool,
    attn_tp: u32,
    attn_cp: u32,
}

fn one() -> u32 {
    1
}

impl Input {
    fn options(&self) -> SglangOptions {
        let scheduler = SchedulerOptions::default();
        SglangOptions {
            scheduler: SchedulerOptions {
                chunked_prefill_size: self.chunked_prefill_size,
                max_prefill_tokens: self.max_prefill_tokens.unwrap_or(scheduler.max_prefill_tokens),
                max_running_requests: self.max_running_requests,
                ..scheduler
            },
            kv: KvOptions {
                gpu_mem_mib: self.gpu_mem_mib,
                max_total_tokens: self.max_total_tokens,
                disaggregation_mode: self.disaggregation_mode,
                ..KvOptions::default()
            },
            parallel: ParallelOptions { tp_size: self.tp_size, pp_size: self.pp_size, ..ParallelOptions::default() },
            speculative: self.speculative_algorithm.map(|algorithm| Speculative {
                algorithm,
                num_draft_tokens: self.speculative_num_draft_tokens.unwrap_or(1),
            }),
            model: ModelTraits { mla: self.mla, ..ModelTraits::default() },
            graphs: GraphOptions {
                disable_cuda_graph: self.disable_cuda_graph,
                disable_decode_cuda_graph: self.disable_decode_cuda_graph,
                disable_prefill_cuda_graph: self.disable_prefill_cuda_graph,
                disable_cuda_graph_padding: self.disable_cuda_graph_padding,
                cuda_graph_backend_decode: self.cuda_graph_backend_decode,
                cuda_graph_backend_prefill: self.cuda_graph_backend_prefill,
                cuda_graph_max_bs_decode: self.cuda_graph_max_bs_decode,
                cuda_graph_max_bs_prefill: self.cuda_graph_max_bs_prefill,
                cuda_graph_bs_decode: self.cuda_graph_bs_decode.clone(),
                cuda_graph_bs_prefill: self.cuda_graph_bs_prefill.clone(),
                cuda_graph_max_seq_len_prefill: self.cuda_graph_max_seq_len_prefill,
                cuda_graph_prefill_max_context: self.cuda_graph_prefill_max_context,
                cuda_graph_config: self.cuda_graph_config.clone().unwrap_or_default(),
                ..GraphOptions::default()
            },
            ..SglangOptions::default()
        }
    }
}

fn answer(input: &Input) -> Value {
    let options = input.options();
    let settings = match GraphSettings::resolve(&options) {
        Ok(settings) => settings,
        Err(error) => return json!({ "error": error.to_string() }),
    };
    let (decode, prefill) = (&settings.decode, &settings.prefill);
    let mut out = json!({
        "chunked_prefill_size": settings.chunked_prefill_size,
        "decode": { "backend": decode.backend, "max_bs": decode.max_bs, "bs": decode.bs },
        "prefill": { "backend": prefill.backend, "max_bs": prefill.max_bs, "bs": prefill.bs },
        "mem_fraction_static": mem_fraction_static(&options, &settings),
    });
    if let Some(runner) = &input.runner {
        let rules = CaptureRules {
            request_rows: runner.req_pool_size,
            width: runner.width,
            gathered: runner.gathered,
            two_batch_overlap: runner.tbo,
            attention_tp: runner.attn_tp,
            attention_cp: runner.attn_cp,
        };
        // The real runner was made with a context that fills every size.
        let prefill_sizes = rules.prefill_sizes(&prefill.bs, runner.req_pool_size, u32::MAX);
        out["runner_decode_capture_bs"] = json!(rules.decode_sizes(&decode.bs).ok().map(|made| made.sizes));
        out["runner_prefill_capture_num_tokens"] = json!(prefill_sizes);
    }
    out
}

#[test]
fn capture_bs() {
    check_answers("sglang/capture_bs.jsonl", answer);
}

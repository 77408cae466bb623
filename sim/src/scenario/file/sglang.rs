//! The form of an SGLang server and its candidates, under the engine's own flag names.

use serde::Deserialize;
use toml::Spanned;

use super::{Real, Whole};
use crate::engine::sglang::options::{
    DisaggregationMode, GraphBackend, ModelFamily, MoeA2aBackend, PrefillBlocker, SpeculativeAlgorithm, Version,
};

#[derive(Deserialize)]
#[serde(rename_all = "lowercase", expecting = "[server.sglang] with the options of the engine")]
pub(in crate::scenario) enum SglangServerFile {
    Sglang(Box<SglangFile>),
}

forms_with_graph_options! {
    options SglangGraphsFile {
        disable_cuda_graph: bool,
        disable_decode_cuda_graph: bool,
        disable_prefill_cuda_graph: bool,
        cuda_graph_backend_decode: GraphBackend,
        cuda_graph_backend_prefill: GraphBackend,
        cuda_graph_max_bs_decode: Whole,
        cuda_graph_max_bs_prefill: Whole,
        cuda_graph_bs_decode: Spanned<Vec<Whole>>,
        cuda_graph_bs_prefill: Spanned<Vec<Whole>>,
        cuda_graph_max_seq_len_prefill: Whole,
        cuda_graph_prefill_max_context: Whole,
        cuda_graph_config: CudaGraphConfigFile,
        disable_cuda_graph_padding: bool,
        enable_cuda_graph_dedup: bool,
        chunked_prefill_size: Whole,
        max_running_requests: Whole,
        max_total_tokens: Whole,
        mem_fraction_static: Real,
        enable_post_capture_kv_sizing: Spanned<bool>,
    }
    server SglangFile, "a table of options such as [server.sglang] with max_running_requests = 64" {
        version: Version,
        max_prefill_tokens: Whole,
        prefill_max_requests: Whole,
        page_size: Whole,
        context_length: Whole,
        schedule_conservativeness: Real,
        enable_mixed_chunk: Spanned<bool>,
        disable_overlap_schedule: bool,
        disable_radix_cache: bool,
        gpu_mem_mib: Whole,
        disaggregation_mode: Spanned<DisaggregationMode>,
        tp_size: Whole,
        pp_size: Whole,
        dp_size: Whole,
        enable_dp_attention: Spanned<bool>,
        attn_cp_size: Whole,
        dcp_size: Whole,
        moe_dense_tp_size: Whole,
        moe_a2a_backend: MoeA2aBackend,
        enable_two_batch_overlap: Spanned<bool>,
        speculative_algorithm: Spanned<SpeculativeAlgorithm>,
        speculative_num_draft_tokens: Whole,
        enable_lora: Spanned<bool>,
        mla: bool,
        llama_2: bool,
        model_family: ModelFamily,
        prefill_graph_blockers: Vec<PrefillBlocker>,
    }
    candidate SglangCandidateFile {
        name: Spanned<String>,
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table such as { decode = { max_bs = 64 } }")]
pub(in crate::scenario) struct CudaGraphConfigFile {
    pub(in crate::scenario) decode: DecodeConfigFile,
    pub(in crate::scenario) prefill: PrefillConfigFile,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table such as { backend = \"full\", max_bs = 64 }")]
pub(in crate::scenario) struct DecodeConfigFile {
    pub(in crate::scenario) backend: Option<GraphBackend>,
    pub(in crate::scenario) max_bs: Option<Whole>,
    pub(in crate::scenario) bs: Option<Spanned<Vec<Whole>>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table such as { backend = \"breakable\", max_bs = 4096 }")]
pub(in crate::scenario) struct PrefillConfigFile {
    pub(in crate::scenario) backend: Option<GraphBackend>,
    pub(in crate::scenario) max_bs: Option<Whole>,
    pub(in crate::scenario) bs: Option<Spanned<Vec<Whole>>>,
    pub(in crate::scenario) max_context_size: Option<Whole>,
    pub(in crate::scenario) full_prefill_max_req: Option<Whole>,
    pub(in crate::scenario) full_prefill_prefix_chunk_tokens: Option<Whole>,
    pub(in crate::scenario) max_seq_len: Option<Whole>,
}

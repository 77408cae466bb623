//! Keys and choices that an engine does not have, but another engine or an older release has.

use super::file::VllmFile;
use super::file::sglang::SglangFile;
use super::form::Engine;
use crate::engine::sglang::options::Version;
use crate::engine::sglang::removed_flags::removed_flag;

/// Keys of vLLM and what comes nearest to them in SGLang.
const COUNTERPARTS: [(&str, &str); 21] = [
    ("max_num_seqs", "max_running_requests"),
    ("max_num_batched_tokens", "chunked_prefill_size"),
    ("max_model_len", "context_length"),
    ("block_size", "page_size"),
    ("async_scheduling", "disable_overlap_schedule"),
    ("enable_prefix_caching", "disable_radix_cache"),
    ("gpu_memory_utilization", "mem_fraction_static"),
    ("num_gpu_blocks_override", "max_total_tokens"),
    ("cudagraph_mode", "cuda_graph_backend_decode"),
    ("cudagraph_capture_sizes", "cuda_graph_bs_decode"),
    ("max_cudagraph_capture_size", "cuda_graph_max_bs_decode"),
    ("prefill_cudagraph_capture_token_sizes", "cuda_graph_bs_prefill"),
    ("max_prefill_cudagraph_capture_tokens", "cuda_graph_max_bs_prefill"),
    ("decode_cudagraph_capture_request_sizes", "cuda_graph_bs_decode"),
    ("max_decode_cudagraph_capture_requests", "cuda_graph_max_bs_decode"),
    ("enforce_eager", "disable_cuda_graph"),
    ("num_speculative_tokens", "speculative_num_draft_tokens"),
    ("max_loras", "enable_lora"),
    ("tensor_parallel_size", "tp_size"),
    ("data_parallel_size", "dp_size"),
    ("decode_context_parallel_size", "dcp_size"),
];

/// What is wrong with a key that the form of an `engine` scenario lacks at this dotted place, and what to do, if the key is
/// known elsewhere.
pub(super) fn key(engine: Engine, place: &str) -> Option<(String, String)> {
    let (table, key) = place.rsplit_once('.')?;
    if table != engine.table() && table != "candidate" {
        return None;
    }
    if let Some(removed) = removed_flag(key).filter(|_| engine == Engine::Sglang) {
        let problem = format!("SGLang {} no longer has `{}`", Version::default(), removed.name);
        return Some((problem, removed.instead.to_owned()));
    }
    let (other, keys) = match engine {
        Engine::Vllm => (Engine::Sglang, SglangFile::KEYS),
        Engine::Sglang => (Engine::Vllm, VllmFile::KEYS),
    };
    // The one key of vLLM's candidates that its server lacks.
    let is_what_if = other == Engine::Vllm && table == "candidate" && key == "what_if";
    if !is_what_if && !keys.contains(&key) {
        return None;
    }
    let problem = format!("`{key}` is a key of {}, and this server is one of {}", other.name(), engine.name());
    let counterpart = COUNTERPARTS.iter().find_map(|&(vllm, sglang)| match engine {
        Engine::Vllm => (sglang == key).then_some(vllm),
        Engine::Sglang => (vllm == key).then_some(sglang),
    });
    let help = match counterpart {
        Some(counterpart) => format!("what comes nearest to it in {} is {counterpart}", engine.name()),
        None => format!("leave it out: nothing in {} corresponds to it", engine.name()),
    };
    Some((problem, help))
}

/// What to write instead of a choice of an older release.
pub(super) fn choice(word: &str) -> Option<&'static str> {
    let help = "SGLang 0.5.23 refuses it: write \"breakable\", whose graphs took its place";
    (word == "tc_piecewise").then_some(help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counterparts_are_keys() {
        for (vllm, sglang) in COUNTERPARTS {
            assert!(VllmFile::KEYS.contains(&vllm) && SglangFile::KEYS.contains(&sglang), "{vllm}, {sglang}");
        }
    }

    #[test]
    fn keys_of_the_other_engine_and_of_older_releases_are_told_apart_from_mistakes() {
        let help = |engine, place| key(engine, place).map(|(_, help)| help);
        let nearest = help(Engine::Sglang, "candidate.cudagraph_capture_sizes");
        assert_eq!(nearest.as_deref(), Some("what comes nearest to it in SGLang is cuda_graph_bs_decode"));
        assert!(help(Engine::Vllm, "server.vllm.mem_fraction_static").is_some_and(|help| help.contains("utilization")));
        assert!(help(Engine::Sglang, "candidate.what_if").is_some());
        assert!(help(Engine::Sglang, "server.sglang.cuda_graph_max_bs").is_some_and(|help| help.contains("_decode")));
        assert_eq!(help(Engine::Vllm, "server.vllm.cuda_graph_max_bs"), None);
        assert_eq!(help(Engine::Sglang, "server.sglang.max_runing_requests"), None);
        assert_eq!(help(Engine::Sglang, "traffic.max_num_seqs"), None);
    }
}

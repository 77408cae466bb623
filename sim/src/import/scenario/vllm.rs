//! `[server.vllm]` and the candidates of a vLLM server.

use super::text::Text;
use super::{Assumed, Wish};
use crate::engine::vllm::attention::{self, AttentionFacts};
use crate::engine::vllm::device_defaults::{BatchDefaults, Device, Usage};
use crate::engine::vllm::options::{PerformanceMode, Version};
use crate::import::found::{Engine, Found, StepSource};
use crate::import::settings::{Known, Place};
use crate::import::steps::SeenSteps;
use crate::import::vllm::server::VllmServer;
use crate::import::vllm::startup::StartFact;

/// Keys of `[server.vllm]` that are written as read, in this order.
const AS_READ: [&str; 17] = [
    "runner",
    "max_num_seqs",
    "max_num_batched_tokens",
    "max_model_len",
    "block_size",
    "enable_chunked_prefill",
    "async_scheduling",
    "long_prefill_token_threshold",
    "policy",
    "enable_prefix_caching",
    "gpu_memory_utilization",
    "num_gpu_blocks_override",
    "max_loras",
    "tensor_parallel_size",
    "performance_mode",
    "num_speculative_tokens",
    "spec_method",
];

/// The limits where the log does not say them.
fn defaults(wish: &Wish) -> BatchDefaults {
    BatchDefaults::of(Version::V0_33_0, &Device::of(&wish.profile), Usage::Server, PerformanceMode::Balanced)
}

/// Most requests of a step: said, or the engine's default, and no fewer than were seen.
pub(super) fn limits(found: &Found, steps: &SeenSteps, wish: &Wish) -> u32 {
    let said = found.log.vllm.settings.whole("max_num_seqs").and_then(|limit| u32::try_from(limit).ok());
    said.unwrap_or_else(|| {
        defaults(wish).max_num_seqs.max(steps.most_requests()).max(found.log.statistics.most_running())
    })
}

pub(super) fn server(text: &mut Text, found: &Found, steps: Option<&StepSource>, wish: &Wish, assumed: &mut Assumed) {
    let server = &found.log.vllm;
    text.line("[server.vllm]");
    version(text, server, assumed);
    limits_or_defaults(text, found, steps, wish, assumed);
    if steps.is_none() && server.settings.get("max_model_len").is_none() {
        let room = super::room_for_requests(found);
        let from = assumed.note(format!("max_model_len is not told: {room} tokens, enough for every request"));
        text.key("max_model_len", room, from);
    }
    for key in AS_READ {
        // Another pool than the server's may be too small for its longest request, and steps need none.
        let length = server.settings.get("max_model_len").filter(|_| key == "max_model_len" && steps.is_some());
        if let Some(length) = length.filter(|_| !pool_is_written(found, wish)) {
            text.comment(0, &format!("max_model_len = {} ({}) is not needed for steps.", length.value, length.place));
            continue;
        }
        // One device is simulated, whatever a rank of several is called.
        let ranks =
            server.settings.whole("tensor_parallel_size").filter(|ranks| key == "tensor_parallel_size" && *ranks > 1);
        if let Some(ranks) = ranks.filter(|_| steps.is_none()) {
            assumed.note(format!(
                "one device stands for the {ranks} tensor-parallel ranks: take a profile measured with --tp-shard {ranks}"
            ));
            continue;
        }
        // What the KV pool came to says more than what it was asked to be.
        let pool = key == "num_gpu_blocks_override" && kv_blocks(found).is_some();
        if let Some(known) = server.settings.get(key).filter(|_| !pool) {
            match key {
                "spec_method" => spec_method(text, known.value.to_string().trim_matches('"'), &known.place, assumed),
                _ => text.key(key, &known.value, &known.place),
            }
        }
    }
    kv_pool(text, found, wish, assumed);
    backend(text, found, assumed);
    if let Some(ranks) = server.data_parallel_size.as_ref().filter(|ranks| ranks.value > 1) {
        assumed.note(format!(
            "the {} data-parallel ranks do not wait for each other ({}): each step is priced as one of a server of its own",
            ranks.value, ranks.place
        ));
    }
    if let Some(known) = server.settings.get("pipeline_parallel_size")
        && server.settings.whole("pipeline_parallel_size").is_some_and(|stages| stages > 1)
    {
        assumed.note(format!(
            "one device stands for the {} pipeline stages ({}): each step is priced as one that runs all layers there",
            known.value, known.place
        ));
    }
    super::starts_and_model(text, server.starts, server.model.as_ref(), assumed);
}

/// The first release with asynchronous scheduling unless it is told otherwise.
const ASYNC_BY_DEFAULT: (u32, u32) = (0, 14);

/// The first release whose default mode has FULL graphs of decodes beside PIECEWISE ones.
const FULL_AND_PIECEWISE_BY_DEFAULT: (u32, u32) = (0, 11);

/// The first release whose V1 engine is the default.
const V1_BY_DEFAULT: (u32, u32) = (0, 8);

/// The mode of a release from before modes had their name or today's default: by its switches, with where it is from.
fn mode_of_old_release(server: &VllmServer, assumed: &mut Assumed) -> Option<(&'static str, String)> {
    let release = server.release().filter(|release| *release < FULL_AND_PIECEWISE_BY_DEFAULT)?;
    let settings = &server.settings;
    let place = |key: &str| settings.get(key).map(|known| format!("{key} at {}", known.place));
    if settings.is_on("use_cudagraph") == Some(false) {
        return Some(("NONE", place("use_cudagraph")?));
    }
    if settings.is_on("full_cuda_graph") == Some(true) {
        return Some(("FULL", place("full_cuda_graph")?));
    }
    if let Some(place) = place("full_cuda_graph") {
        return Some(("PIECEWISE", place));
    }
    let mode = if release < V1_BY_DEFAULT { "FULL_DECODE_ONLY" } else { "PIECEWISE" };
    let printed = &server.version.as_ref()?.value;
    let from = assumed.note(format!("the graph mode is not told: {mode}, the default of vLLM {printed}"));
    Some((mode, from.to_owned()))
}

/// The release whose rules apply.
fn version(text: &mut Text, server: &VllmServer, assumed: &mut Assumed) {
    let Some(printed) = &server.version else {
        let from = assumed.note("the release is not told: vLLM 0.33.0".to_owned());
        text.key("version", Text::string("0.33.0"), from);
        return;
    };
    let release = server.release().unwrap_or_default();
    let rules = if release < (0, 32) { "0.31.0" } else { "0.33.0" };
    if printed.value == rules {
        text.key("version", Text::string(rules), &printed.place);
        return;
    }
    let sentence =
        format!("vLLM {} ({}) follows the rules of {rules}, the nearest release known", printed.value, printed.place);
    let from = assumed.note(sentence);
    text.key("version", Text::string(rules), from);
    if release < (0, 29) && server.settings.get("runner").is_none() {
        text.key("runner", Text::string("v1"), format_args!("the runner of vLLM {}", printed.value));
    }
    if release < ASYNC_BY_DEFAULT && server.settings.get("async_scheduling").is_none() {
        let from = assumed.note(format!("vLLM {} schedules synchronously unless it is told otherwise", printed.value));
        text.key("async_scheduling", false, from);
    }
}

/// Limits that the log does not say, where steps went beyond the engine's defaults, and a word where they did not.
fn limits_or_defaults(text: &mut Text, found: &Found, steps: Option<&StepSource>, wish: &Wish, assumed: &mut Assumed) {
    let settings = &found.log.vllm.settings;
    let BatchDefaults { max_num_seqs, mut max_num_batched_tokens } = defaults(wish);
    if settings.is_on("enable_chunked_prefill") == Some(false) {
        // A prompt goes whole into a step.
        let longest = settings.whole("max_model_len").and_then(|tokens| u32::try_from(tokens).ok());
        max_num_batched_tokens = max_num_batched_tokens.max(longest.unwrap_or_default());
    }
    let seen = steps.map(|source| &source.steps);
    let most = [
        (
            "max_num_seqs",
            max_num_seqs,
            seen.map_or(0, SeenSteps::most_requests).max(found.log.statistics.most_running()),
            "requests",
        ),
        ("max_num_batched_tokens", max_num_batched_tokens, seen.map_or(0, SeenSteps::most_tokens), "tokens"),
    ];
    for (key, default, most, unit) in most {
        if settings.get(key).is_some() {
            continue;
        }
        if most > default {
            let from = assumed.note(format!("{key} is not told: {most}, the most {unit} of a step"));
            text.key(key, most, from);
        } else {
            let sentence = format!("{key} is not told: {default}, the engine's default on the profile's device");
            let from = assumed.note(sentence);
            text.key(key, default, from);
        }
    }
}

/// The KV cache as the engine made it, unless a profile that was chosen for the user cannot hold it.
fn kv_pool(text: &mut Text, found: &Found, wish: &Wish, assumed: &mut Assumed) {
    let Some(KvBlocks { tokens, block_tokens, blocks, place }) = kv_blocks(found) else { return };
    if !pool_is_written(found, wish) {
        assumed.note(format!(
            "the KV cache of {tokens} tokens ({place}) is left out, because the model and the device of the profile cannot hold \
             it: its size is the profile's"
        ));
        return;
    }
    text.comment(0, "Take it out to let graphs shrink the KV cache by the profile's figures.");
    text.key("num_gpu_blocks_override", blocks, format_args!("{place}: {tokens} tokens in blocks of {block_tokens}"));
}

/// Whether the KV cache of the log goes into the scenario.
fn pool_is_written(found: &Found, wish: &Wish) -> bool {
    let Some(KvBlocks { tokens, .. }) = kv_blocks(found) else { return false };
    let (model, device) = (&wish.profile.identity.model, wish.profile.machine.memory.figures.total);
    let needed = tokens.saturating_mul(model.kv_bytes_per_token().0).saturating_add(model.weights_bytes().0);
    !wish.profile_is_guess || needed <= device.0
}

/// The KV cache of the log.
struct KvBlocks<'a> {
    tokens: u64,
    block_tokens: u64,
    blocks: u64,
    place: &'a Place,
}

fn kv_blocks(found: &Found) -> Option<KvBlocks<'_>> {
    let Known { value, place } = found.log.start.get("KV cache")?;
    let StartFact::KvTokens(tokens) = *value else { return None };
    let block_tokens = found.log.vllm.settings.whole("block_size").filter(|tokens| *tokens > 0).unwrap_or(16);
    let blocks = tokens / block_tokens;
    (blocks >= 2).then_some(KvBlocks { tokens, block_tokens, blocks, place })
}

/// The level of the attention backend.
fn backend(text: &mut Text, found: &Found, assumed: &mut Assumed) {
    let server = &found.log.vllm;
    let level = |text: &mut Text, from: &str| text.key("attention_support", Text::string("UNIFORM_BATCH"), from);
    let Some(backend) = &server.attention_backend else {
        let from = assumed.note("the attention backend is not told: full graphs of decode batches".to_owned());
        return level(text, from);
    };
    let flash_attn_version = server.flash_attn_version.as_ref().filter(|known| (2..=4).contains(&known.value));
    let facts = AttentionFacts {
        compute_capability: None,
        flash_attn_version: flash_attn_version.map(|known| known.value as u32),
        decode_context_parallel_size: 1,
        flashinfer_decode: None,
        is_causal: true,
        indexer_varlen: None,
        num_speculative_tokens: found.decode_tokens(Engine::Vllm) - 1,
    };
    if attention::support(&backend.value, &facts).is_err() {
        let sentence = format!(
            "how far {} ({}) supports full graphs depends on more than the log says: full graphs of decode batches",
            backend.value, backend.place
        );
        let from = assumed.note(sentence);
        return level(text, from);
    }
    text.key("attention_backend", Text::string(&backend.value), &backend.place);
    if let Some(known) = flash_attn_version {
        text.key("flash_attn_version", known.value, &known.place);
    }
}

/// Who drafts, under a name that is known here.
fn spec_method(text: &mut Text, printed: &str, place: &Place, assumed: &mut Assumed) {
    const METHODS: [&str; 10] =
        ["ngram", "suffix", "medusa", "mlp_speculator", "draft_model", "eagle", "eagle3", "mtp", "dflash", "dspark"];
    if METHODS.contains(&printed) {
        text.key("spec_method", Text::string(printed), place);
    } else if printed.ends_with("_mtp") {
        text.key("spec_method", Text::string("mtp"), format_args!("{printed}, {place}"));
    } else {
        assumed.note(format!("the drafting method {printed} ({place}) is not known here: it drafts as n-grams do"));
    }
}

pub(super) fn candidates(text: &mut Text, found: &Found, assumed: &mut Assumed) {
    let settings = &found.log.vllm.settings;
    let eager = settings.get("enforce_eager").filter(|_| settings.is_on("enforce_eager") == Some(true));
    let (mode, sizes) = match &found.log.configured {
        Some(Known { value: (mode, sizes), place }) => (Some((mode.as_str(), place)), Some((sizes.as_slice(), place))),
        None => (
            settings.word("cudagraph_mode").zip(settings.get("cudagraph_mode").map(|known| &known.place)),
            settings
                .sizes("cudagraph_capture_sizes")
                .zip(settings.get("cudagraph_capture_sizes").map(|known| &known.place)),
        ),
    };
    let mut without_graphs = eager.is_some();
    if let Some(known) = eager {
        text.key("enforce_eager", true, &known.place);
    } else {
        if let Some((mode, place)) = mode {
            text.key("cudagraph_mode", Text::string(mode), place);
            without_graphs = mode == "NONE";
        } else if let Some((mode, from)) = mode_of_old_release(&found.log.vllm, assumed) {
            text.key("cudagraph_mode", Text::string(mode), from);
            without_graphs = mode == "NONE";
        }
        match sizes {
            Some((sizes, place)) if !sizes.is_empty() && !without_graphs => {
                text.key("cudagraph_capture_sizes", format_args!("{sizes:?}"), place);
            }
            _ if without_graphs => {}
            _ => {
                let max = settings.get("max_cudagraph_capture_size");
                if let Some(known) = max {
                    text.key("max_cudagraph_capture_size", &known.value, &known.place);
                }
                assumed.note("the capture sizes are not told: the engine's own ladder".to_owned());
                text.comment(0, "assumed: the engine's own ladder");
            }
        }
    }
    if without_graphs {
        super::candidate(text, "engine default");
    } else {
        super::candidate(text, "no graphs");
        text.line("cudagraph_mode = \"NONE\"");
    }
}

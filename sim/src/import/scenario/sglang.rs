//! `[server.sglang]` and the candidates of an SGLang server.

use super::Assumed;
use super::text::Text;
use crate::import::found::{Engine, Found};

/// Keys of `[server.sglang]` that are written as read, in this order.
const AS_READ: [&str; 14] = [
    "context_length",
    "chunked_prefill_size",
    "max_prefill_tokens",
    "prefill_max_requests",
    "max_running_requests",
    "max_total_tokens",
    "mem_fraction_static",
    "page_size",
    "schedule_conservativeness",
    "enable_mixed_chunk",
    "disable_overlap_schedule",
    "disable_radix_cache",
    "tp_size",
    "disable_cuda_graph_padding",
];

/// Keys of the ladder in force that are written as read where the log does not list the sizes.
const GRAPHS: [&str; 5] = [
    "disable_cuda_graph",
    "disable_decode_cuda_graph",
    "cuda_graph_backend_decode",
    "cuda_graph_max_bs_decode",
    "cuda_graph_bs_decode",
];

/// The same for prefills.
const PREFILL_GRAPHS: [&str; 4] =
    ["disable_prefill_cuda_graph", "cuda_graph_backend_prefill", "cuda_graph_max_bs_prefill", "cuda_graph_bs_prefill"];

/// Drafting algorithms that are known here.
const ALGORITHMS: [&str; 5] = ["EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM"];

/// Most requests of a step, where the log says it.
pub(super) fn limits(found: &Found) -> u32 {
    let said = found.log.sglang.settings.whole("max_running_requests").and_then(|limit| u32::try_from(limit).ok());
    said.unwrap_or(4096)
}

pub(super) fn server(text: &mut Text, found: &Found, serves_requests: bool, assumed: &mut Assumed) {
    let server = &found.log.sglang;
    text.line("[server.sglang]");
    let from = assumed.note("the release is not told, as SGLang prints none: 0.5.23".to_owned());
    text.key("version", Text::string("0.5.23"), from);
    if serves_requests && server.settings.get("context_length").is_none() {
        let room = super::room_for_requests(found);
        let from = assumed.note(format!("context_length is not told: {room} tokens, enough for every request"));
        text.key("context_length", room, from);
    }
    for key in AS_READ {
        let ranks = server.settings.whole("tp_size").filter(|ranks| key == "tp_size" && *ranks > 1);
        if let Some(ranks) = ranks.filter(|_| serves_requests) {
            assumed.note(format!(
                "one device stands for the {ranks} tensor-parallel ranks: take a profile measured with --tp-shard {ranks}"
            ));
            continue;
        }
        // What memory held says more than the share that was asked for.
        let pool = key == "mem_fraction_static" && server.settings.get("max_total_tokens").is_some();
        if let Some(known) = server.settings.get(key).filter(|_| !pool) {
            text.key(key, &known.value, &known.place);
        }
    }
    if let Some(known) = server.settings.get("speculative_algorithm") {
        let algorithm = server.settings.word("speculative_algorithm").unwrap_or_default().to_ascii_uppercase();
        let width = found.decode_tokens(Engine::Sglang);
        if ALGORITHMS.contains(&algorithm.as_str()) && width > 1 {
            text.key("speculative_algorithm", Text::string(&algorithm), &known.place);
            text.key("speculative_num_draft_tokens", width, "");
        } else {
            assumed.note(format!("the drafting algorithm {algorithm} ({}) is not known here: no drafts", known.place));
        }
    }
    let (interval, from) = found.decode_interval();
    let has_decodes = !found.log.sglang_steps.decodes.is_empty();
    if from.is_none() && has_decodes {
        assumed.note(format!("--decode-log-interval is not told: a decode line every {interval} decode steps"));
    }
    if let Some(refused) = &server.refused {
        assumed.note(format!(
            "the graph flags of the command line at {} are left out, because SGLang 0.5.23 refuses them: {}",
            refused.place, refused.value
        ));
    }
    super::starts_and_model(text, server.starts, server.model.as_ref(), assumed);
}

pub(super) fn candidates(text: &mut Text, found: &Found, assumed: &mut Assumed) {
    let (log, settings) = (&found.log, &found.log.sglang.settings);
    let progress = |sizes: &[(u32, f64)]| {
        let mut sizes: Vec<u32> = sizes.iter().map(|(size, _)| *size).collect();
        sizes.sort_unstable();
        sizes
    };
    let [decode, prefill] = &log.captured;
    let of_progress = progress(&log.progress[0]);
    let mut decodes_known = true;
    if let Some(known) = decode {
        text.key("cuda_graph_bs_decode", format_args!("{:?}", known.value), &known.place);
    } else if !of_progress.is_empty() {
        text.key("cuda_graph_bs_decode", format_args!("{of_progress:?}"), "from the progress bar of the capture");
    } else {
        decodes_known = false;
        let mut is_given = false;
        for key in GRAPHS {
            if let Some(known) = settings.get(key) {
                text.key(key, &known.value, &known.place);
                is_given = true;
            }
        }
        if !is_given {
            assumed.note("the decode sizes are not told: the engine's own".to_owned());
            text.comment(0, "assumed: the engine's own decode sizes");
        }
    }
    let of_progress = progress(&log.progress[1]);
    if let Some(known) = prefill {
        text.key("cuda_graph_bs_prefill", format_args!("{:?}", known.value), &known.place);
    } else if !of_progress.is_empty() {
        text.key("cuda_graph_bs_prefill", format_args!("{of_progress:?}"), "from the progress bar of the capture");
    } else if decodes_known {
        text.key(
            "disable_prefill_cuda_graph",
            true,
            "the log holds a capture of decode graphs and none of prefill graphs",
        );
    } else {
        for key in PREFILL_GRAPHS {
            if let Some(known) = settings.get(key) {
                text.key(key, &known.value, &known.place);
            }
        }
    }
    super::candidate(text, "no graphs");
    text.line("disable_decode_cuda_graph = true");
    text.line("disable_prefill_cuda_graph = true");
}

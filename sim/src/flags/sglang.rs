//! SGLang's flags: a flag for each key of a phase, and `--cuda-graph-config` for the keys that have none.

use serde_json::{Map, Value};

use super::names::DEDUP_VARIABLE;
use super::settings::Settings;
use super::{Advice, Fault, Rebuilt, Target, read, shell};
use crate::engine::options::EngineOptions;
use crate::engine::plan::GraphPlan;
use crate::engine::sglang::options::{GraphBackend, GraphOptions, SglangOptions, Version};

/// The flags for the graphs of `options`. Where a key stands in a flag and in `--cuda-graph-config`, the latter counts
/// (SGLang specification section 1), and it is written as a flag.
pub(super) fn advise(options: &SglangOptions, version: Version, kv_tokens: Option<u64>) -> Result<Advice, Fault> {
    let target = Target::Sglang(version);
    let advised = GraphPlan::build(&EngineOptions::Sglang(options.clone()), kv_tokens)
        .map_err(|error| Fault::Refused { engine: Target::Sglang(options.version), error })?;
    let settings = settings(&options.graphs);
    let unreadable = |fault| Fault::Unreadable { target, fault };
    let line = shell::line(&settings.command());
    let server = read::sglang::server_without_graph_flags(options, version);
    let read = read::sglang::line(server, &settings.environment, &line).map_err(unreadable)?;
    let checked = match GraphPlan::build(&EngineOptions::Sglang(read), kv_tokens) {
        Ok(plan) => Rebuilt::of(&advised, &plan, Vec::new()),
        Err(error) => Rebuilt::Refused { target, error },
    };
    let notes = notes(&options.graphs, &settings, &checked);
    Ok(settings.into_advice(target, notes, checked))
}

/// Every key that is set, where it counts.
fn settings(graphs: &GraphOptions) -> Settings {
    let (decode, prefill) = (&graphs.cuda_graph_config.decode, &graphs.cuda_graph_config.prefill);
    let mut settings = Settings::default();
    let mut config = Map::new();
    let off = |phase_off: bool| (phase_off || graphs.disable_cuda_graph).then_some(GraphBackend::Disabled);
    let backend = decode.backend.or(graphs.cuda_graph_backend_decode).or(off(graphs.disable_decode_cuda_graph));
    settings.switch("disable_decode_cuda_graph", backend == Some(GraphBackend::Disabled));
    settings
        .word("cuda_graph_backend_decode", backend.filter(|it| *it != GraphBackend::Disabled).map(GraphBackend::name));
    let backend = prefill.backend.or(graphs.cuda_graph_backend_prefill).or(off(graphs.disable_prefill_cuda_graph));
    settings.switch("disable_prefill_cuda_graph", backend == Some(GraphBackend::Disabled));
    settings
        .word("cuda_graph_backend_prefill", backend.filter(|it| *it != GraphBackend::Disabled).map(GraphBackend::name));
    let listed = decode.bs.as_deref().or(graphs.cuda_graph_bs_decode.as_deref());
    settings.list("cuda_graph_bs_decode", listed);
    // Beside a list the engine takes its largest size for the maximum and ignores what is asked for.
    let max_bs = decode.max_bs.or(graphs.cuda_graph_max_bs_decode).filter(|_| listed.is_none());
    settings.word("cuda_graph_max_bs_decode", max_bs);
    let listed = prefill.bs.as_deref().or(graphs.cuda_graph_bs_prefill.as_deref());
    settings.list("cuda_graph_bs_prefill", listed.filter(|sizes| !sizes.is_empty()));
    settings.word("cuda_graph_max_bs_prefill", prefill.max_bs.or(graphs.cuda_graph_max_bs_prefill));
    settings.word("cuda_graph_max_seq_len_prefill", prefill.max_seq_len.or(graphs.cuda_graph_max_seq_len_prefill));
    let context = prefill.max_context_size.or(graphs.cuda_graph_prefill_max_context);
    settings.word("cuda_graph_prefill_max_context", context);
    let mut set = |key: &str, value: Value| config.insert(key.to_owned(), value);
    if listed.is_some_and(<[u32]>::is_empty) {
        // A flag cannot hold a list without sizes.
        set("bs", Value::Array(Vec::new()));
    }
    if let Some(requests) = prefill.full_prefill_max_req {
        set("full_prefill_max_req", requests.into());
    }
    if let Some(tokens) = prefill.full_prefill_prefix_chunk_tokens {
        set("full_prefill_prefix_chunk_tokens", tokens.into());
    }
    if !config.is_empty() {
        settings.object("cuda_graph_config", Map::from_iter([("prefill".to_owned(), config.into())]));
    }
    settings.switch("disable_cuda_graph_padding", graphs.disable_cuda_graph_padding);
    if graphs.enable_cuda_graph_dedup {
        settings.variable(DEDUP_VARIABLE, "1");
    }
    settings
}

/// What an operator must know before pasting.
fn notes(graphs: &GraphOptions, settings: &Settings, checked: &Rebuilt) -> Vec<String> {
    let mut notes = checked.notes();
    if settings.is_empty() {
        notes.push("no flag is needed: take every graph flag out of the command".to_owned());
    } else {
        notes.push(
            "a --cuda-graph-config of your own would win over these flags: take it, and every other graph flag, out of the command"
                .to_owned(),
        );
    }
    if settings.has("cuda_graph_bs_decode") {
        notes.push(
            "decode sizes count requests; --cuda-graph-bs and --cuda-graph-max-bs of older releases are refused now"
                .to_owned(),
        );
    }
    if settings.has("cuda_graph_bs_prefill") {
        notes.push("prefill sizes count the new tokens of a step".to_owned());
    }
    if settings.has("disable_decode_cuda_graph") && settings.has("disable_prefill_cuda_graph") {
        notes.push("--disable-cuda-graph says the same for both phases and is deprecated".to_owned());
    }
    if settings.has("cuda_graph_bs_decode") && graphs.cuda_graph_max_bs_decode.is_some() {
        notes.push("cuda_graph_max_bs_decode is left out: beside a list the engine ignores it".to_owned());
    }
    if let Some((name, value)) = settings.environment.first() {
        notes.push(format!("set {name}={value} in the server's environment"));
    }
    notes
}

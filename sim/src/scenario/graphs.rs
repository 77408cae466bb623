//! Graph options: a server's own, and a candidate's laid over them.

use toml::{Spanned, Value};

use super::check::Check;
use super::file::{CandidateFile, GraphsFile, Whole};
use super::{ScenarioError, Span, other_graphs};
use crate::engine::vllm::options::{
    CompileSize, GraphOptions, OptimizationLevel, SplittingOps, Version, VllmOptions, WhatIf,
};
use crate::limits::{RUNGS_MAX, SEQUENCES_MAX, STEP_TOKENS_MAX};

/// Lays the options of one table over `graphs`.
pub(super) fn overlay(
    check: &mut Check<'_>,
    mut graphs: GraphOptions,
    file: &GraphsFile,
    version: Version,
) -> Result<GraphOptions, ScenarioError> {
    if let Some(sizes) = &file.cudagraph_capture_sizes {
        // Main reads an empty list as no graphs; the releases before it refuse one.
        let least = usize::from(version != Version::Main);
        graphs.cudagraph_capture_sizes = Some(ladder(check, sizes, least, STEP_TOKENS_MAX)?);
    }
    if let Some(size) = &file.max_cudagraph_capture_size {
        graphs.max_cudagraph_capture_size = Some(check.whole32(size, 1, STEP_TOKENS_MAX)?);
    }
    separate(check, &mut graphs, file, version)?;
    other_graphs::overlay(check, &mut graphs, file, version)?;
    if let Some(sizes) = &file.compile_sizes {
        graphs.compile_sizes = sizes.iter().map(|size| compile_size(check, size)).collect::<Result<_, _>>()?;
    }
    if let Some(endpoints) = &file.compile_ranges_endpoints {
        let endpoint = |endpoint| check.whole32(endpoint, 1, STEP_TOKENS_MAX);
        graphs.compile_ranges_endpoints = endpoints.iter().map(endpoint).collect::<Result<_, _>>()?;
    }
    if let Some(enable_sp) = &file.enable_sp {
        if *enable_sp.get_ref() && version != Version::V0_31_0 {
            let help = "leave it out, or set version = \"0.31.0\" under [server.vllm]";
            return Err(check.reject(&enable_sp.span(), format!("vLLM {version} has no sequence-parallel pass"), help));
        }
        graphs.enable_sp = *enable_sp.get_ref();
    }
    if let Some(level) = &file.optimization_level {
        let known = usize::try_from(*level.get_ref()).ok().and_then(|level| OptimizationLevel::ALL.get(level));
        graphs.optimization_level = *known.ok_or_else(|| {
            let problem = format!("there is no optimization level {}", level.get_ref());
            check.reject(&level.span(), problem, "write 0, 1, 2 or 3")
        })?;
    }
    if let Some(ops) = &file.splitting_ops {
        graphs.splitting_ops = splitting_ops(check, ops)?;
    }
    graphs.cudagraph_mode = file.cudagraph_mode.or(graphs.cudagraph_mode);
    graphs.compilation_mode = file.compilation_mode.or(graphs.compilation_mode);
    let set = |slot: &mut bool, value: Option<bool>| *slot = value.unwrap_or(*slot);
    set(&mut graphs.use_inductor_graph_partition, file.use_inductor_graph_partition);
    set(&mut graphs.fuse_attn_quant, file.fuse_attn_quant);
    set(&mut graphs.use_breakable_cudagraph, file.use_breakable_cudagraph);
    set(&mut graphs.enforce_eager, file.enforce_eager);
    set(&mut graphs.specialize_active_lora, file.specialize_active_lora);
    set(&mut graphs.cudagraph_specialize_lora, file.cudagraph_specialize_lora);
    graphs.performance_mode = file.performance_mode.unwrap_or(graphs.performance_mode);
    graphs.compile_cache = file.compile_cache.unwrap_or(graphs.compile_cache);
    Ok(graphs)
}

/// Main's options for prefill and decode graphs. A list makes the maximum that the server gave beside it void.
fn separate(
    check: &mut Check<'_>,
    graphs: &mut GraphOptions,
    file: &GraphsFile,
    version: Version,
) -> Result<(), ScenarioError> {
    let keys = [
        (
            "prefill_cudagraph_capture_token_sizes",
            file.prefill_cudagraph_capture_token_sizes.as_ref().map(Spanned::span),
        ),
        ("max_prefill_cudagraph_capture_tokens", file.max_prefill_cudagraph_capture_tokens.as_ref().map(Spanned::span)),
        (
            "decode_cudagraph_capture_request_sizes",
            file.decode_cudagraph_capture_request_sizes.as_ref().map(Spanned::span),
        ),
        (
            "max_decode_cudagraph_capture_requests",
            file.max_decode_cudagraph_capture_requests.as_ref().map(Spanned::span),
        ),
        ("max_decode_cudagraph_capture_tokens", file.max_decode_cudagraph_capture_tokens.as_ref().map(Spanned::span)),
    ];
    if let Some((key, Some(span))) =
        keys.into_iter().find(|(_, span)| span.is_some()).filter(|_| version != Version::Main)
    {
        let problem = format!("vLLM {version} has no {key}: it came after 0.33.0");
        let help = "set version = \"main\" under [server.vllm], or use cudagraph_capture_sizes and \
                    max_cudagraph_capture_size";
        return Err(check.reject(&span, problem, help));
    }
    if let Some(sizes) = &file.prefill_cudagraph_capture_token_sizes {
        graphs.prefill_cudagraph_capture_token_sizes = Some(ladder(check, sizes, 0, STEP_TOKENS_MAX)?);
        graphs.max_prefill_cudagraph_capture_tokens = None;
    }
    if let Some(tokens) = &file.max_prefill_cudagraph_capture_tokens {
        graphs.max_prefill_cudagraph_capture_tokens = Some(check.whole32(tokens, 0, STEP_TOKENS_MAX)?);
    }
    if let Some(sizes) = &file.decode_cudagraph_capture_request_sizes {
        graphs.decode_cudagraph_capture_request_sizes = Some(ladder(check, sizes, 0, SEQUENCES_MAX)?);
        graphs.max_decode_cudagraph_capture_requests = None;
    }
    if let Some(requests) = &file.max_decode_cudagraph_capture_requests {
        graphs.max_decode_cudagraph_capture_requests = Some(check.whole32(requests, 0, SEQUENCES_MAX)?);
    }
    if let Some(tokens) = &file.max_decode_cudagraph_capture_tokens {
        graphs.max_decode_cudagraph_capture_tokens = Some(check.whole32(tokens, 1, STEP_TOKENS_MAX)?);
    }
    Ok(())
}

/// The server's options with a candidate's laid over them, and where the candidate is written.
pub(super) fn candidate(
    check: &mut Check<'_>,
    mut file: CandidateFile,
    server: &VllmOptions,
) -> Result<(VllmOptions, Span), ScenarioError> {
    let options = file.take_graphs();
    let span = options.cudagraph_capture_sizes.as_ref().map_or(file.name.span(), Spanned::span);
    let mut graphs = overlay(check, server.graphs.clone(), &options, server.version)?;
    if let Some(what_if) = &file.what_if {
        graphs.what_if = WhatIf {
            capture_order: what_if.capture_order.unwrap_or_default(),
            graph_pool: what_if.graph_pool.unwrap_or_default(),
        };
    }
    Ok((VllmOptions { graphs, ..server.clone() }, span))
}

/// A ladder as written. What the engine would do to it in silence (sort it, drop repeats) is said as a warning; of sizes
/// above the token budget the graphs made from it warn.
pub(super) fn ladder(
    check: &mut Check<'_>,
    sizes: &Spanned<Vec<Whole>>,
    least: usize,
    size_max: u32,
) -> Result<Vec<u32>, ScenarioError> {
    let span = sizes.span();
    let written = sizes.get_ref();
    if written.len() < least {
        let help = "to capture no graphs, set cudagraph_mode = \"NONE\" instead";
        return Err(check.reject(&span, "expected at least one size: the engine refuses an empty ladder", help));
    }
    if written.len() > RUNGS_MAX {
        let problem = format!("expected at most {RUNGS_MAX} sizes, found {}", written.len());
        return Err(check.reject(&span, problem, "each rung costs memory and start-up time; a few dozen are usual"));
    }
    let ladder: Vec<u32> = written.iter().map(|size| check.whole32(size, 1, size_max)).collect::<Result<_, _>>()?;
    warn_about_ladder(check, written, &ladder);
    Ok(ladder)
}

pub(super) fn warn_about_ladder(check: &mut Check<'_>, written: &[Whole], ladder: &[u32]) {
    if let Some(place) = (1..ladder.len()).find(|&place| ladder[place] < ladder[place - 1]) {
        let (below, above) = (ladder[place], ladder[place - 1]);
        check.warn(&written[place].span(), format!("{below} comes after {above}; the engine sorts the sizes"));
    }
    let mut sorted: Vec<u32> = ladder.to_vec();
    sorted.sort_unstable();
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        let place = ladder.iter().rposition(|size| *size == pair[0]).unwrap_or_default();
        check.warn(&written[place].span(), format!("{} is there twice; the engine drops repeats", pair[0]));
    }
}

fn compile_size(check: &Check<'_>, size: &Spanned<Value>) -> Result<CompileSize, ScenarioError> {
    match size.get_ref() {
        Value::Integer(tokens) => {
            Ok(CompileSize::Tokens(check.whole32(&Spanned::new(size.span(), *tokens), 1, STEP_TOKENS_MAX)?))
        }
        Value::String(word) if word == "cudagraph_capture_sizes" => Ok(CompileSize::Word(word.clone())),
        other => {
            let problem = format!("expected sizes or \"cudagraph_capture_sizes\", found {other}");
            Err(check.reject(&size.span(), problem, "list numbers of tokens, or that word for the whole ladder"))
        }
    }
}

/// Names of operations, or one of the words for lists that need no names.
fn splitting_ops(check: &Check<'_>, ops: &Spanned<Value>) -> Result<SplittingOps, ScenarioError> {
    let refuse = |problem: String| {
        let help =
            "list names such as \"vllm::unified_attention_with_output\", or write \"default\", \"empty\" or \"custom\"";
        Err(check.reject(&ops.span(), problem, help))
    };
    match ops.get_ref() {
        Value::String(word) => word.parse().or_else(refuse),
        Value::Array(names) => {
            let written = |name: &Value| name.as_str().filter(|name| is_operation(name)).map(str::to_owned);
            match names.iter().find(|name| written(name).is_none()) {
                Some(wrong) => refuse(format!("expected names of operations, found {wrong}")),
                None => Ok(SplittingOps::Listed(names.iter().filter_map(written).collect())),
            }
        }
        other => refuse(format!("expected a list of operations, found {other}")),
    }
}

/// `namespace::name`, as torch names its operations.
fn is_operation(name: &str) -> bool {
    let is_word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "_.".contains(c));
    name.split_once("::").is_some_and(|(namespace, operation)| is_word(namespace) && is_word(operation))
}

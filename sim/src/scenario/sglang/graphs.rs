//! What a candidate of an SGLang server may set: its graphs, and the sizes from which the engine's lists and the room for
//! graphs follow.

use toml::Spanned;

use super::super::check::Check;
use super::super::file::Whole;
use super::super::file::sglang::{CudaGraphConfigFile, SglangCandidateFile, SglangGraphsFile};
use super::super::graphs::warn_about_ladder;
use super::super::{ScenarioError, Span};
use crate::engine::sglang::options::{CudaGraphConfig, DisaggregationMode, GraphOptions, SglangOptions};
use crate::limits::{BLOCKS_MAX, REQUEST_TOKENS_MAX, RUNGS_MAX, SEQUENCES_MAX, STEP_TOKENS_MAX};

/// A size that graphs are captured for.
#[derive(Clone, Copy)]
struct Phase {
    name: &'static str,
    unit: &'static str,
    size_max: u32,
}

const DECODE: Phase = Phase { name: "decode", unit: "request", size_max: SEQUENCES_MAX };
const PREFILL: Phase = Phase { name: "prefill", unit: "token", size_max: STEP_TOKENS_MAX };

/// The server's options with a candidate's laid over them, and where the candidate is written.
pub(in crate::scenario) fn candidate(
    check: &mut Check<'_>,
    mut file: SglangCandidateFile,
    server: &SglangOptions,
) -> Result<(SglangOptions, Span), ScenarioError> {
    let graphs = file.take_graphs();
    let lists = [&graphs.cuda_graph_bs_decode, &graphs.cuda_graph_bs_prefill];
    let span = lists.into_iter().flatten().next().map_or_else(|| file.name.span(), Spanned::span);
    let mut options = server.clone();
    give_way(&mut options.graphs, &graphs);
    let options = lay_over(check, options, &graphs)?;
    refuse_broken_chunks(check, [graphs.chunked_prefill_size.as_ref(), None], &options)?;
    Ok((options, span))
}

/// Unsets what the server said about the same setting in another way, where the engine would prefer that way: a candidate
/// means what it says.
fn give_way(graphs: &mut GraphOptions, file: &SglangGraphsFile) {
    let GraphOptions { cuda_graph_config: config, .. } = graphs;
    let all_off = file.disable_cuda_graph == Some(true);
    if all_off || file.disable_decode_cuda_graph == Some(true) {
        graphs.cuda_graph_backend_decode = None;
        config.decode.backend = None;
    }
    if all_off || file.disable_prefill_cuda_graph == Some(true) {
        graphs.cuda_graph_backend_prefill = None;
        config.prefill.backend = None;
    }
    if file.cuda_graph_backend_decode.is_some() {
        config.decode.backend = None;
    }
    if file.cuda_graph_backend_prefill.is_some() {
        config.prefill.backend = None;
    }
    let own = file.cuda_graph_config.as_ref();
    if file.cuda_graph_max_bs_decode.is_some()
        || file.cuda_graph_bs_decode.is_some()
        || own.is_some_and(|own| own.decode.max_bs.is_some() || own.decode.bs.is_some())
    {
        (graphs.cuda_graph_max_bs_decode, graphs.cuda_graph_bs_decode) = (None, None);
        (config.decode.max_bs, config.decode.bs) = (None, None);
    }
    if file.cuda_graph_max_bs_prefill.is_some()
        || file.cuda_graph_bs_prefill.is_some()
        || own.is_some_and(|own| own.prefill.max_bs.is_some() || own.prefill.bs.is_some())
    {
        (graphs.cuda_graph_max_bs_prefill, graphs.cuda_graph_bs_prefill) = (None, None);
        (config.prefill.max_bs, config.prefill.bs) = (None, None);
    }
    if file.cuda_graph_max_seq_len_prefill.is_some() {
        config.prefill.max_seq_len = None;
    }
    if file.cuda_graph_prefill_max_context.is_some() {
        config.prefill.max_context_size = None;
    }
}

/// Lays the keys of one table over `options`.
pub(super) fn lay_over(
    check: &mut Check<'_>,
    mut options: SglangOptions,
    file: &SglangGraphsFile,
) -> Result<SglangOptions, ScenarioError> {
    let SglangOptions { scheduler, kv, graphs, .. } = &mut options;
    let set = |slot: &mut bool, value: Option<bool>| *slot = value.unwrap_or(*slot);
    set(&mut graphs.disable_cuda_graph, file.disable_cuda_graph);
    set(&mut graphs.disable_decode_cuda_graph, file.disable_decode_cuda_graph);
    set(&mut graphs.disable_prefill_cuda_graph, file.disable_prefill_cuda_graph);
    set(&mut graphs.disable_cuda_graph_padding, file.disable_cuda_graph_padding);
    set(&mut graphs.enable_cuda_graph_dedup, file.enable_cuda_graph_dedup);
    let sizing = file.enable_post_capture_kv_sizing.as_ref().map(|written| *written.get_ref());
    set(&mut kv.post_capture_kv_sizing, sizing);
    overwrite(&mut graphs.cuda_graph_backend_decode, file.cuda_graph_backend_decode);
    overwrite(&mut graphs.cuda_graph_backend_prefill, file.cuda_graph_backend_prefill);
    let longest = |value: &Option<Whole>| check.optional32(value.as_ref(), 1, REQUEST_TOKENS_MAX);
    overwrite(&mut graphs.cuda_graph_max_seq_len_prefill, longest(&file.cuda_graph_max_seq_len_prefill)?);
    overwrite(&mut graphs.cuda_graph_prefill_max_context, longest(&file.cuda_graph_prefill_max_context)?);
    overwrite(&mut graphs.cuda_graph_max_bs_decode, maximum(check, file.cuda_graph_max_bs_decode.as_ref(), DECODE)?);
    overwrite(&mut graphs.cuda_graph_max_bs_prefill, maximum(check, file.cuda_graph_max_bs_prefill.as_ref(), PREFILL)?);
    overwrite(&mut graphs.cuda_graph_bs_decode, list(check, file.cuda_graph_bs_decode.as_ref(), DECODE)?);
    overwrite(&mut graphs.cuda_graph_bs_prefill, list(check, file.cuda_graph_bs_prefill.as_ref(), PREFILL)?);
    if let Some(config) = &file.cuda_graph_config {
        lay_config_over(check, &mut graphs.cuda_graph_config, config)?;
    }
    if let Some(written) = &file.chunked_prefill_size {
        scheduler.chunked_prefill_size = Some(chunk(check, written)?);
    }
    let requests = check.optional32(file.max_running_requests.as_ref(), 1, SEQUENCES_MAX)?;
    overwrite(&mut scheduler.max_running_requests, requests);
    overwrite(&mut kv.max_total_tokens, check.optional32(file.max_total_tokens.as_ref(), 1, BLOCKS_MAX)?);
    let fraction = file.mem_fraction_static.as_ref().map(|share| check.real(share, 0.01, 1.0)).transpose()?;
    overwrite(&mut kv.mem_fraction_static, fraction);
    warn_about_idle_sizing(check, file, &options);
    Ok(options)
}

/// Lays the keys of one `cuda_graph_config` over `config`.
fn lay_config_over(
    check: &mut Check<'_>,
    config: &mut CudaGraphConfig,
    CudaGraphConfigFile { decode, prefill }: &CudaGraphConfigFile,
) -> Result<(), ScenarioError> {
    overwrite(&mut config.decode.backend, decode.backend);
    overwrite(&mut config.decode.max_bs, maximum(check, decode.max_bs.as_ref(), DECODE)?);
    overwrite(&mut config.decode.bs, list(check, decode.bs.as_ref(), DECODE)?);
    overwrite(&mut config.prefill.backend, prefill.backend);
    overwrite(&mut config.prefill.max_bs, maximum(check, prefill.max_bs.as_ref(), PREFILL)?);
    overwrite(&mut config.prefill.bs, list(check, prefill.bs.as_ref(), PREFILL)?);
    let size = |value: &Option<Whole>, most: u32| check.optional32(value.as_ref(), 1, most);
    overwrite(&mut config.prefill.max_context_size, size(&prefill.max_context_size, REQUEST_TOKENS_MAX)?);
    overwrite(&mut config.prefill.max_seq_len, size(&prefill.max_seq_len, REQUEST_TOKENS_MAX)?);
    overwrite(&mut config.prefill.full_prefill_max_req, size(&prefill.full_prefill_max_req, SEQUENCES_MAX)?);
    let chunk = size(&prefill.full_prefill_prefix_chunk_tokens, STEP_TOKENS_MAX)?;
    overwrite(&mut config.prefill.full_prefill_prefix_chunk_tokens, chunk);
    Ok(())
}

fn overwrite<T>(slot: &mut Option<T>, value: Option<T>) {
    if value.is_some() {
        *slot = value;
    }
}

/// `chunked_prefill_size`: -1, as the engine writes it, or 0 is off.
fn chunk(check: &Check<'_>, written: &Whole) -> Result<i32, ScenarioError> {
    let found = *written.get_ref();
    match i32::try_from(found) {
        Ok(tokens) if (-1..=i64::from(STEP_TOKENS_MAX)).contains(&found) => Ok(tokens),
        _ => {
            let problem = format!("expected a whole number from 1 to {STEP_TOKENS_MAX}, or -1, found {found}");
            Err(check.reject(&written.span(), problem, "write -1 to compute every prompt in one step"))
        }
    }
}

/// Refuses chunks that are not whole pages, unless another server computes the prompts. `written` are the
/// sizes of chunk and page, as far as the table at hand has them.
pub(super) fn refuse_broken_chunks(
    check: &Check<'_>,
    written: [Option<&Whole>; 2],
    options: &SglangOptions,
) -> Result<(), ScenarioError> {
    let Some(written) = written.into_iter().flatten().next() else { return Ok(()) };
    let page_size = options.scheduler.page_size;
    let misfit = options.chunk().filter(|chunk| !chunk.is_multiple_of(page_size));
    let Some(chunk) = misfit.filter(|_| options.kv.disaggregation_mode != DisaggregationMode::Decode) else {
        return Ok(());
    };
    let problem =
        format!("chunked_prefill_size ({chunk}) is no multiple of page_size ({page_size}), which SGLang refuses");
    let help = format!(
        "set chunked_prefill_size = {}, or -1 to compute every prompt in one step",
        chunk.next_multiple_of(page_size)
    );
    Err(check.reject(&written.span(), problem, help))
}

/// Warns of a switch that the engine passes over.
fn warn_about_idle_sizing(check: &mut Check<'_>, file: &SglangGraphsFile, options: &SglangOptions) {
    let Some(written) = file.enable_post_capture_kv_sizing.as_ref().filter(|written| *written.get_ref()) else {
        return;
    };
    if options.model.mla || options.parallel.dcp_size > 1 {
        let problem = "without effect: SGLang sizes the pool before capture with latent attention and with dcp_size \
                       above 1";
        check.warn(&written.span(), problem);
    }
}

/// A size of a graph, in the phase's unit.
fn size(check: &Check<'_>, written: &Whole, phase: Phase) -> Result<u32, ScenarioError> {
    let Phase { name, unit, size_max } = phase;
    if *written.get_ref() < 1 {
        let problem = format!("a graph holds at least 1 {unit}, found {}", written.get_ref());
        let help = format!("write 1 or more, or disable_{name}_cuda_graph = true for no {name} graphs");
        return Err(check.reject(&written.span(), problem, help));
    }
    check.whole32(written, 1, size_max)
}

fn maximum(check: &Check<'_>, written: Option<&Whole>, phase: Phase) -> Result<Option<u32>, ScenarioError> {
    written.map(|written| size(check, written, phase)).transpose()
}

/// A list of sizes as written. What the engine would do to it in silence (sort it, drop repeats) is said as a warning; of
/// sizes that are not captured the graphs made from it warn.
fn list(
    check: &mut Check<'_>,
    written: Option<&Spanned<Vec<Whole>>>,
    phase: Phase,
) -> Result<Option<Vec<u32>>, ScenarioError> {
    let Some(written) = written else { return Ok(None) };
    let sizes = written.get_ref();
    if sizes.is_empty() && phase.name == DECODE.name {
        let help =
            "leave it out for the engine's own list, or set disable_decode_cuda_graph = true for no decode graphs";
        return Err(check.reject(&written.span(), "expected at least one size: SGLang refuses an empty list", help));
    }
    if sizes.len() > RUNGS_MAX {
        let problem = format!("expected at most {RUNGS_MAX} sizes, found {}", sizes.len());
        let help = "each rung costs memory and start-up time; a few dozen are usual";
        return Err(check.reject(&written.span(), problem, help));
    }
    let ladder: Vec<u32> = sizes.iter().map(|written| size(check, written, phase)).collect::<Result<_, _>>()?;
    warn_about_ladder(check, sizes, &ladder);
    Ok(Some(ladder))
}

//! An SGLang server's options, with the engine's defaults and the combinations that it refuses.

mod graphs;
mod parallel;

use toml::Spanned;

use super::check::Check;
use super::demand::ends;
use super::file::sglang::SglangFile;
use super::form::Context;
use super::{Model, ScenarioError, Span, Unsimulated};
use crate::engine::sglang::options::{
    DisaggregationMode, GraphOptions, KvOptions, ModelTraits, SchedulerOptions, SglangOptions, Speculative,
};
use crate::engine::vllm::options::ModelKind;
use crate::limits::{
    BLOCK_TOKENS_MAX, DRAFTS_MAX, MEMORY_BYTES_MAX, REQUEST_TOKENS_MAX, SEQUENCES_MAX, STEP_TOKENS_MAX,
};

pub(super) use graphs::candidate;

/// `schedule_conservativeness`, largest: from 2 on the whole output is reserved.
const CONSERVATIVENESS_MAX: f64 = 1000.0;

/// Memory of a device, in MiB, largest.
const GPU_MEM_MIB_MAX: u32 = (MEMORY_BYTES_MAX >> 20) as u32;

/// What `sim ladder` still answers for an option that is not simulated.
const LADDERS_ONLY: &str = "`sim ladder` knows its graphs already";

/// Checks `[server.sglang]`.
pub(super) fn server(
    check: &mut Check<'_>,
    mut file: SglangFile,
    span: &Span,
    context: &Context<'_>,
) -> Result<(SglangOptions, Vec<Unsimulated>), ScenarioError> {
    let model = context.model;
    let options = SglangOptions {
        version: file.version.unwrap_or_default(),
        scheduler: scheduler(check, &file, span, context)?,
        kv: kv(check, &file, context)?,
        parallel: parallel::parallel(check, &file)?,
        speculative: speculative(check, &file)?,
        model: ModelTraits {
            mla: file.mla.unwrap_or(false),
            llama_2: file.llama_2.unwrap_or_else(|| model.is_some_and(is_llama_2)),
            family: file.model_family.unwrap_or_default(),
            prefill_graph_blockers: file.prefill_graph_blockers.take().unwrap_or_default(),
        },
        graphs: GraphOptions { enable_lora: is_on(file.enable_lora.as_ref()), ..GraphOptions::default() },
    };
    let unsimulated = unsimulated(&file, &options, model);
    refuse_what_the_engine_refuses(check, &file, &options)?;
    let graphs = file.take_graphs();
    let options = graphs::lay_over(check, options, &graphs)?;
    let written = [graphs.chunked_prefill_size.as_ref(), file.page_size.as_ref()];
    graphs::refuse_broken_chunks(check, written, &options)?;
    Ok((options, unsimulated))
}

/// The engine's rule: its maximum for prefill graphs depends on the name in the model's path.
fn is_llama_2(model: &Model) -> bool {
    model.name.to_ascii_lowercase().contains("llama-2")
}

fn scheduler(
    check: &Check<'_>,
    file: &SglangFile,
    span: &Span,
    context: &Context<'_>,
) -> Result<SchedulerOptions, ScenarioError> {
    let default = SchedulerOptions::default();
    let conservativeness = file.schedule_conservativeness.as_ref();
    let conservativeness = conservativeness.map(|value| check.real(value, 0.0, CONSERVATIVENESS_MAX)).transpose()?;
    let max_prefill_tokens = check.optional32(file.max_prefill_tokens.as_ref(), 1, STEP_TOKENS_MAX)?;
    Ok(SchedulerOptions {
        max_prefill_tokens: max_prefill_tokens.unwrap_or(default.max_prefill_tokens),
        prefill_max_requests: check.optional32(file.prefill_max_requests.as_ref(), 1, SEQUENCES_MAX)?,
        page_size: check.optional32(file.page_size.as_ref(), 1, BLOCK_TOKENS_MAX)?.unwrap_or(default.page_size),
        schedule_conservativeness: conservativeness.unwrap_or(default.schedule_conservativeness),
        enable_mixed_chunk: is_on(file.enable_mixed_chunk.as_ref()),
        disable_overlap_schedule: file.disable_overlap_schedule.unwrap_or(default.disable_overlap_schedule),
        disable_radix_cache: file.disable_radix_cache.unwrap_or(default.disable_radix_cache),
        return_logprob: is_on(context.traffic.return_logprob.as_ref()),
        context_length: context_length(check, file, span, context)?,
        output_end: ends::output_end(check, context.traffic)?,
        ..default
    })
}

fn is_on(written: Option<&Spanned<bool>>) -> bool {
    written.is_some_and(|written| *written.get_ref())
}

fn context_length(
    check: &Check<'_>,
    file: &SglangFile,
    span: &Span,
    context: &Context<'_>,
) -> Result<u32, ScenarioError> {
    let of_model = context.model.and_then(|model| model.max_position_embeddings);
    let Some(written) = &file.context_length else {
        return match of_model {
            Some(tokens) => Ok(tokens),
            None if !context.has_requests => Ok(SchedulerOptions::default().context_length),
            None => Err(check.reject(
                span,
                "context_length is missing: SGLang takes it from the model, and no model is given here",
                "set context_length, or [model] with name and max_position_embeddings",
            )),
        };
    };
    let tokens = check.whole32(written, 1, REQUEST_TOKENS_MAX)?;
    match of_model {
        Some(limit) if tokens > limit => {
            let problem =
                format!("{tokens} is above the model's max_position_embeddings ({limit}), which SGLang refuses");
            Err(check.reject(&written.span(), problem, "lower context_length"))
        }
        _ => Ok(tokens),
    }
}

/// What sizes the KV pool. The device's memory is the profile's where the scenario does not give it.
fn kv(check: &Check<'_>, file: &SglangFile, context: &Context<'_>) -> Result<KvOptions, ScenarioError> {
    let written = check.optional32(file.gpu_mem_mib.as_ref(), 1, GPU_MEM_MIB_MAX)?;
    let of_profile = || u32::try_from((context.device)()?.memory.0 >> 20).ok();
    Ok(KvOptions {
        gpu_mem_mib: written.or_else(of_profile),
        disaggregation_mode: file.disaggregation_mode.as_ref().map(|mode| *mode.get_ref()).unwrap_or_default(),
        ..KvOptions::default()
    })
}

/// Both keys, or neither: how many drafts an algorithm takes by itself depends on the model.
fn speculative(check: &Check<'_>, file: &SglangFile) -> Result<Option<Speculative>, ScenarioError> {
    match (&file.speculative_algorithm, &file.speculative_num_draft_tokens) {
        (None, None) => Ok(None),
        (Some(algorithm), Some(tokens)) => Ok(Some(Speculative {
            algorithm: *algorithm.get_ref(),
            num_draft_tokens: check.whole32(tokens, 1, DRAFTS_MAX)?,
        })),
        (Some(algorithm), None) => {
            let problem = "how many tokens of a request one step verifies is not given: SGLang's default depends on the \
                           model";
            let help = "add speculative_num_draft_tokens; the server's log names it";
            Err(check.reject(&algorithm.span(), problem, help))
        }
        (None, Some(tokens)) => {
            let help = "add speculative_algorithm, or leave speculative_num_draft_tokens out";
            Err(check.reject(&tokens.span(), "without speculative_algorithm nobody drafts", help))
        }
    }
}

/// Combinations at which the real server does not start.
fn refuse_what_the_engine_refuses(
    check: &Check<'_>,
    file: &SglangFile,
    options: &SglangOptions,
) -> Result<(), ScenarioError> {
    if let Some(written) = file.enable_mixed_chunk.as_ref().filter(|written| *written.get_ref())
        && options.speculative.is_some()
    {
        let problem = "steps that mix prompts with decodes exclude speculative decoding, which SGLang refuses";
        return Err(check.reject(&written.span(), problem, "leave enable_mixed_chunk or speculative_algorithm out"));
    }
    if let Some(written) = &file.pp_size
        && options.parallel.pp_size > 1
        && (!options.scheduler.disable_overlap_schedule || options.speculative.is_some())
    {
        let problem =
            "pipeline parallelism excludes the overlap schedule and speculative decoding, which SGLang refuses";
        let help = "set disable_overlap_schedule = true and leave speculative_algorithm out";
        return Err(check.reject(&written.span(), problem, help));
    }
    Ok(())
}

/// What ladders know and the event loop does not.
fn unsimulated(file: &SglangFile, options: &SglangOptions, model: Option<&Model>) -> Vec<Unsimulated> {
    let mut found = parallel::unsimulated(file, &options.parallel);
    let mut flag = |span: Span, what: &str| found.push(Unsimulated::new(what, LADDERS_ONLY, span));
    if let Some(written) = &file.disaggregation_mode
        && options.kv.disaggregation_mode != DisaggregationMode::Null
    {
        flag(written.span(), "disaggregation_mode: prefill and decode on servers of their own are");
    }
    if let Some(written) = file.enable_lora.as_ref().filter(|written| *written.get_ref()) {
        flag(written.span(), "enable_lora: adapters on an SGLang server are");
    }
    if let Some(Model { kind, span, .. }) = model.filter(|model| model.kind != ModelKind::DecoderOnly) {
        let what = match kind {
            ModelKind::Pooling => "model.task: requests of a pooling model are",
            ModelKind::EncoderDecoder | ModelKind::DecoderOnly => "model.is_encoder_decoder: encoder steps are",
        };
        flag(span.clone(), what);
    }
    found
}

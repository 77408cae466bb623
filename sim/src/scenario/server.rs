//! The server's options, with the engine's defaults and the combinations that it refuses.

use toml::Spanned;

use super::check::Check;
use super::file::{UbatchFile, VllmFile};
use super::form::Context;
use super::{Model, ScenarioError, Span, Unsimulated, attention, drafts, graphs};
use crate::engine::vllm::breakable;
use crate::engine::vllm::device_defaults::BatchDefaults;
use crate::engine::vllm::options::{
    GraphOptions, KvOptions, ModelKind, SchedulerOptions, Ubatch, Version, VllmOptions,
};
use crate::limits::{
    BLOCK_TOKENS_MAX, BLOCKS_MAX, DRAFTS_MAX, GRAPH_BREAKS_MAX, LORAS_MAX, RANKS_MAX, REQUEST_TOKENS_MAX,
    SEQUENCES_MAX, STEP_INTERVAL_MAX, STEP_TOKENS_MAX,
};

/// Checks `[server.vllm]`.
pub(super) fn vllm(
    check: &mut Check<'_>,
    mut file: VllmFile,
    span: &Span,
    context: &Context<'_>,
) -> Result<(VllmOptions, Vec<Unsimulated>), ScenarioError> {
    let Context { model, has_requests, .. } = *context;
    let version = file.version.unwrap_or(Version::V0_33_0);
    let max_model_len = max_model_len(check, &file, span, model, has_requests)?;
    let scheduler = scheduler(check, &file, context, version, max_model_len)?;
    refuse_what_the_engine_refuses(check, &file, span, &scheduler)?;
    let kv = kv(check, &file, &scheduler)?;
    let (machine_graphs, unsimulated) = machine_graphs(check, &file, context)?;
    drafts::warn_about_schedule(check, &file, &machine_graphs);
    drafts::warn_about_unused(check, &file, machine_graphs.num_speculative_tokens);
    warn_about_unused(check, &file, version, &scheduler, machine_graphs.data_parallel_size);
    if has_requests {
        drafts::refuse_starving_drafts(check, &file, &scheduler, machine_graphs.num_speculative_tokens)?;
        drafts::warn_about_drafts(check, &file, machine_graphs.num_speculative_tokens);
    }
    let options = file.take_graphs();
    let graphs = graphs::overlay(check, machine_graphs, &options, version)?;
    Ok((VllmOptions { version, runner: file.runner, scheduler, kv, graphs }, unsimulated))
}

fn max_model_len(
    check: &Check<'_>,
    file: &VllmFile,
    span: &Span,
    model: Option<&Model>,
    is_needed: bool,
) -> Result<u32, ScenarioError> {
    let of_model = model.and_then(|model| model.max_position_embeddings);
    let Some(written) = &file.max_model_len else {
        return match of_model {
            Some(tokens) => Ok(tokens),
            None if !is_needed => Ok(SchedulerOptions::default().max_model_len),
            None => Err(check.reject(
                span,
                "max_model_len is missing: vLLM takes it from the model, and no model is given here",
                "set max_model_len, or [model] with name and max_position_embeddings",
            )),
        };
    };
    let tokens = check.whole32(written, 1, REQUEST_TOKENS_MAX)?;
    match of_model {
        Some(limit) if tokens > limit => {
            let problem =
                format!("{tokens} is above the model's max_position_embeddings ({limit}), which vLLM refuses");
            Err(check.reject(&written.span(), problem, "lower max_model_len"))
        }
        _ => Ok(tokens),
    }
}

/// Scheduler options. The defaults of `max_num_seqs` and `max_num_batched_tokens` are the engine's on the profile's device
/// (specification section 2), fitted to each other and to `max_model_len`.
fn scheduler(
    check: &mut Check<'_>,
    file: &VllmFile,
    context: &Context<'_>,
    version: Version,
    max_model_len: u32,
) -> Result<SchedulerOptions, ScenarioError> {
    let default = SchedulerOptions::default();
    let enable_chunked_prefill = file.enable_chunked_prefill.unwrap_or(default.enable_chunked_prefill);
    let seqs = check.optional32(file.max_num_seqs.as_ref(), 1, SEQUENCES_MAX)?;
    let tokens = check.optional32(file.max_num_batched_tokens.as_ref(), 1, STEP_TOKENS_MAX)?;
    let (max_num_seqs, max_num_batched_tokens) = if let (Some(seqs), Some(tokens)) = (seqs, tokens) {
        (seqs, tokens)
    } else {
        let device = (context.device)().unwrap_or_default();
        let performance = file.performance_mode().unwrap_or_default();
        let batch = BatchDefaults::of(version, &device, file.usage.unwrap_or_default(), performance);
        let tokens = tokens.unwrap_or_else(|| {
            let longest = u64::from(seqs.unwrap_or(batch.max_num_seqs)) * u64::from(max_model_len);
            let capped = batch.max_num_batched_tokens.min(longest.min(u64::from(STEP_TOKENS_MAX)) as u32);
            if enable_chunked_prefill { capped } else { capped.max(max_model_len.min(STEP_TOKENS_MAX)) }
        });
        (seqs.unwrap_or(batch.max_num_seqs.min(tokens)), tokens)
    };
    // The engine schedules step by step where nothing is generated.
    let is_pooling = context.model.is_some_and(|model| model.kind == ModelKind::Pooling);
    let interval = check.optional32(file.prefill_schedule_interval.as_ref(), 1, STEP_INTERVAL_MAX)?;
    let threshold = check.optional32(file.long_prefill_token_threshold.as_ref(), 0, STEP_TOKENS_MAX)?;
    let watermark = file.watermark.as_ref().map(|share| check.real(share, 0.0, 0.99)).transpose()?;
    Ok(SchedulerOptions {
        max_num_seqs,
        max_num_batched_tokens,
        max_num_scheduled_tokens: check.optional32(file.max_num_scheduled_tokens.as_ref(), 1, STEP_TOKENS_MAX)?,
        max_num_active_seqs: check.optional32(file.max_num_active_seqs.as_ref(), 1, SEQUENCES_MAX)?,
        max_model_len,
        block_size: check.optional32(file.block_size.as_ref(), 1, BLOCK_TOKENS_MAX)?.unwrap_or(default.block_size),
        enable_chunked_prefill,
        async_scheduling: drafts::async_scheduling(check, file, !is_pooling && default.async_scheduling),
        long_prefill_token_threshold: threshold.unwrap_or(default.long_prefill_token_threshold),
        long_prefill_token_threshold_adaptive: file
            .long_prefill_token_threshold_adaptive
            .unwrap_or(default.long_prefill_token_threshold_adaptive),
        prefill_schedule_interval: interval.unwrap_or(default.prefill_schedule_interval),
        scheduler_reserve_full_isl: file.scheduler_reserve_full_isl.unwrap_or(default.scheduler_reserve_full_isl),
        watermark: watermark.unwrap_or(default.watermark),
        policy: file.policy.unwrap_or(default.policy),
        enable_prefix_caching: file.enable_prefix_caching.unwrap_or(default.enable_prefix_caching),
        drafter: drafts::drafter(check, file)?,
    })
}

/// Combinations at which the real server does not start, or starts and serves nothing.
fn refuse_what_the_engine_refuses(
    check: &mut Check<'_>,
    file: &VllmFile,
    span: &Span,
    options: &SchedulerOptions,
) -> Result<(), ScenarioError> {
    let at = |value: &Option<Spanned<i64>>| value.as_ref().map_or_else(|| span.clone(), Spanned::span);
    let SchedulerOptions { max_num_seqs, max_num_batched_tokens, max_model_len, .. } = *options;
    if max_num_batched_tokens < max_num_seqs {
        let problem = format!(
            "{max_num_batched_tokens} tokens a step are fewer than max_num_seqs ({max_num_seqs}), which vLLM refuses"
        );
        let help = format!("raise max_num_batched_tokens to {max_num_seqs} or more, or lower max_num_seqs");
        return Err(check.reject(&at(&file.max_num_batched_tokens), problem, help));
    }
    if !options.enable_chunked_prefill && max_num_batched_tokens < max_model_len {
        let problem = format!(
            "without chunked prefill {max_num_batched_tokens} tokens a step cannot hold a prompt of max_model_len \
             ({max_model_len}), which vLLM refuses"
        );
        let help = format!("raise max_num_batched_tokens to {max_model_len}, or leave enable_chunked_prefill on");
        return Err(check.reject(&at(&file.max_num_batched_tokens), problem, help));
    }
    let scheduled = options.max_num_scheduled_tokens.unwrap_or(max_num_batched_tokens);
    if !options.enable_chunked_prefill && scheduled < max_model_len {
        let problem = format!(
            "without chunked prefill {scheduled} scheduled tokens a step cannot hold a prompt of max_model_len \
             ({max_model_len}): it would wait for ever"
        );
        let help = format!("raise max_num_scheduled_tokens to {max_model_len}, or leave enable_chunked_prefill on");
        return Err(check.reject(&at(&file.max_num_scheduled_tokens), problem, help));
    }
    if options.long_prefill_token_threshold > max_model_len {
        let problem = format!(
            "{} is above max_model_len ({max_model_len}), which vLLM refuses",
            options.long_prefill_token_threshold
        );
        return Err(check.reject(&at(&file.long_prefill_token_threshold), problem, "lower it; 0 switches it off"));
    }
    if let Some(active) = options.max_num_active_seqs.filter(|&active| active > max_num_seqs) {
        let problem =
            format!("{active} active requests are more than max_num_seqs ({max_num_seqs}), which vLLM refuses");
        return Err(check.reject(&at(&file.max_num_active_seqs), problem, "lower it, or leave it out"));
    }
    if u64::from(max_num_batched_tokens) > u64::from(max_num_seqs) * u64::from(max_model_len) {
        let problem = format!(
            "{max_num_batched_tokens} tokens a step are more than max_num_seqs times max_model_len can ever fill"
        );
        check.warn(&at(&file.max_num_batched_tokens), problem);
    }
    Ok(())
}

/// Scheduler options that change nothing (specification section 11).
fn warn_about_unused(
    check: &mut Check<'_>,
    file: &VllmFile,
    version: Version,
    options: &SchedulerOptions,
    data_parallel_size: u32,
) {
    let SchedulerOptions { max_num_batched_tokens, prefill_schedule_interval, .. } = *options;
    if let Some(written) = &file.max_num_scheduled_tokens
        && options.max_num_scheduled_tokens.is_some_and(|tokens| tokens > max_num_batched_tokens)
    {
        let problem =
            format!("changes nothing: max_num_batched_tokens ({max_num_batched_tokens}) bounds a step already");
        check.warn(&written.span(), problem);
    }
    if let Some(written) = &file.prefill_schedule_interval
        && prefill_schedule_interval > 1
        && version == Version::V0_31_0
        && data_parallel_size == 1
    {
        check.warn(&written.span(), "changes nothing: vLLM 0.31.0 puts prefills off with data-parallel ranks only");
    }
}

fn kv(check: &Check<'_>, file: &VllmFile, scheduler: &SchedulerOptions) -> Result<KvOptions, ScenarioError> {
    let default = KvOptions::default();
    let share = file.gpu_memory_utilization.as_ref();
    let gpu_memory_utilization = share.map(|share| check.real(share, 0.01, 1.0)).transpose()?;
    // One block is the null block, which never holds tokens.
    let num_gpu_blocks_override = check.optional32(file.num_gpu_blocks_override.as_ref(), 2, BLOCKS_MAX)?;
    if let (Some(blocks), Some(written)) = (num_gpu_blocks_override, &file.num_gpu_blocks_override) {
        let needed = scheduler.max_model_len.div_ceil(scheduler.block_size);
        if blocks - 1 < needed {
            let problem = format!(
                "{} usable blocks of {} tokens cannot hold one request of max_model_len ({}), which vLLM refuses",
                blocks - 1,
                scheduler.block_size,
                scheduler.max_model_len
            );
            let help = format!("give {} blocks or more (one is the null block), or lower max_model_len", needed + 1);
            return Err(check.reject(&written.span(), problem, help));
        }
    }
    Ok(KvOptions {
        num_gpu_blocks_override,
        gpu_memory_utilization: gpu_memory_utilization.unwrap_or(default.gpu_memory_utilization),
        kv_cache_memory_bytes: check.optional_size(file.kv_cache_memory_bytes.as_ref())?,
        memory_profiler_estimate_cudagraphs: file
            .memory_profiler_estimate_cudagraphs
            .unwrap_or(default.memory_profiler_estimate_cudagraphs),
    })
}

/// What model, attention backend, drafts, adapters and parallel ranks say about graphs: the server's alone, no
/// candidate changes it.
fn machine_graphs(
    check: &Check<'_>,
    file: &VllmFile,
    context: &Context<'_>,
) -> Result<(GraphOptions, Vec<Unsimulated>), ScenarioError> {
    let default = GraphOptions::default();
    let mut unsimulated = Vec::new();
    let mut flag = |span: Span, what: &str, help: &str| {
        unsimulated.push(Unsimulated::new(what, help, span));
    };
    let drafts = check.optional32(file.num_speculative_tokens.as_ref(), 0, DRAFTS_MAX)?.unwrap_or(0);
    let ubatch = file.ubatch.as_ref().map(|ubatch| microbatches(check, ubatch.get_ref())).transpose()?;
    if let Some(written) = &file.ubatch {
        flag(written.span(), "ubatch: dual-batch overlap is", "`sim ladder` knows its graphs already");
    }
    let data_parallel_size = check.optional32(file.data_parallel_size.as_ref(), 1, RANKS_MAX)?.unwrap_or(1);
    if let Some(written) = file.prefill_schedule_interval.as_ref().filter(|steps| *steps.get_ref() > 1)
        && data_parallel_size > 1
    {
        let help = "leave it out, or simulate one rank";
        flag(written.span(), "prefill_schedule_interval: prefills that all ranks put off together are", help);
    }
    let tensor_parallel_size = check.optional32(file.tensor_parallel_size.as_ref(), 1, RANKS_MAX)?.unwrap_or(1);
    if let Some(written) = file.tensor_parallel_size.as_ref().filter(|_| tensor_parallel_size > 1) {
        let help = "a profile's costs are those of one device; `sim ladder` knows its graphs already";
        flag(written.span(), "tensor_parallel_size: tensor parallelism is", help);
    }
    if let Some(written) = file.decode_context_parallel_size.as_ref().filter(|ranks| *ranks.get_ref() > 1) {
        let help = "`sim ladder` knows its graphs already";
        flag(written.span(), "decode_context_parallel_size: decode context parallelism is", help);
    }
    let machine = context.machine;
    if let Some(Model { kind, span, .. }) = context.model.filter(|model| model.kind != ModelKind::DecoderOnly) {
        let what = match kind {
            ModelKind::Pooling => "model.task: requests of a pooling model are",
            ModelKind::EncoderDecoder | ModelKind::DecoderOnly => "model.is_encoder_decoder: encoder steps are",
        };
        flag(span.clone(), what, "`sim ladder` knows its graphs already");
    }
    let model_kind = context.model.map(|model| model.kind).unwrap_or_default();
    let architecture = context.model.and_then(|model| model.architecture.as_deref());
    let support = attention::support(check, file, machine, drafts)?;
    let graphs = GraphOptions {
        attention_support: support.unwrap_or(default.attention_support),
        model_kind,
        kv_connector_needs_piecewise: kv_connector_needs_piecewise(check, file)?,
        use_breakable_cudagraph: architecture.is_some_and(breakable::is_default_for),
        encoder_model: context.model.and_then(|model| model.encoder),
        sliding_window: context.model.and_then(|model| model.sliding_window),
        extra_graph_breaks: check.optional32(file.extra_graph_breaks.as_ref(), 0, GRAPH_BREAKS_MAX)?.unwrap_or(0),
        mamba_cache_blocks: check.optional32(file.mamba_cache_blocks.as_ref(), 1, BLOCKS_MAX)?,
        piecewise_capture_available: file.piecewise_capture_available.unwrap_or(default.piecewise_capture_available),
        num_speculative_tokens: drafts,
        dynamic_sd_schedule: file
            .dynamic_sd_schedule
            .as_ref()
            .map(|tiers| drafts::schedule(check, tiers))
            .transpose()?,
        varlen_decode: file.varlen_decode.as_ref().is_some_and(|varlen| *varlen.get_ref()),
        max_loras: check.optional32(file.max_loras.as_ref(), 1, LORAS_MAX)?,
        ubatch,
        use_kda_recoverssm: file.use_kda_recoverssm.unwrap_or(default.use_kda_recoverssm),
        tensor_parallel_size,
        data_parallel_size,
        deepep_high_throughput: file.deepep_high_throughput.unwrap_or(default.deepep_high_throughput),
        data_center_blackwell: attention::data_center_blackwell(check, file.data_center_blackwell.as_ref(), machine)?,
        ..default
    };
    Ok((graphs, unsimulated))
}

fn microbatches(check: &Check<'_>, file: &UbatchFile) -> Result<Ubatch, ScenarioError> {
    Ok(Ubatch {
        num_ubatches: check.whole32(&file.num_ubatches, 2, RANKS_MAX)?,
        decode_threshold: check.whole32(&file.decode_threshold, 0, STEP_TOKENS_MAX)?,
        prefill_threshold: check.whole32(&file.prefill_threshold, 0, STEP_TOKENS_MAX)?,
    })
}

/// Whether the KV connector works layer by layer: said outright, or known of the connector.
fn kv_connector_needs_piecewise(check: &Check<'_>, file: &VllmFile) -> Result<bool, ScenarioError> {
    /// Connectors that move KV between steps unless their own options say otherwise.
    const BETWEEN_STEPS: [&str; 3] = ["LMCacheConnectorV1", "NixlConnector", "OffloadingConnector"];
    let Some(written) = &file.kv_connector else { return Ok(false) };
    let name = check.title(written)?;
    match file.kv_connector_use_layerwise {
        Some(layerwise) => Ok(layerwise),
        None if BETWEEN_STEPS.contains(&name.as_str()) => Ok(false),
        None => {
            let problem =
                format!("whether {name} works layer by layer, and so rules out full graphs, is not known here");
            Err(check.reject(&written.span(), problem, "write kv_connector_use_layerwise = true or false"))
        }
    }
}

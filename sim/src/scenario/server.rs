//! The server's options, with the engine's defaults and the combinations that it refuses.

use toml::Spanned;

use super::check::Check;
use super::file::{PolicyFile, UbatchFile, VllmFile};
use super::{Model, ScenarioError, Span, Unsimulated, graphs};
use crate::engine::vllm::options::{
    AttentionSupport, GraphOptions, KvOptions, SchedulerOptions, Ubatch, Version, VllmOptions,
};
use crate::limits::{
    BLOCK_TOKENS_MAX, BLOCKS_MAX, DRAFTS_MAX, LORAS_MAX, RANKS_MAX, REQUEST_TOKENS_MAX, SEQUENCES_MAX,
    STEP_INTERVAL_MAX, STEP_TOKENS_MAX,
};

/// Checks `[server.vllm]`. `has_requests` is false for traffic that is a histogram of step shapes.
pub(super) fn vllm(
    check: &mut Check<'_>,
    mut file: VllmFile,
    span: &Span,
    model: Option<&Model>,
    has_requests: bool,
) -> Result<(VllmOptions, Vec<Unsimulated>), ScenarioError> {
    refuse_unsimulated_options(check, &file)?;
    if file.enable_prefix_caching.is_none() && has_requests {
        check.warn(
            span,
            "vLLM has enable_prefix_caching on by default; here it is off, because it is not simulated yet (set it to \
             false to drop this warning)",
        );
    }
    let version = file.version.unwrap_or(Version::V0_33_0);
    let max_model_len = max_model_len(check, &file, span, model, has_requests)?;
    let scheduler = scheduler(check, &file, span, max_model_len)?;
    refuse_what_the_engine_refuses(check, &file, span, &scheduler)?;
    let kv = kv(check, &file, &scheduler)?;
    let (machine_graphs, unsimulated) = machine_graphs(check, &file)?;
    if let Some(written) = file.max_loras.as_ref().filter(|_| has_requests) {
        check.warn(&written.span(), "requests carry no adapters here: every step runs without one");
    }
    let options = file.take_graphs();
    let graphs = graphs::overlay(check, machine_graphs, &options, version)?;
    Ok((VllmOptions { version, runner: file.runner, scheduler, kv, graphs }, unsimulated))
}

fn refuse_unsimulated_options(check: &Check<'_>, file: &VllmFile) -> Result<(), ScenarioError> {
    if let Some(policy) = file.policy.as_ref().filter(|policy| *policy.get_ref() == PolicyFile::Priority) {
        let help = "use policy = \"fcfs\", the engine's default";
        return Err(check.reject(&policy.span(), "the priority policy is not simulated yet", help));
    }
    if let Some(caching) = file.enable_prefix_caching.as_ref().filter(|caching| *caching.get_ref()) {
        let help = "set enable_prefix_caching = false, and run the server you compare with the same way";
        return Err(check.reject(&caching.span(), "the prefix cache is not simulated yet", help));
    }
    Ok(())
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

/// Scheduler options. The defaults of `max_num_seqs` and `max_num_batched_tokens` depend on the device in the engine
/// (specification section 2); a scenario that leaves them out gets those of a device below 70 GiB, and is told so.
fn scheduler(
    check: &mut Check<'_>,
    file: &VllmFile,
    span: &Span,
    max_model_len: u32,
) -> Result<SchedulerOptions, ScenarioError> {
    let default = SchedulerOptions::default();
    let enable_chunked_prefill = file.enable_chunked_prefill.unwrap_or(default.enable_chunked_prefill);
    let seqs = check.optional32(file.max_num_seqs.as_ref(), 1, SEQUENCES_MAX)?;
    let tokens = check.optional32(file.max_num_batched_tokens.as_ref(), 1, STEP_TOKENS_MAX)?;
    let max_num_batched_tokens = tokens.unwrap_or_else(|| {
        let longest = u64::from(seqs.unwrap_or(default.max_num_seqs)) * u64::from(max_model_len);
        let capped = default.max_num_batched_tokens.min(longest.min(u64::from(STEP_TOKENS_MAX)) as u32);
        if enable_chunked_prefill { capped } else { capped.max(max_model_len.min(STEP_TOKENS_MAX)) }
    });
    let max_num_seqs = seqs.unwrap_or(default.max_num_seqs.min(max_num_batched_tokens));
    for (name, given, value) in
        [("max_num_seqs", seqs, max_num_seqs), ("max_num_batched_tokens", tokens, max_num_batched_tokens)]
    {
        if given.is_none() {
            check.warn(
                span,
                format!(
                    "{name} is not given: {value} is used, vLLM's default on a device below 70 GiB and on the A100 \
                     (larger ones get 1024 sequences and at least 8192 tokens)"
                ),
            );
        }
    }
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
        async_scheduling: file.async_scheduling.unwrap_or(default.async_scheduling),
        long_prefill_token_threshold: threshold.unwrap_or(default.long_prefill_token_threshold),
        long_prefill_token_threshold_adaptive: file
            .long_prefill_token_threshold_adaptive
            .unwrap_or(default.long_prefill_token_threshold_adaptive),
        prefill_schedule_interval: interval.unwrap_or(default.prefill_schedule_interval),
        scheduler_reserve_full_isl: file.scheduler_reserve_full_isl.unwrap_or(default.scheduler_reserve_full_isl),
        watermark: watermark.unwrap_or(default.watermark),
        ..default
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
    })
}

/// What model, attention backend, drafts, adapters and parallel ranks say about graphs: the server's alone, no
/// candidate changes it.
fn machine_graphs(check: &Check<'_>, file: &VllmFile) -> Result<(GraphOptions, Vec<Unsimulated>), ScenarioError> {
    let default = GraphOptions::default();
    let mut unsimulated = Vec::new();
    let mut flag = |span: Span, what: &str, help: &str| {
        unsimulated.push(Unsimulated { what: format!("{what} not simulated yet"), help: help.to_owned(), span });
    };
    let drafts = check.optional32(file.num_speculative_tokens.as_ref(), 0, DRAFTS_MAX)?.unwrap_or(0);
    if let Some(written) = file.num_speculative_tokens.as_ref().filter(|_| drafts > 0) {
        flag(written.span(), "num_speculative_tokens: drafts are", "`sim ladder` and `sim explain` know them already");
    }
    if let Some(written) = file.varlen_decode.as_ref().filter(|varlen| *varlen.get_ref()) {
        flag(written.span(), "varlen_decode: adaptive verification is", "`sim ladder` knows its graphs already");
    }
    let dynamic_sd_schedule = file.dynamic_sd_schedule.as_ref().map(|tiers| schedule(check, tiers)).transpose()?;
    if let Some(written) = &file.dynamic_sd_schedule {
        flag(written.span(), "dynamic_sd_schedule: drafts are", "`sim ladder` knows its graphs already");
    }
    let ubatch = file.ubatch.as_ref().map(|ubatch| microbatches(check, ubatch.get_ref())).transpose()?;
    if let Some(written) = &file.ubatch {
        flag(written.span(), "ubatch: dual-batch overlap is", "`sim ladder` knows its graphs already");
    }
    let data_parallel_size = check.optional32(file.data_parallel_size.as_ref(), 1, RANKS_MAX)?.unwrap_or(1);
    if let Some(written) = file.data_parallel_size.as_ref().filter(|_| data_parallel_size > 1) {
        flag(written.span(), "data_parallel_size: more than one replica is", "simulate one with its share of the rate");
    }
    let tensor_parallel_size = check.optional32(file.tensor_parallel_size.as_ref(), 1, RANKS_MAX)?.unwrap_or(1);
    if let Some(written) = file.tensor_parallel_size.as_ref().filter(|_| tensor_parallel_size > 1) {
        let help = "a profile's costs are those of one device; `sim ladder` knows its graphs already";
        flag(written.span(), "tensor_parallel_size: tensor parallelism is", help);
    }
    let graphs = GraphOptions {
        attention_support: attention_support(check, file)?.unwrap_or(default.attention_support),
        piecewise_capture_available: file.piecewise_capture_available.unwrap_or(default.piecewise_capture_available),
        num_speculative_tokens: drafts,
        dynamic_sd_schedule,
        varlen_decode: file.varlen_decode.as_ref().is_some_and(|varlen| *varlen.get_ref()),
        max_loras: check.optional32(file.max_loras.as_ref(), 1, LORAS_MAX)?,
        ubatch,
        use_kda_recoverssm: file.use_kda_recoverssm.unwrap_or(default.use_kda_recoverssm),
        tensor_parallel_size,
        data_parallel_size,
        deepep_high_throughput: file.deepep_high_throughput.unwrap_or(default.deepep_high_throughput),
        data_center_blackwell: file.data_center_blackwell.unwrap_or(default.data_center_blackwell),
        ..default
    };
    Ok((graphs, unsimulated))
}

fn schedule(check: &Check<'_>, tiers: &Spanned<Vec<(i64, i64, i64)>>) -> Result<Vec<(u32, u32, u32)>, ScenarioError> {
    let whole = |number: i64, max: u32| {
        let checked = u32::try_from(number).ok().filter(|number| *number <= max);
        checked.ok_or_else(|| {
            let problem = format!("expected whole numbers from 0 to {max}, found {number}");
            check.reject(&tiers.span(), problem, "each tier is [first batch, last batch, drafts]")
        })
    };
    let tier = |&(first, last, drafts): &(i64, i64, i64)| {
        Ok((whole(first, SEQUENCES_MAX)?, whole(last, SEQUENCES_MAX)?, whole(drafts, DRAFTS_MAX)?))
    };
    tiers.get_ref().iter().map(tier).collect()
}

fn microbatches(check: &Check<'_>, file: &UbatchFile) -> Result<Ubatch, ScenarioError> {
    Ok(Ubatch {
        num_ubatches: check.whole32(&file.num_ubatches, 2, RANKS_MAX)?,
        decode_threshold: check.whole32(&file.decode_threshold, 0, STEP_TOKENS_MAX)?,
        prefill_threshold: check.whole32(&file.prefill_threshold, 0, STEP_TOKENS_MAX)?,
    })
}

/// The support level given, or that of a backend for which there is only one (specification section 5).
fn attention_support(check: &Check<'_>, file: &VllmFile) -> Result<Option<AttentionSupport>, ScenarioError> {
    let level = file.attention_support.as_ref().map(|level| *level.get_ref());
    let Some(backend) = &file.attention_backend else { return Ok(level) };
    if level.is_some() {
        let help = "keep one of the two";
        return Err(check.reject(&backend.span(), "attention_support is given as well", help));
    }
    let refuse = |problem: String, help: &str| Err(check.reject(&backend.span(), problem, help));
    match backend.get_ref().as_str() {
        "TRITON_ATTN" | "FLEX_ATTENTION" => Ok(Some(AttentionSupport::Always)),
        "FLASHMLA" | "FLASH_ATTN_MLA" | "TRITON_MLA" => Ok(Some(AttentionSupport::UniformBatch)),
        "CUTLASS_MLA" => Ok(Some(AttentionSupport::UniformSingleTokenDecode)),
        "CPU_ATTN" => Ok(Some(AttentionSupport::Never)),
        "FLASH_ATTN" => refuse(
            "FLASH_ATTN supports full graphs as far as its version does, which the device decides".to_owned(),
            "write attention_support = \"ALWAYS\" for FlashAttention 3 and 4 (Hopper, Blackwell), \"UNIFORM_BATCH\" \
             for FlashAttention 2 (older devices)",
        ),
        "FLASHINFER" => refuse(
            "FLASHINFER decides by device, head geometry and KV type".to_owned(),
            "write attention_support = \"UNIFORM_BATCH\" where its decode runs TRT-LLM, XQA or causal FA2 kernels, \
             \"UNIFORM_SINGLE_TOKEN_DECODE\" elsewhere (the server's log says which)",
        ),
        other => refuse(
            format!("the graph support of \"{other}\" is not known here"),
            "write attention_support = \"NEVER\", \"UNIFORM_SINGLE_TOKEN_DECODE\", \"UNIFORM_BATCH\" or \"ALWAYS\" \
             instead",
        ),
    }
}

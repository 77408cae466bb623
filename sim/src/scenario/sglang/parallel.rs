//! How an SGLang server is spread over devices.

use toml::Spanned;

use super::super::check::Check;
use super::super::file::Whole;
use super::super::file::sglang::SglangFile;
use super::super::{ScenarioError, Span, Unsimulated};
use super::LADDERS_ONLY;
use crate::engine::sglang::options::ParallelOptions;
use crate::limits::RANKS_MAX;

/// The ranks, in groups that the engine can form.
pub(super) fn parallel(check: &mut Check<'_>, file: &SglangFile) -> Result<ParallelOptions, ScenarioError> {
    let default = ParallelOptions::default();
    let ranks = |written: &Option<Whole>| Ok(check.optional32(written.as_ref(), 1, RANKS_MAX)?.unwrap_or(1));
    let options = ParallelOptions {
        tp_size: ranks(&file.tp_size)?,
        pp_size: ranks(&file.pp_size)?,
        dp_size: ranks(&file.dp_size)?,
        enable_dp_attention: super::is_on(file.enable_dp_attention.as_ref()),
        attn_cp_size: ranks(&file.attn_cp_size)?,
        dcp_size: ranks(&file.dcp_size)?,
        moe_dense_tp_size: check.optional32(file.moe_dense_tp_size.as_ref(), 1, RANKS_MAX)?,
        moe_a2a_backend: file.moe_a2a_backend.unwrap_or(default.moe_a2a_backend),
        enable_two_batch_overlap: super::is_on(file.enable_two_batch_overlap.as_ref()),
    };
    refuse_uneven_groups(check, file, &options)?;
    refuse_dense_ranks(check, file, &options)?;
    Ok(without_lone_attention(check, file, options))
}

/// The groups of attention share the tensor-parallel ranks evenly.
fn refuse_uneven_groups(check: &Check<'_>, file: &SglangFile, options: &ParallelOptions) -> Result<(), ScenarioError> {
    let (tp, dp, cp) = (options.tp_size, options.attention_dp(), options.attn_cp_size);
    let groups = u64::from(dp) * u64::from(cp);
    let Some(written) = file.attn_cp_size.as_ref().filter(|_| cp > 1).or(file.dp_size.as_ref()) else { return Ok(()) };
    if u64::from(tp).is_multiple_of(groups) {
        return Ok(());
    }
    let problem = format!(
        "{tp} tensor-parallel ranks do not divide into {groups} groups of attention (dp_size times attn_cp_size), which \
         SGLang refuses"
    );
    Err(check.reject(&written.span(), problem, format!("raise tp_size to a multiple of {groups}, or lower this")))
}

fn refuse_dense_ranks(check: &Check<'_>, file: &SglangFile, options: &ParallelOptions) -> Result<(), ScenarioError> {
    match (&file.moe_dense_tp_size, options.moe_dense_tp_size) {
        (Some(written), Some(ranks)) if ranks != 1 && ranks != options.tp_size => {
            let problem = format!("{ranks} is neither 1 nor tp_size ({}), which SGLang refuses", options.tp_size);
            Err(check.reject(&written.span(), problem, "write 1, or leave it out"))
        }
        _ => Ok(()),
    }
}

/// The engine drops data-parallel attention of a single rank, and divides the chunk among several.
fn without_lone_attention(check: &mut Check<'_>, file: &SglangFile, options: ParallelOptions) -> ParallelOptions {
    let Some(written) = file.enable_dp_attention.as_ref().filter(|written| *written.get_ref()) else { return options };
    if options.dp_size == 1 {
        check.warn(&written.span(), "without effect: SGLang turns it off where dp_size is 1");
        return ParallelOptions { enable_dp_attention: false, ..options };
    }
    check.warn(
        &written.span(),
        "SGLang divides chunked_prefill_size by dp_size under data-parallel attention; here it is used as written: give \
         the size per rank",
    );
    options
}

/// Ranks that the event loop does not step.
pub(super) fn unsimulated(file: &SglangFile, options: &ParallelOptions) -> Vec<Unsimulated> {
    let switch = |written: &Option<Spanned<bool>>| written.as_ref().map(Spanned::span);
    let ranks = |written: &Option<Whole>| written.as_ref().filter(|ranks| *ranks.get_ref() > 1).map(Spanned::span);
    let of_one_device = "a profile's costs are those of one device; `sim ladder` knows its graphs already";
    let replicas = "simulate one with its share of the rate";
    let dp = if options.enable_dp_attention {
        ("enable_dp_attention: data-parallel attention is", LADDERS_ONLY, switch(&file.enable_dp_attention))
    } else {
        ("dp_size: more than one replica is", replicas, ranks(&file.dp_size))
    };
    let overlap = switch(&file.enable_two_batch_overlap).filter(|_| options.enable_two_batch_overlap);
    let all: [(&str, &str, Option<Span>); 6] = [
        ("tp_size: tensor parallelism is", of_one_device, ranks(&file.tp_size)),
        ("pp_size: pipeline parallelism is", LADDERS_ONLY, ranks(&file.pp_size)),
        dp,
        ("attn_cp_size: context parallelism is", LADDERS_ONLY, ranks(&file.attn_cp_size)),
        ("dcp_size: decode context parallelism is", LADDERS_ONLY, ranks(&file.dcp_size)),
        ("enable_two_batch_overlap: two-batch overlap is", LADDERS_ONLY, overlap),
    ];
    all.into_iter().filter_map(|(what, help, span)| Some(Unsimulated::new(what, help, span?))).collect()
}

//! Speculative decoding: who drafts, how many drafts there are, and what drafting costs.

use toml::Spanned;

use super::ScenarioError;
use super::check::Check;
use super::file::VllmFile;
use crate::engine::vllm::options::{Drafter, GraphOptions, SchedulerOptions, SpeculativeMethod};
use crate::limits::{DRAFTS_MAX, SEQUENCES_MAX};

/// The drafter, with the engine's defaults.
pub(super) fn drafter(check: &Check<'_>, file: &VllmFile) -> Result<Drafter, ScenarioError> {
    let default = Drafter::default();
    Ok(Drafter {
        method: file.spec_method.as_ref().map_or(default.method, |method| *method.get_ref()),
        parallel_drafting: file
            .parallel_drafting
            .as_ref()
            .map_or(default.parallel_drafting, |parallel| *parallel.get_ref()),
        drafting_time: check.optional_duration(file.drafting_time.as_ref())?,
    })
}

/// Whether the next step is scheduled while one runs. Left out, vLLM decides by the drafter: it does so with those that
/// draft on the device from hidden states, and not with the others (read in vLLM's public sources; no vector pins it).
pub(super) fn async_scheduling(check: &mut Check<'_>, file: &VllmFile, default: bool) -> bool {
    if let Some(given) = &file.async_scheduling {
        return *given.get_ref();
    }
    let drafts = file.num_speculative_tokens.as_ref().is_some_and(|drafts| *drafts.get_ref() > 0);
    let method = file.spec_method.as_ref().map_or(Drafter::default().method, |method| *method.get_ref());
    if !drafts || goes_with_async(method) {
        return default;
    }
    if let Some(written) = &file.spec_method {
        let problem = "with this drafter vLLM leaves async_scheduling off unless it is set: it is off here (set it to drop \
                       this warning)";
        check.warn(&written.span(), problem);
    }
    false
}

fn goes_with_async(method: SpeculativeMethod) -> bool {
    match method {
        SpeculativeMethod::Eagle
        | SpeculativeMethod::Eagle3
        | SpeculativeMethod::Mtp
        | SpeculativeMethod::Dflash
        | SpeculativeMethod::Dspark => true,
        SpeculativeMethod::Ngram
        | SpeculativeMethod::Suffix
        | SpeculativeMethod::Medusa
        | SpeculativeMethod::MlpSpeculator
        | SpeculativeMethod::DraftModel => false,
    }
}

/// Tiers of `dynamic_sd_schedule`; whether they make a schedule is the engine's to say.
pub(super) fn schedule(
    check: &Check<'_>,
    tiers: &Spanned<Vec<(i64, i64, i64)>>,
) -> Result<Vec<(u32, u32, u32)>, ScenarioError> {
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

/// A step that cannot hold one request with its drafts: the engine starts, and a request that it admits with drafts, to
/// keep the batch uniform, waits for ever (specification section 11).
pub(super) fn refuse_starving_drafts(
    check: &Check<'_>,
    file: &VllmFile,
    options: &SchedulerOptions,
    num_speculative_tokens: u32,
) -> Result<(), ScenarioError> {
    let Some(written) = file.num_speculative_tokens.as_ref().filter(|_| num_speculative_tokens > 0) else {
        return Ok(());
    };
    let verified = 1 + num_speculative_tokens;
    let inputs = verified + options.drafter.input_slots(num_speculative_tokens);
    let scheduled = options.max_num_scheduled_tokens.unwrap_or(options.max_num_batched_tokens);
    let (flag, value, needed) = if scheduled < verified {
        ("max_num_scheduled_tokens", scheduled, verified)
    } else if options.max_num_batched_tokens < inputs {
        ("max_num_batched_tokens", options.max_num_batched_tokens, inputs)
    } else {
        return Ok(());
    };
    let problem = format!("{flag} ({value}) cannot hold one request with its drafts: it would wait for ever");
    Err(check.reject(&written.span(), problem, format!("raise {flag} to {needed} or more, or draft less")))
}

/// A schedule that the engine does not follow as written: it drops one with gaps and lowers numbers of drafts, both
/// without a word (specification section 2).
pub(super) fn warn_about_schedule(check: &mut Check<'_>, file: &VllmFile, graphs: &GraphOptions) {
    let (Some(written), Some(schedule)) = (&file.dynamic_sd_schedule, &graphs.dynamic_sd_schedule) else { return };
    let most = graphs.num_speculative_tokens;
    let problem = if most == 0 {
        "changes nothing: num_speculative_tokens is 0, so nothing is drafted".to_owned()
    } else if graphs.drops_schedule() {
        format!(
            "vLLM drops this schedule without a word and every batch gets {most} drafts: the first tier must start at \
             batch 1, each next one right behind the last, and none may end before it starts"
        )
    } else if let Some((first, last, drafts)) = schedule.iter().find(|(.., drafts)| *drafts > most) {
        format!(
            "[{first}, {last}, {drafts}] drafts {most}: no tier has more drafts than num_speculative_tokens ({most})"
        )
    } else {
        return;
    };
    check.warn(&written.span(), problem);
}

/// What drafting is said to be where nothing is drafted.
pub(super) fn warn_about_unused(check: &mut Check<'_>, file: &VllmFile, num_speculative_tokens: u32) {
    if num_speculative_tokens > 0 {
        return;
    }
    let spans = [
        file.spec_method.as_ref().map(Spanned::span),
        file.parallel_drafting.as_ref().filter(|parallel| *parallel.get_ref()).map(Spanned::span),
        file.drafting_time.as_ref().map(Spanned::span),
    ];
    for span in spans.into_iter().flatten() {
        check.warn(&span, "changes nothing: num_speculative_tokens is 0, so nothing is drafted");
    }
}

/// What is likely to surprise about drafts where requests are served.
pub(super) fn warn_about_drafts(check: &mut Check<'_>, file: &VllmFile, num_speculative_tokens: u32) {
    let Some(written) = file.num_speculative_tokens.as_ref().filter(|_| num_speculative_tokens > 0) else { return };
    if file.spec_method.is_none() {
        let problem = "spec_method is not given: n-gram drafts are assumed, which take no room in a step, no KV blocks, and \
                       leave async_scheduling off unless it is set";
        check.warn(&written.span(), problem);
    }
    if file.drafting_time.is_none() {
        let problem =
            "drafting_time is not given: making the drafts costs nothing here, and steps are that much too short";
        check.warn(&written.span(), problem);
    }
    if let Some(varlen) = file.varlen_decode.as_ref().filter(|varlen| *varlen.get_ref()) {
        let problem =
            "which drafts adaptive verification leaves out is not simulated: every request verifies all of them";
        check.warn(&varlen.span(), problem);
    }
}

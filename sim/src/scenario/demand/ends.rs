//! What ends outputs, and what else SGLang's scheduler asks of a request.

use toml::Spanned;

use super::super::ScenarioError;
use super::super::check::Check;
use super::super::file::{EosFile, OutputEndFile, TrafficFile};
use crate::engine::sglang::options::OutputEnd;
use crate::limits::REQUEST_TOKENS_MAX;
use crate::traffic::{Lengths, TrafficKind};

/// Checks `output_end` of `[traffic]`.
pub(in crate::scenario) fn output_end(check: &Check<'_>, file: &TrafficFile) -> Result<OutputEnd, ScenarioError> {
    Ok(match file.output_end.as_ref().map(Spanned::get_ref) {
        None | Some(OutputEndFile::Length) => OutputEnd::Length,
        Some(OutputEndFile::IgnoreEos) => OutputEnd::IgnoreEos,
        Some(OutputEndFile::Eos(eos)) => {
            OutputEnd::Eos { max_new_tokens: check.whole32(&eos.max_new_tokens, 1, REQUEST_TOKENS_MAX)? }
        }
    })
}

/// Refuses what vLLM's scheduler, as simulated, never asks of a request.
pub(in crate::scenario) fn refuse_for_vllm(check: &Check<'_>, file: &TrafficFile) -> Result<(), ScenarioError> {
    let end = file.output_end.as_ref().filter(|end| !matches!(end.get_ref(), OutputEndFile::Length));
    let logprob = file.return_logprob.as_ref().filter(|asked| *asked.get_ref());
    let places = [end.map(Spanned::span), logprob.map(Spanned::span)];
    match places.into_iter().flatten().next() {
        None => Ok(()),
        Some(span) => Err(check.reject(&span, "only SGLang's scheduler takes this into account", "leave it out")),
    }
}

/// Warns of lengths that the clients never get.
pub(in crate::scenario) fn warn_about_cut_outputs(check: &mut Check<'_>, file: &TrafficFile, kind: &TrafficKind) {
    let Some(OutputEndFile::Eos(EosFile { max_new_tokens })) = file.output_end.as_ref().map(Spanned::get_ref) else {
        return;
    };
    let TrafficKind::Synthetic { lengths, .. } = kind else { return };
    if let Some(longest) = longest_output(lengths).filter(|&longest| i64::from(longest) > *max_new_tokens.get_ref()) {
        let problem = format!("outputs of up to {longest} tokens are longer than this; they are cut there");
        check.warn(&max_new_tokens.span(), problem);
    }
}

/// The longest output that can be drawn; `None` where a trace says.
fn longest_output(lengths: &Lengths) -> Option<u32> {
    match lengths {
        Lengths::Fixed(pair) => Some(pair.output_tokens),
        Lengths::Uniform { output, .. } => Some(output.max),
        Lengths::LogNormal { output, .. } => Some(output.clip.max),
        Lengths::Histogram(pairs) => pairs.iter().map(|(pair, _)| pair.output_tokens).max(),
        Lengths::Trace { .. } => None,
    }
}

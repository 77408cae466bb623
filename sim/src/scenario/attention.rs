//! Attention backends, and what decides how far they support full graphs (specification section 5).

use calibrate::spelling::closest;
use toml::{Spanned, Value};

use super::check::Check;
use super::file::VllmFile;
use super::{Machine, ScenarioError, Span};
use crate::engine::vllm::attention::{self, AttentionFacts, ComputeCapability, NoLevel};
use crate::engine::vllm::options::AttentionSupport;
use crate::limits::RANKS_MAX;

/// The level given, or the weakest of the backends given.
pub(super) fn support(
    check: &Check<'_>,
    file: &VllmFile,
    machine: &Machine,
    num_speculative_tokens: u32,
) -> Result<Option<AttentionSupport>, ScenarioError> {
    let facts = facts(check, file, machine, num_speculative_tokens)?;
    let level = file.attention_support.as_ref().map(|level| *level.get_ref());
    let Some(written) = &file.attention_backend else { return Ok(level) };
    if level.is_some() {
        let help = "keep one of the two";
        return Err(check.reject(&written.span(), "attention_support is given as well", help));
    }
    let mut weakest = None;
    for backend in backends(check, written)? {
        let level = attention::support(backend, &facts)
            .map_err(|reason| check.reject(&written.span(), problem(backend, reason), help(backend, reason)))?;
        weakest = Some(weakest.map_or(level, |weakest: AttentionSupport| weakest.min(level)));
    }
    Ok(weakest)
}

fn facts(
    check: &Check<'_>,
    file: &VllmFile,
    machine: &Machine,
    num_speculative_tokens: u32,
) -> Result<AttentionFacts, ScenarioError> {
    let ranks = check.optional32(file.decode_context_parallel_size.as_ref(), 1, RANKS_MAX)?;
    Ok(AttentionFacts {
        compute_capability: machine.compute_capability,
        flash_attn_version: check.optional32(file.flash_attn_version.as_ref(), 2, 4)?,
        decode_context_parallel_size: ranks.unwrap_or(1),
        flashinfer_decode: file.flashinfer_decode,
        is_causal: file.is_causal.unwrap_or(true),
        indexer_varlen: file.indexer_varlen,
        num_speculative_tokens,
    })
}

/// The backends of all attention groups: one name, or a list of them.
fn backends<'value>(check: &Check<'_>, written: &'value Spanned<Value>) -> Result<Vec<&'value str>, ScenarioError> {
    let names: Option<Vec<&str>> = match written.get_ref() {
        Value::String(name) => Some(vec![name]),
        Value::Array(names) if !names.is_empty() => names.iter().map(Value::as_str).collect(),
        _ => None,
    };
    names.ok_or_else(|| {
        let problem = format!("expected the name of a backend or a list of names, found {}", written.get_ref());
        check.reject(
            &written.span(),
            problem,
            "write one as in \"FLASH_ATTN\", several as in [\"FLASH_ATTN\", \"MAMBA2\"]",
        )
    })
}

fn problem(backend: &str, reason: NoLevel) -> String {
    match reason {
        NoLevel::Unknown => format!("the graph support of \"{backend}\" is not known here"),
        NoLevel::Needs(key) => format!("how far {backend} supports full graphs depends on {key}, which is not given"),
    }
}

fn help(backend: &str, reason: NoLevel) -> String {
    let levels = "write attention_support = \"NEVER\", \"UNIFORM_SINGLE_TOKEN_DECODE\", \"UNIFORM_BATCH\" or \"ALWAYS\" \
                  instead";
    match reason {
        NoLevel::Unknown => match closest(backend, &attention::names().collect::<Vec<_>>()) {
            Some(name) => format!("did you mean \"{name}\"? Else {levels}"),
            None => levels.to_owned(),
        },
        NoLevel::Needs("flash_attn_version") => {
            "write compute_capability under [machine], such as \"9.0\", or flash_attn_version = 2, 3 or 4 (the server's log \
             says which)"
                .to_owned()
        }
        NoLevel::Needs("flashinfer_decode") => {
            "write flashinfer_decode = \"trtllm\", \"xqa\" or \"fa2\" for the kernels it decodes with, \"other\" where not \
             every attention group can use them"
                .to_owned()
        }
        NoLevel::Needs(key) => format!("write {key} = true or false, or {levels}"),
    }
}

/// `data_center_blackwell`, or what the compute capability says about it.
pub(super) fn data_center_blackwell(
    check: &Check<'_>,
    written: Option<&Spanned<bool>>,
    machine: &Machine,
) -> Result<bool, ScenarioError> {
    let of_machine = machine.compute_capability.map(ComputeCapability::is_data_center_blackwell);
    match (written, of_machine) {
        (Some(written), Some(of_machine)) if *written.get_ref() != of_machine => {
            let place: Span = written.span();
            let is = if of_machine { "is" } else { "is not" };
            let problem = format!("the compute_capability of [machine] {is} that of data-centre Blackwell (10)");
            Err(check.reject(&place, problem, "keep one of the two"))
        }
        (written, of_machine) => Ok(written.map(|written| *written.get_ref()).or(of_machine).unwrap_or(false)),
    }
}

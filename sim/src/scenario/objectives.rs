//! Model, machine, objectives, budget, warm-up and expectations.

use toml::{Spanned, Value};

use super::check::Check;
use super::file::{BudgetFile, ExpectationFile, MachineFile, ModelFile, SloFile, TaskFile, WarmUpFile, Whole};
use super::{Budget, Candidate, Expectation, ExpectedValue, Machine, Model, ScenarioError, Slo, WarmUp};
use crate::engine::vllm::encoder::EncoderModel;
use crate::engine::vllm::options::ModelKind;
use crate::limits::{REQUEST_TOKENS_MAX, REQUESTS_MAX, STEP_TOKENS_MAX};
use crate::traffic::Traffic;

/// How far a figure may be from its expectation where the scenario does not say.
const WITHIN_DEFAULT: f64 = 1e-6;

pub(super) fn model(check: &Check<'_>, file: &ModelFile) -> Result<Model, ScenarioError> {
    let encoder = file.is_encoder_decoder.as_ref().filter(|is_so| *is_so.get_ref());
    let pooling = file.task.as_ref().filter(|task| *task.get_ref() == TaskFile::Pooling);
    let (kind, span) = match (pooling, encoder) {
        (Some(_), Some(written)) => {
            let problem = "the graphs of an encoder-decoder model that pools are not known here";
            return Err(check.reject(&written.span(), problem, "leave is_encoder_decoder or task out"));
        }
        (Some(written), None) => (ModelKind::Pooling, written.span()),
        (None, Some(written)) => (ModelKind::EncoderDecoder, written.span()),
        (None, None) => (ModelKind::DecoderOnly, file.name.span()),
    };
    Ok(Model {
        name: check.title(&file.name)?,
        architecture: file.architecture.as_ref().map(|name| check.title(name)).transpose()?,
        kind,
        encoder: file.encoder_budget_range.as_ref().map(|range| budget_range(check, range)).transpose()?,
        sliding_window: check.optional32(file.sliding_window.as_ref(), 1, STEP_TOKENS_MAX)?,
        span,
        max_position_embeddings: check.optional32(file.max_position_embeddings.as_ref(), 1, REQUEST_TOKENS_MAX)?,
    })
}

/// A step brings images only: no frames of videos are known.
fn budget_range(check: &Check<'_>, range: &Spanned<[Whole; 2]>) -> Result<EncoderModel, ScenarioError> {
    let [min, max] = range.get_ref();
    let (min_budget, max_budget) = (check.whole32(min, 1, STEP_TOKENS_MAX)?, check.whole32(max, 1, STEP_TOKENS_MAX)?);
    if min_budget > max_budget {
        let problem = format!("the smallest budget ({min_budget}) is above the largest ({max_budget})");
        return Err(check.reject(&range.span(), problem, "write [smallest, largest], in tokens"));
    }
    Ok(EncoderModel { min_budget, max_budget, max_frames_per_video: 0 })
}

pub(super) fn machine(check: &Check<'_>, file: Option<&MachineFile>) -> Result<Machine, ScenarioError> {
    let Some(file) = file else { return Ok(Machine::default()) };
    let name = |written: &Option<Spanned<String>>| written.as_ref().map(|written| check.title(written)).transpose();
    let capability = |written: &Spanned<String>| {
        written.get_ref().parse().map_err(|()| {
            let problem = format!("\"{}\" is no compute capability", written.get_ref());
            check.reject(&written.span(), problem, "write it as in \"9.0\" (nvidia-smi --query-gpu=compute_cap)")
        })
    };
    Ok(Machine {
        device: name(&file.device)?,
        compute_capability: file.compute_capability.as_ref().map(capability).transpose()?,
        driver: name(&file.driver)?,
        host_cpu: name(&file.host_cpu)?,
    })
}

pub(super) fn slo(check: &Check<'_>, file: &SloFile) -> Result<Slo, ScenarioError> {
    Ok(Slo {
        ttft: check.optional_duration(file.ttft.as_ref())?,
        tpot: check.optional_duration(file.tpot.as_ref())?,
        e2el: check.optional_duration(file.e2el.as_ref())?,
    })
}

pub(super) fn budget(check: &Check<'_>, file: &BudgetFile) -> Result<Budget, ScenarioError> {
    Ok(Budget {
        graph_memory: check.optional_size(file.graph_memory.as_ref())?,
        startup: check.optional_duration(file.startup.as_ref())?,
    })
}

pub(super) fn warm_up(
    check: &Check<'_>,
    file: Option<&WarmUpFile>,
    traffic: &Traffic,
) -> Result<WarmUp, ScenarioError> {
    match file {
        None => Ok(WarmUp::None),
        Some(WarmUpFile::Time(time)) => Ok(WarmUp::Time(check.duration(time)?)),
        Some(WarmUpFile::Requests(written)) => {
            let requests = check.whole(written, 1, REQUESTS_MAX)?;
            match traffic.requests_in_all() {
                Some(all) if requests >= all => {
                    let problem = format!("leaving out {requests} of {all} requests leaves nothing to measure");
                    Err(check.reject(&written.span(), problem, "lower it, or raise the requests of the traffic"))
                }
                _ => Ok(WarmUp::Requests(requests)),
            }
        }
    }
}

pub(super) fn expectations(
    check: &Check<'_>,
    files: &[Spanned<ExpectationFile>],
    candidates: &[Candidate],
) -> Result<Vec<Expectation>, ScenarioError> {
    files.iter().map(|file| expectation(check, file, candidates)).collect()
}

fn expectation(
    check: &Check<'_>,
    spanned: &Spanned<ExpectationFile>,
    candidates: &[Candidate],
) -> Result<Expectation, ScenarioError> {
    let file = spanned.get_ref();
    if let Some(name) = &file.candidate
        && !candidates.iter().any(|candidate| candidate.name == *name.get_ref())
    {
        let names: Vec<&str> = candidates.iter().map(|candidate| candidate.name.as_str()).collect();
        let problem = format!("no candidate is called \"{}\"", name.get_ref());
        return Err(check.reject(&name.span(), problem, format!("the candidates are: {}", names.join(", "))));
    }
    let within = file.within.as_ref().map(|within| check.real(within, 0.0, f64::MAX)).transpose()?;
    Ok(Expectation {
        command: file.command,
        candidate: file.candidate.as_ref().map(|name| name.get_ref().clone()),
        figure: check.title(&file.figure)?,
        value: expected_value(file.value.get_ref()).ok_or_else(|| {
            let problem = format!("expected a finite number, a list of them or a word, found {}", file.value.get_ref());
            check.reject(&file.value.span(), problem, "write the value as the command's JSON shows it")
        })?,
        within: within.unwrap_or(WITHIN_DEFAULT),
        span: file.value.span(),
    })
}

fn expected_value(value: &Value) -> Option<ExpectedValue> {
    let number = |value: &Value| match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Float(number) if number.is_finite() => Some(*number),
        _ => None,
    };
    match value {
        Value::String(text) => Some(ExpectedValue::Text(text.clone())),
        Value::Array(items) => items.iter().map(number).collect::<Option<_>>().map(ExpectedValue::Numbers),
        other => number(other).map(ExpectedValue::Number),
    }
}

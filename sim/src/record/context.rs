//! What a result is about: scenario, engine, profile.

use calibrate::profile::{AnyGroup, Overlap, Profile};
use reports::{EngineReport, GroupReport, ProfileReport, ScenarioReport, SloReport};
use sha2::{Digest, Sha256};

use crate::engine::options::EngineOptions;
use crate::engine::vllm::options::Runner;
use crate::engine::vllm::runner::RunnerChoice;
use crate::scenario::{Scenario, Slo};
use crate::time::SimDuration;

/// The scenario by name and content; `requests` were offered to every candidate (none where no
/// request is served).
#[must_use]
pub fn scenario(scenario: &Scenario, requests: Option<u64>) -> ScenarioReport {
    ScenarioReport {
        name: scenario.name.clone(),
        sha256: sha256(scenario.source.as_bytes()),
        requests,
        slo: slo(&scenario.slo),
    }
}

/// The objectives; `None` if none is set.
#[must_use]
pub fn slo(slo: &Slo) -> Option<SloReport> {
    let ms = |limit: Option<SimDuration>| limit.map(SimDuration::as_ms);
    (*slo != Slo::default()).then(|| SloReport { ttft_ms: ms(slo.ttft), tpot_ms: ms(slo.tpot), e2el_ms: ms(slo.e2el) })
}

/// The engine and the options that decide ladders and schedules.
#[must_use]
pub fn engine(options: &EngineOptions) -> EngineReport {
    let limits = options.limits();
    let (runner, attention_support) = match options {
        EngineOptions::Vllm(options) => {
            let runner = RunnerChoice::of(options).map_or(Runner::V2, |choice| choice.runner);
            (Some(runner.to_string()), Some(options.graphs.attention_support.to_string()))
        }
        EngineOptions::Sglang(_) => (None, None),
    };
    EngineReport {
        name: options.engine().into(),
        version: options.version(),
        runner: runner.map(Into::into),
        max_num_seqs: limits.requests.value.into(),
        max_num_batched_tokens: limits.step_tokens.value.into(),
        max_model_len: Some(limits.request_tokens.value.into()),
        attention_support,
        async_scheduling: Some(options.asynchronous()),
    }
}

/// The profile, by the name or path it was asked for, with the provenance of each group that prices steps, memory or
/// start-up of `server`'s engine: only SGLang updates executables.
#[must_use]
pub fn profile(profile: &Profile, name: &str, server: &EngineOptions) -> ProfileReport {
    let updates = if server.sglang().is_some() { "" } else { "machine.update" };
    let shadowed = if profile.engine.attention.is_some() { "machine.attention" } else { "" };
    ProfileReport {
        name: name.to_owned(),
        sha256: sha256(profile.to_toml().as_bytes()),
        device: Some(profile.identity.device.clone()),
        model: Some(profile.identity.model_name.clone()),
        overlap: match profile.overlap {
            Overlap::Pipelined => "pipelined".into(),
            Overlap::Additive => "additive".into(),
        },
        groups: profile
            .each_group()
            .iter()
            .filter(|group| ![updates, "machine.bandwidth", shadowed].contains(&group.name))
            .map(group)
            .collect(),
    }
}

/// The provenance of one group.
#[must_use]
pub fn group(group: &AnyGroup<'_>) -> GroupReport {
    let provenance = group.provenance;
    GroupReport {
        group: group.name.to_owned(),
        kind: provenance.kind.as_str().into(),
        source: provenance.source.clone(),
        licence: provenance.licence.clone(),
        valid_range: provenance.valid.clone().or_else(|| provenance.range.clone()),
        method: provenance.method.clone(),
        stated_error: stated_error(group),
    }
}

/// How far a measured group says it can be off.
fn stated_error(group: &AnyGroup<'_>) -> Option<String> {
    let interval = group.widest_interval_percent().map(|percent| format!("within {percent:.1} % (95 %)"));
    let left_out = group.measured.and_then(|measured| measured.held_out).map(|errors| {
        let (median, worst, at) = (errors.median_percent, errors.worst_percent, errors.worst_at);
        format!("sizes left out of its table {median:.1} % off in the median, {worst:.1} % at most, at {at}")
    });
    let stated: Vec<String> = interval.into_iter().chain(left_out).collect();
    (!stated.is_empty()).then(|| stated.join(", "))
}

/// SHA-256 in lower-case hexadecimal.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// Bytes in lower-case hexadecimal.
#[must_use]
pub fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        text
    })
}

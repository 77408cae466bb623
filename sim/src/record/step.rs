//! One step, one request, one descriptor.

use calibrate::profile::{Overlap, Profile};
use reports::{CostTerms, DescriptorRecord, Name, RequestRecord, StepHeader, StepRecord};

use super::context::{engine, sha256};
use super::ladder::ladders;
use crate::cost::{Execution, StepCost};
use crate::engine::shape::{Descriptor, Dispatch, RuntimeMode};
use crate::engine::step::Chunk;
use crate::metrics::latency::FinishedRequest;
use crate::metrics::rungs::saved_ns;
use crate::observe::StepScheduled;
use crate::scenario::Scenario;
use crate::server::setup::Setup;
use crate::time::{SimDuration, SimTime};

/// A graph's key; `None` for a step without a graph.
#[must_use]
pub fn descriptor(descriptor: &Descriptor) -> Option<DescriptorRecord> {
    (descriptor.mode != RuntimeMode::None).then(|| DescriptorRecord {
        mode: mode(descriptor.mode),
        tokens: descriptor.tokens,
        requests: descriptor.requests,
        uniform: descriptor.uniform,
        max_query: descriptor.max_query,
        loras: descriptor.loras,
        ubatches: descriptor.ubatches,
        prefix_chunks: descriptor.prefix_chunks,
    })
}

pub(super) fn mode(mode: RuntimeMode) -> Name {
    mode.name().into()
}

/// What served a step: a descriptor in one line, or the eager kind.
#[must_use]
pub fn artifact(key: &Descriptor, eager: Execution) -> Name {
    descriptor(key).map_or_else(|| eager.name().into(), |record| record.to_string().into())
}

/// The cost of a step, term by term.
#[must_use]
pub fn cost_terms(cost: &StepCost, overlap: Overlap, asynchronous: bool) -> CostTerms {
    CostTerms {
        dense_ns: cost.dense_ns,
        head_ns: cost.head_ns,
        attention_ns: cost.attention_ns,
        drafting_ns: cost.drafting_ns,
        gap_ns: cost.gap_ns,
        device_ns: cost.device().0,
        step_overhead_ns: cost.step_overhead_ns,
        request_overhead_ns: cost.request_overhead_ns,
        launch_ns: cost.launch_ns,
        update_ns: cost.update_ns,
        bookkeeping_ns: cost.bookkeeping_ns,
        host_ns: cost.host().0,
        step_ns: cost.period(overlap, asynchronous).0,
    }
}

/// What the steps of one candidate and seed belong to.
#[must_use]
pub fn step_header(
    scenario: &Scenario,
    profile: &Profile,
    profile_name: &str,
    seed: u64,
    candidate: &str,
    setup: &Setup,
) -> StepHeader {
    StepHeader {
        schema: reports::STEP_SCHEMA,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        scenario: scenario.name.clone(),
        scenario_sha256: sha256(scenario.source.as_bytes()),
        profile: profile_name.to_owned(),
        profile_sha256: sha256(profile.to_toml().as_bytes()),
        seed,
        engine: engine(&setup.options),
        candidate: candidate.to_owned(),
        cudagraph_mode: setup.graphs.mode_name(),
        capture_sizes: setup.graphs.capture_sizes().to_vec(),
        ladders: ladders(&setup.graphs),
    }
}

/// One step of the step log, without what other events tell: the preemptions before it, and the drafts its output accepts.
#[must_use]
pub fn step(step: &StepScheduled<'_>, setup: &Setup) -> StepRecord {
    let Dispatch { descriptor: key, cause, relaxed } = *step.dispatch;
    StepRecord {
        step: step.step,
        start_ns: step.span.scheduled.0,
        end_ns: step.span.end.0,
        rank: step.rank,
        mode: mode(key.mode),
        descriptor: descriptor(&key),
        real_rows: step.work.tokens,
        padded_rows: step.dispatch.padded_rows(&step.plan.shape),
        prefills: prefills(&step.plan.prefills),
        decode_requests: step.work.decode_requests,
        decode_context: step.work.decode_context_tokens,
        sampled: step.plan.sampled,
        drafts: step.plan.drafts,
        accepted: 0,
        active_loras: step.plan.shape.active_loras,
        running: step.running,
        waiting: step.waiting,
        preempted: 0,
        kv_used_blocks: u64::from(step.usable_blocks - step.free_blocks),
        kv_total_blocks: u64::from(step.usable_blocks),
        fallback: cause.map(|cause| cause.to_string().into()),
        relaxed,
        artifact: artifact(&key, setup.cost.eager()),
        saved_ns: saved_ns(step, &setup.cost, setup.options.asynchronous()),
        cost: cost_terms(step.cost, setup.cost.overlap, setup.options.asynchronous()),
        outside_range: !step.cost.outside.is_empty(),
        derived: !step.cost.derived.is_empty(),
    }
}

/// Chunks as `[chunk, context]`.
#[must_use]
pub(super) fn prefills(chunks: &[Chunk]) -> Vec<[u32; 2]> {
    chunks.iter().map(|chunk| [chunk.tokens, chunk.context]).collect()
}

/// One finished request of the request log.
#[must_use]
pub fn request(
    candidate: &str,
    seed: u64,
    request: &FinishedRequest,
    preemptions: u32,
    good: Option<bool>,
) -> RequestRecord {
    let seconds = |at: SimTime| at.since(SimTime::ZERO).as_s();
    RequestRecord {
        candidate: candidate.to_owned(),
        seed,
        id: u64::from(request.id.0),
        arrival_s: seconds(request.arrival),
        prompt_tokens: request.prompt_tokens,
        output_tokens: request.output_tokens,
        outcome: "finished".to_owned(),
        ttft_ms: Some(request.ttft.as_ms()),
        tpot_ms: (request.output_tokens > 1).then(|| SimDuration::as_ms(request.tpot)),
        e2el_ms: Some(request.e2el.as_ms()),
        preemptions,
        good,
    }
}

//! One candidate's run as one record.

use std::collections::BTreeMap;

use reports::{
    ArtifactReport, CandidateReport, ColdStart, CostBreakdown, Fallbacks, Figure, KvBlocks, PrefixCache, RungReport,
    SloAttainment, SpecDecode, Startup,
};

use super::ladder::ladders;
use super::step::{artifact, descriptor, mode};
use crate::cost::startup::StartupPart;
use crate::engine::plan::{GraphPlan, Rung};
use crate::engine::shape::FallbackCause;
use crate::metrics::rungs::RungTally;
use crate::metrics::{Latency, PrefixTotals, RungStats, Spread, StepTotals, Summary};
use crate::server::setup::Setup;
use crate::time::{SimDuration, SimTime};

/// The figures of one candidate and seed.
#[must_use]
pub fn candidate(name: &str, setup: &Setup, summary: &Summary) -> CandidateReport {
    let mut report = CandidateReport {
        name: name.to_owned(),
        capture_sizes: setup.graphs.capture_sizes().to_vec(),
        ladders: ladders(&setup.graphs),
        cudagraph_mode: setup.graphs.mode_name(),
        ..CandidateReport::default()
    };
    set_latency(&mut report, &summary.latency);
    set_steps(&mut report, &summary.steps);
    report.running_at_last_sent = (summary.sent_in_all > 0).then_some(summary.running_at_last_sent).into();
    set_drafts(&mut report, setup, summary);
    report.prefix_cache = prefix_cache(setup, &summary.prefixes);
    report.dummy_steps = (setup.options.ranks().1 > 1).then_some(summary.dummy_steps).into();
    set_rungs(&mut report, setup, &summary.rungs);
    set_price(&mut report, setup);
    report.cold_start = cold_start(&summary.latency, &summary.steps_before_cut);
    report
}

fn set_latency(report: &mut CandidateReport, latency: &Latency) {
    report.duration_s = latency.duration_s.into();
    report.completed = latency.completed.into();
    report.refused = latency.refused.into();
    let per_request = |tokens: u64| (latency.completed > 0).then(|| tokens as f64 / latency.completed as f64);
    report.request_rate = latency.request_rate().into();
    report.mean_prompt_tokens = per_request(latency.prompt_tokens).into();
    report.mean_output_tokens = per_request(latency.output_tokens).into();
    report.request_goodput = latency.request_goodput().into();
    report.request_throughput = latency.request_throughput().into();
    report.output_throughput = latency.output_throughput().into();
    let share = |set: bool, met: u64| {
        let defined = set && latency.completed > 0;
        Figure::from(defined.then(|| met as f64 / latency.completed as f64))
    };
    report.slo_attainment = SloAttainment {
        ttft: share(latency.slo.ttft.is_some(), latency.attainment.ttft),
        tpot: share(latency.slo.tpot.is_some(), latency.attainment.tpot),
        e2el: share(latency.slo.e2el.is_some(), latency.attainment.e2el),
    };
    [report.mean_ttft_ms, report.median_ttft_ms, report.p99_ttft_ms] = spread(latency.ttft);
    [report.mean_tpot_ms, report.median_tpot_ms, report.p99_tpot_ms] = spread(latency.tpot);
    [report.mean_itl_ms, report.median_itl_ms, report.p99_itl_ms] = spread(latency.itl);
    [report.mean_e2el_ms, report.median_e2el_ms, report.p99_e2el_ms] = spread(latency.e2el);
}

fn spread(spread: Option<Spread>) -> [Figure; 3] {
    spread
        .map_or([Figure::Undefined; 3], |spread| [spread.mean_ms.into(), spread.median_ms.into(), spread.p99_ms.into()])
}

fn set_steps(report: &mut CandidateReport, totals: &StepTotals) {
    let mean_ms = |total: SimDuration| Figure::from(totals.ms_per_step(total));
    report.steps = totals.steps.into();
    report.mean_batch_rows = (totals.steps > 0).then(|| totals.real_rows as f64 / totals.steps as f64).into();
    report.peak_waiting = (totals.steps > 0).then_some(totals.waiting_max).into();
    report.mean_step_ms = mean_ms(totals.duration);
    report.host_ms_per_step = mean_ms(totals.host());
    report.device_idle_ms_per_step = mean_ms(totals.device_idle);
    report.executable_updates = totals.updates.into();
    report.preemptions = totals.preemptions.into();
    report.peak_kv_usage =
        (totals.usable_blocks > 0).then(|| f64::from(totals.used_blocks_max) / f64::from(totals.usable_blocks)).into();
    report.steps_outside_range = totals.outside_steps.into();
    report.steps_from_derived = totals.derived_steps.into();
    report.cost = CostBreakdown {
        dense_ms: mean_ms(totals.dense),
        head_ms: mean_ms(totals.head),
        attention_ms: mean_ms(totals.attention),
        drafting_ms: mean_ms(totals.drafting),
        gap_ms: mean_ms(totals.gap),
        step_overhead_ms: mean_ms(totals.step_overhead),
        request_overhead_ms: mean_ms(totals.request_overhead),
        launch_ms: mean_ms(totals.launch),
        update_ms: mean_ms(totals.update),
        bookkeeping_ms: mean_ms(totals.bookkeeping),
    };
}

fn set_drafts(report: &mut CandidateReport, setup: &Setup, summary: &Summary) {
    let most = setup.options.decode_tokens() - 1;
    if most == 0 {
        return;
    }
    let totals = &summary.drafts;
    report.spec_decode = SpecDecode {
        acceptance_rate: totals.acceptance_rate().into(),
        acceptance_length: totals.acceptance_length().into(),
        num_drafts: totals.verifications.into(),
        draft_tokens: totals.drafts.into(),
        accepted_tokens: totals.accepted.into(),
        draft_throughput: summary.latency.per_second(totals.drafts).into(),
        late_requests: totals.late.into(),
    };
    report.per_position_acceptance_rates = totals.rates(most).map(Figure::from).collect();
}

fn prefix_cache(setup: &Setup, totals: &PrefixTotals) -> PrefixCache {
    if !setup.options.caches_prefixes() {
        return PrefixCache::default();
    }
    PrefixCache {
        hit_rate: totals.hit_rate().into(),
        hit_tokens: totals.hit_tokens.into(),
        preempted_hit_tokens: totals.preempted_hit_tokens.into(),
    }
}

fn set_rungs(report: &mut CandidateReport, setup: &Setup, rungs: &RungStats) {
    report.exact_hit_rate = rungs.exact_hit_rate().into();
    report.padding_ratio = rungs.padding_ratio().into();
    report.waste_share = rungs.waste_share().into();
    report.padded_rows_without_graph = (setup.options.ranks().1 > 1).then_some(rungs.padded_rows_without_graph).into();
    report.fallback_rate = rungs.fallback_rate().into();
    let cause = |cause| Figure::from(rungs.fallbacks.get(&cause).copied().unwrap_or_default());
    report.fallbacks = Fallbacks {
        above_ceiling: cause(FallbackCause::AboveCeiling),
        no_key: cause(FallbackCause::NoKey),
        mode_excluded: cause(FallbackCause::ModeExcluded),
        encoder_inputs: cause(FallbackCause::EncoderInputs),
        other_rank: cause(FallbackCause::OtherRank),
        graphs_off: cause(FallbackCause::GraphsOff),
    };
    let steps = rungs.fallback_steps() + rungs.total().steps;
    report.decode_step_share = (steps > 0).then(|| rungs.decode_steps as f64 / steps as f64).into();
    report.median_decode_rows = rungs.decode_tokens_at(0.5).into();
    report.p99_decode_rows = rungs.decode_tokens_at(0.99).into();
    report.max_decode_rows = rungs.decode_tokens_at(1.0).into();
    report.relaxed_steps = rungs.relaxed_steps.into();
    report.saved_ms = saved_ms(&rungs.total());
    report.rungs = rung_reports(&setup.graphs, rungs);
    report.artifacts = artifacts(setup, rungs);
}

/// One entry per rung, those that never fired included.
fn rung_reports(graphs: &GraphPlan, rungs: &RungStats) -> Vec<RungReport> {
    let mut by_size: BTreeMap<Rung, RungTally> = BTreeMap::new();
    for key in graphs.capture_order() {
        let tally = by_size.entry(graphs.rung(key)).or_default();
        if let Some(fired) = rungs.rungs.get(key) {
            tally.add(fired);
        }
    }
    by_size
        .into_iter()
        .map(|(rung, tally)| RungReport {
            mode: mode(rung.mode),
            phase: rung.phase.map(|phase| phase.name().into()),
            size: rung.size,
            steps: tally.steps.into(),
            exact_steps: tally.exact_steps.into(),
            real_rows: tally.real_rows.into(),
            padded_rows: tally.padded_rows.into(),
            saved_ms: saved_ms(&tally),
        })
        .collect()
}

/// Every captured descriptor in capture order, then the eager kind.
fn artifacts(setup: &Setup, rungs: &RungStats) -> Vec<ArtifactReport> {
    let eager = setup.cost.eager();
    let seconds = |at: SimTime| at.since(SimTime::ZERO).as_s();
    let captured = setup.graphs.capture_order().iter().map(|key| {
        let tally = rungs.rungs.get(key);
        ArtifactReport {
            artifact: artifact(key, eager).into_owned(),
            descriptor: descriptor(key),
            steps: tally.map_or(0, |tally| tally.steps).into(),
            first_use_s: tally.map(|tally| seconds(tally.first_use)).into(),
        }
    });
    let without_graph = ArtifactReport {
        artifact: eager.to_string(),
        descriptor: None,
        steps: rungs.fallback_steps().into(),
        first_use_s: rungs.first_fallback.map(seconds).into(),
    };
    captured.chain([without_graph]).collect()
}

fn saved_ms(tally: &RungTally) -> Figure {
    (tally.saved_ns as f64 / 1e6).into()
}

/// What the candidate costs before the first request.
fn set_price(report: &mut CandidateReport, setup: &Setup) {
    report.descriptors_captured = setup.graphs.capture_order().len().into();
    report.cuda_graphs = setup.cuda_graphs().into();
    report.graph_memory_bytes = setup.graph_memory.total().0.into();
    report.graph_memory_spared_bytes = setup.graph_memory_spared.0.into();
    report.graph_estimate_bytes = setup.graph_reserve.estimate.map(|bytes| bytes.0).into();
    report.kv_blocks = KvBlocks {
        in_force: setup.kv_pool.num_gpu_blocks.into(),
        without_graphs: setup.kv_blocks.without_graphs.into(),
        less_estimate: setup.kv_blocks.less_estimate.into(),
        less_actual: setup.kv_blocks.less_actual.into(),
    };
    report.kv_tokens = setup.kv_pool.tokens().into();
    report.kv_tokens_lost = setup.kv_pool.origin.follows_graphs().then_some(setup.kv_tokens_lost).into();
    report.startup_s = setup.startup.total_s().into();
    report.startup = Startup {
        memory_profiling_s: setup.startup.part_s(StartupPart::MemoryProfiling).into(),
        compile_s: setup.startup.part_s(StartupPart::Compilation).into(),
        warm_up_s: setup.startup.part_s(StartupPart::WarmUp).into(),
        capture_s: setup.startup.part_s(StartupPart::Capture).into(),
    };
}

fn cold_start(latency: &Latency, totals: &StepTotals) -> ColdStart {
    let [mean_ttft_ms, _, p99_ttft_ms] = spread(latency.ttft_before_cut);
    ColdStart {
        until_s: latency.from_s.into(),
        requests: latency.requests_before_cut.into(),
        steps: totals.steps.into(),
        completed: latency.completed_before_cut.into(),
        mean_ttft_ms,
        p99_ttft_ms,
        mean_step_ms: totals.ms_per_step(totals.duration).into(),
    }
}

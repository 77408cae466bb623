//! Warnings about what a run showed.

use calibrate::profile::{Kind, Overlap, Profile};
use reports::Warning;

use super::{count, percent, was};
use crate::cost::Execution;
use crate::engine::shape::FallbackCause;
use crate::metrics::Summary;
use crate::scenario::Scenario;
use crate::server::{RunEnd, Setup};
use crate::traffic::{Arrivals, SkippedRows, Traffic, TrafficKind};

/// A candidate whose steps run without a graph at least this often is judged by what such steps cost.
const FALLBACK_SHARE_OF_NOTE: f64 = 0.2;

/// One candidate's run with one seed, and what it ran on.
#[derive(Clone, Copy, Debug)]
pub struct FinishedRun<'a> {
    /// The candidate's name.
    pub name: &'a str,
    /// The scenario.
    pub scenario: &'a Scenario,
    /// The profile that priced it.
    pub profile: &'a Profile,
    /// The candidate, ready.
    pub setup: &'a Setup,
    /// Its figures.
    pub summary: &'a Summary,
    /// How it ended.
    pub end: &'a RunEnd,
}

/// A queue is of note from this many requests on,
const QUEUE_OF_NOTE: u64 = 10;

/// and from this share of all requests on.
const QUEUE_SHARE_OF_NOTE: f64 = 0.05;

/// What one candidate's run gives reason to warn about.
#[must_use]
pub fn after_run(run: &FinishedRun<'_>) -> Vec<Warning> {
    let FinishedRun { name, scenario, profile, setup, summary, end } = *run;
    let about = |code: &str, message: String| Warning::about(name, code, message);
    [
        overloaded(scenario, summary).map(|message| about("overloaded", message)),
        ceiling(setup, summary).map(|message| about("ceiling_inside_load", message)),
        relaxed(summary).map(|message| about("full_relaxed", message)),
        losing(summary).map(|message| about("replay_loses", message)),
        rests_on_declared(profile, setup, summary).map(|message| about("eager_cost_declared", message)),
        outside(summary).map(|message| about("outside_range", message)),
        mixed_as_sum(summary).map(|message| about("mixed_attention_as_sum", message)),
        refused(setup, summary).map(|message| about("requests_refused", message)),
        preempted(summary).map(|message| about("preemptions", message)),
        skipped(end).map(|message| Warning::general("trace_rows_skipped", message)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Open traffic beyond what the server can serve: the queue at the end of it says so.
fn overloaded(scenario: &Scenario, summary: &Summary) -> Option<String> {
    let closed = matches!(scenario.traffic.kind, TrafficKind::Synthetic { arrivals: Arrivals::ClosedLoop { .. }, .. });
    let (waiting, sent) = (u64::from(summary.waiting_at_last_sent), summary.latency.sent);
    let queue_of_note = waiting >= QUEUE_OF_NOTE && waiting as f64 >= QUEUE_SHARE_OF_NOTE * sent as f64;
    (queue_of_note && !closed).then(|| {
        format!(
            "{waiting} of {sent} requests were still waiting when the last one was sent: the load is more than this server \
             serves, so latency and goodput depend on how long the run is; lower the rate or give the server more room"
        )
    })
}

fn ceiling(setup: &Setup, summary: &Summary) -> Option<String> {
    let above = summary.rungs.fallbacks.get(&FallbackCause::AboveCeiling).copied().filter(|&steps| steps > 0)?;
    let ceiling = setup.graphs.capture_sizes().last().copied().unwrap_or_default();
    let decode = match summary.rungs.decode_steps_above_ceiling {
        0 => "none of them pure decode".to_owned(),
        steps => format!(
            "{steps} of them pure decode, {} of all pure decode steps",
            percent(steps, summary.rungs.decode_steps)
        ),
    };
    Some(format!(
        "the load goes above the largest captured size, {ceiling} tokens: {} ({}) ran without a graph, {decode}",
        count(above, "step"),
        percent(above, summary.steps.steps)
    ))
}

fn relaxed(summary: &Summary) -> Option<String> {
    let relaxed = summary.rungs.relaxed_steps;
    (relaxed > 0).then(|| {
        format!(
            "{} ({}) wanted a FULL graph and ran PIECEWISE: no FULL size fits",
            count(relaxed, "step"),
            percent(relaxed, summary.steps.steps)
        )
    })
}

/// Between two measured sizes the table is read on a straight line, where the truth is a stair somewhere: a loss that
/// vanishes on stairs is not one to act on.
fn losing(summary: &Summary) -> Option<String> {
    let (losing, total) = (summary.rungs.losing_steps, summary.rungs.total());
    let sure = summary.rungs.losing_steps_on_stairs;
    (losing > 0).then(|| {
        format!(
            "replay cost more than running without a graph in {} ({} of graph steps), in {sure} of them ({}) also if the \
             profile's table is read as stairs instead of lines between its measured sizes; over all graph steps it saved \
             {:.1} ms",
            count(losing, "step"),
            percent(losing, total.steps),
            percent(sure, losing),
            total.saved_ns as f64 / 1e6
        )
    })
}

/// Where steps without a graph matter and their launch cost is a planning figure: what the answer rests on.
fn rests_on_declared(profile: &Profile, setup: &Setup, summary: &Summary) -> Option<String> {
    let rungs = &summary.rungs;
    let provenance = &profile.engine.dispatch.provenance;
    let often = rungs.fallback_rate().is_some_and(|share| share >= FALLBACK_SHARE_OF_NOTE);
    if !often || provenance.kind != Kind::Declared || profile.overlap != Overlap::Pipelined {
        return None;
    }
    let (ops, dispatch) = (&profile.engine.ops.figures, &profile.engine.dispatch.figures);
    let (ops, per_op_us) = match setup.cost.eager() {
        Execution::Eager => (ops.eager, dispatch.eager_us),
        _ => (ops.compiled, dispatch.compiled_us),
    };
    let launch_ms = rungs.fallback_launch.as_ms() / rungs.fallback_steps() as f64;
    let device_ms = rungs.fallback_device_min?.as_ms();
    // With asynchronous scheduling the preparation shares the time that the device hides.
    let host = &profile.engine.host.figures;
    let prepared_ms = if setup.options.scheduler.async_scheduling { host.step_overhead_us / 1e3 } else { 0.0 };
    let even_us = (device_ms - prepared_ms) * 1e3 / f64::from(ops) - profile.machine.launch.figures.launch_us;
    Some(format!(
        "steps without a graph launch for {launch_ms:.1} ms each, from a declared {per_op_us} us per operation (planning \
         range: {}), while the device takes {device_ms:.1} ms for the fastest of them: above about {even_us:.0} us per \
         operation the host would hold such steps up and this candidate would look worse; measure before acting on it",
        provenance.range.as_deref().unwrap_or("none given")
    ))
}

fn outside(summary: &Summary) -> Option<String> {
    let steps = summary.steps.outside_steps;
    let groups: Vec<String> =
        summary.steps.outside_by_group.iter().map(|(group, steps)| format!("{} in {steps}", group.name())).collect();
    (steps > 0).then(|| {
        format!(
            "{} ({}) {} priced outside the range of the profile ({}): such prices are extrapolated",
            count(steps, "step"),
            percent(steps, summary.steps.steps),
            was(steps),
            groups.join(", ")
        )
    })
}

fn mixed_as_sum(summary: &Summary) -> Option<String> {
    let steps = summary.steps.mixed_as_sum_steps;
    (steps > 0).then(|| {
        format!(
            "prefill and decode mix in {} ({}); the profile has no table of mixed attention, so the two were added, \
             which is too little where one kernel serves both",
            count(steps, "step"),
            percent(steps, summary.steps.steps)
        )
    })
}

fn refused(setup: &Setup, summary: &Summary) -> Option<String> {
    let refused = summary.latency.refused;
    (refused > 0).then(|| {
        format!(
            "{} {} refused: a prompt as long as max_model_len = {} leaves no room for a token",
            count(refused, "request"),
            was(refused),
            setup.options.scheduler.max_model_len
        )
    })
}

fn preempted(summary: &Summary) -> Option<String> {
    let preemptions = summary.steps.preemptions;
    (preemptions > 0).then(|| {
        format!(
            "{}: the KV pool of {} usable blocks ran full and what was preempted was computed again",
            count(preemptions, "preemption"),
            summary.steps.usable_blocks
        )
    })
}

fn skipped(end: &RunEnd) -> Option<String> {
    let SkippedRows { count, first_line } = end.skipped_rows;
    first_line.map(|line| {
        let rows = super::count(count, "row");
        format!("{rows} of the trace {} skipped as bad, the first one in line {line}", was(count))
    })
}

/// A trace that ended before the number of requests asked for; `end` is that of any candidate.
#[must_use]
pub fn fewer_requests(traffic: &Traffic, end: &RunEnd) -> Option<Warning> {
    let (asked, given) = (traffic.requests?, u64::from(end.requests_offered));
    (given < asked).then(|| {
        let message = format!("{} {} asked for, the trace gives {given}", count(asked, "request"), was(asked));
        Warning::general("fewer_requests", message)
    })
}

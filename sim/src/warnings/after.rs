//! Warnings about what a run showed.

use reports::Warning;

use super::declared::rests_on_declared;
use super::steady::second_steady_state;
use super::{count, percent, was};
use crate::engine::plan::{Ladder, LadderUnit};
use crate::engine::shape::FallbackCause;
use crate::metrics::Summary;
use crate::metrics::distribution::RUNS_MOST;
use crate::scenario::{Scenario, WarmUp};
use crate::server::{RunEnd, Setup};
use crate::traffic::{Arrivals, SkippedRows, Traffic, TrafficKind};

/// One candidate's run with one seed, and what it ran on.
#[derive(Clone, Copy, Debug)]
pub struct FinishedRun<'a> {
    /// The candidate's name.
    pub name: &'a str,
    /// The scenario.
    pub scenario: &'a Scenario,
    /// The candidate, ready.
    pub setup: &'a Setup,
    /// Its figures.
    pub summary: &'a Summary,
    /// How it ended.
    pub end: &'a RunEnd,
}

/// A queue is of note from this many requests on, if it is a whole batch
const QUEUE_OF_NOTE: u64 = 10;

/// or this share of all requests.
const QUEUE_SHARE_OF_NOTE: f64 = 0.05;

/// Percentiles of a long run.
fn binned(summary: &Summary) -> Option<String> {
    summary.latency.is_binned.then(|| {
        let kept = count(RUNS_MOST as u64, "value");
        format!("more latencies than are kept one by one ({kept}): medians and percentiles are good to 0.05 %")
    })
}

/// What one candidate's run gives reason to warn about.
#[must_use]
pub fn after_run(run: &FinishedRun<'_>) -> Vec<Warning> {
    let FinishedRun { name, scenario, setup, summary, end } = *run;
    let about = |code: &str, message: String| Warning::about(name, code, message);
    [
        overloaded(scenario, setup, summary).map(|message| about("overloaded", message)),
        nothing_left(scenario, summary).map(|message| about("nothing_measured", message)),
        ceiling(setup, summary).map(|message| about("ceiling_inside_load", message)),
        second_steady_state(scenario, setup, summary).map(|message| about("second_steady_state", message)),
        relaxed(setup, summary).map(|message| about("full_relaxed", message)),
        losing(summary).map(|message| about("replay_loses", message)),
        rests_on_declared(setup.cost.planned_launch.as_ref(), &summary.rungs)
            .map(|message| about("eager_cost_declared", message)),
        outside(summary).map(|message| about("outside_range", message)),
        mixed_as_sum(summary).map(|message| about("mixed_attention_as_sum", message)),
        refused(setup, summary).map(|message| about("requests_refused", message)),
        preempted(summary).map(|message| about("preemptions", message)),
        binned(summary).map(|message| about("percentiles_binned", message)),
        skipped(end).map(|message| Warning::general("trace_rows_skipped", message)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Open traffic beyond what the server can serve: the queue at the end of it says so.
fn overloaded(scenario: &Scenario, setup: &Setup, summary: &Summary) -> Option<String> {
    let closed = matches!(scenario.traffic.kind, TrafficKind::Synthetic { arrivals: Arrivals::ClosedLoop { .. }, .. });
    let (waiting, sent) = (u64::from(summary.waiting_at_last_sent), summary.sent_in_all);
    let whole_batch = u64::from(setup.options.limits().requests.value);
    let of_note = waiting >= whole_batch || waiting as f64 >= QUEUE_SHARE_OF_NOTE * sent as f64;
    (waiting >= QUEUE_OF_NOTE && of_note && !closed).then(|| {
        format!(
            "{waiting} of {sent} requests were waiting when the last one was sent: unless the traffic ended in a burst, it \
             is more than this server serves, and latency and goodput depend on how long the run is; lower the rate or give \
             the server more room"
        )
    })
}

/// A warm-up that outlasts the run.
fn nothing_left(scenario: &Scenario, summary: &Summary) -> Option<String> {
    let cut = scenario.warm_up != WarmUp::None;
    (cut && summary.latency.completed == 0 && summary.sent_in_all > 0).then(|| {
        "the warm-up leaves no finished request to measure: shorten warm_up or lengthen the traffic".to_owned()
    })
}

fn ceiling(setup: &Setup, summary: &Summary) -> Option<String> {
    let above = summary.rungs.fallbacks.get(&FallbackCause::AboveCeiling).copied().filter(|&steps| steps > 0)?;
    let ceilings: Vec<String> = setup.graphs.ladders().iter().map(ceiling_of).collect();
    let decode = match summary.rungs.decode_steps_above_ceiling {
        0 => "none of them pure decode".to_owned(),
        steps => format!(
            "{steps} of them pure decode, {} of all pure decode steps",
            percent(steps, summary.rungs.decode_steps)
        ),
    };
    Some(format!(
        "the load goes above the largest captured size, {}: {} ({}) ran without a graph, {decode}",
        ceilings.join(" and "),
        count(above, "step"),
        percent(above, summary.steps.steps)
    ))
}

/// `512 tokens`; `32 requests of decode` where each kind of step has a ladder of its own.
fn ceiling_of(ladder: &Ladder) -> String {
    let unit = match ladder.unit {
        LadderUnit::Tokens => "tokens",
        LadderUnit::Requests => "requests",
    };
    let largest = ladder.sizes.last().copied().unwrap_or_default();
    match ladder.phase {
        "all" => format!("{largest} {unit}"),
        phase => format!("{largest} {unit} of {phase}"),
    }
}

fn relaxed(setup: &Setup, summary: &Summary) -> Option<String> {
    let relaxed = summary.rungs.relaxed_steps;
    (relaxed > 0).then(|| {
        format!(
            "{} ({}) wanted a FULL graph and ran PIECEWISE: no FULL size fits{}",
            count(relaxed, "step"),
            percent(relaxed, summary.steps.steps),
            if setup.options.ranks().1 > 1 { ", or another rank does not decode only" } else { "" }
        )
    })
}

/// Between two measured sizes the table is read on a straight line, where the truth is a stair somewhere: a loss that
/// vanishes on stairs is not one to act on.
fn losing(summary: &Summary) -> Option<String> {
    let rungs = &summary.rungs;
    let (losing, sure, total) = (rungs.losing_steps, rungs.losing_steps_on_stairs, rungs.total());
    let ms = |ns: i64| ns as f64 / 1e6;
    let on_stairs = (rungs.saved_ns_on_stairs != total.saved_ns).then(|| {
        format!(
            "; read as stairs instead of lines between its measured sizes, the profile's table leaves {sure} of these steps \
             ({}) and {:.1} ms",
            percent(sure, losing),
            ms(rungs.saved_ns_on_stairs)
        )
    });
    (losing > 0).then(|| {
        format!(
            "by the profile's figures replay cost more than running without a graph in {} ({} of graph steps), and all \
             graph steps together saved {:.1} ms{}",
            count(losing, "step"),
            percent(losing, total.steps),
            ms(total.saved_ns),
            on_stairs.unwrap_or_default()
        )
    })
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
    let longest = setup.options.limits().request_tokens;
    (refused > 0).then(|| {
        format!(
            "{} {} refused: a prompt as long as {} = {} leaves no room for a token",
            count(refused, "request"),
            was(refused),
            longest.flag,
            longest.value
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
    let SkippedRows { count, first_line, rank } = end.skipped_rows;
    first_line.map(|line| {
        let rows = super::count(count, "row");
        let of = rank.map_or_else(|| "the trace".to_owned(), |_| "the ranks' traces".to_owned());
        let first = rank.map_or_else(String::new, |rank| format!(" of the trace of rank {rank}"));
        format!("{rows} of {of} {} skipped as bad, the first one in line {line}{first}", was(count))
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

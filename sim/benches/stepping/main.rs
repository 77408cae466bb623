//! How fast the event loop is: `cargo bench -p sim --bench stepping`.
//!
//! One core, a named profile, everything in this process; what the binary takes from start to end is the matter of
//! `whole.py`. Criterion keeps its statistics as always; behind them stand the ratios that `BENCHES.md` speaks of, from
//! the fastest run of each kind, as everything that disturbs a run makes it slower. A filter leaves out the ratios of
//! what it leaves out.

mod bench;
mod work;

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use criterion::{Criterion, Throughput};
use sim::engine::scheduler::Stepping;
use sim::engine::shape::StepShape;
use sim::engine::vllm::options::{GraphOptions, KvOptions, Runner, SchedulerOptions, Version, VllmOptions};
use sim::engine::vllm::plan::GraphPlan;

use bench::{Bench, Timed};
use work::{FASTER_PROFILE, PROFILE, Scheduling, Watched, Work};

const BATCHES: [u32; 5] = [16, 64, 256, 1024, 4096];
const LADDERS: [u32; 5] = [1, 8, 64, 256, 512];
const REQUESTS: [u32; 4] = [1_000, 10_000, 100_000, 1_000_000];

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    dispatch(&mut criterion);
    let mut bench = Bench::new(&mut criterion);
    let figures = [conversation, sglang_conversation, requests, traffic, batch, ladder];
    let lines: Vec<String> = figures.into_iter().flat_map(|figure| figure(&mut bench)).collect();
    criterion.final_summary();
    println!("\n{}", lines.join("\n"));
}

/// The public conversation trace as recorded and at four times its rate.
fn conversation(bench: &mut Bench<'_>) -> Vec<String> {
    let on = |profile: &'static str| {
        move |trace: &Path, multiplier, scheduling| Work::conversation(profile, trace, multiplier, scheduling)
    };
    let mut lines = over_conversation(bench, "conversation", on(PROFILE));
    lines.extend(over_conversation(bench, &format!("conversation on {FASTER_PROFILE}"), on(FASTER_PROFILE)));
    lines
}

/// The same on an SGLang server.
fn sglang_conversation(bench: &mut Bench<'_>) -> Vec<String> {
    over_conversation(bench, "conversation on SGLang", Work::sglang_conversation)
}

fn over_conversation(
    bench: &mut Bench<'_>,
    group: &str,
    work_of: impl Fn(&Path, u32, Scheduling) -> Work,
) -> Vec<String> {
    let Some(trace) = work::conversation_trace() else {
        return vec![format!("{group}: skipped: no traces/workloads in RUNGWISE_SHARED")];
    };
    let mut lines = Vec::new();
    for (rate, multiplier) in [("as recorded", 1), ("4 times the rate", 4)] {
        for scheduling in [Scheduling::Async, Scheduling::Sync] {
            let work = work_of(&trace, multiplier, scheduling);
            let name = format!("{rate}, {scheduling}");
            let mut timed =
                |watched, stepping, kind| bench.measure(group, &format!("{name}, {kind}"), &work, stepping, watched);
            let full = timed(Watched::Metrics, Stepping::Fast, "metrics");
            let bare = timed(Watched::Nothing, Stepping::Fast, "bare");
            let plain = timed(Watched::Metrics, Stepping::Plain, "plain");
            let (Some(full), Some(bare), Some(plain)) = (full, bare, plain) else { continue };
            lines.push(format!(
                "{group} {name}: {} steps, {:.1} million steps/s, {:.0} ns a step, {:.0} ns a request; metrics cost \
                 {:.2} times, the plain walk {:.1} times",
                full.steps,
                full.million_steps_per_s(),
                full.ns_per_step(),
                full.ns_per_request(),
                full.seconds / bare.seconds,
                plain.seconds / full.seconds,
            ));
        }
    }
    lines
}

/// Growth with the number of requests, about a hundred of them at a time.
fn requests(bench: &mut Bench<'_>) -> Vec<String> {
    let timed: Vec<Timed> = REQUESTS
        .into_iter()
        .filter_map(|requests| {
            let work = Work::synthetic(requests, None);
            bench.measure("requests", &requests.to_string(), &work, Stepping::Fast, Watched::Metrics)
        })
        .collect();
    let line = |timed: &Timed| {
        format!(
            "{} requests: {:.4} s, {:.0} ns a request, {:.1} ns a step",
            timed.requests,
            timed.seconds,
            timed.ns_per_request(),
            timed.ns_per_step()
        )
    };
    timed.iter().map(line).collect()
}

/// Requests that nobody serves: what reading a trace and drawing lengths take of the above.
fn traffic(bench: &mut Bench<'_>) -> Vec<String> {
    let synthetic = ("synthetic", Work::synthetic(100_000, None));
    let recorded =
        work::conversation_trace().map(|trace| ("recorded", Work::conversation(PROFILE, &trace, 1, Scheduling::Async)));
    let works = [synthetic].into_iter().chain(recorded);
    works
        .filter_map(|(name, work)| {
            let seconds = bench.drain("traffic", name, &work)?;
            Some(format!("traffic alone, {name}: {:.0} ns a request", seconds * 1e9 / f64::from(work.requests)))
        })
        .collect()
}

/// A pure decode step by the requests in it: a long run less a short one, so that prompts do not count. The tables of
/// the named profile end at 512 requests and 32,768 tokens of context; the textbook's attention is a constant that never
/// ends.
fn batch(bench: &mut Bench<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    for (profile, stepping, tokens) in [
        (PROFILE, Stepping::Fast, [2_000, 32_000]),
        ("textbook", Stepping::Fast, [2_000, 32_000]),
        // Walking thousands of requests takes its time; fewer steps are enough for that.
        (PROFILE, Stepping::Plain, [200, 1_200]),
    ] {
        let name = format!("{profile}, {stepping:?}").to_lowercase();
        let mut costs_ns = Vec::new();
        for batch in BATCHES {
            let [short, long] = tokens.map(|output_tokens| {
                let work = Work::decode(profile, batch, output_tokens);
                let name = format!("{name}, {batch} requests, {output_tokens} tokens");
                bench.measure("batch", &name, &work, stepping, Watched::Metrics)
            });
            let (Some(short), Some(long)) = (short, long) else { continue };
            let cost_ns = (long.seconds - short.seconds) * 1e9 / (long.steps - short.steps) as f64;
            lines.push(format!("decode step of {batch} requests, {name}: {cost_ns:.1} ns"));
            costs_ns.push(cost_ns);
        }
        lines.extend(spread(&format!("decode step, {name}"), &costs_ns));
    }
    lines
}

/// The size of the ladder.
fn ladder(bench: &mut Bench<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut costs_ns = Vec::new();
    for rungs in LADDERS {
        let work = Work::synthetic(100_000, Some(rungs));
        let timed = bench.measure("ladder", &format!("{rungs} rungs"), &work, Stepping::Fast, Watched::Metrics);
        let Some(timed) = timed else { continue };
        lines.push(format!("ladder of {rungs} rungs: {:.1} ns a step", timed.ns_per_step()));
        costs_ns.push(timed.ns_per_step());
    }
    lines.extend(spread("ladder", &costs_ns));
    lines
}

fn spread(what: &str, costs_ns: &[f64]) -> Option<String> {
    let dearest = costs_ns.iter().copied().reduce(f64::max)?;
    let cheapest = costs_ns.iter().copied().reduce(f64::min)?;
    Some(format!("{what}: dearest to cheapest {:.2}", dearest / cheapest))
}

/// What one dispatch costs, over a mix of decode and prefill steps.
fn dispatch(criterion: &mut Criterion) {
    let shapes: Vec<StepShape> =
        (0..64).map(|i| if i % 4 == 3 { prefill(40 + i * 11) } else { decode(1 + i * 3) }).collect();
    let mut group = criterion.benchmark_group("dispatch");
    group.throughput(Throughput::Elements(shapes.len() as u64));
    for runner in [Runner::V1, Runner::V2] {
        let options = VllmOptions {
            version: Version::V0_33_0,
            runner: Some(runner),
            scheduler: SchedulerOptions { max_num_batched_tokens: 8192, ..SchedulerOptions::default() },
            kv: KvOptions::default(),
            graphs: GraphOptions::default(),
        };
        let plan = GraphPlan::build(&options).expect("the engine's defaults");
        group.bench_function(format!("runner {runner}"), |bencher| {
            bencher.iter(|| {
                for shape in &shapes {
                    black_box(plan.dispatch(black_box(shape)));
                }
            });
        });
    }
    group.finish();
}

fn decode(requests: u32) -> StepShape {
    StepShape {
        requests,
        tokens: requests,
        max_query: 1,
        uniform_v1: true,
        uniform_v2: Some(1),
        ..StepShape::default()
    }
}

fn prefill(tokens: u32) -> StepShape {
    StepShape { requests: 4, tokens, max_query: tokens - 3, prefilling: true, ..StepShape::default() }
}

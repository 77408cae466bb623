//! `scheduler_trace.jsonl`: the real scheduler, step by step.

use std::collections::{BTreeSet, VecDeque};

use serde::Deserialize;
use serde_json::{Value, json};
use sim::engine::request::{NewRequest, RequestId, Segment, SharedPrefix};
use sim::engine::scheduler::Stepping;
use sim::engine::shape::StepShape;
use sim::engine::step::{Scheduled, StepOutcome, StepPlan};
use sim::engine::vllm::options::{
    CudagraphMode, Drafter, GraphOptions, KvOptions, Runner, SchedulerOptions, SchedulingPolicy, SpeculativeMethod,
    Version, VllmOptions,
};
use sim::engine::vllm::plan::GraphPlan;
use sim::engine::vllm::scheduler::Scheduler;

use super::vectors::vectors;

/// No trace lasts longer; a scheduler that hangs fails instead.
const MOST_ITERATIONS: u32 = 1_000_000;

#[derive(Deserialize)]
struct Trace {
    config: Config,
    input: Input,
    expected: Expected,
}

#[derive(Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "one field per engine flag")]
struct Config {
    name: String,
    vllm: Version,
    max_num_seqs: u32,
    max_num_batched_tokens: u32,
    max_num_active_seqs: Option<u32>,
    max_model_len: u32,
    block_size: u32,
    num_gpu_blocks: u32,
    enable_chunked_prefill: bool,
    async_scheduling: bool,
    long_prefill_token_threshold: u32,
    long_prefill_token_threshold_adaptive: bool,
    prefill_schedule_interval: u32,
    scheduler_reserve_full_isl: bool,
    watermark: f64,
    policy: SchedulingPolicy,
    enable_prefix_caching: bool,
    num_speculative_tokens: u32,
    spec_method: Option<SpeculativeMethod>,
    max_num_scheduled_tokens: Option<u32>,
    cudagraph_mode: CudagraphMode,
    ladder_v1: Vec<u32>,
    ladder_v2: Vec<u32>,
    resolved: Resolved,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Resolved {
    max_num_scheduled_tokens: u32,
    usable_blocks: u32,
    watermark_blocks: u32,
    max_concurrent_batches: u32,
    num_lookahead_tokens: u32,
    draft_slots: u32,
    use_v2_model_runner: bool,
}

#[derive(Deserialize)]
struct Input {
    requests: Vec<Request>,
    /// Accepted drafts, drawn in order and over again.
    #[serde(default)]
    accept_cycle: Vec<u32>,
}

#[derive(Deserialize)]
struct Request {
    prompt_len: u32,
    output_len: u32,
    arrival: u32,
    #[serde(default)]
    priority: i32,
    /// The first tokens of the prompt that all requests of the same `prefix_id` begin with.
    #[serde(default)]
    shared_prefix: u32,
    prefix_id: Option<u64>,
}

#[derive(Deserialize)]
struct Expected {
    num_preemptions: u64,
    num_steps: usize,
    steps: Vec<Value>,
}

fn options(config: &Config) -> SchedulerOptions {
    SchedulerOptions {
        max_num_seqs: config.max_num_seqs,
        max_num_batched_tokens: config.max_num_batched_tokens,
        max_num_scheduled_tokens: config.max_num_scheduled_tokens,
        max_num_active_seqs: config.max_num_active_seqs,
        max_model_len: config.max_model_len,
        block_size: config.block_size,
        enable_chunked_prefill: config.enable_chunked_prefill,
        async_scheduling: config.async_scheduling,
        long_prefill_token_threshold: config.long_prefill_token_threshold,
        long_prefill_token_threshold_adaptive: config.long_prefill_token_threshold_adaptive,
        prefill_schedule_interval: config.prefill_schedule_interval,
        scheduler_reserve_full_isl: config.scheduler_reserve_full_isl,
        watermark: config.watermark,
        policy: config.policy,
        enable_prefix_caching: config.enable_prefix_caching,
        drafter: drafter(config),
    }
}

fn drafter(config: &Config) -> Drafter {
    config.spec_method.map_or_else(Drafter::default, |method| Drafter { method, ..Drafter::default() })
}

impl Request {
    fn as_new(&self, index: usize) -> NewRequest {
        let plain = NewRequest::plain(RequestId(index as u32), self.prompt_len, self.output_len);
        let segment = |content| Segment { content, end_tokens: self.shared_prefix };
        let shared = self.prefix_id.filter(|_| self.shared_prefix > 0).map(segment);
        NewRequest { priority: self.priority, shared: SharedPrefix::new(shared.as_slice()), ..plain }
    }
}

fn vllm_options(config: &Config, runner: Runner, graphs: GraphOptions) -> VllmOptions {
    VllmOptions {
        version: config.vllm,
        runner: Some(runner),
        scheduler: options(config),
        kv: KvOptions::default(),
        graphs,
    }
}

/// The graphs of both runners on the trace's ladders.
struct Runners {
    v1: GraphPlan,
    v2: GraphPlan,
}

impl Runners {
    fn of(config: &Config) -> Result<Self, String> {
        let plan = |runner, ladder: &[u32]| {
            let graphs = GraphOptions {
                cudagraph_mode: Some(config.cudagraph_mode),
                cudagraph_capture_sizes: Some(ladder.to_vec()),
                num_speculative_tokens: config.num_speculative_tokens,
                ..GraphOptions::default()
            };
            GraphPlan::build(&vllm_options(config, runner, graphs)).map_err(|error| error.to_string())
        };
        Ok(Self { v1: plan(Runner::V1, &config.ladder_v1)?, v2: plan(Runner::V2, &config.ladder_v2)? })
    }
}

/// What a runner dispatches a step to, in the form of the trace.
fn dispatched(plan: &GraphPlan, shape: &StepShape) -> Value {
    let descriptor = plan.dispatch(shape).descriptor;
    json!([descriptor.mode.to_string(), descriptor.tokens, descriptor.requests])
}

/// A trace as the simulated scheduler runs it.
struct Replay {
    steps: Vec<Value>,
    preemptions: u64,
    resolved: Resolved,
}

/// Runs the trace's driver, the engine's loop counted in iterations: add what has arrived; with work, schedule and, if
/// fewer steps than the depth are in flight afterwards, go on to the next iteration; else apply the oldest step.
fn replay(trace: &Trace, stepping: Stepping) -> Result<Replay, String> {
    let runners = Runners::of(&trace.config)?;
    let graphs =
        GraphOptions { num_speculative_tokens: trace.config.num_speculative_tokens, ..GraphOptions::default() };
    let server = vllm_options(&trace.config, Runner::V2, graphs);
    let mut scheduler = Scheduler::new(&server, trace.config.num_gpu_blocks).stepping(stepping);
    let resolved = Resolved {
        max_num_scheduled_tokens: scheduler.token_budget(),
        usable_blocks: scheduler.usable_blocks(),
        watermark_blocks: scheduler.watermark_blocks(),
        max_concurrent_batches: scheduler.depth(),
        num_lookahead_tokens: server.scheduler.drafter.lookahead_tokens(trace.config.num_speculative_tokens),
        draft_slots: server.scheduler.drafter.input_slots(trace.config.num_speculative_tokens),
        use_v2_model_runner: server.runner == Some(Runner::V2),
    };
    let mut arrivals: Vec<usize> = (0..trace.input.requests.len()).collect();
    arrivals.sort_by_key(|&index| trace.input.requests[index].arrival);
    let mut arrivals = arrivals.into_iter().peekable();
    let mut steps = Vec::new();
    let mut in_flight: VecDeque<(usize, StepPlan)> = VecDeque::new();
    let mut outcome = StepOutcome::default();
    let mut cycle = trace.input.accept_cycle.iter().copied().cycle();
    for it in 0..MOST_ITERATIONS {
        while let Some(index) = arrivals.next_if(|&index| trace.input.requests[index].arrival <= it) {
            let request = &trace.input.requests[index];
            scheduler.fits(request.prompt_len).map_err(|refusal| format!("request {index}: {refusal}"))?;
            scheduler.add(&request.as_new(index));
        }
        if scheduler.has_work() {
            let mut plan = StepPlan::default();
            scheduler.schedule(&mut plan);
            let tokens = plan.shape.tokens;
            steps.push(step_record(it, &scheduler, &plan, &runners));
            in_flight.push_back((steps.len() - 1, plan));
            if (in_flight.len() as u32) < scheduler.depth() && (tokens > 0 || scheduler.has_work()) {
                continue;
            }
        }
        if let Some((step, plan)) = in_flight.pop_front() {
            let mut accepted = |_: &Scheduled| cycle.next().expect("a trace with drafts has a cycle of accepted ones");
            scheduler.apply(&plan, &mut accepted, &mut outcome);
            record_output(&mut steps[step], &outcome);
        } else if arrivals.peek().is_none() {
            return Ok(Replay { steps, preemptions: scheduler.preemptions(), resolved });
        }
    }
    Err(format!("not done after {MOST_ITERATIONS} iterations"))
}

/// Adds what the output of a step did, in the form of the trace.
fn record_output(record: &mut Value, outcome: &StepOutcome) {
    let accepted: Vec<[u32; 2]> = outcome.verified.iter().map(|drafts| [drafts.id.0, drafts.accepted]).collect();
    if !accepted.is_empty() {
        record["acc"] = json!(accepted);
    }
    let finished: Vec<u32> = outcome.delivered.iter().filter(|d| d.finished).map(|d| d.id.0).collect();
    if !finished.is_empty() {
        record["fin"] = json!(finished);
    }
    let late: Vec<u32> = outcome.late.iter().map(|id| id.0).collect();
    if !late.is_empty() {
        record["late"] = json!(late);
    }
}

/// A scheduled step in the form of the trace.
fn step_record(it: u32, scheduler: &Scheduler, plan: &StepPlan, runners: &Runners) -> Value {
    let shape = &plan.shape;
    let entries = scheduler.entries(plan);
    let mut record = json!({
        "it": it,
        "sched": entries.iter().map(|entry| [entry.id.0, entry.tokens]).collect::<Vec<_>>(),
        "tok": shape.tokens,
        "nreq": shape.requests,
        "maxq": shape.max_query,
        "uni": u32::from(shape.uniform_v1),
        "run": scheduler.running(),
        "wait": scheduler.waiting(),
        "free": scheduler.free_blocks(),
    });
    if shape.tokens > 0 {
        record["pf"] = json!(u32::from(shape.prefilling));
        record["u2"] = json!(shape.uniform_v2);
        record["v1"] = dispatched(&runners.v1, shape);
        record["v2"] = dispatched(&runners.v2, shape);
    }
    if !plan.preempted.is_empty() {
        // The engine hands them on as a set, which the trace lists in ascending order.
        let preempted: BTreeSet<u32> = plan.preempted.iter().map(|preempted| preempted.id.0).collect();
        record["pre"] = json!(preempted);
    }
    let drafts: Vec<[u32; 2]> =
        entries.iter().filter(|entry| entry.drafts > 0).map(|entry| [entry.id.0, entry.drafts]).collect();
    if !drafts.is_empty() {
        record["spec"] = json!(drafts);
    }
    let chunks: Vec<u32> = entries.iter().filter(|entry| !entry.samples).map(|entry| entry.id.0).collect();
    if !chunks.is_empty() {
        record["chunk"] = json!(chunks);
    }
    record
}

/// The first difference between the trace and its replay. Every field is compared, those that only one side has
/// included.
fn difference(trace: &Trace, replay: &Replay) -> Option<String> {
    if replay.resolved != trace.config.resolved {
        return Some(format!("resolved: {:?}, expected {:?}", replay.resolved, trace.config.resolved));
    }
    for (index, (ours, theirs)) in replay.steps.iter().zip(&trace.expected.steps).enumerate() {
        if ours != theirs {
            return Some(format!("step {index}:\n  ours     {ours}\n  expected {theirs}"));
        }
    }
    let totals = (replay.steps.len(), replay.preemptions);
    let expected = (trace.expected.num_steps, trace.expected.num_preemptions);
    (totals != expected || totals.0 != trace.expected.steps.len())
        .then(|| format!("steps and preemptions {totals:?}, expected {expected:?}"))
}

#[test]
fn scheduler_trace() {
    let Some(lines) = vectors("vllm/scheduler_trace.jsonl") else { return };
    let (mut matched, mut steps) = (0, 0);
    let total = lines.len();
    let mut failures = Vec::new();
    for line in lines {
        let trace: Trace = serde_json::from_value(line).expect("a trace of the golden format");
        let difference = [Stepping::Plain, Stepping::Fast].into_iter().find_map(|stepping| {
            let difference = match replay(&trace, stepping) {
                Ok(replay) => difference(&trace, &replay),
                Err(error) => Some(error),
            };
            difference.map(|difference| format!("{stepping:?}: {difference}"))
        });
        match difference {
            None => {
                matched += 1;
                steps += trace.expected.num_steps;
            }
            Some(difference) => failures.push(format!("{}: {difference}", trace.config.name)),
        }
    }
    println!("vllm/scheduler_trace.jsonl: {matched}/{total}, {steps} steps");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

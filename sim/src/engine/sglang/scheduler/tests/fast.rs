//! Fast steps are the plain walk's, call by call.

use super::*;
use crate::engine::scheduler::QuietSteps;
use crate::engine::shape::StepShape;
use crate::engine::step::{Chunk, Delivered, Preempted, Verified};

/// Every call of a run: what was scheduled, and what its output did.
#[derive(Clone, Debug, PartialEq)]
enum Call {
    Scheduled {
        entries: Vec<Scheduled>,
        preempted: Vec<Preempted>,
        shape: StepShape,
        prefills: Vec<Chunk>,
        decodes: (u32, u64),
        sampled: (u32, u32),
        requests: (u32, u32),
        free_pages: u32,
        ratio: u64,
    },
    /// Deliveries that are neither a request's first nor its last are only counted.
    Applied { verified: Vec<Verified>, late: Vec<RequestId>, ends: Vec<Delivered>, others: u32, free_pages: u32 },
}

/// What a run came to: its calls, tokens that came in lockstep, quiet steps, retractions.
#[derive(Default)]
struct Run {
    calls: Vec<Call>,
    in_lockstep: u64,
    quiet: u64,
    retracted: u64,
}

/// All calls of a load in the engine's loop.
fn calls(load: &Load, stepping: Stepping) -> Run {
    let mut scheduler = scheduler(&load.options, load.memory, &[]).stepping(stepping);
    let width = load.options.decode_width();
    let mut pending: Vec<usize> = (0..load.requests.len()).collect();
    let mut in_flight: VecDeque<StepPlan> = VecDeque::new();
    let mut outcome = StepOutcome::default();
    let mut asked = 0;
    let mut run = Run::default();
    for iteration in 0..100_000 {
        pending.retain(|&index| {
            let arrives = load.requests[index].2 <= iteration;
            if arrives {
                scheduler.add(&load.request(index));
            }
            !arrives
        });
        if scheduler.has_work() {
            let quiet = scheduler.quiet().map(|quiet| (quiet.requests(), quiet.context_tokens()));
            let plan = next(&mut scheduler);
            if let Some(promised) = quiet {
                assert_eq!((plan.lockstep, plan.decode_context_tokens), promised);
                assert!(plan.entries.is_empty() && plan.joined.is_empty() && plan.preempted.is_empty());
                run.quiet += 1;
            }
            run.calls.push(Call::Scheduled {
                entries: scheduler.entries(&plan),
                preempted: plan.preempted.clone(),
                shape: plan.shape,
                prefills: plan.prefills.clone(),
                decodes: (plan.decode_requests, plan.decode_context_tokens),
                sampled: (plan.sampled, plan.drafts),
                requests: (scheduler.running(), scheduler.waiting()),
                free_pages: scheduler.free_blocks(),
                ratio: scheduler.new_token_ratio().to_bits(),
            });
            let tokens = plan.shape.tokens;
            in_flight.push_back(plan);
            if (in_flight.len() as u32) < scheduler.depth() && (tokens > 0 || scheduler.has_work()) {
                continue;
            }
        }
        if let Some(plan) = in_flight.pop_front() {
            let mut accepted = |entry: &Scheduled| {
                asked += 1;
                (asked * 7 + entry.id.0) % width
            };
            scheduler.apply(&plan, &mut accepted, &mut outcome);
            run.in_lockstep += u64::from(outcome.lockstep);
            let is_end = |delivered: &&Delivered| delivered.first || delivered.finished || delivered.tokens != 1;
            let ends: Vec<Delivered> = outcome.delivered.iter().filter(is_end).copied().collect();
            run.calls.push(Call::Applied {
                verified: outcome.verified.clone(),
                late: outcome.late.clone(),
                others: outcome.lockstep + (outcome.delivered.len() - ends.len()) as u32,
                ends,
                free_pages: scheduler.free_blocks(),
            });
        } else if pending.is_empty() {
            break;
        }
    }
    run.retracted = scheduler.preemptions();
    run
}

/// The first call that fast stepping makes differently; the fast run.
fn alike(load: &Load) -> Result<Run, TestCaseError> {
    let (plain, fast) = (calls(load, Stepping::Plain), calls(load, Stepping::Fast));
    prop_assert_eq!((plain.in_lockstep, plain.quiet), (0, 0));
    for (number, (plain, fast)) in plain.calls.iter().zip(&fast.calls).enumerate() {
        prop_assert_eq!(plain, fast, "call {}", number);
    }
    prop_assert_eq!(plain.calls.len(), fast.calls.len());
    Ok(fast)
}

/// The same load on a server that keeps its requests in lockstep.
fn in_lockstep(mut load: Load) -> Load {
    load.options.speculative = None;
    load.options.scheduler.enable_mixed_chunk = false;
    if matches!(load.options.scheduler.output_end, OutputEnd::Eos { .. }) {
        load.options.scheduler.disable_overlap_schedule = true;
    }
    load
}

fn loads() -> impl Strategy<Value = Load> {
    prop_oneof![load(), tiny_load().prop_map(Load::without_refused)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn fast_steps_are_plain_steps(load in loads()) {
        alike(&load)?;
        alike(&in_lockstep(load))?;
    }
}

#[test]
fn random_loads_decode_in_lockstep_and_retract_from_it() {
    // The law above would be worth little if the loads it draws were never in lockstep or never short of pages.
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut tokens, mut quiet, mut retracting) = (0, 0, 0);
    for _ in 0..100 {
        let load = load().new_tree(&mut runner).expect("a load").current();
        let run = alike(&in_lockstep(load)).expect("the law holds");
        tokens += run.in_lockstep;
        quiet += run.quiet;
        retracting += u32::from(run.in_lockstep > 0 && run.retracted > 0);
    }
    assert!(
        tokens > 20_000 && quiet > 2_000 && retracting > 10,
        "{tokens} tokens, {quiet} quiet, {retracting} retract"
    );
}

#[test]
fn an_adapter_that_comes_later_ends_the_lockstep() {
    let requests = [request(0, 10, 40), request(1, 20, 5)];
    let mut scheduler = scheduler(&server(SchedulerOptions::default()), AMPLE, &requests).stepping(Stepping::Fast);
    let mut in_flight = VecDeque::new();
    let mut lockstep = Vec::new();
    for step in 0..12 {
        if step == 8 {
            scheduler.add(&NewRequest { adapter: Some(Adapter(0)), ..request(2, 7, 2) });
        }
        let plan = next(&mut scheduler);
        lockstep.push((plan.lockstep, plan.entries.len(), plan.shape.active_loras));
        in_flight.push_back(plan);
        if in_flight.len() == 2 {
            output(&mut scheduler, &in_flight.pop_front().expect("two are in flight"));
        }
    }
    let decodes = [(0, 2, 0), (2, 0, 0), (2, 0, 0), (2, 0, 0), (1, 0, 0), (1, 0, 0), (1, 0, 0)];
    assert_eq!(lockstep[1..8], decodes, "walked once, then in lockstep");
    assert_eq!(lockstep[8..], [(0, 1, 1), (0, 2, 1), (0, 1, 0), (0, 1, 0)]);
}

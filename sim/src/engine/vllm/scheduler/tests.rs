//! The scheduler as its callers see it: single rules on small loads, and laws over random ones.

use std::collections::{HashMap, VecDeque};

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::*;
use crate::engine::request::RequestId;
use crate::engine::step::{Chunk, Delivered, Preempted, StepOutcome, StepPlan};
use crate::engine::vllm::memory::check_pool;
use crate::engine::vllm::options::{GraphOptions, KvOptions, Runner, SchedulerOptions};

/// A pool that no test runs out of, unless it says so.
const AMPLE: u32 = 10_000;

fn sync_options() -> SchedulerOptions {
    SchedulerOptions { async_scheduling: false, ..SchedulerOptions::default() }
}

fn server(version: Version, scheduler: &SchedulerOptions) -> VllmOptions {
    let graphs = GraphOptions::default();
    VllmOptions { version, runner: Some(Runner::V2), scheduler: scheduler.clone(), kv: KvOptions::default(), graphs }
}

fn request(id: u32, prompt_tokens: u32, output_tokens: u32) -> NewRequest {
    NewRequest::plain(RequestId(id), prompt_tokens, output_tokens)
}

fn scheduler(options: &SchedulerOptions, num_gpu_blocks: u32, requests: &[NewRequest]) -> Scheduler {
    let mut scheduler = Scheduler::new(&server(Version::V0_33_0, options), num_gpu_blocks);
    for request in requests {
        scheduler.add(request);
    }
    scheduler
}

fn next(scheduler: &mut Scheduler) -> StepPlan {
    let mut plan = StepPlan::default();
    scheduler.schedule(&mut plan);
    plan
}

fn output(scheduler: &mut Scheduler, plan: &StepPlan) -> Vec<Delivered> {
    let mut outcome = StepOutcome::default();
    scheduler.apply(plan, &mut |_| 0, &mut outcome);
    outcome.delivered
}

/// Schedules and applies synchronous steps until the engine is idle; the `(request, tokens)` pairs of each.
fn walk(scheduler: &mut Scheduler) -> Vec<Vec<(u32, u32)>> {
    let mut steps = Vec::new();
    while scheduler.running() + scheduler.waiting() > 0 {
        let plan = next(scheduler);
        steps.push(pairs(&plan));
        output(scheduler, &plan);
    }
    steps
}

fn pairs(plan: &StepPlan) -> Vec<(u32, u32)> {
    plan.entries.iter().map(|entry| (entry.id.0, entry.tokens)).collect()
}

#[test]
fn running_requests_take_the_budget_before_waiting_ones() {
    let options = SchedulerOptions { max_num_batched_tokens: 8, ..sync_options() };
    let mut scheduler = scheduler(&options, AMPLE, &[request(0, 6, 3), request(1, 12, 1)]);
    assert_eq!(walk(&mut scheduler), [vec![(0, 6), (1, 2)], vec![(0, 1), (1, 7)], vec![(0, 1), (1, 3)]]);
}

#[test]
fn without_chunked_prefill_a_prompt_waits_for_a_step_that_holds_it() {
    let options = SchedulerOptions {
        max_num_batched_tokens: 12,
        max_model_len: 12,
        enable_chunked_prefill: false,
        ..sync_options()
    };
    let mut scheduler = scheduler(&options, AMPLE, &[request(0, 6, 1), request(1, 11, 1), request(2, 1, 1)]);
    assert_eq!(walk(&mut scheduler), [vec![(0, 6)], vec![(1, 11), (2, 1)]], "nobody overtakes the head of the queue");
}

#[test]
fn the_scheduled_token_budget_may_be_below_the_input_budget() {
    let options = SchedulerOptions { max_num_batched_tokens: 8, max_num_scheduled_tokens: Some(3), ..sync_options() };
    assert_eq!(walk(&mut scheduler(&options, AMPLE, &[request(0, 7, 1)])), [[(0, 3)], [(0, 3)], [(0, 1)]]);
}

#[test]
fn no_more_than_max_num_active_seqs_run() {
    let options = SchedulerOptions { max_num_active_seqs: Some(2), ..sync_options() };
    let requests: Vec<_> = (0..3).map(|id| request(id, 4, 2)).collect();
    let mut scheduler = scheduler(&options, AMPLE, &requests);
    next(&mut scheduler);
    assert_eq!((scheduler.running(), scheduler.waiting()), (2, 1));
}

#[test]
fn the_prefill_interval_is_ignored_by_0_31_0_on_one_rank() {
    let options = SchedulerOptions { prefill_schedule_interval: 3, ..sync_options() };
    let admitted_at = |version| {
        let mut scheduler = Scheduler::new(&server(version, &options), AMPLE);
        scheduler.add(&request(0, 4, 9));
        let plan = next(&mut scheduler);
        output(&mut scheduler, &plan);
        scheduler.add(&request(1, 4, 1));
        (1..9).find(|_| {
            let plan = next(&mut scheduler);
            output(&mut scheduler, &plan);
            plan.entries.len() == 2
        })
    };
    assert_eq!(admitted_at(Version::V0_33_0), Some(3));
    assert_eq!(admitted_at(Version::V0_31_0), Some(1));
}

#[test]
fn the_reservation_admits_only_whole_prompts_and_the_watermark_only_keeps_the_next_ones_out() {
    let options = SchedulerOptions {
        max_num_batched_tokens: 8,
        max_model_len: 32,
        block_size: 1,
        scheduler_reserve_full_isl: false,
        ..sync_options()
    };
    let requests = [request(0, 4, 9), request(1, 30, 1)];
    let admitted = |options: &SchedulerOptions| pairs(&next(&mut scheduler(options, 33, &requests)));
    assert_eq!(admitted(&options), [(0, 4), (1, 4)]);
    let reserving = SchedulerOptions { scheduler_reserve_full_isl: true, ..options.clone() };
    assert_eq!(admitted(&reserving), [(0, 4)], "28 blocks are free, the prompt fills 30");
    let marked = SchedulerOptions { watermark: 0.8, ..options };
    assert_eq!(admitted(&marked), [(0, 4)], "the first request may dip below the 26 blocks of the watermark");
}

#[test]
fn the_last_admitted_request_is_preempted_and_recomputed_with_its_output() {
    let options = SchedulerOptions { max_model_len: 8, block_size: 1, ..sync_options() };
    let mut scheduler = scheduler(&options, 9, &[request(0, 3, 3), request(1, 3, 3)]);
    let steps = walk(&mut scheduler);
    assert_eq!(steps, [vec![(0, 3), (1, 3)], vec![(0, 1), (1, 1)], vec![(0, 1)], vec![(1, 5)]]);
    assert_eq!((scheduler.preemptions(), scheduler.free_blocks()), (1, 8));
}

#[test]
fn as_many_are_preempted_as_one_request_needs_blocks() {
    let options = SchedulerOptions {
        max_num_batched_tokens: 8,
        max_model_len: 8,
        block_size: 1,
        long_prefill_token_threshold: 4,
        scheduler_reserve_full_isl: false,
        ..sync_options()
    };
    let requests = [request(0, 7, 1), request(1, 1, 4), request(2, 1, 4), request(3, 1, 4)];
    let mut scheduler = scheduler(&options, 9, &requests);
    let plan = next(&mut scheduler);
    assert_eq!(pairs(&plan), [(0, 4), (1, 1), (2, 1), (3, 1)]);
    output(&mut scheduler, &plan);
    let plan = next(&mut scheduler);
    assert_eq!(pairs(&plan), [(0, 3)]);
    let preempted: Vec<u32> = plan.preempted.iter().map(|preempted| preempted.id.0).collect();
    assert_eq!(preempted, [3, 2, 1], "two for the first request's blocks, the last one for want of its own");
    assert_eq!((scheduler.preemptions(), scheduler.waiting(), scheduler.free_blocks()), (3, 3, 1));
}

#[test]
fn a_resumed_request_is_prefilling_until_its_output_is_recomputed() {
    let options = SchedulerOptions { max_model_len: 8, block_size: 1, max_num_batched_tokens: 4, ..sync_options() };
    let mut scheduler = scheduler(&options, 9, &[request(0, 2, 4), request(1, 2, 4)]);
    let mut plan = next(&mut scheduler);
    while pairs(&plan) != [(1, 4)] {
        output(&mut scheduler, &plan);
        plan = next(&mut scheduler);
    }
    assert!(plan.shape.prefilling && plan.sampled == 0, "two prompt tokens and the first two of three output tokens");
    output(&mut scheduler, &plan);
    let plan = next(&mut scheduler);
    assert_eq!((plan.entries[0].context_tokens, plan.entries[0].tokens, plan.sampled), (4, 1, 1));
    assert!(plan.shape.prefilling && plan.prefills.is_empty());
}

#[test]
fn deferred_prefills_let_single_token_prompts_pass() {
    let options = SchedulerOptions { prefill_schedule_interval: 5, ..sync_options() };
    let mut scheduler = scheduler(&options, AMPLE, &[request(0, 4, 9)]);
    let plan = next(&mut scheduler);
    output(&mut scheduler, &plan);
    for (id, prompt) in [(1, 1), (2, 2), (3, 1)] {
        scheduler.add(&request(id, prompt, 9));
    }
    assert_eq!(pairs(&next(&mut scheduler)), [(0, 1), (1, 1)], "the head of the queue holds up the one behind it");
}

#[test]
fn a_preempted_request_can_finish_on_output_that_was_in_flight() {
    let options = SchedulerOptions { max_model_len: 8, block_size: 1, ..SchedulerOptions::default() };
    let mut scheduler = scheduler(&options, 9, &[request(0, 3, 5), request(1, 3, 2)]);
    let first = next(&mut scheduler);
    let second = next(&mut scheduler);
    output(&mut scheduler, &first);
    let third = next(&mut scheduler);
    assert_eq!(third.preempted, [Preempted { slot: Slot(1), id: RequestId(1) }]);
    assert_eq!((pairs(&third), scheduler.waiting()), (vec![(0, 1)], 1));
    let delivered = output(&mut scheduler, &second);
    assert_eq!(delivered[1], Delivered { slot: Slot(1), id: RequestId(1), tokens: 1, first: false, finished: true });
    assert_eq!((scheduler.running(), scheduler.waiting(), scheduler.free_blocks()), (1, 0, 3));
}

#[test]
fn a_request_whose_stale_output_is_to_come_is_passed_over() {
    // Three steps in flight, as in a deeper pipeline.
    let options = SchedulerOptions { max_model_len: 20, block_size: 1, ..SchedulerOptions::default() };
    let mut scheduler = scheduler(&options, 21, &[request(0, 8, 12), request(1, 10, 9)]);
    let first = next(&mut scheduler);
    let second = next(&mut scheduler);
    output(&mut scheduler, &first);
    let third = next(&mut scheduler);
    assert_eq!(third.preempted.len(), 1);
    scheduler.add(&request(2, 4, 2));
    assert_eq!(pairs(&next(&mut scheduler)), [(0, 1), (2, 4)]);
    assert_eq!(scheduler.waiting(), 1, "it is back at the head of the queue");
    assert_eq!(output(&mut scheduler, &second).len(), 2, "its token is delivered all the same");
}

#[test]
fn output_is_cut_at_max_model_len() {
    for async_scheduling in [false, true] {
        let options = SchedulerOptions { max_model_len: 10, async_scheduling, ..SchedulerOptions::default() };
        let load = Load { options, num_gpu_blocks: AMPLE, requests: vec![(7, 99, 0), (9, 99, 0), (4, 0, 0)] };
        assert_eq!(run(&load, Version::V0_33_0).expect("the laws hold"), [3, 1, 1]);
    }
}

#[test]
fn prompts_that_leave_no_room_for_output_are_refused() {
    let scheduler = scheduler(&SchedulerOptions { max_model_len: 10, ..sync_options() }, AMPLE, &[]);
    assert_eq!(scheduler.fits(9), Ok(()));
    assert_eq!(scheduler.fits(0), Err(Refusal::EmptyPrompt));
    assert_eq!(
        scheduler.fits(10).expect_err("no room for output").to_string(),
        "a prompt of 10 tokens and 1 output token exceed max_model_len = 10: shorten the prompt or raise max_model_len"
    );
}

#[test]
fn one_token_prompts_are_uniform_for_runner_v1_only() {
    let mut scheduler = scheduler(&sync_options(), AMPLE, &[request(0, 1, 2), request(1, 1, 2)]);
    let plan = next(&mut scheduler);
    assert!(plan.shape.uniform_v1 && plan.shape.prefilling);
    assert_eq!((plan.shape.uniform_v2, plan.prefills.len()), (None, 2));
    output(&mut scheduler, &plan);
    let plan = next(&mut scheduler);
    assert!(plan.shape.uniform_v1 && !plan.shape.prefilling);
    assert_eq!((plan.shape.uniform_v2, plan.decode_requests, plan.decode_context_tokens), (Some(1), 2, 4));
}

#[test]
fn the_last_single_token_of_a_prompt_counts_as_a_decode() {
    let options = SchedulerOptions { max_num_batched_tokens: 4, ..sync_options() };
    let mut scheduler = scheduler(&options, AMPLE, &[request(0, 5, 1)]);
    let plan = next(&mut scheduler);
    assert_eq!((plan.prefills[0], plan.sampled), (Chunk { tokens: 4, context: 0 }, 0));
    output(&mut scheduler, &plan);
    let plan = next(&mut scheduler);
    assert!(plan.shape.prefilling && plan.prefills.is_empty());
    assert_eq!((plan.shape.uniform_v2, plan.decode_context_tokens, plan.sampled), (Some(1), 5, 1));
}

#[test]
fn a_finish_is_reported_by_one_more_step() {
    let mut scheduler = scheduler(&sync_options(), AMPLE, &[request(0, 4, 1)]);
    let plan = next(&mut scheduler);
    output(&mut scheduler, &plan);
    assert!(scheduler.has_work() && scheduler.running() + scheduler.waiting() == 0);
    assert!(next(&mut scheduler).entries.is_empty());
    assert!(!scheduler.has_work());
}

#[test]
fn slots_are_bounded_by_live_requests() {
    let mut scheduler = scheduler(&sync_options(), AMPLE, &[]);
    for id in 0..100 {
        assert!(scheduler.add(&request(id, 4, 2)).0 < 3);
        if scheduler.running() + scheduler.waiting() == 3 {
            walk(&mut scheduler);
        }
    }
}

/// A random load: `(prompt, output, arrival)` per request, lengths in tokens, arrivals in iterations.
#[derive(Clone, Debug)]
struct Load {
    options: SchedulerOptions,
    num_gpu_blocks: u32,
    requests: Vec<(u32, u32, u32)>,
}

prop_compose! {
    fn options()(
        (max_model_len, block_size, max_num_seqs, max_num_batched_tokens) in (2u32..160, 1u32..20, 1u32..12, 1u32..128),
        max_num_active_seqs in prop::option::of(1u32..8),
        max_num_scheduled_tokens in prop::option::weighted(0.2, 1u32..64),
        (enable_chunked_prefill, async_scheduling, scheduler_reserve_full_isl) in any::<(bool, bool, bool)>(),
        long_prefill_token_threshold in prop_oneof![Just(0u32), 1u32..40],
        long_prefill_token_threshold_adaptive in any::<bool>(),
        prefill_schedule_interval in 1u32..6,
        watermark in prop_oneof![Just(0.0), 0.0..0.4],
    ) -> SchedulerOptions {
        // Without chunks the engine starts only if the budget holds the longest prompt.
        let shortest_budget = if enable_chunked_prefill { 1 } else { max_model_len };
        SchedulerOptions {
            max_num_seqs,
            max_num_batched_tokens: max_num_batched_tokens.max(shortest_budget),
            max_num_scheduled_tokens: max_num_scheduled_tokens.map(|tokens| tokens.max(shortest_budget)),
            max_num_active_seqs,
            max_model_len,
            block_size,
            enable_chunked_prefill,
            async_scheduling,
            long_prefill_token_threshold,
            long_prefill_token_threshold_adaptive,
            prefill_schedule_interval,
            scheduler_reserve_full_isl,
            watermark,
            ..SchedulerOptions::default()
        }
    }
}

prop_compose! {
    fn load()(options in options())(
        // From a pool that one long request fills to one that holds three.
        spare_blocks in 0..=2 * options.max_model_len.div_ceil(options.block_size),
        requests in prop::collection::vec((1..options.max_model_len, 0u32..60, 0u32..80), 1..25),
        options in Just(options),
    ) -> Load {
        let num_gpu_blocks = 1 + options.max_model_len.div_ceil(options.block_size) + spare_blocks;
        Load { options, num_gpu_blocks, requests }
    }
}

/// What the plans and outcomes say about each request, to be checked against the scheduler and its options.
#[derive(Default)]
struct Ledger {
    computed: HashMap<RequestId, u32>,
    delivered: HashMap<RequestId, u32>,
    finished: usize,
    added: usize,
}

impl Ledger {
    fn check_plan(&mut self, scheduler: &Scheduler, plan: &StepPlan) -> Result<(), TestCaseError> {
        for preempted in &plan.preempted {
            self.computed.insert(preempted.id, 0);
        }
        let mut recount = StepPlan { preempted: plan.preempted.clone(), ..StepPlan::default() };
        let mut scheduled = Vec::new();
        for &entry in &plan.entries {
            prop_assert!(entry.tokens > 0);
            let computed = self.computed.entry(entry.id).or_default();
            prop_assert_eq!(entry.context_tokens, *computed, "no token is skipped or computed twice");
            *computed += entry.tokens;
            scheduled.push(entry.id);
            recount.push(entry, false);
        }
        recount.shape.prefilling = plan.shape.prefilling;
        recount.close(scheduler.rules.drafting.uniform_query());
        prop_assert_eq!(recount.shape, plan.shape);
        prop_assert!(plan.shape.prefilling || plan.prefills.is_empty());
        prop_assert!(plan.shape.tokens <= scheduler.token_budget());
        scheduled.sort_unstable();
        scheduled.dedup();
        prop_assert_eq!(scheduled.len(), plan.entries.len(), "a request is scheduled once a step");
        prop_assert!(scheduler.running.len() <= scheduler.rules.max_running);
        self.check_totals(scheduler)
    }

    fn check_outcome(&mut self, scheduler: &Scheduler, outcome: &StepOutcome) -> Result<(), TestCaseError> {
        for delivered in &outcome.delivered {
            let count = self.delivered.entry(delivered.id).or_default();
            prop_assert_eq!(delivered.first, *count == 0);
            *count += delivered.tokens;
            self.finished += usize::from(delivered.finished);
        }
        self.check_totals(scheduler)
    }

    /// Laws 1 and 5.
    fn check_totals(&self, scheduler: &Scheduler) -> Result<(), TestCaseError> {
        let live = || scheduler.running.iter().copied().chain(scheduler.waiting.slots());
        prop_assert_eq!(self.finished + live().count(), self.added);
        let mut slots: Vec<Slot> = live().collect();
        slots.sort_unstable();
        slots.dedup();
        prop_assert_eq!(slots.len(), live().count(), "nobody is in two places");
        for slot in live() {
            let request = &scheduler.requests[slot];
            prop_assert_eq!(request.held.blocks(), scheduler.pool.blocks_for(request.computed));
        }
        let held: u32 = live().map(|slot| scheduler.requests[slot].held.blocks()).sum();
        prop_assert_eq!(held + scheduler.free_blocks(), scheduler.usable_blocks());
        Ok(())
    }
}

/// Runs a load to its end in the engine's loop, checking every call, and returns the tokens delivered per request.
fn run(load: &Load, version: Version) -> Result<Vec<u32>, TestCaseError> {
    prop_assert_eq!(check_pool(&load.options, load.num_gpu_blocks), Ok(()));
    let mut scheduler = Scheduler::new(&server(version, &load.options), load.num_gpu_blocks);
    let mut ledger = Ledger::default();
    let mut pending: Vec<usize> = (0..load.requests.len()).collect();
    let mut in_flight: VecDeque<StepPlan> = VecDeque::new();
    let mut outcome = StepOutcome::default();
    for iteration in 0..200_000 {
        pending.retain(|&index| {
            let (prompt, output, arrival) = load.requests[index];
            if arrival <= iteration {
                scheduler.add(&request(index as u32, prompt, output));
                ledger.added += 1;
            }
            arrival > iteration
        });
        if scheduler.has_work() {
            let plan = next(&mut scheduler);
            ledger.check_plan(&scheduler, &plan)?;
            let tokens = plan.shape.tokens;
            in_flight.push_back(plan);
            if (in_flight.len() as u32) < scheduler.depth() && (tokens > 0 || scheduler.has_work()) {
                continue;
            }
        }
        if let Some(plan) = in_flight.pop_front() {
            scheduler.apply(&plan, &mut |_| 0, &mut outcome);
            ledger.check_outcome(&scheduler, &outcome)?;
        } else if pending.is_empty() {
            prop_assert_eq!(ledger.finished, load.requests.len());
            prop_assert_eq!(scheduler.free_blocks(), scheduler.usable_blocks());
            let delivered = |index: usize| ledger.delivered.get(&RequestId(index as u32)).copied().unwrap_or(0);
            return Ok((0..load.requests.len()).map(delivered).collect());
        }
    }
    Err(TestCaseError::fail("the load does not end"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_request_gets_its_tokens_once_in_either_stepping(
        load in load(),
        version in prop_oneof![Just(Version::V0_31_0), Just(Version::V0_33_0)],
    ) {
        let model_len = load.options.max_model_len;
        let asked: Vec<u32> =
            load.requests.iter().map(|&(prompt, output, _)| output.max(1).min(model_len - prompt)).collect();
        prop_assert_eq!(run(&load, version)?, asked.clone());
        let mut other = load;
        other.options.async_scheduling = !other.options.async_scheduling;
        prop_assert_eq!(run(&other, version)?, asked);
    }
}

#[test]
fn random_loads_do_preempt() {
    // The laws above would be worth little if the pools they draw were never short.
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let preempting = (0..100)
        .filter(|_| {
            let load = load().new_tree(&mut runner).expect("a load").current();
            let mut scheduler = Scheduler::new(&server(Version::V0_33_0, &load.options), load.num_gpu_blocks);
            for (index, &(prompt, output, _)) in load.requests.iter().enumerate() {
                scheduler.add(&request(index as u32, prompt, output));
            }
            while scheduler.has_work() {
                let plan = next(&mut scheduler);
                output(&mut scheduler, &plan);
            }
            scheduler.preemptions() > 0
        })
        .count();
    assert!(preempting >= 20, "{preempting} of 100 loads preempt");
}

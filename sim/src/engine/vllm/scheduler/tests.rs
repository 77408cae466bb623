//! The scheduler as its callers see it: single rules on small loads, and laws over random ones.

use super::*;
use crate::engine::request::{RequestId, Segment, SharedPrefix};
use crate::engine::step::{Chunk, Delivered, Preempted, StepOutcome, StepPlan};
use crate::engine::vllm::options::{Drafter, GraphOptions, KvOptions, Runner, SchedulerOptions, SpeculativeMethod};

/// A pool that no test runs out of, unless it says so.
const AMPLE: u32 = 10_000;

/// Without the prefix cache, so that a preempted request starts from nothing.
fn plain_options() -> SchedulerOptions {
    SchedulerOptions { enable_prefix_caching: false, ..uncached_options() }
}

/// Without a prefix cache a preempted request finds nothing again.
fn uncached_options() -> SchedulerOptions {
    SchedulerOptions { enable_prefix_caching: false, ..SchedulerOptions::default() }
}

fn sync_options() -> SchedulerOptions {
    SchedulerOptions { async_scheduling: false, ..plain_options() }
}

fn server(version: Version, scheduler: &SchedulerOptions) -> VllmOptions {
    let graphs = GraphOptions::default();
    VllmOptions { version, runner: Some(Runner::V2), scheduler: scheduler.clone(), kv: KvOptions::default(), graphs }
}

fn request(id: u32, prompt_tokens: u32, output_tokens: u32) -> NewRequest {
    NewRequest::plain(RequestId(id), prompt_tokens, output_tokens)
}

/// The plain walk, which lists every request of a step; that fast steps are the same is a law of its own.
fn plain(options: &VllmOptions, num_gpu_blocks: u32) -> Scheduler {
    Scheduler::new(options, num_gpu_blocks).stepping(Stepping::Plain)
}

fn scheduler(options: &SchedulerOptions, num_gpu_blocks: u32, requests: &[NewRequest]) -> Scheduler {
    let mut scheduler = plain(&server(Version::V0_33_0, options), num_gpu_blocks);
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
        let mut scheduler = plain(&server(version, &options), AMPLE);
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
    let options = SchedulerOptions { max_model_len: 8, block_size: 1, ..plain_options() };
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
    let options = SchedulerOptions { max_model_len: 20, block_size: 1, ..plain_options() };
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

/// A server with `drafts` drafts per request.
fn drafting_server(method: SpeculativeMethod, drafts: u32, options: &SchedulerOptions) -> VllmOptions {
    let scheduler = SchedulerOptions { drafter: Drafter { method, ..Drafter::default() }, ..options.clone() };
    let mut server = server(Version::V0_33_0, &scheduler);
    server.graphs.num_speculative_tokens = drafts;
    server
}

/// Applies a step of which every entry gets `accepted` drafts.
fn output_accepting(scheduler: &mut Scheduler, plan: &StepPlan, accepted: u32) -> StepOutcome {
    let mut outcome = StepOutcome::default();
    scheduler.apply(plan, &mut |_| accepted, &mut outcome);
    outcome
}

#[test]
fn accepted_drafts_are_delivered_and_rejected_ones_computed_again() {
    let mut scheduler = plain(&drafting_server(SpeculativeMethod::Ngram, 3, &sync_options()), AMPLE);
    scheduler.add(&request(0, 4, 6));
    let plan = next(&mut scheduler);
    assert_eq!((pairs(&plan), plan.drafts), (vec![(0, 4)], 0));
    output(&mut scheduler, &plan);
    let plan = next(&mut scheduler);
    assert_eq!((plan.entries[0].tokens, plan.entries[0].drafts, plan.entries[0].context_tokens), (4, 3, 4));
    assert_eq!((plan.shape.uniform_v1, plan.shape.uniform_v2), (true, Some(4)));
    assert_eq!((plan.decode_requests, plan.decode_context_tokens, plan.sampled, plan.drafts), (1, 8, 1, 3));
    let outcome = output_accepting(&mut scheduler, &plan, 1);
    assert_eq!((outcome.delivered[0].tokens, outcome.verified[0].accepted), (2, 1));
    let plan = next(&mut scheduler);
    assert_eq!(plan.entries[0].context_tokens, 6, "two of the three drafts are gone");
    let outcome = output_accepting(&mut scheduler, &plan, 99);
    assert_eq!(outcome.verified[0].accepted, 3, "no more than there were");
    assert!(outcome.delivered[0].finished);
    assert_eq!(outcome.delivered[0].tokens, 3, "the fourth is beyond the end");
}

#[test]
fn a_finished_request_can_be_in_one_more_step() {
    let options = plain_options();
    let mut scheduler = plain(&drafting_server(SpeculativeMethod::Ngram, 3, &options), AMPLE);
    scheduler.add(&request(0, 4, 5));
    let first = next(&mut scheduler);
    let second = next(&mut scheduler);
    output(&mut scheduler, &first);
    let third = next(&mut scheduler);
    assert!(output_accepting(&mut scheduler, &second, 3).delivered[0].finished);
    assert_eq!(pairs(&third), [(0, 4)]);
    // Its slot is free, and somebody else may be there when the step comes back.
    assert_eq!(scheduler.add(&request(1, 4, 5)), Slot(0));
    let outcome = output_accepting(&mut scheduler, &third, 3);
    assert_eq!((outcome.late, outcome.delivered.len(), outcome.verified.len()), (vec![RequestId(0)], 0, 1));
    assert_eq!(scheduler.waiting(), 1);
}

#[test]
fn one_token_prompts_join_verifying_requests_with_placeholder_drafts() {
    let mut scheduler = plain(&drafting_server(SpeculativeMethod::Ngram, 2, &sync_options()), AMPLE);
    scheduler.add(&request(0, 4, 9));
    let plan = next(&mut scheduler);
    output(&mut scheduler, &plan);
    scheduler.add(&request(1, 1, 9));
    let plan = next(&mut scheduler);
    assert_eq!(pairs(&plan), [(0, 3), (1, 3)]);
    assert!(plan.shape.uniform_v1 && plan.shape.uniform_v2.is_none());
    let mut asked = Vec::new();
    let mut outcome = StepOutcome::default();
    scheduler.apply(
        &plan,
        &mut |entry| {
            asked.push(entry.id);
            2
        },
        &mut outcome,
    );
    assert_eq!((asked, outcome.delivered[1].tokens), (vec![RequestId(0)], 1));
    assert_eq!(next(&mut scheduler).entries[1].context_tokens, 1);
}

#[test]
fn a_draft_model_pays_for_its_slots_and_looks_ahead() {
    let options = SchedulerOptions { max_num_batched_tokens: 8, block_size: 4, ..sync_options() };
    let mut scheduler = plain(&drafting_server(SpeculativeMethod::DraftModel, 2, &options), AMPLE);
    scheduler.add(&request(0, 3, 9));
    scheduler.add(&request(1, 9, 9));
    let plan = next(&mut scheduler);
    assert_eq!(pairs(&plan), [(0, 3), (1, 3)], "a slot for each of them");
    assert_eq!(scheduler.usable_blocks() - scheduler.free_blocks(), 4, "blocks for two tokens more");
}

#[test]
fn a_schedule_of_drafts_follows_the_batch_of_the_step_before() {
    for async_scheduling in [false, true] {
        let options = SchedulerOptions { async_scheduling, ..plain_options() };
        let mut server = drafting_server(SpeculativeMethod::Ngram, 4, &options);
        server.graphs.dynamic_sd_schedule = Some(vec![(1, 1, 4), (2, 2, 1), (3, 256, 0)]);
        let mut scheduler = plain(&server, AMPLE);
        let mut drafts = Vec::new();
        for id in 0..3 {
            scheduler.add(&request(id, 4, 30));
            let plan = next(&mut scheduler);
            drafts.push(plan.drafts);
            output_accepting(&mut scheduler, &plan, 0);
        }
        let plan = next(&mut scheduler);
        drafts.push(plan.drafts);
        assert_eq!(drafts, [0, 4, 2, 0], "asynchronous: {async_scheduling}");
    }
}

#[test]
fn the_most_urgent_request_is_served_and_the_least_urgent_pays() {
    let options = SchedulerOptions {
        max_model_len: 8,
        block_size: 1,
        max_num_seqs: 2,
        policy: SchedulingPolicy::Priority,
        ..sync_options()
    };
    let with_priority = |id, priority| NewRequest { priority, ..request(id, 3, 4) };
    let requests = [with_priority(0, 5), with_priority(1, 1), with_priority(2, 1)];
    let mut scheduler = scheduler(&options, 9, &requests);
    let plan = next(&mut scheduler);
    assert_eq!(pairs(&plan), [(1, 3), (2, 3)]);
    output(&mut scheduler, &plan);
    let plan = next(&mut scheduler);
    assert_eq!(pairs(&plan), [(1, 1), (2, 1)]);
    output(&mut scheduler, &plan);
    let plan = next(&mut scheduler);
    assert_eq!((pairs(&plan), plan.preempted.len()), (vec![(1, 1)], 1), "of equals the later one");
}

#[test]
fn a_victim_that_was_scheduled_already_gives_its_tokens_back() {
    for version in [Version::V0_31_0, Version::V0_33_0] {
        let options =
            SchedulerOptions { max_model_len: 9, block_size: 1, policy: SchedulingPolicy::Priority, ..sync_options() };
        let mut scheduler = plain(&server(version, &options), 11);
        scheduler.add(&NewRequest { priority: 2, ..request(0, 3, 4) });
        let plan = next(&mut scheduler);
        output(&mut scheduler, &plan);
        scheduler.add(&NewRequest { priority: 1, ..request(1, 5, 4) });
        let plan = next(&mut scheduler);
        assert_eq!(pairs(&plan), [(0, 1), (1, 5)]);
        output(&mut scheduler, &plan);
        let plan = next(&mut scheduler);
        assert_eq!((pairs(&plan), plan.shape.tokens, plan.preempted[0].id), (vec![(1, 1)], 1, RequestId(0)));
        output(&mut scheduler, &plan);
        assert_eq!(scheduler.requests[Slot(0)].in_flight, 0);
    }
}

#[test]
fn a_request_preempted_for_want_of_its_own_blocks_stops_0_31_0_only() {
    let options =
        SchedulerOptions { max_model_len: 8, block_size: 4, policy: SchedulingPolicy::Priority, ..sync_options() };
    for (version, scheduled) in [(Version::V0_31_0, vec![]), (Version::V0_33_0, vec![(1, 1)])] {
        let mut scheduler = plain(&server(version, &options), 3);
        for (id, prompt, priority) in [(0, 3, 2), (1, 2, 1)] {
            scheduler.add(&NewRequest { priority, ..request(id, prompt, 4) });
            let plan = next(&mut scheduler);
            output(&mut scheduler, &plan);
        }
        // The first request lacks a block for its next token, the second one does not.
        let plan = next(&mut scheduler);
        assert_eq!((pairs(&plan), plan.preempted[0].id), (scheduled, RequestId(0)), "{version}");
    }
}

/// A request whose first `shared_tokens` prompt tokens are those of all others of the same content.
fn sharing(id: u32, prompt: u32, output: u32, content: u64, shared_tokens: u32) -> NewRequest {
    let shared = SharedPrefix::new(&[Segment { content, end_tokens: shared_tokens }]);
    NewRequest { shared, ..request(id, prompt, output) }
}

#[test]
fn a_shared_head_is_computed_once() {
    let options = SchedulerOptions { block_size: 4, enable_prefix_caching: true, ..sync_options() };
    let mut scheduler = scheduler(&options, AMPLE, &[sharing(0, 20, 2, 7, 18), sharing(1, 20, 2, 7, 18)]);
    let plan = next(&mut scheduler);
    assert_eq!(pairs(&plan), [(0, 20), (1, 4)], "in the same step already");
    assert_eq!(plan.prefills[1], Chunk { tokens: 4, context: 16 });
    assert_eq!(scheduler.usable_blocks() - scheduler.free_blocks(), 6);
}

#[test]
fn a_preempted_request_finds_its_own_blocks_again() {
    let options = SchedulerOptions { max_model_len: 8, block_size: 1, enable_prefix_caching: true, ..sync_options() };
    let mut scheduler = scheduler(&options, 9, &[request(0, 3, 3), request(1, 3, 3)]);
    let steps = walk(&mut scheduler);
    // Of the second request's four blocks the first one's last token took the last.
    assert_eq!(steps, [vec![(0, 3), (1, 3)], vec![(0, 1), (1, 1)], vec![(0, 1)], vec![(1, 2)]]);
    assert_eq!((scheduler.preemptions(), scheduler.free_blocks()), (1, 8));
}

#[test]
fn adapters_of_the_step_are_counted_and_limited() {
    let mut server = server(Version::V0_33_0, &sync_options());
    server.graphs.max_loras = Some(2);
    let mut scheduler = plain(&server, AMPLE);
    for (id, adapter) in [(0, Some(4)), (1, None), (2, Some(4)), (3, Some(9)), (4, Some(1)), (5, Some(9))] {
        scheduler.add(&NewRequest { adapter: adapter.map(Adapter), ..request(id, 4, 2) });
    }
    let plan = next(&mut scheduler);
    assert_eq!(pairs(&plan).iter().map(|pair| pair.0).collect::<Vec<_>>(), [0, 1, 2, 3, 5], "the fifth waits");
    assert_eq!((plan.shape.active_loras, scheduler.waiting()), (2, 1));
    output(&mut scheduler, &plan);
    let plan = next(&mut scheduler);
    assert_eq!((plan.entries.len(), plan.shape.active_loras), (5, 2));
    output(&mut scheduler, &plan);
    let plan = next(&mut scheduler);
    assert_eq!((pairs(&plan), plan.shape.active_loras), (vec![(4, 4)], 1));
}

mod laws;

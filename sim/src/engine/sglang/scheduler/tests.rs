//! The scheduler as its callers see it: single rules on small loads, laws over random ones, and a plain oracle.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::*;
use crate::engine::request::{Adapter, RequestId, Segment, SharedPrefix};
use crate::engine::sglang::options::{SchedulerOptions, Speculative, SpeculativeAlgorithm};
use crate::engine::step::{StepOutcome, StepPlan};

mod fast;

/// A pool that no test runs out of, unless it says so.
const AMPLE: ServerMemory = ServerMemory { kv_tokens: 100_000, request_rows: 100 };

/// One step at a time.
fn stepwise() -> SchedulerOptions {
    SchedulerOptions { disable_overlap_schedule: true, ..SchedulerOptions::default() }
}

fn server(scheduler: SchedulerOptions) -> SglangOptions {
    SglangOptions { scheduler, ..SglangOptions::default() }
}

fn request(id: u32, prompt_tokens: u32, output_tokens: u32) -> NewRequest {
    NewRequest::plain(RequestId(id), prompt_tokens, output_tokens)
}

fn scheduler(options: &SglangOptions, memory: ServerMemory, requests: &[NewRequest]) -> Scheduler {
    let chunk = options.scheduler.chunked_prefill_size.unwrap_or(8192);
    assert_eq!(check_memory(options, chunk, memory), Ok(()));
    let mut scheduler = Scheduler::new(options, chunk, memory).stepping(Stepping::Plain);
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

fn output(scheduler: &mut Scheduler, plan: &StepPlan) -> StepOutcome {
    let mut outcome = StepOutcome::default();
    scheduler.apply(plan, &mut |_| 0, &mut outcome);
    outcome
}

fn pairs(plan: &StepPlan) -> Vec<(u32, u32)> {
    plan.entries.iter().map(|entry| (entry.id.0, entry.tokens)).collect()
}

/// Steps the engine's loop until nobody is left; the `(request, tokens)` pairs of each step that has any.
fn walk(scheduler: &mut Scheduler) -> Vec<Vec<(u32, u32)>> {
    let (mut steps, mut in_flight) = (Vec::new(), VecDeque::new());
    while scheduler.has_work() || !in_flight.is_empty() {
        if scheduler.has_work() {
            let plan = next(scheduler);
            if !plan.entries.is_empty() {
                steps.push(pairs(&plan));
            }
            in_flight.push_back(plan);
        }
        if in_flight.len() as u32 >= scheduler.depth() || !scheduler.has_work() {
            output(scheduler, &in_flight.pop_front().expect("a step was just scheduled"));
        }
    }
    steps
}

#[test]
fn prompts_go_before_decodes_and_nobody_rides_along() {
    let options = server(SchedulerOptions { chunked_prefill_size: Some(8), ..stepwise() });
    let mut scheduler = scheduler(&options, AMPLE, &[request(0, 6, 3), request(1, 12, 1)]);
    let steps = walk(&mut scheduler);
    assert_eq!(steps, [vec![(0, 6), (1, 2)], vec![(1, 8)], vec![(1, 2)], vec![(0, 1)], vec![(0, 1)]]);
}

#[test]
fn decode_rows_ride_along_with_mixed_chunks_and_count_against_the_chunk() {
    let options = server(SchedulerOptions { chunked_prefill_size: Some(8), enable_mixed_chunk: true, ..stepwise() });
    let mut scheduler = scheduler(&options, AMPLE, &[request(0, 6, 3), request(1, 12, 1)]);
    let steps = walk(&mut scheduler);
    assert_eq!(steps, [vec![(0, 6), (1, 2)], vec![(1, 7), (0, 1)], vec![(1, 3), (0, 1)]]);
}

#[test]
fn log_probabilities_keep_decode_rows_out() {
    let scheduler_options = SchedulerOptions {
        chunked_prefill_size: Some(8),
        enable_mixed_chunk: true,
        return_logprob: true,
        ..stepwise()
    };
    let mut scheduler = scheduler(&server(scheduler_options), AMPLE, &[request(0, 6, 2), request(1, 12, 1)]);
    assert_eq!(walk(&mut scheduler), [vec![(0, 6), (1, 2)], vec![(1, 8)], vec![(1, 2)], vec![(0, 1)]]);
}

#[test]
fn a_chunk_is_cut_to_whole_pages() {
    let options = server(SchedulerOptions { chunked_prefill_size: Some(16), page_size: 4, ..stepwise() });
    let mut scheduler = scheduler(&options, AMPLE, &[request(0, 6, 1), request(1, 30, 1)]);
    assert_eq!(walk(&mut scheduler), [vec![(0, 6), (1, 8)], vec![(1, 16)], vec![(1, 6)]], "6 tokens are charged as 8");
}

#[test]
fn steps_that_compute_prompts_say_so_to_the_dispatcher() {
    let options = server(SchedulerOptions { chunked_prefill_size: Some(8), ..stepwise() });
    let mut scheduler = scheduler(&options, AMPLE, &[request(0, 9, 2)]);
    let mut shapes = Vec::new();
    while scheduler.has_work() {
        let plan = next(&mut scheduler);
        shapes.push((plan.shape.tokens, plan.shape.prefilling, plan.prefills.len(), plan.sampled));
        output(&mut scheduler, &plan);
    }
    assert_eq!(shapes, [(8, true, 1, 0), (1, true, 1, 1), (1, false, 0, 1)]);
}

#[test]
fn overlap_leaves_known_lengths_out_and_runs_one_row_more_for_unknown_ones() {
    let requests = [request(0, 4, 3), request(1, 4, 1)];
    let steps = |scheduler_options| walk(&mut scheduler(&server(scheduler_options), AMPLE, &requests));
    let exact = [vec![(0, 4), (1, 4)], vec![(0, 1)], vec![(0, 1)]];
    assert_eq!(steps(SchedulerOptions::default()), exact);
    assert_eq!(steps(stepwise()), exact);
    let end = OutputEnd::Eos { max_new_tokens: 100 };
    assert_eq!(steps(SchedulerOptions { output_end: end, ..stepwise() }), exact);
    let overlapping = SchedulerOptions { output_end: end, ..SchedulerOptions::default() };
    let extra = [vec![(0, 4), (1, 4)], vec![(0, 1), (1, 1)], vec![(0, 1)], vec![(0, 1)]];
    assert_eq!(steps(overlapping.clone()), extra);
    let mut scheduler = scheduler(&server(overlapping), AMPLE, &requests);
    let (first, second) = (next(&mut scheduler), next(&mut scheduler));
    output(&mut scheduler, &first);
    assert_eq!(output(&mut scheduler, &second).late, [RequestId(1)]);
}

#[test]
fn rows_of_the_request_pool_bound_who_runs() {
    let requests: Vec<_> = (0..3).map(|id| request(id, 4, 2)).collect();
    let memory = ServerMemory { request_rows: 2, ..AMPLE };
    let mut scheduler = scheduler(&server(stepwise()), memory, &requests);
    let steps = walk(&mut scheduler);
    assert_eq!(steps, [vec![(0, 4), (1, 4)], vec![(0, 1), (1, 1)], vec![(2, 4)], vec![(2, 1)]]);
}

#[test]
fn outputs_are_reserved_in_full_on_admission_and_by_the_ratio_afterwards() {
    let memory = ServerMemory { kv_tokens: 64, ..AMPLE };
    let next_is = |output_end| {
        let options = server(SchedulerOptions { output_end, ..stepwise() });
        let mut scheduler = scheduler(&options, memory, &[request(0, 4, 20)]);
        let plan = next(&mut scheduler);
        output(&mut scheduler, &plan);
        scheduler.add(&request(1, 10, 31));
        pairs(&next(&mut scheduler))[0].0
    };
    assert_eq!(next_is(OutputEnd::Length), 1, "10 + 31 and a page are below 60 - 0.7 * 19");
    assert_eq!(next_is(OutputEnd::IgnoreEos), 0, "and not below 60 - 19");
}

#[test]
fn the_shortest_output_is_retracted_first_and_comes_back_last() {
    let options = server(SchedulerOptions { schedule_conservativeness: 0.01, ..stepwise() });
    let memory = ServerMemory { kv_tokens: 150, ..AMPLE };
    let mut scheduler = scheduler(&options, memory, &[request(0, 10, 100)]);
    for _ in 0..2 {
        let plan = next(&mut scheduler);
        output(&mut scheduler, &plan);
    }
    scheduler.add(&request(1, 10, 90));
    let plan = loop {
        let plan = next(&mut scheduler);
        if !plan.preempted.is_empty() {
            break plan;
        }
        output(&mut scheduler, &plan);
    };
    assert_eq!((pairs(&plan), plan.preempted[0].id, scheduler.waiting()), (vec![(0, 1)], RequestId(1), 1));
    let produced = scheduler.requests[scheduler.running[0]].produced();
    let ratio = f64::from(produced + 20) / 101.0;
    assert!((scheduler.new_token_ratio() - ratio).abs() < 1e-12, "{produced} were produced");
    output(&mut scheduler, &plan);
    walk(&mut scheduler);
    assert_eq!(scheduler.free_blocks(), scheduler.usable_blocks());
}

#[test]
fn what_a_step_in_flight_computes_for_a_retracted_request_is_dropped() {
    let options = server(SchedulerOptions { schedule_conservativeness: 0.01, ..SchedulerOptions::default() });
    let memory = ServerMemory { kv_tokens: 40, ..AMPLE };
    let mut scheduler = scheduler(&options, memory, &[request(0, 10, 20)]);
    let mut in_flight = VecDeque::from([next(&mut scheduler)]);
    scheduler.add(&request(1, 10, 17));
    let mut delivered: HashMap<u32, u32> = HashMap::new();
    while let Some(plan) = in_flight.pop_front() {
        if scheduler.has_work() {
            in_flight.push_back(next(&mut scheduler));
        }
        for delivery in output(&mut scheduler, &plan).delivered {
            *delivered.entry(delivery.id.0).or_default() += delivery.tokens;
        }
    }
    assert_eq!((delivered[&0], delivered[&1]), (20, 17));
    assert!(scheduler.preemptions() > 0);
}

#[test]
fn a_shared_prefix_is_computed_once_it_is_cached() {
    let options = server(SchedulerOptions { page_size: 16, ..stepwise() });
    let shared = SharedPrefix::new(&[Segment { content: 7, end_tokens: 100 }]);
    let sharing = |id| NewRequest { shared: shared.clone(), ..request(id, 120, 1) };
    let mut scheduler = scheduler(&options, AMPLE, &[sharing(0), sharing(1)]);
    let plan = next(&mut scheduler);
    assert_eq!(pairs(&plan), [(0, 120), (1, 120)], "nothing is cached before the output is there");
    output(&mut scheduler, &plan);
    scheduler.add(&sharing(2));
    let plan = next(&mut scheduler);
    assert_eq!((pairs(&plan), plan.prefills[0].context), (vec![(2, 24)], 96));
}

#[test]
fn drafts_that_are_not_accepted_are_computed_again() {
    let speculative = Speculative { algorithm: SpeculativeAlgorithm::Eagle, num_draft_tokens: 4 };
    let options = SglangOptions { speculative: Some(speculative), ..server(stepwise()) };
    let mut scheduler = scheduler(&options, AMPLE, &[request(0, 10, 6)]);
    let mut steps = Vec::new();
    while scheduler.has_work() {
        let plan = next(&mut scheduler);
        let mut outcome = StepOutcome::default();
        scheduler.apply(&plan, &mut |_| 2, &mut outcome);
        let entry = plan.entries[0];
        steps.push((entry.tokens, entry.context_tokens, outcome.delivered[0].tokens));
    }
    assert_eq!(steps, [(10, 0, 1), (4, 10, 3), (4, 13, 2)]);
}

#[test]
fn prompts_that_could_never_run_are_refused() {
    let options = server(SchedulerOptions { context_length: 50, page_size: 4, ..stepwise() });
    let fits = |kv_tokens, prompt| scheduler(&options, ServerMemory { kv_tokens, ..AMPLE }, &[]).fits(prompt);
    assert_eq!(fits(1000, 49), Ok(()));
    assert_eq!(fits(1000, 0), Err(Refusal::EmptyPrompt));
    assert_eq!(fits(1000, 50), Err(Refusal::BeyondContext { prompt_tokens: 50, context_length: 50 }));
    assert_eq!(fits(40, 34), Ok(()));
    assert_eq!(fits(40, 35), Err(Refusal::BeyondPool { prompt_tokens: 35, longest: 35 }));
}

fn drafting(num_draft_tokens: u32, scheduler: SchedulerOptions) -> SglangOptions {
    let speculative = Speculative { algorithm: SpeculativeAlgorithm::Eagle, num_draft_tokens };
    SglangOptions { speculative: Some(speculative), ..server(scheduler) }
}

#[test]
fn the_last_tokens_leave_room_for_the_drafts_of_every_step_in_flight() {
    let memory = ServerMemory { kv_tokens: 100, ..AMPLE };
    for (options, longest) in [
        (drafting(5, SchedulerOptions::default()), 92),
        (drafting(5, stepwise()), 97),
        (drafting(16, SchedulerOptions { page_size: 4, ..SchedulerOptions::default() }), 70),
        (drafting(2, SchedulerOptions::default()), 98),
    ] {
        let mut scheduler = scheduler(&options, memory, &[request(0, 20, 1000)]);
        assert!(scheduler.fits(longest - 1).is_ok() && scheduler.fits(longest).is_err(), "{longest}");
        let (mut delivered, mut in_flight) = (0, VecDeque::new());
        for _ in 0..1000 {
            if !scheduler.has_work() {
                break;
            }
            in_flight.push_back(next(&mut scheduler));
            if in_flight.len() as u32 == scheduler.depth() {
                let outcome = output(&mut scheduler, &in_flight.pop_front().expect("one is in flight"));
                delivered += outcome.delivered.iter().map(|delivered| delivered.tokens).sum::<u32>();
            }
        }
        assert_eq!((delivered, scheduler.preemptions()), (longest - 20, 0));
    }
}

#[test]
fn an_idle_server_admits_whoever_fits_whatever_the_cache_holds() {
    // The second prompt is all cached but computes its last token: what it stands on must not count twice.
    let memory = ServerMemory { kv_tokens: 6, ..AMPLE };
    let shared = SharedPrefix::new(&[Segment { content: 1, end_tokens: 2 }]);
    let requests = [0, 1].map(|id| NewRequest { shared: shared.clone(), ..request(id, 2, 2) });
    let mut scheduler = scheduler(&server(stepwise()), memory, &requests);
    assert_eq!(walk(&mut scheduler), [vec![(0, 2)], vec![(0, 1)], vec![(1, 1)], vec![(1, 1)]]);
}

#[test]
fn servers_that_could_serve_nobody_are_refused() {
    let options = server(SchedulerOptions { page_size: 64, ..stepwise() });
    let check = |chunk, kv_tokens| check_memory(&options, chunk, ServerMemory { kv_tokens, ..AMPLE });
    assert_eq!([check(64, 128), check(-1, 128)], [Ok(()), Ok(())]);
    assert!(matches!(check(64, 127), Err(EngineError::PoolTooSmall { tokens: 127, page_size: 64, needed: 66 })));
    assert_eq!(check(32, 128), Err(EngineError::ChunkBelowPage { chunk: 32, page_size: 64 }));
    let check =
        |kv_tokens| check_memory(&drafting(16, SchedulerOptions::default()), 64, ServerMemory { kv_tokens, ..AMPLE });
    assert_eq!(check(32), Ok(()));
    assert_eq!(check(31), Err(EngineError::PoolTooSmall { tokens: 31, page_size: 1, needed: 31 }));
}

/// Random options, a pool, and requests as `(prompt, output, arrival, prefix)`.
#[derive(Clone, Debug)]
struct Load {
    options: SglangOptions,
    memory: ServerMemory,
    requests: Vec<(u32, u32, u32, u8)>,
}

prop_compose! {
    fn options()(
        chunk in prop_oneof![Just(-1_i32), 16_i32..80],
        max_prefill_tokens in 16_u32..200,
        prefill_max_requests in prop::option::weighted(0.2, 1_u32..4),
        page_size in prop::sample::select(vec![1_u32, 4, 16]),
        schedule_conservativeness in 0.01_f64..1.2,
        switches: [bool; 3],
        width in prop_oneof![3 => Just(1_u32), 1 => 2_u32..5, 1 => 5_u32..17],
        output_end in prop_oneof![
            3 => Just(OutputEnd::Length),
            1 => Just(OutputEnd::IgnoreEos),
            1 => (1_u32..80).prop_map(|max_new_tokens| OutputEnd::Eos { max_new_tokens }),
        ],
    ) -> SglangOptions {
        let [enable_mixed_chunk, disable_overlap_schedule, disable_radix_cache] = switches;
        let scheduler = SchedulerOptions {
            chunked_prefill_size: Some(chunk),
            max_prefill_tokens,
            prefill_max_requests,
            page_size,
            schedule_conservativeness,
            enable_mixed_chunk,
            disable_overlap_schedule,
            disable_radix_cache,
            context_length: 200,
            output_end,
            ..SchedulerOptions::default()
        };
        let speculative =
            (width > 1).then_some(Speculative { algorithm: SpeculativeAlgorithm::Eagle, num_draft_tokens: width });
        SglangOptions { speculative, ..server(scheduler) }
    }
}

prop_compose! {
    /// Loads that fit: the pool holds any one request.
    fn load()(
        options in options(),
        kv_tokens in 220_u64..500,
        request_rows in 1_u32..20,
        requests in prop::collection::vec((1_u32..90, 0_u32..150, 0_u32..60, 0_u8..4), 1..20),
    ) -> Load {
        Load { options, memory: ServerMemory { kv_tokens, request_rows }, requests }
    }
}

prop_compose! {
    /// Loads of the smallest servers that start: some prompts are refused and most outputs are cut.
    fn tiny_load()(
        options in options(),
        spare in 1_u64..60,
        request_rows in 1_u32..20,
        requests in prop::collection::vec((1_u32..90, 0_u32..150, 0_u32..60, 0_u8..4), 1..20),
    ) -> Load {
        let page_size = u64::from(options.scheduler.page_size);
        let kv_tokens = (kept_free(&options) + 1 + spare).next_multiple_of(page_size);
        Load { options, memory: ServerMemory { kv_tokens, request_rows }, requests }
    }
}

impl Load {
    /// Prefixes are as long as the prompt at most, as traffic makes them: they end within a segment of longer ones.
    fn request(&self, index: usize) -> NewRequest {
        let (prompt, output, _, prefix) = self.requests[index];
        let ends: &[(u64, u32)] = match prefix {
            1 => &[(1, 21)],
            2 => &[(1, 21), (2, 70)],
            3 => &[(3, 90)],
            _ => &[],
        };
        let mut segments: Vec<Segment> = Vec::new();
        for &(content, end) in ends {
            if segments.last().is_none_or(|before| before.end_tokens < prompt) {
                segments.push(Segment { content, end_tokens: end.min(prompt) });
            }
        }
        NewRequest { shared: SharedPrefix::new(&segments), ..request(index as u32, prompt, output) }
    }

    /// The most tokens of a request, prompt and output.
    fn longest(&self) -> u32 {
        let SchedulerOptions { page_size, context_length, .. } = self.options.scheduler;
        let pool = self.memory.kv_tokens as u32 / page_size * page_size;
        (pool - kept_free(&self.options) as u32).min(context_length)
    }

    /// Leaves out the prompts that the engine refuses.
    fn without_refused(mut self) -> Self {
        let longest = self.longest();
        self.requests.retain(|&(prompt, ..)| prompt < longest);
        self
    }

    /// The tokens that a request asks for.
    fn wanted(&self, index: usize) -> u32 {
        let (prompt, output, ..) = self.requests[index];
        let most = match self.options.scheduler.output_end {
            OutputEnd::Eos { max_new_tokens } => max_new_tokens,
            _ => u32::MAX,
        };
        output.max(1).min(most).min(self.longest() - prompt)
    }
}

/// What the plain oracle expects of the next step.
#[derive(Debug, PartialEq, Eq)]
struct Expected {
    prefill: bool,
    entries: Vec<(u32, u32)>,
    retracted: Vec<u32>,
}

/// The rules once more without increments: every sum is made anew from the requests. Without the prefix cache, for
/// lengths that may end early.
struct Oracle<'a> {
    scheduler: &'a Scheduler,
    running: Vec<&'a Request>,
    leaving: u32,
}

impl<'a> Oracle<'a> {
    fn of(scheduler: &'a Scheduler) -> Self {
        let known = scheduler.rules.depth > 1 && scheduler.rules.end == OutputEnd::Length;
        let all = scheduler.running.iter().map(|&slot| &scheduler.requests[slot]);
        let running: Vec<&Request> =
            all.filter(|request| !known || request.known + request.pending < request.limit).collect();
        let dropped = scheduler.running.len() - running.len();
        Self { scheduler, running, leaving: scheduler.leaving + dropped as u32 }
    }

    fn page(&self) -> u32 {
        self.scheduler.pool.page_size()
    }

    fn reserved(request: &Request) -> u32 {
        (request.max_new - (request.known - request.prompt)).min(4096)
    }

    fn prefill(&self) -> Option<Vec<(&'a Request, u32)>> {
        let Scheduler { rules, waiting, chunked, .. } = self.scheduler;
        let full = self.scheduler.batch_is_full && self.leaving == self.scheduler.leaving;
        let free_rows = rules.request_rows.saturating_sub(self.running.len() as u32 + self.leaving) as usize;
        if chunked.is_none() && (full || waiting.is_empty() || free_rows == 0) {
            return None;
        }
        let page = self.page();
        let ceil = |tokens: u32| i64::from(tokens.div_ceil(page) * page);
        let pool = i64::from(self.scheduler.pool.available() * page);
        let riders = if rules.mixed { i64::from(self.running.len() as u32) } else { 0 };
        let ratio = self.scheduler.ratio.current();
        let outputs: f64 = self.running.iter().map(|request| f64::from(Self::reserved(request)) * ratio).sum();
        let mut taken: Vec<(&Request, u32)> = Vec::new();
        let left = |taken: &[(&Request, u32)], with_outputs: bool| {
            let mut used = riders as f64 + if with_outputs { outputs } else { 0.0 };
            for &(request, tokens) in taken {
                let ends = request.computed + tokens == request.known;
                let output = if ends && with_outputs { Self::reserved(request) } else { 0 };
                used += (ceil(tokens) + i64::from(output) + i64::from(page)) as f64;
            }
            pool as f64 - used
        };
        let spent = |taken: &[(&Request, u32)]| riders + taken.iter().map(|&(_, tokens)| ceil(tokens)).sum::<i64>();
        let chunk = rules.limits.chunked_prefill_size.map(i64::from);
        if let Some(slot) = *chunked {
            let request = &self.scheduler.requests[slot];
            let budget = chunk.expect("chunks need chunking") - riders;
            let most = if left(&[], true) as i64 > 0 { budget.min(left(&[], true) as i64) } else { budget };
            let held = i64::from(request.held.pages() * page) + pool;
            let tokens = most.min(held - i64::from(request.computed)).min(i64::from(request.known - request.computed));
            if tokens <= 0 {
                return None;
            }
            taken.push((request, tokens as u32));
        }
        for &slot in waiting {
            let request = &self.scheduler.requests[slot];
            let input_spent = spent(&taken) >= i64::from(rules.limits.max_prefill_tokens);
            let budget_spent = input_spent || chunk.is_some_and(|chunk| spent(&taken) >= chunk);
            let no_token = left(&taken, true) <= 0.0 || left(&taken, false) <= 0.0;
            if no_token || budget_spent || taken.len() >= free_rows {
                break;
            }
            if rules.limits.prefill_max_requests.is_some_and(|most| taken.len() >= most as usize) {
                break;
            }
            let whole = i64::from(request.known) + i64::from(Self::reserved(request)) + i64::from(page);
            if whole as f64 >= left(&taken, true) {
                break;
            }
            let input_left = i64::from(rules.limits.max_prefill_tokens) - spent(&taken);
            match chunk {
                None if !taken.is_empty() && ceil(request.known) >= input_left => break,
                Some(chunk) if ceil(request.known) > chunk - spent(&taken) => {
                    let cut = (chunk - spent(&taken)) / i64::from(page) * i64::from(page);
                    taken.extend((cut > 0).then_some((request, cut as u32)));
                    break;
                }
                _ => taken.push((request, request.known)),
            }
        }
        (!taken.is_empty()).then_some(taken)
    }

    fn decode_pages(&self, requests: &[&Request]) -> u32 {
        let width = self.scheduler.rules.width;
        requests
            .iter()
            .map(|request| (request.computed + width).div_ceil(self.page()).saturating_sub(request.held.pages()))
            .sum()
    }

    fn expected(&self) -> Expected {
        let width = self.scheduler.rules.width;
        let mut free = self.scheduler.pool.available();
        if let Some(taken) = self.prefill() {
            let mut entries: Vec<(u32, u32)> = taken.iter().map(|&(request, tokens)| (request.id.0, tokens)).collect();
            for (request, tokens) in taken {
                free -= (request.computed + tokens).div_ceil(self.page()) - request.held.pages();
            }
            if self.scheduler.rules.mixed && self.decode_pages(&self.running) <= free {
                entries.extend(self.running.iter().map(|request| (request.id.0, width)));
            }
            return Expected { prefill: true, entries, retracted: Vec::new() };
        }
        let mut order = self.running.clone();
        order.sort_by_key(|request| (Reverse(request.known - request.prompt), request.prompt));
        let mut retracted = Vec::new();
        let mut chunk = self.scheduler.chunked.map(|slot| &self.scheduler.requests[slot]);
        while self.decode_pages(&order) > free {
            let chunk = if order.len() == 1 { chunk.take() } else { None };
            let request = chunk.or_else(|| order.pop()).expect("nobody needs no page");
            free += request.held.pages();
            retracted.push(request.id.0);
        }
        let stays = |request: &&&Request| !retracted.contains(&request.id.0);
        let entries = self.running.iter().filter(stays).map(|request| (request.id.0, width)).collect();
        Expected { prefill: false, entries, retracted }
    }
}

/// What the plans and outcomes say about each request, to be checked against the scheduler.
#[derive(Default)]
struct Ledger {
    computed: HashMap<RequestId, u32>,
    delivered: HashMap<RequestId, u32>,
    finished: usize,
    added: usize,
    prefilled: u64,
    retracted: u64,
}

impl Ledger {
    fn check_plan(&mut self, scheduler: &Scheduler, plan: &StepPlan, width: u32) -> Result<(), TestCaseError> {
        let mut recount = StepPlan { preempted: plan.preempted.clone(), ..StepPlan::default() };
        let mut ids: Vec<RequestId> = plan.entries.iter().map(|entry| entry.id).collect();
        for &entry in &plan.entries {
            prop_assert!(entry.tokens > 0);
            prop_assert!(plan.shape.prefilling || !entry.prefill, "only steps that compute prompts hold prefills");
            recount.push(entry, entry.prefill);
        }
        recount.close(width);
        prop_assert_eq!(recount.shape, plan.shape);
        ids.sort_unstable();
        ids.dedup();
        prop_assert_eq!(ids.len(), plan.entries.len(), "a request is scheduled once a step");
        prop_assert!(scheduler.running() <= scheduler.rules.request_rows);
        self.prefilled += u64::from(plan.shape.prefilling);
        self.retracted += plan.preempted.len() as u64;
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
    fn check_totals(&mut self, scheduler: &Scheduler) -> Result<(), TestCaseError> {
        let live = scheduler.running() + scheduler.waiting();
        prop_assert_eq!(self.finished + live as usize, self.added, "nobody is lost");
        prop_assert!(scheduler.free_blocks() <= scheduler.usable_blocks());
        let queued = scheduler.waiting.iter().all(|&slot| scheduler.requests[slot].held.pages() == 0);
        prop_assert!(queued, "who waits holds nothing");
        if scheduler.running() == 0 {
            prop_assert_eq!(scheduler.free_blocks(), scheduler.usable_blocks());
        }
        for &slot in &scheduler.running {
            let request = &scheduler.requests[slot];
            prop_assert!(request.held.pages() * scheduler.pool.page_size() >= request.computed);
            self.computed.insert(request.id, request.computed);
        }
        Ok(())
    }
}

/// Runs a load to its end in the engine's loop, checking every call; returns the ledger.
fn run(load: &Load, oracle: bool) -> Result<Ledger, TestCaseError> {
    let mut scheduler = scheduler(&load.options, load.memory, &[]);
    let width = load.options.decode_width();
    let mut ledger = Ledger::default();
    let mut pending: Vec<usize> = (0..load.requests.len()).collect();
    let mut in_flight: VecDeque<StepPlan> = VecDeque::new();
    let mut outcome = StepOutcome::default();
    let mut asked = 0_u32;
    for iteration in 0..100_000 {
        pending.retain(|&index| {
            let arrives = load.requests[index].2 <= iteration;
            if arrives {
                scheduler.add(&load.request(index));
                ledger.added += 1;
            }
            !arrives
        });
        if scheduler.has_work() {
            let expected = oracle.then(|| Oracle::of(&scheduler).expected());
            let plan = next(&mut scheduler);
            if let Some(expected) = expected {
                let retracted = plan.preempted.iter().map(|preempted| preempted.id.0).collect();
                let prefill = plan.shape.prefilling;
                prop_assert_eq!(Expected { prefill, entries: pairs(&plan), retracted }, expected);
            }
            ledger.check_plan(&scheduler, &plan, width)?;
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
            ledger.check_outcome(&scheduler, &outcome)?;
        } else if pending.is_empty() {
            prop_assert_eq!(ledger.finished, load.requests.len());
            return Ok(ledger);
        }
    }
    Err(TestCaseError::fail("the load does not end"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_request_gets_its_tokens_once(load in load()) {
        let ledger = run(&load, false)?;
        for index in 0..load.requests.len() {
            let delivered = ledger.delivered.get(&RequestId(index as u32)).copied().unwrap_or(0);
            prop_assert_eq!(delivered, load.wanted(index));
        }
    }

    #[test]
    fn the_smallest_servers_serve_everybody_they_take(load in tiny_load()) {
        let load = load.without_refused();
        let ledger = run(&load, false)?;
        for index in 0..load.requests.len() {
            let delivered = ledger.delivered.get(&RequestId(index as u32)).copied().unwrap_or(0);
            prop_assert_eq!(delivered, load.wanted(index));
        }
    }

    #[test]
    fn every_step_is_the_oracles(mut load in prop_oneof![load(), tiny_load().prop_map(Load::without_refused)]) {
        load.options.scheduler.disable_radix_cache = true;
        if load.options.scheduler.output_end == OutputEnd::IgnoreEos {
            load.options.scheduler.output_end = OutputEnd::Length;
        }
        run(&load, true)?;
    }
}

#[test]
fn random_loads_retract_and_chunk() {
    // The laws above would be worth little if the pools they draw were never short.
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let retracting = (0..100)
        .filter(|_| {
            let load = load().new_tree(&mut runner).expect("a load").current();
            run(&load, false).expect("the laws hold").retracted > 0
        })
        .count();
    assert!(retracting >= 10, "{retracting} of 100 loads retract");
}

//! Laws over random loads in which all options meet.

use std::collections::{BTreeSet, HashMap, VecDeque};

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::*;
use crate::engine::shape::StepShape;
use crate::engine::step::{Scheduled, Verified};
use crate::engine::vllm::memory::{Held, check_pool};

/// A random load: what each request asks for, and when it comes, in iterations.
#[derive(Clone, Debug)]
struct Load {
    server: VllmOptions,
    num_gpu_blocks: u32,
    requests: Vec<(NewRequest, u32)>,
    /// Accepted drafts, drawn in order and over again.
    accepted: Vec<u32>,
}

prop_compose! {
    fn options()(
        (max_model_len, block_size, max_num_seqs, max_num_batched_tokens) in (8u32..160, 1u32..20, 1u32..12, 1u32..128),
        max_num_active_seqs in prop::option::of(1u32..8),
        max_num_scheduled_tokens in prop::option::weighted(0.2, 1u32..64),
        (enable_chunked_prefill, async_scheduling, scheduler_reserve_full_isl) in any::<(bool, bool, bool)>(),
        long_prefill_token_threshold in prop_oneof![Just(0u32), 8u32..40],
        long_prefill_token_threshold_adaptive in any::<bool>(),
        prefill_schedule_interval in 1u32..6,
        watermark in prop_oneof![Just(0.0), 0.0..0.4],
        (enable_prefix_caching, by_priority) in any::<(bool, bool)>(),
        method in prop::sample::select(vec![
            SpeculativeMethod::Ngram, SpeculativeMethod::DraftModel, SpeculativeMethod::Eagle, SpeculativeMethod::Dflash,
        ]),
    ) -> SchedulerOptions {
        SchedulerOptions {
            max_num_seqs,
            max_num_batched_tokens,
            max_num_scheduled_tokens,
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
            policy: if by_priority { SchedulingPolicy::Priority } else { SchedulingPolicy::Fcfs },
            enable_prefix_caching,
            drafter: Drafter { method, ..Drafter::default() },
        }
    }
}

prop_compose! {
    fn servers()(
        mut scheduler in options(),
        num_speculative_tokens in prop_oneof![2 => Just(0u32), 3 => 1u32..6],
        dynamic_sd_schedule in prop::option::weighted(
            0.3, (0u32..6, 0u32..6).prop_map(|(few, many)| vec![(1, 2, few), (3, 64, many)])),
        max_loras in prop::option::weighted(0.4, 1u32..3),
        version in prop_oneof![Just(Version::V0_31_0), Just(Version::V0_33_0)],
    ) -> VllmOptions {
        // An engine that serves everything has room for a verification of all drafts and, without chunks, for the
        // longest prompt, its draft slots included.
        let slots = scheduler.drafter.input_slots(num_speculative_tokens);
        let longest = if scheduler.enable_chunked_prefill { 1 } else { scheduler.max_model_len };
        let least = longest.max(1 + num_speculative_tokens) + slots;
        scheduler.max_num_batched_tokens = scheduler.max_num_batched_tokens.max(least);
        scheduler.max_num_scheduled_tokens = scheduler.max_num_scheduled_tokens.map(|tokens| tokens.max(least));
        let mut server = server(version, &scheduler);
        server.graphs = GraphOptions {
            num_speculative_tokens,
            dynamic_sd_schedule: dynamic_sd_schedule.filter(|_| num_speculative_tokens > 0),
            max_loras,
            ..GraphOptions::default()
        };
        server
    }
}

/// One request: lengths, arrival, priority, adapter, and which way it goes where a part of the prompt begins.
type Drawn = (u32, u32, u32, i32, Option<u32>, Vec<u8>);

fn as_request(number: usize, drawn: &Drawn, server: &VllmOptions) -> (NewRequest, u32) {
    let (prompt, output, arrival, priority, adapter, ways) = drawn;
    let mut content = 1;
    let mut segments = Vec::new();
    for (part, &way) in ways.iter().enumerate() {
        content = content * 3 + u64::from(way);
        let end_tokens = 13 * (part as u32 + 1);
        if end_tokens <= *prompt {
            segments.push(Segment { content, end_tokens });
        }
    }
    let request = NewRequest {
        priority: *priority,
        adapter: adapter.filter(|_| server.graphs.max_loras.is_some()).map(Adapter),
        shared: SharedPrefix::new(&segments),
        ..request(number as u32, *prompt, *output)
    };
    (request, *arrival)
}

prop_compose! {
    fn load()(server in servers())(
        // From a pool that one long request fills to one that holds three.
        spare_blocks in 0..=2 * server.scheduler.max_model_len.div_ceil(server.scheduler.block_size),
        drawn in prop::collection::vec(
            (
                1..server.scheduler.max_model_len, 0u32..60, 0u32..80, -2i32..3, prop::option::of(0u32..4),
                prop::collection::vec(0u8..2, 0..6),
            ),
            1..25,
        ),
        accepted in prop::collection::vec(0u32..7, 1..12),
        server in Just(server),
    ) -> Load {
        let longest_blocks = server.scheduler.max_model_len.div_ceil(server.scheduler.block_size);
        let requests = drawn.iter().enumerate().map(|(number, drawn)| as_request(number, drawn, &server)).collect();
        Load { num_gpu_blocks: 1 + longest_blocks + spare_blocks, server, requests, accepted }
    }
}

/// What the plans and outcomes say about each request, to be checked against the scheduler and its options.
#[derive(Default)]
struct Ledger {
    computed: HashMap<RequestId, u32>,
    /// How often each request has been preempted.
    lives: HashMap<RequestId, u32>,
    delivered: HashMap<RequestId, u32>,
    finished: BTreeSet<RequestId>,
    added: usize,
}

/// A step in flight, with the life of each of its requests.
struct Flight {
    plan: StepPlan,
    lives: Vec<u32>,
}

impl Ledger {
    fn life(&self, id: RequestId) -> u32 {
        self.lives.get(&id).copied().unwrap_or(0)
    }

    fn check_plan(&mut self, scheduler: &Scheduler, plan: &StepPlan) -> Result<Vec<u32>, TestCaseError> {
        for preempted in &plan.preempted {
            self.computed.remove(&preempted.id);
            *self.lives.entry(preempted.id).or_default() += 1;
        }
        let mut recount = StepPlan { preempted: plan.preempted.clone(), ..StepPlan::default() };
        let mut scheduled = BTreeSet::new();
        let mut adapters = BTreeSet::new();
        for &entry in &plan.entries {
            prop_assert!(entry.tokens > entry.drafts && !self.finished.contains(&entry.id));
            prop_assert!(entry.samples || entry.drafts == 0, "drafts follow the last known token");
            let request = &scheduler.requests[entry.slot];
            match self.computed.get(&entry.id) {
                Some(&computed) => prop_assert_eq!(entry.context_tokens, computed, "no token is skipped or run twice"),
                None => Self::check_hit(scheduler, &entry)?,
            }
            self.computed.insert(entry.id, entry.context_tokens + entry.tokens);
            prop_assert!(scheduled.insert(entry.id), "a request is scheduled once a step");
            adapters.extend(request.adapter);
            recount.push(entry, false);
        }
        recount.close(scheduler.rules.drafting.uniform_query());
        recount.shape.prefilling = plan.shape.prefilling;
        recount.shape.active_loras = adapters.len() as u32;
        prop_assert_eq!(recount.shape, plan.shape);
        prop_assert_eq!((recount.sampled, recount.drafts), (plan.sampled, plan.drafts));
        prop_assert_eq!(recount.decode_context_tokens, plan.decode_context_tokens);
        prop_assert!(plan.shape.prefilling || plan.prefills.is_empty());
        let slots = scheduler.rules.drafting.slots * plan.shape.requests;
        prop_assert!(plan.shape.tokens <= scheduler.token_budget());
        prop_assert!(plan.shape.tokens + slots <= scheduler.rules.input_budget);
        prop_assert!(scheduler.running.len() <= scheduler.rules.max_running);
        self.check_totals(scheduler)?;
        Ok(plan.entries.iter().map(|entry| self.life(entry.id)).collect())
    }

    /// What an admitted request finds in the prefix cache: whole blocks, and never its last known token.
    fn check_hit(scheduler: &Scheduler, entry: &Scheduled) -> Result<(), TestCaseError> {
        let (found, known) = (entry.context_tokens, scheduler.requests[entry.slot].known);
        prop_assert!(found == 0 || (found < known && found % scheduler.pool.block_size() == 0));
        prop_assert!(!entry.placeholder_drafts || found + 1 == known);
        Ok(())
    }

    fn check_outcome(
        &mut self,
        scheduler: &Scheduler,
        flight: &Flight,
        outcome: &StepOutcome,
    ) -> Result<(), TestCaseError> {
        let accepted: HashMap<_, _> = outcome.verified.iter().map(|drafts| (drafts.id, *drafts)).collect();
        let delivered: HashMap<_, _> = outcome.delivered.iter().map(|delivered| (delivered.id, *delivered)).collect();
        for (entry, &life) in flight.plan.entries.iter().zip(&flight.lives) {
            let verified = accepted.get(&entry.id);
            prop_assert_eq!(verified.is_some(), entry.samples && entry.drafts > 0);
            let (drafts, accepted) = verified.map_or((0, 0), |drafts| (drafts.drafts, drafts.accepted));
            prop_assert!(drafts == entry.drafts && accepted <= drafts && (accepted == 0 || !entry.placeholder_drafts));
            let late = outcome.late.contains(&entry.id);
            prop_assert_eq!(late, self.finished.contains(&entry.id));
            prop_assert!(!late || (scheduler.rules.asynchronous && scheduler.rules.drafting.is_on()));
            let got = delivered.get(&entry.id).map_or(0, |delivered| delivered.tokens);
            prop_assert_eq!(got > 0, entry.samples && !late);
            prop_assert!(got <= 1 + accepted);
            if entry.samples && !late && life == self.life(entry.id) {
                *self.computed.get_mut(&entry.id).expect("it ran") -= entry.drafts + 1 - got;
            }
        }
        for delivered in &outcome.delivered {
            let count = self.delivered.entry(delivered.id).or_default();
            prop_assert_eq!(delivered.first, *count == 0);
            *count += delivered.tokens;
            if delivered.finished {
                prop_assert!(self.finished.insert(delivered.id), "nobody finishes twice");
            }
        }
        self.check_totals(scheduler)
    }

    /// Laws 1 and 5.
    fn check_totals(&self, scheduler: &Scheduler) -> Result<(), TestCaseError> {
        let live: Vec<Slot> = scheduler.running.iter().copied().chain(scheduler.waiting.slots()).collect();
        prop_assert_eq!(self.finished.len() + live.len(), self.added);
        prop_assert_eq!(live.iter().collect::<BTreeSet<_>>().len(), live.len(), "nobody is in two places");
        for &slot in &live {
            let request = &scheduler.requests[slot];
            let ahead = if scheduler.rules.asynchronous { request.placeholders } else { request.in_flight };
            prop_assert!(request.computed <= request.known + ahead);
            prop_assert!(request.computed < scheduler.rules.max_model_len);
            let needed = scheduler.pool.blocks_for(request.computed);
            // Drafts of two steps may have been given up, and the drafter's lookahead stays.
            let drafting = &scheduler.rules.drafting;
            let ahead = request.computed + 2 * drafting.uniform_query() + drafting.lookahead_tokens;
            let ahead = scheduler.pool.blocks_for(ahead);
            prop_assert!((needed..=ahead).contains(&request.held.blocks()));
        }
        let held = Held::distinct_blocks(live.iter().map(|&slot| &scheduler.requests[slot].held));
        prop_assert_eq!(held + scheduler.free_blocks(), scheduler.usable_blocks());
        prop_assert!(scheduler.pool.cached() <= scheduler.free_blocks());
        Ok(())
    }
}

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
        blocks: (u32, u32),
    },
    /// Deliveries that are neither a request's first nor its last are only counted.
    Applied { verified: Vec<Verified>, late: Vec<RequestId>, ends: Vec<Delivered>, others: u32, blocks: (u32, u32) },
}

/// All calls of a load in the engine's loop, and how many tokens came in lockstep.
fn calls(load: &Load, stepping: Stepping) -> (Vec<Call>, u64) {
    let mut scheduler = Scheduler::new(&load.server, load.num_gpu_blocks).stepping(stepping);
    let mut pending: Vec<&(NewRequest, u32)> = load.requests.iter().collect();
    let mut in_flight: VecDeque<StepPlan> = VecDeque::new();
    let mut outcome = StepOutcome::default();
    let mut accepted = load.accepted.iter().copied().cycle();
    let (mut calls, mut in_lockstep) = (Vec::new(), 0);
    let blocks = |scheduler: &Scheduler| (scheduler.free_blocks(), scheduler.pool.cached());
    for iteration in 0..200_000 {
        pending.retain(|(request, arrival)| {
            if *arrival <= iteration {
                scheduler.add(request);
            }
            *arrival > iteration
        });
        if scheduler.has_work() {
            let plan = next(&mut scheduler);
            calls.push(Call::Scheduled {
                entries: scheduler.entries(&plan),
                preempted: plan.preempted.clone(),
                shape: plan.shape,
                prefills: plan.prefills.clone(),
                decodes: (plan.decode_requests, plan.decode_context_tokens),
                sampled: (plan.sampled, plan.drafts),
                requests: (scheduler.running(), scheduler.waiting()),
                blocks: blocks(&scheduler),
            });
            let tokens = plan.shape.tokens;
            in_flight.push_back(plan);
            if (in_flight.len() as u32) < scheduler.depth() && (tokens > 0 || scheduler.has_work()) {
                continue;
            }
        }
        if let Some(plan) = in_flight.pop_front() {
            scheduler.apply(&plan, &mut |_| accepted.next().expect("a cycle"), &mut outcome);
            in_lockstep += u64::from(outcome.lockstep);
            let is_end = |delivered: &&Delivered| delivered.first || delivered.finished || delivered.tokens != 1;
            let ends: Vec<Delivered> = outcome.delivered.iter().filter(is_end).copied().collect();
            calls.push(Call::Applied {
                verified: outcome.verified.clone(),
                late: outcome.late.clone(),
                others: outcome.lockstep + (outcome.delivered.len() - ends.len()) as u32,
                ends,
                blocks: blocks(&scheduler),
            });
        } else if pending.is_empty() {
            break;
        }
    }
    (calls, in_lockstep)
}

/// The first call that fast stepping makes differently.
fn steps_alike(load: &Load) -> Result<u64, TestCaseError> {
    let ((plain, none), (fast, in_lockstep)) = (calls(load, Stepping::Plain), calls(load, Stepping::Fast));
    prop_assert_eq!(none, 0);
    for (number, (plain, fast)) in plain.iter().zip(&fast).enumerate() {
        prop_assert_eq!(plain, fast, "call {}", number);
    }
    prop_assert_eq!(plain.len(), fast.len());
    Ok(in_lockstep)
}

/// Runs a load to its end in the engine's loop, checking every call, and returns the tokens delivered per request.
fn run(load: &Load) -> Result<Vec<u32>, TestCaseError> {
    prop_assert_eq!(check_pool(&load.server.scheduler, &load.server.kv, load.num_gpu_blocks), Ok(()));
    let mut scheduler = Scheduler::new(&load.server, load.num_gpu_blocks).stepping(Stepping::Plain);
    let mut ledger = Ledger::default();
    let mut pending: Vec<&(NewRequest, u32)> = load.requests.iter().collect();
    let mut in_flight: VecDeque<Flight> = VecDeque::new();
    let mut outcome = StepOutcome::default();
    let mut accepted = load.accepted.iter().copied().cycle();
    for iteration in 0..200_000 {
        pending.retain(|(request, arrival)| {
            if *arrival <= iteration {
                scheduler.add(request);
                ledger.added += 1;
            }
            *arrival > iteration
        });
        if scheduler.has_work() {
            let plan = next(&mut scheduler);
            let lives = ledger.check_plan(&scheduler, &plan)?;
            let tokens = plan.shape.tokens;
            in_flight.push_back(Flight { plan, lives });
            if (in_flight.len() as u32) < scheduler.depth() && (tokens > 0 || scheduler.has_work()) {
                continue;
            }
        }
        if let Some(flight) = in_flight.pop_front() {
            let mut draw = |_: &Scheduled| accepted.next().expect("a cycle");
            scheduler.apply(&flight.plan, &mut draw, &mut outcome);
            ledger.check_outcome(&scheduler, &flight, &outcome)?;
        } else if pending.is_empty() {
            prop_assert_eq!(ledger.finished.len(), load.requests.len());
            prop_assert_eq!(scheduler.free_blocks(), scheduler.usable_blocks());
            let delivered = |(request, _): &(NewRequest, u32)| ledger.delivered.get(&request.id).copied().unwrap_or(0);
            return Ok(load.requests.iter().map(delivered).collect());
        }
    }
    Err(TestCaseError::fail("the load does not end"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn every_request_gets_its_tokens_once_in_either_stepping(load in load()) {
        let model_len = load.server.scheduler.max_model_len;
        let asked: Vec<u32> = load
            .requests
            .iter()
            .map(|(request, _)| request.output_tokens.max(1).min(model_len - request.prompt_tokens))
            .collect();
        prop_assert_eq!(run(&load)?, asked.clone());
        let mut other = load;
        other.server.scheduler.async_scheduling = !other.server.scheduler.async_scheduling;
        prop_assert_eq!(run(&other)?, asked);
    }

    #[test]
    fn fast_steps_are_plain_steps(load in load(), is_plain_decoding in any::<bool>()) {
        let mut load = load;
        if is_plain_decoding {
            load.server.graphs.num_speculative_tokens = 0;
            load.server.graphs.dynamic_sd_schedule = None;
            load.server.graphs.max_loras = None;
            load.server.scheduler.prefill_schedule_interval = 1;
            load.requests.iter_mut().for_each(|(request, _)| request.adapter = None);
        }
        steps_alike(&load)?;
        load.server.scheduler.async_scheduling = !load.server.scheduler.async_scheduling;
        steps_alike(&load)?;
    }

    /// With nothing to share and blocks for all, the prefix cache changes nothing.
    #[test]
    fn a_cache_that_nobody_hits_leaves_every_step_as_it_is(load in load()) {
        let steps = |enable_prefix_caching| {
            let mut server = load.server.clone();
            server.scheduler.enable_prefix_caching = enable_prefix_caching;
            let mut scheduler = Scheduler::new(&server, AMPLE).stepping(Stepping::Plain);
            for (request, _) in &load.requests {
                scheduler.add(&NewRequest { shared: SharedPrefix::default(), ..request.clone() });
            }
            let mut accepted = load.accepted.iter().copied().cycle();
            let mut steps = Vec::new();
            while scheduler.has_work() {
                let plan = next(&mut scheduler);
                scheduler.apply(&plan, &mut |_| accepted.next().expect("a cycle"), &mut StepOutcome::default());
                steps.push((plan.entries, plan.shape, scheduler.free_blocks()));
            }
            steps
        };
        prop_assert_eq!(steps(true), steps(false));
    }
}

#[test]
fn output_is_cut_at_max_model_len() {
    for async_scheduling in [false, true] {
        let options = SchedulerOptions { max_model_len: 10, async_scheduling, ..plain_options() };
        let requests = [(7, 99), (9, 99), (4, 0)].iter().enumerate();
        let load = Load {
            server: server(Version::V0_33_0, &options),
            num_gpu_blocks: AMPLE,
            requests: requests.map(|(id, &(prompt, output))| (request(id as u32, prompt, output), 0)).collect(),
            accepted: vec![0],
        };
        assert_eq!(run(&load).expect("the laws hold"), [3, 1, 1]);
    }
}

/// The laws above would be worth little if the loads they draw never met what they are about.
#[test]
fn random_loads_meet_every_feature() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut preempting, mut hitting, mut late, mut padded, mut taken_back, mut evicting) = (0, 0, 0, 0, 0, 0);
    for _ in 0..150 {
        let load = load().new_tree(&mut runner).expect("a load").current();
        let mut scheduler = Scheduler::new(&load.server, load.num_gpu_blocks).stepping(Stepping::Plain);
        for (request, _) in &load.requests {
            scheduler.add(request);
        }
        let (mut hits, mut lates, mut paddings, mut victims, mut cached, mut evicted) = (0, 0, 0, 0, 0, false);
        let mut accepted = load.accepted.iter().copied().cycle();
        let mut in_flight: VecDeque<StepPlan> = VecDeque::new();
        let mut outcome = StepOutcome::default();
        while scheduler.has_work() || !in_flight.is_empty() {
            if scheduler.has_work() {
                let before: Vec<Slot> = scheduler.running.clone();
                let plan = next(&mut scheduler);
                let admitted = |entry: &&Scheduled| !before.contains(&entry.slot);
                hits += plan.entries.iter().filter(admitted).filter(|entry| entry.context_tokens > 0).count();
                paddings += plan.entries.iter().filter(|entry| entry.placeholder_drafts).count();
                victims += plan.preempted.iter().filter(|out| Some(&out.slot) != before.last()).count();
                evicted |= scheduler.pool.cached() < cached && !plan.preempted.is_empty();
                cached = scheduler.pool.cached();
                let tokens = plan.shape.tokens;
                in_flight.push_back(plan);
                if (in_flight.len() as u32) < scheduler.depth() && (tokens > 0 || scheduler.has_work()) {
                    continue;
                }
            }
            if let Some(plan) = in_flight.pop_front() {
                scheduler.apply(&plan, &mut |_| accepted.next().expect("a cycle"), &mut outcome);
                lates += outcome.late.len();
            }
        }
        preempting += u32::from(scheduler.preemptions() > 0);
        hitting += u32::from(hits > 0);
        late += u32::from(lates > 0);
        padded += u32::from(paddings > 0);
        taken_back += u32::from(victims > 0);
        evicting += u32::from(evicted);
    }
    let met = [preempting, hitting, late, padded, taken_back, evicting];
    assert!(met.iter().all(|&loads| loads >= 5) && preempting >= 30 && hitting >= 30, "{met:?} of 150 loads");
}

//! A plain account of every request, kept from the events alone: law 1, and what other laws need to know of a request.

use std::collections::{BTreeMap, VecDeque};

use sim::engine::request::RequestId;
use sim::engine::step::{Delivered, Scheduled, StepOutcome, StepPlan};
use sim::observe::{Event, StepScheduled};
use sim::server::{RunEnd, Setup};
use sim::time::SimTime;
use sim::traffic::Request;

use crate::house::{Law, require, vllm};

/// Every request offered, and what became of it.
pub(crate) struct Ledger {
    token_budget: u32,
    running_max: u32,
    depth: usize,
    max_model_len: u32,
    /// Tokens per block where the prefix cache is on: what an admission finds there is a multiple of it.
    cached_block: Option<u32>,
    pub(crate) live: BTreeMap<u32, Live>,
    in_flight: VecDeque<Flight>,
    pub(crate) offered: u32,
    pub(crate) finished: u32,
    pub(crate) refused: u32,
    /// Requests whose output ends at the longest request.
    pub(crate) cut: u32,
    pub(crate) preemptions: u64,
    /// Tokens delivered to finished requests.
    pub(crate) delivered_tokens: u64,
}

/// One request between arrival and its last token.
pub(crate) struct Live {
    slot: u32,
    pub(crate) arrival: SimTime,
    prompt: u32,
    /// Tokens it is to receive: its output, cut where the longest request ends.
    due: u32,
    delivered: u32,
    /// Output tokens that steps in flight may bring: one a step, and one for each draft.
    pending: u32,
    /// Steps in flight in which it samples.
    sampling: u32,
    /// Admissions so far.
    lives: u32,
    pub(crate) computed: u32,
    /// What was known of it when it was last admitted.
    prefill_tokens: u32,
    pub(crate) running: bool,
}

struct Flight {
    step: u64,
    sampled: Vec<Sampled>,
}

/// A request that samples in a step in flight.
#[derive(Clone, Copy)]
struct Sampled {
    id: u32,
    drafts: u32,
    /// Its admissions when it was scheduled.
    lives: u32,
}

impl Ledger {
    pub(crate) fn new(setup: &Setup) -> Self {
        let options = &vllm(setup).scheduler;
        let scheduled = options.max_num_scheduled_tokens.unwrap_or(u32::MAX);
        Self {
            token_budget: scheduled.min(options.max_num_batched_tokens),
            running_max: options.max_num_active_seqs.unwrap_or(options.max_num_seqs),
            depth: if options.async_scheduling { 2 } else { 1 },
            max_model_len: options.max_model_len,
            cached_block: options.enable_prefix_caching.then_some(options.block_size),
            live: BTreeMap::new(),
            in_flight: VecDeque::new(),
            offered: 0,
            finished: 0,
            refused: 0,
            cut: 0,
            preemptions: 0,
            delivered_tokens: 0,
        }
    }

    /// Whether a request scheduled with `entry` may be in a decode graph of runner V2: past its prefill, or with one
    /// token after the first.
    pub(crate) fn decode_eligible(&self, entry: &Scheduled) -> bool {
        entry.context_tokens >= self.live[&entry.id.0].prefill_tokens
            || (entry.tokens - entry.drafts == 1 && entry.context_tokens > 0)
    }

    /// The balance when the run has ended: nobody is left, and the run says so too.
    pub(crate) fn close(&self, end: &RunEnd, expected_requests: Option<u64>) -> Result<(), String> {
        require(self.live.is_empty(), || format!("{} requests were left behind", self.live.len()))?;
        let served = self.finished + self.refused;
        require(served == self.offered, || format!("{served} of {} requests came to an end", self.offered))?;
        require(end.requests_offered == self.offered, || format!("{end:?} against {} offered", self.offered))?;
        require(end.preemptions == self.preemptions, || format!("{end:?} against {} preemptions", self.preemptions))?;
        let expected = expected_requests.unwrap_or(u64::from(self.offered));
        require(expected == u64::from(self.offered), || format!("{} of {expected} requests were sent", self.offered))
    }

    fn expect_next(&mut self, id: RequestId) -> Result<(), String> {
        require(id.0 == self.offered, || format!("request {} came as number {}", id.0, self.offered))?;
        self.offered += 1;
        Ok(())
    }

    fn arrive(&mut self, slot: u32, request: &Request) -> Result<(), String> {
        let taken = self.live.values().any(|live| live.slot == slot);
        require(!taken, || format!("slot {slot} was given away twice"))?;
        require(request.prompt_tokens < self.max_model_len, || format!("{request:?} should have been refused"))?;
        let due = request.output_tokens.min(self.max_model_len - request.prompt_tokens);
        self.cut += u32::from(due < request.output_tokens);
        let live = Live {
            slot,
            arrival: request.arrival,
            prompt: request.prompt_tokens,
            due,
            delivered: 0,
            pending: 0,
            sampling: 0,
            lives: 0,
            computed: 0,
            prefill_tokens: 0,
            running: false,
        };
        self.live.insert(self.offered - 1, live);
        Ok(())
    }

    fn schedule(&mut self, step: &StepScheduled<'_>) -> Result<(), String> {
        let plan = step.plan;
        require(plan.preempted.iter().all(|preempted| !self.live[&preempted.id.0].running), || {
            format!("nobody was told that {:?} were preempted", plan.preempted)
        })?;
        for entry in &plan.entries {
            require(plan.preempted.iter().all(|out| out.id != entry.id), || format!("{entry:?} was just preempted"))?;
            let live = self.live.get_mut(&entry.id.0).ok_or_else(|| format!("{entry:?} is not there"))?;
            live.schedule(entry, self.cached_block)?;
        }
        self.check_step(step, plan)?;
        let sampled: Vec<Sampled> = plan
            .entries
            .iter()
            .filter(|entry| entry.samples)
            .map(|entry| Sampled { id: entry.id.0, drafts: entry.drafts, lives: self.live[&entry.id.0].lives })
            .collect();
        let drafts: u32 = sampled.iter().map(|sampled| sampled.drafts).sum();
        require((sampled.len(), drafts) == (plan.sampled as usize, plan.drafts), || {
            format!("{plan:?} miscounts who samples and what is verified")
        })?;
        self.in_flight.push_back(Flight { step: step.step, sampled });
        require(self.in_flight.len() <= self.depth, || format!("{} steps in flight", self.in_flight.len()))
    }

    fn preempt(&mut self, id: RequestId) -> Result<(), String> {
        let live = self.live.get_mut(&id.0).ok_or("a request that is not there was preempted")?;
        require(live.running, || format!("{id:?} was preempted and not running"))?;
        (live.running, live.computed) = (false, 0);
        self.preemptions += 1;
        Ok(())
    }

    fn check_step(&self, step: &StepScheduled<'_>, plan: &StepPlan) -> Result<(), String> {
        let tokens: u32 = plan.entries.iter().map(|entry| entry.tokens).sum();
        let mut ids: Vec<u32> = plan.entries.iter().map(|entry| entry.id.0).collect();
        ids.sort_unstable();
        ids.dedup();
        require(ids.len() == plan.entries.len(), || format!("step {} holds a request twice", step.step))?;
        require(tokens == plan.shape.tokens && tokens > 0 && tokens <= self.token_budget, || {
            format!("step {}: {tokens} tokens, {:?}, budget {}", step.step, plan.shape, self.token_budget)
        })?;
        let running = self.live.values().filter(|live| live.running).count() as u32;
        let waiting = self.live.len() as u32 - running;
        require((running, waiting) == (step.running, step.waiting) && running <= self.running_max, || {
            format!("step {}: {running} run and {waiting} wait, told {} and {}", step.step, step.running, step.waiting)
        })
    }

    fn apply(&mut self, step: u64, outcome: &StepOutcome) -> Result<(), String> {
        let flight = self.in_flight.pop_front().ok_or("output of no step")?;
        require(flight.step == step, || format!("output of step {step} instead of {}", flight.step))?;
        let mut delivered = outcome.delivered.iter();
        let mut verified = outcome.verified.iter();
        let mut late = outcome.late.iter();
        for sampled in &flight.sampled {
            let accepted = match sampled.drafts {
                0 => 0,
                drafts => {
                    let verified = verified.next().filter(|of| of.id.0 == sampled.id && of.drafts == drafts);
                    verified.ok_or_else(|| format!("step {step}: drafts of {} are not verified", sampled.id))?.accepted
                }
            };
            require(accepted <= sampled.drafts, || format!("step {step}: more accepted than there was"))?;
            let Some(live) = self.live.get_mut(&sampled.id) else {
                let is_late = late.next().is_some_and(|id| id.0 == sampled.id);
                require(is_late, || format!("step {step}: {} is gone, and nobody calls it late", sampled.id))?;
                continue;
            };
            let delivered = delivered.next().filter(|of| of.id.0 == sampled.id);
            let delivered = delivered.ok_or_else(|| format!("step {step}: {} received nothing", sampled.id))?;
            live.deliver(delivered, sampled, accepted)?;
            if delivered.finished {
                self.delivered_tokens += u64::from(live.delivered);
                self.live.remove(&sampled.id);
                self.finished += 1;
            }
        }
        let left = (delivered.count(), verified.count(), late.count());
        require(left == (0, 0, 0), || format!("step {step}: {outcome:?} of {} who sampled", flight.sampled.len()))
    }
}

impl Live {
    fn schedule(&mut self, entry: &Scheduled, cached_block: Option<u32>) -> Result<(), String> {
        if !self.running {
            require(self.pending == 0, || format!("{entry:?} was admitted with output in flight"))?;
            (self.running, self.prefill_tokens) = (true, self.prompt + self.delivered);
            self.lives += 1;
            if let Some(block) = cached_block {
                let found = entry.context_tokens;
                require(found.is_multiple_of(block) && found < self.prefill_tokens, || {
                    format!("{entry:?} was found cached")
                })?;
                self.computed = found;
            }
        }
        require(entry.slot.0 == self.slot && entry.context_tokens == self.computed && entry.tokens > 0, || {
            format!("{entry:?}, computed {}, slot {}", self.computed, self.slot)
        })?;
        self.computed += entry.tokens;
        let known = self.prompt + self.delivered + self.pending;
        let as_known = if entry.samples { self.computed == known + entry.drafts } else { self.computed < known };
        require(as_known && (entry.samples || entry.drafts == 0), || {
            format!("{entry:?}: computed {} of {known} known tokens", self.computed)
        })?;
        if entry.samples {
            self.pending += 1 + entry.drafts;
            self.sampling += 1;
        }
        require(self.delivered + self.sampling <= self.due, || format!("{entry:?} goes beyond its {} tokens", self.due))
    }

    fn deliver(&mut self, delivered: &Delivered, sampled: &Sampled, accepted: u32) -> Result<(), String> {
        let tokens = (1 + accepted).min(self.due - self.delivered);
        require(delivered.tokens == tokens && self.sampling > 0, || format!("{delivered:?} of {accepted} accepted"))?;
        require(delivered.slot.0 == self.slot, || format!("{delivered:?} has slot {}", self.slot))?;
        require(delivered.first == (self.delivered == 0), || format!("{delivered:?} after {} tokens", self.delivered))?;
        self.delivered += tokens;
        self.sampling -= 1;
        self.pending -= 1 + sampled.drafts;
        if self.running && sampled.lives == self.lives {
            self.computed -= 1 + sampled.drafts - tokens;
        }
        require(delivered.finished == (self.delivered == self.due), || {
            format!("{delivered:?} after {} of {} tokens", self.delivered, self.due)
        })
    }
}

impl Law for Ledger {
    fn see(&mut self, event: &Event<'_>) -> Result<(), String> {
        match event {
            Event::RequestArrived { id, slot, request, .. } => {
                self.expect_next(*id)?;
                self.arrive(slot.0, request)
            }
            Event::RequestRefused { id, request, .. } => {
                self.expect_next(*id)?;
                self.refused += 1;
                require(request.prompt_tokens >= self.max_model_len, || format!("{request:?} was refused"))
            }
            Event::RequestPreempted { id, .. } => self.preempt(*id),
            Event::DummyStepRun { .. } => Ok(()),
            Event::StepScheduled(step) => self.schedule(step),
            Event::StepApplied { step, outcome, .. } => self.apply(*step, outcome),
        }
    }
}

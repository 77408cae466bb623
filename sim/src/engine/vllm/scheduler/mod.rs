//! vLLM's V1 scheduler, step by step (specification section 11).
//!
//! The plain walk looks at every running request in every step, as the engine does. Fast stepping schedules the same but
//! looks only at what changes: requests that decode in lockstep are a few sums (`engine/lockstep`).
//!
//! The caller steps it as the engine's loop does: [`schedule`](Scheduler::schedule) while fewer than
//! [`depth`](Scheduler::depth) steps are in flight, otherwise [`apply`](Scheduler::apply) the output of the oldest.

mod admission;
mod beat;
mod cadence;
mod drafting;
mod long_prefill;
mod output;
mod preemption;
mod queue;
mod quiet;
mod request;
mod step;
#[cfg(test)]
mod tests;

use super::memory::BlockPool;
use super::options::{SchedulingPolicy, Version, VllmOptions};
use crate::engine::lockstep::{Lockstep, Member, Patience};
use crate::engine::refusal::{Refusal, fits};
use crate::engine::request::{Adapter, NewRequest, Slot};
use crate::engine::scheduler::Stepping;
use crate::engine::slab::Slab;
use crate::engine::step::Scheduled;
use cadence::PrefillCadence;
use drafting::Drafting;
use long_prefill::LongPrefill;
use queue::{Rank, WaitingQueue};
pub use quiet::Quiet;
use request::Request;

/// One engine's scheduler: its waiting queue, its running list and its KV blocks.
#[derive(Clone, Debug)]
pub struct Scheduler {
    rules: Rules,
    requests: Slab<Request>,
    /// Not admitted, or preempted.
    waiting: WaitingQueue,
    /// Admitted and not in lockstep, in order of admission: scheduled from the front.
    running: Vec<Slot>,
    stepping: Stepping,
    /// Admitted and in lockstep.
    lockstep: Lockstep,
    patience: Patience,
    /// The lockstep has ended, and no outcome has said so yet.
    ended: bool,
    /// What the beat in flight scheduled when the lockstep ended.
    taken_out: Option<Vec<Scheduled>>,
    /// Members that a beat has to look at; kept for its memory.
    touched: Vec<Member>,
    /// Steps with tokens so far.
    steps: u64,
    admissions: u64,
    /// Some request had an adapter.
    uses_adapters: bool,
    /// The distinct adapters of the step being scheduled, or of the last one.
    adapters: Vec<Adapter>,
    pool: BlockPool,
    cadence: PrefillCadence,
    preemptions: u64,
    /// A request has finished since the last step was scheduled; the next one, perhaps empty, reports it.
    finish_unreported: bool,
}

/// The options in the form in which the steps read them.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "one field per engine flag")]
struct Rules {
    token_budget: u32,
    input_budget: u32,
    long_prefill: LongPrefill,
    max_running: usize,
    max_model_len: u32,
    chunked_prefill: bool,
    asynchronous: bool,
    reserve_full_prompt: bool,
    watermark_blocks: u32,
    policy: SchedulingPolicy,
    /// A running request that is itself preempted for want of blocks ends the walk over the running ones.
    stops_at_own_preemption: bool,
    drafting: Drafting,
    max_loras: Option<usize>,
}

impl Scheduler {
    /// An idle scheduler over `num_gpu_blocks` KV blocks, the null block included.
    ///
    /// The options are those of an engine that starts: the pool passes [`check_pool`](super::memory::check_pool),
    /// every size is at least 1, and without chunked prefill the token budget is at least `max_model_len`.
    #[must_use]
    pub fn new(options: &VllmOptions, num_gpu_blocks: u32) -> Self {
        let rules = Rules::new(options, num_gpu_blocks);
        let VllmOptions { version, scheduler: options, .. } = options;
        let interval = match version {
            // 0.31.0 uses the interval only to balance data-parallel ranks, and this is one rank.
            Version::V0_31_0 => 1,
            Version::V0_33_0 | Version::Main => options.prefill_schedule_interval,
        };
        Self {
            rules,
            requests: Slab::default(),
            waiting: WaitingQueue::new(options.policy),
            running: Vec::new(),
            stepping: Stepping::default(),
            lockstep: Lockstep::new(options.block_size, options.enable_prefix_caching),
            patience: Patience::new(),
            ended: false,
            taken_out: None,
            touched: Vec::new(),
            steps: 0,
            admissions: 0,
            uses_adapters: false,
            adapters: Vec::new(),
            pool: BlockPool::new(num_gpu_blocks, options.block_size, options.enable_prefix_caching),
            cadence: PrefillCadence::new(interval),
            preemptions: 0,
            finish_unreported: false,
        }
    }

    /// The same scheduler with another way of stepping; one that has not scheduled anything.
    #[must_use]
    pub fn stepping(self, stepping: Stepping) -> Self {
        Self { stepping, ..self }
    }

    /// Whether the engine takes a prompt of this length.
    ///
    /// # Errors
    /// A [`Refusal`] for an empty prompt and for one that leaves no room for an output token.
    pub fn fits(&self, prompt_tokens: u32) -> Result<(), Refusal> {
        fits(prompt_tokens, self.rules.max_model_len)
    }

    /// Queues a request whose prompt [`fits`](Self::fits); the next step can admit it.
    pub fn add(&mut self, request: &NewRequest) -> Slot {
        debug_assert_eq!(self.fits(request.prompt_tokens), Ok(()), "refused requests are not added");
        let held = self.pool.nothing_for(request);
        let slot = self.requests.insert(Request::new(request, self.rules.max_model_len, held));
        self.waiting.add(Rank::of(slot, &self.requests[slot]));
        self.uses_adapters |= request.adapter.is_some();
        slot
    }

    /// Some request is unfinished, or one has finished and no step has reported it yet.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.finish_unreported || self.running_requests() > 0 || self.waiting.len() > 0
    }

    /// Requests in the running list.
    #[must_use]
    pub fn running(&self) -> u32 {
        self.running_requests() as u32
    }

    #[inline]
    fn running_requests(&self) -> usize {
        self.running.len() + self.lockstep.len() as usize
    }

    /// Requests in the waiting queue, preempted ones included.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        self.waiting.len() as u32
    }

    /// KV blocks that no request holds.
    #[must_use]
    pub fn free_blocks(&self) -> u32 {
        self.pool.free()
    }

    /// KV blocks that requests can hold: the pool without its null block.
    #[must_use]
    pub fn usable_blocks(&self) -> u32 {
        self.pool.usable()
    }

    /// KV blocks that an admission leaves free while others run.
    #[must_use]
    pub fn watermark_blocks(&self) -> u32 {
        self.rules.watermark_blocks
    }

    /// Most tokens of a step.
    #[must_use]
    pub fn token_budget(&self) -> u32 {
        self.rules.token_budget
    }

    /// Preemptions so far.
    #[must_use]
    pub fn preemptions(&self) -> u64 {
        self.preemptions
    }

    /// Steps in flight that the engine's loop allows: 2 with asynchronous scheduling, otherwise 1.
    #[must_use]
    pub fn depth(&self) -> u32 {
        if self.rules.asynchronous { 2 } else { 1 }
    }
}

impl Rules {
    fn new(options: &VllmOptions, num_gpu_blocks: u32) -> Self {
        let drafting = Drafting::of(options);
        let VllmOptions { version, scheduler: options, graphs, .. } = options;
        let input_budget = options.max_num_batched_tokens;
        Self {
            token_budget: options.max_num_scheduled_tokens.unwrap_or(u32::MAX).min(input_budget),
            input_budget,
            long_prefill: LongPrefill {
                threshold: options.long_prefill_token_threshold,
                adaptive: options.long_prefill_token_threshold_adaptive,
                input_budget,
            },
            max_running: options.max_num_active_seqs.unwrap_or(options.max_num_seqs) as usize,
            max_model_len: options.max_model_len,
            chunked_prefill: options.enable_chunked_prefill,
            asynchronous: options.async_scheduling,
            reserve_full_prompt: options.scheduler_reserve_full_isl,
            // A share of the whole pool, the null block included.
            watermark_blocks: (options.watermark * f64::from(num_gpu_blocks)) as u32,
            policy: options.policy,
            stops_at_own_preemption: *version == Version::V0_31_0,
            drafting,
            max_loras: graphs.max_loras.map(|loras| loras as usize),
        }
    }
}

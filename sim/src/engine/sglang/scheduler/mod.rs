//! SGLang's scheduler, step by step (SGLang specification section 10).
//!
//! Every step tries to compute prompts first and decodes only if none can be admitted. The plain walk looks at every
//! running request in every step, as the engine does. Fast stepping schedules the same but looks only at what changes:
//! requests that decode in lockstep are a few sums (`engine/lockstep`), and steps that compute prompts pass them by.
//!
//! The caller steps it as the engine's loop does: [`schedule`](Scheduler::schedule) while fewer than
//! [`depth`](Scheduler::depth) steps are in flight, otherwise [`apply`](Scheduler::apply) the output of the oldest.
//!
//! Where the specification is silent or a real server would fail, this is what happens:
//! - Retracted requests go to the end of the queue and count only the output that is left to them when they come back.
//!   What a step in flight computes for them is dropped.
//! - If not even one running request has pages, the engine aborts it. Here the chunked request, if there is one, is
//!   retracted before it, so that a chunk never keeps the last running request from its next token; otherwise it is
//!   retracted too, so that none is lost, and waits for requests that leave.
//! - A resumed chunk that finds fewer pages than it may take computes what fits, or waits while others decode.
//! - A request is cut, and a prompt refused, so that an idle server can always admit and finish it: prompt, output and
//!   one page stay below the pool, and its last tokens leave room for every draft of each decode step in flight.
//! - A step with nothing to run starts the ratio over, as an idle engine does.

pub mod adder;
mod beat;
mod output;
mod quiet;
pub mod ratio;
mod request;
mod step;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use super::error::EngineError;
use super::options::{OutputEnd, SchedulerOptions, SglangOptions};
use super::pages::PagePool;
use crate::engine::lockstep::{Lockstep, Member, Patience};
use crate::engine::refusal::Refusal;
use crate::engine::request::{NewRequest, Slot};
use crate::engine::scheduler::Stepping;
use crate::engine::slab::Slab;
use crate::engine::step::Scheduled;
use adder::PrefillLimits;
pub use quiet::Quiet;
use ratio::NewTokenRatio;
use request::Request;

/// One engine's scheduler: its waiting queue, its running list and its KV pages.
#[derive(Clone, Debug)]
pub struct Scheduler {
    rules: Rules,
    requests: Slab<Request>,
    /// Not admitted, or retracted; the head goes first.
    waiting: VecDeque<Slot>,
    /// Prompts computed, or to be computed by a step in flight, and not in lockstep.
    running: Vec<Slot>,
    stepping: Stepping,
    /// Prompts computed, in lockstep: they entered the running list before anybody in `running`.
    lockstep: Lockstep,
    patience: Patience,
    /// The lockstep has ended, and no outcome has said so yet.
    ended: bool,
    /// What the beat in flight scheduled when the lockstep ended.
    taken_out: Option<Vec<Scheduled>>,
    /// Members that a step has to look at; kept for its memory.
    touched: Vec<Member>,
    /// Steps so far in which running requests decoded and no prompt was computed.
    decode_steps: u64,
    /// Requests that have entered the running list.
    entered: u64,
    /// The one admitted request whose prompt is computed in part.
    chunked: Option<Slot>,
    /// Requests that surely finish in flight: they hold rows and pages until then.
    leaving: u32,
    /// Nobody is admitted until somebody leaves.
    batch_is_full: bool,
    pool: PagePool,
    ratio: NewTokenRatio,
    retractions: u64,
    /// Some request came with an adapter.
    adapters: bool,
    /// The shares of the step at hand; empty between steps.
    admitted: Vec<(Slot, u32)>,
}

/// The options in the form in which the steps read them.
#[derive(Clone, Debug)]
struct Rules {
    limits: PrefillLimits,
    request_rows: u32,
    /// Decode rows ride along in prefill steps.
    mixed: bool,
    /// Steps in flight that the engine's loop allows.
    depth: u32,
    /// Tokens per request of a decode step.
    width: u32,
    end: OutputEnd,
    context_length: u32,
    /// Most tokens of a request, prompt and output.
    longest: u32,
}

/// The memory of a started server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerMemory {
    /// Tokens of the KV pool; whole pages count.
    pub kv_tokens: u64,
    /// Rows of the request pool.
    pub request_rows: u32,
}

/// Steps in flight that the engine's loop allows.
fn steps_in_flight(options: &SchedulerOptions) -> u32 {
    if options.disable_overlap_schedule { 1 } else { 2 }
}

/// Tokens of the pool that no request's prompt and output may fill.
///
/// Admission asks for a page and a token more than the request. A decode step takes keys and values for all its drafts,
/// and so does every step in flight before it: the last one behind `n` tokens starts when `n - 2` of them have keys and
/// values.
fn kept_free(options: &SglangOptions) -> u64 {
    let in_flight = u64::from(steps_in_flight(&options.scheduler)) * u64::from(options.decode_width().max(1));
    (u64::from(options.scheduler.page_size) + 1).max(in_flight.saturating_sub(2))
}

/// Checks that an engine with this pool could serve anybody.
///
/// # Errors
/// [`EngineError::PoolTooSmall`] and [`EngineError::ChunkBelowPage`].
pub fn check_memory(
    options: &SglangOptions,
    chunked_prefill_size: i32,
    memory: ServerMemory,
) -> Result<(), EngineError> {
    let page_size = options.scheduler.page_size;
    let needed = kept_free(options) + 1;
    if memory.kv_tokens / u64::from(page_size) * u64::from(page_size) <= needed {
        return Err(EngineError::PoolTooSmall { tokens: memory.kv_tokens, page_size, needed });
    }
    let chunk = PrefillLimits::of(&options.scheduler, chunked_prefill_size).chunked_prefill_size;
    match chunk.filter(|&chunk| chunk < page_size) {
        Some(chunk) => Err(EngineError::ChunkBelowPage { chunk, page_size }),
        None => Ok(()),
    }
}

impl Scheduler {
    /// An idle scheduler. `chunked_prefill_size` is the settled one.
    ///
    /// The options are those of an engine that starts: they pass [`check_memory`], and every size is at least 1.
    #[must_use]
    pub fn new(options: &SglangOptions, chunked_prefill_size: i32, memory: ServerMemory) -> Self {
        let scheduler = &options.scheduler;
        let page_size = scheduler.page_size;
        let pages = u32::try_from(memory.kv_tokens / u64::from(page_size)).unwrap_or(u32::MAX);
        let limits = PrefillLimits::of(scheduler, chunked_prefill_size);
        let most = (u64::from(pages) * u64::from(page_size)).saturating_sub(kept_free(options));
        Self {
            rules: Rules {
                limits,
                request_rows: memory.request_rows.max(1),
                mixed: scheduler.enable_mixed_chunk
                    && !scheduler.return_logprob
                    && limits.chunked_prefill_size.is_some(),
                depth: steps_in_flight(scheduler),
                width: options.decode_width().max(1),
                end: scheduler.output_end,
                context_length: scheduler.context_length,
                longest: u32::try_from(most).unwrap_or(u32::MAX).min(scheduler.context_length),
            },
            requests: Slab::default(),
            waiting: VecDeque::new(),
            running: Vec::new(),
            stepping: Stepping::default(),
            lockstep: Lockstep::new(page_size, false),
            patience: Patience::new(),
            ended: false,
            taken_out: None,
            touched: Vec::new(),
            decode_steps: 0,
            entered: 0,
            chunked: None,
            leaving: 0,
            batch_is_full: false,
            pool: PagePool::new(pages, page_size, !scheduler.disable_radix_cache),
            ratio: NewTokenRatio::new(scheduler.schedule_conservativeness),
            retractions: 0,
            adapters: false,
            admitted: Vec::new(),
        }
    }

    /// The same scheduler with another way of stepping; one that has not scheduled anything.
    #[must_use]
    pub fn stepping(self, stepping: Stepping) -> Self {
        Self { stepping, ..self }
    }

    /// Whether the engine takes a prompt of this length: one output token must fit behind it.
    ///
    /// # Errors
    /// A [`Refusal`] for an empty prompt and for one too long for the context or the pool.
    pub fn fits(&self, prompt_tokens: u32) -> Result<(), Refusal> {
        let Rules { context_length, longest, .. } = self.rules;
        if prompt_tokens == 0 {
            Err(Refusal::EmptyPrompt)
        } else if prompt_tokens >= context_length {
            Err(Refusal::BeyondContext { prompt_tokens, context_length })
        } else if prompt_tokens >= longest {
            Err(Refusal::BeyondPool { prompt_tokens, longest })
        } else {
            Ok(())
        }
    }

    /// Queues a request whose prompt [`fits`](Self::fits); the next step can admit it.
    pub fn add(&mut self, request: &NewRequest) -> Slot {
        debug_assert_eq!(self.fits(request.prompt_tokens), Ok(()), "refused requests are not added");
        self.adapters |= request.adapter.is_some();
        let slot = self.requests.insert(Request::new(request, self.rules.end, self.rules.longest));
        self.waiting.push_back(slot);
        slot
    }

    /// Some request is unfinished.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.running() + self.waiting() > 0
    }

    /// Requests that have been admitted and are unfinished.
    #[must_use]
    pub fn running(&self) -> u32 {
        self.rows() + u32::from(self.chunked.is_some())
    }

    /// Rows of the request pool that hold a computed prompt.
    fn rows(&self) -> u32 {
        self.running.len() as u32 + self.leaving + self.lockstep.len()
    }

    /// Requests that the next decode step runs.
    fn decoding(&self) -> u32 {
        self.running.len() as u32 + self.lockstep.members()
    }

    /// Requests in the waiting queue, retracted ones included.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        self.waiting.len() as u32
    }

    /// KV pages that a request can have: those that hold nothing, and cached ones that nobody stands on.
    #[must_use]
    pub fn free_blocks(&self) -> u32 {
        self.pool.available()
    }

    /// KV pages of the pool.
    #[must_use]
    pub fn usable_blocks(&self) -> u32 {
        self.pool.usable()
    }

    /// Retractions so far.
    #[must_use]
    pub fn preemptions(&self) -> u64 {
        self.retractions
    }

    /// Share of their longest output that is reserved for running requests.
    #[must_use]
    pub fn new_token_ratio(&self) -> f64 {
        self.ratio.current()
    }

    /// Steps in flight that the engine's loop allows: 2 with overlap scheduling, otherwise 1.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.rules.depth
    }
}

//! Who runs in the next step, whichever engine it is.

use super::refusal::Refusal;
use super::request::{NewRequest, Slot};
use super::step::{Scheduled, StepOutcome, StepPlan};
use super::{sglang, vllm};

/// How a scheduler goes about its steps. Both schedule the same requests, tokens and blocks in every step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stepping {
    /// Looks at every running request in every step, as the engine does.
    Plain,
    /// Looks at what changes where nothing forbids it, and walks plainly where something does.
    #[default]
    Fast,
}

/// One server's scheduler: its queues and its KV blocks.
///
/// The caller steps it as the engine's loop does: [`schedule`](Self::schedule) while fewer than [`depth`](Self::depth)
/// steps are in flight, otherwise [`apply`](Self::apply) the output of the oldest.
#[derive(Clone, Debug)]
pub enum Scheduler {
    /// vLLM's.
    Vllm(vllm::scheduler::Scheduler),
    /// SGLang's.
    Sglang(sglang::scheduler::Scheduler),
}

/// A scheduler whose next step is quiet: it decodes the requests in lockstep and nobody else, nobody can be admitted, and
/// nobody gets its last token. So are the steps behind it for as long as [`pass`](Self::pass) takes them.
pub trait QuietSteps {
    /// Requests of each step.
    fn requests(&self) -> u32;

    /// Tokens that the requests of the next step attend to, computed before and scheduled.
    fn context_tokens(&self) -> u64;

    /// Whether the next step is quiet, too.
    fn is_next(&self) -> bool;

    /// Schedules the next step, which is quiet, and applies the output of the oldest one in flight: itself, if none is.
    fn pass(&mut self);

    /// KV blocks that no request holds.
    fn free_blocks(&self) -> u32;
}

/// [`QuietSteps`] of either engine.
#[derive(Debug)]
pub enum Quiet<'a> {
    /// vLLM's.
    Vllm(vllm::scheduler::Quiet<'a>),
    /// SGLang's.
    Sglang(sglang::scheduler::Quiet<'a>),
}

/// Forwards a call to the scheduler of the engine.
macro_rules! forward {
    ($self:ident, $scheduler:ident => $call:expr) => {
        match $self {
            Self::Vllm($scheduler) => $call,
            Self::Sglang($scheduler) => $call,
        }
    };
}

impl Scheduler {
    /// The same scheduler with another way of stepping; one that has not scheduled anything.
    #[must_use]
    pub fn stepping(self, stepping: Stepping) -> Self {
        match self {
            Self::Vllm(scheduler) => Self::Vllm(scheduler.stepping(stepping)),
            Self::Sglang(scheduler) => Self::Sglang(scheduler.stepping(stepping)),
        }
    }

    /// Whether the engine takes a prompt of this length.
    ///
    /// # Errors
    /// A [`Refusal`] for an empty prompt and for one that leaves no room for an output token.
    pub fn fits(&self, prompt_tokens: u32) -> Result<(), Refusal> {
        forward!(self, scheduler => scheduler.fits(prompt_tokens))
    }

    /// Queues a request whose prompt [`fits`](Self::fits); the next step can admit it.
    pub fn add(&mut self, request: &NewRequest) -> Slot {
        forward!(self, scheduler => scheduler.add(request))
    }

    /// Schedules the next step into `plan`, which is cleared first. The step may hold no tokens.
    pub fn schedule(&mut self, plan: &mut StepPlan) {
        forward!(self, scheduler => scheduler.schedule(plan));
    }

    /// Applies the output of `plan`, the oldest step in flight. `out` is cleared first.
    ///
    /// `accepted` says how many drafts of an entry the model accepts; more than the entry has count as all. It is asked
    /// once, in scheduling order, for each entry that samples and carries drafts which somebody made.
    pub fn apply(&mut self, plan: &StepPlan, accepted: &mut impl FnMut(&Scheduled) -> u32, out: &mut StepOutcome) {
        forward!(self, scheduler => scheduler.apply(plan, accepted, out));
    }

    /// The quiet steps ahead, if the next one is quiet.
    #[inline]
    #[must_use]
    pub fn quiet(&mut self) -> Option<Quiet<'_>> {
        match self {
            Self::Vllm(scheduler) => scheduler.quiet().map(Quiet::Vllm),
            Self::Sglang(scheduler) => scheduler.quiet().map(Quiet::Sglang),
        }
    }

    /// Some request is unfinished, or one has finished and no step has reported it yet.
    #[must_use]
    pub fn has_work(&self) -> bool {
        forward!(self, scheduler => scheduler.has_work())
    }

    /// Requests in the running list.
    #[must_use]
    pub fn running(&self) -> u32 {
        forward!(self, scheduler => scheduler.running())
    }

    /// Requests in the waiting queue, preempted ones included.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        forward!(self, scheduler => scheduler.waiting())
    }

    /// KV blocks that no request holds.
    #[must_use]
    pub fn free_blocks(&self) -> u32 {
        forward!(self, scheduler => scheduler.free_blocks())
    }

    /// KV blocks that requests can hold.
    #[must_use]
    pub fn usable_blocks(&self) -> u32 {
        forward!(self, scheduler => scheduler.usable_blocks())
    }

    /// Preemptions so far.
    #[must_use]
    pub fn preemptions(&self) -> u64 {
        forward!(self, scheduler => scheduler.preemptions())
    }

    /// Steps in flight that the engine's loop allows.
    #[must_use]
    pub fn depth(&self) -> u32 {
        forward!(self, scheduler => scheduler.depth())
    }
}

impl Quiet<'_> {
    /// See [`QuietSteps::requests`].
    #[inline]
    #[must_use]
    pub fn requests(&self) -> u32 {
        forward!(self, quiet => quiet.requests())
    }

    /// See [`QuietSteps::context_tokens`].
    #[inline]
    #[must_use]
    pub fn context_tokens(&self) -> u64 {
        forward!(self, quiet => quiet.context_tokens())
    }
}

//! Who is admitted to one prefill step, and with how many tokens.

use super::super::options::SchedulerOptions;

/// No more than so many output tokens are reserved for one request.
const RESERVED_OUTPUT_MAX: u32 = 4096;

/// Limits of every prefill step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefillLimits {
    /// Input budget, in tokens.
    pub max_prefill_tokens: u32,
    /// Chunk budget, in tokens; `None` without chunking.
    pub chunked_prefill_size: Option<u32>,
    /// Tokens per page.
    pub page_size: u32,
    /// Most requests admitted by one step.
    pub prefill_max_requests: Option<u32>,
    /// No prefix cache: requests that ignore end-of-sequence tokens are then admitted by simulating their completion.
    pub radix_disabled: bool,
}

/// A request's claim on the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Prompt length in tokens.
    pub prompt: u32,
    /// Output tokens so far.
    pub produced: u32,
    /// Output tokens asked for at most.
    pub max_new: u32,
    /// No end-of-sequence token ends it.
    pub ignore_eos: bool,
}

/// What the adder says after a request was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddResult {
    /// The next one may be tried.
    Continue,
    /// The pool has no room.
    NoToken,
    /// A budget is spent.
    Other,
}

/// A request's share of the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Tokens to compute.
    pub tokens: u32,
    /// More of its prompt is left: it becomes the chunked request.
    pub chunked: bool,
}

/// The budgets of one prefill step (SGLang specification section 10). The pool's size is passed with every question,
/// because a prefix hit takes evictable pages out of it.
#[derive(Clone, Debug)]
pub struct PrefillAdder {
    limits: PrefillLimits,
    ratio: f64,
    /// Left of the input budget.
    input: i64,
    /// Left of the chunk budget.
    chunk: Option<i64>,
    /// Taken from the pool: reservations of running requests, and everything charged.
    reserved: f64,
    /// The same without any output: what the step itself takes.
    taken: i64,
    admitted: u32,
    /// Running and admitted requests, without a prefix cache only.
    claims: Vec<Claim>,
    /// Tokens left and tokens held of each claim in order of completion, once one was simulated.
    completions: Option<Vec<(f64, i64)>>,
}

impl PrefillLimits {
    /// The limits of a server whose chunk has been settled (0 and less: off).
    #[must_use]
    pub fn of(options: &SchedulerOptions, chunked_prefill_size: i32) -> Self {
        Self {
            max_prefill_tokens: options.max_prefill_tokens,
            chunked_prefill_size: u32::try_from(chunked_prefill_size).ok().filter(|&chunk| chunk > 0),
            page_size: options.page_size,
            prefill_max_requests: options.prefill_max_requests,
            radix_disabled: options.disable_radix_cache,
        }
    }
}

impl Claim {
    fn left(&self) -> u32 {
        self.max_new.saturating_sub(self.produced)
    }

    /// Output tokens reserved on admission.
    fn reservation(&self) -> i64 {
        i64::from(self.left().min(RESERVED_OUTPUT_MAX))
    }

    /// Output tokens reserved while it runs.
    fn expected(&self, ratio: f64) -> f64 {
        self.reservation() as f64 * if self.ignore_eos { 1.0 } else { ratio }
    }

    /// Tokens left and tokens held, if any are left.
    fn completion(&self, ratio: f64) -> Option<(f64, i64)> {
        let share = if self.ignore_eos { 1.0 } else { ratio };
        let left = f64::from(self.max_new) * share - f64::from(self.produced);
        (left > 0.0).then_some((left, i64::from(self.prompt) + i64::from(self.produced)))
    }
}

impl PrefillAdder {
    /// The budgets of a step beside `running` requests; `decode_rows` of them ride along.
    pub fn new(limits: PrefillLimits, ratio: f64, running: impl Iterator<Item = Claim>, decode_rows: u32) -> Self {
        let rows = i64::from(decode_rows);
        let mut claims = Vec::new();
        let mut expected = 0.0;
        for claim in running {
            expected += claim.expected(ratio);
            if limits.radix_disabled {
                claims.push(claim);
            }
        }
        Self {
            limits,
            ratio,
            input: i64::from(limits.max_prefill_tokens) - rows,
            chunk: limits.chunked_prefill_size.map(|chunk| i64::from(chunk) - rows),
            reserved: rows as f64 + expected,
            taken: rows,
            admitted: 0,
            claims,
            completions: None,
        }
    }

    /// Requests admitted so far, the resumed one included.
    #[must_use]
    pub fn admitted(&self) -> u32 {
        self.admitted
    }

    /// Resumes the chunked request, of whose prompt `left` tokens are to be computed; the pool can hold `room` of them.
    /// Its share of the step: 0 if it has to wait.
    ///
    /// It goes first and asks nobody: if the pool's remainder is used up by reservations, it takes the chunk budget all
    /// the same.
    pub fn resume(&mut self, left: u32, claim: Claim, pool_tokens: i64, room: u32) -> u32 {
        let remainder = self.remainder(pool_tokens) as i64;
        let budget = self.chunk.unwrap_or(i64::from(left));
        let most = if remainder > 0 { budget.min(remainder) } else { budget };
        let tokens = u32::try_from(most.max(0)).unwrap_or(u32::MAX).min(left).min(room);
        if tokens > 0 {
            self.charge(tokens, if tokens < left { 0 } else { claim.reservation() }, claim);
        }
        tokens
    }

    /// Tries the next request of the queue, of which `extend` tokens are not cached.
    pub fn add(&mut self, extend: u32, claim: Claim, pool_tokens: i64) -> (Option<Admission>, AddResult) {
        if self.limits.prefill_max_requests.is_some_and(|most| self.admitted >= most) {
            return (None, AddResult::Other);
        }
        let completes = claim.ignore_eos && self.limits.radix_disabled;
        let refusal = if completes {
            self.refuse_by_completion(extend, claim, pool_tokens)
        } else {
            self.refuse(extend, claim, pool_tokens)
        };
        if let Some(refusal) = refusal {
            return (None, refusal);
        }
        // The simulation compares the tokens themselves with the chunk and cuts at any token.
        let (needed, cut) = match (completes, self.chunk) {
            (_, None) => (0, i64::MAX),
            (true, Some(chunk)) => (i64::from(extend), chunk),
            (false, Some(chunk)) => (self.in_pages(extend), chunk.max(0) / self.page() * self.page()),
        };
        let admission = if self.chunk.is_none_or(|chunk| needed <= chunk) {
            Admission { tokens: extend, chunked: false }
        } else if cut > 0 {
            Admission { tokens: cut as u32, chunked: true }
        } else {
            return (None, AddResult::Other);
        };
        self.charge(admission.tokens, if admission.chunked { 0 } else { claim.reservation() }, claim);
        (Some(admission), self.state(pool_tokens))
    }

    /// Whether anybody else may be tried.
    #[must_use]
    pub fn state(&self, pool_tokens: i64) -> AddResult {
        if self.remainder(pool_tokens) <= 0.0 || pool_tokens <= self.taken {
            AddResult::NoToken
        } else if self.input <= 0 || self.chunk.is_some_and(|chunk| chunk <= 0) {
            AddResult::Other
        } else {
            AddResult::Continue
        }
    }

    /// The common test: prompt, whole output and a page more must fit what nobody has reserved.
    fn refuse(&self, extend: u32, claim: Claim, pool_tokens: i64) -> Option<AddResult> {
        let total = i64::from(extend) + claim.reservation() + self.page();
        if total as f64 >= self.remainder(pool_tokens) {
            return Some(AddResult::NoToken);
        }
        let too_long = self.chunk.is_none() && self.admitted > 0 && self.in_pages(extend) >= self.input;
        too_long.then_some(AddResult::Other)
    }

    /// The test without a prefix cache for outputs of known length: at each completion more tokens must be free than
    /// requests are left.
    fn refuse_by_completion(&mut self, extend: u32, claim: Claim, pool_tokens: i64) -> Option<AddResult> {
        let free = pool_tokens - self.taken;
        if self.in_pages(extend) > free || self.in_pages(extend) as f64 > self.remainder(pool_tokens) {
            return Some(AddResult::NoToken);
        }
        let mut free = (free - self.in_pages(extend)) as f64;
        let ratio = self.ratio;
        let own = claim.completion(ratio);
        let completions = if let Some(completions) = &mut self.completions {
            if let Some(own) = own {
                // The engine inserts before the last one at the latest, whatever its length.
                let last = completions.len().saturating_sub(1);
                let place = completions.iter().position(|&(left, _)| own.0 <= left).unwrap_or(last);
                completions.insert(place, own);
            }
            completions
        } else {
            let others = self.claims.iter().filter_map(|claim| claim.completion(ratio));
            let mut all: Vec<(f64, i64)> = own.into_iter().chain(others).collect();
            all.sort_by(|a, b| a.0.total_cmp(&b.0));
            self.completions.insert(all)
        };
        for (position, &(left, held)) in completions.iter().enumerate() {
            let running = (completions.len() - position) as f64;
            if free - left * running <= running {
                return Some(AddResult::NoToken);
            }
            free += held as f64;
        }
        None
    }

    fn charge(&mut self, tokens: u32, reservation: i64, claim: Claim) {
        let extend = self.in_pages(tokens);
        self.reserved += (extend + reservation + self.page()) as f64;
        self.taken += extend + self.page();
        self.input -= extend;
        self.chunk = self.chunk.map(|chunk| chunk - extend);
        self.admitted += 1;
        if self.limits.radix_disabled {
            self.claims.push(claim);
        }
    }

    /// Tokens of the pool that nobody has reserved; may be negative.
    fn remainder(&self, pool_tokens: i64) -> f64 {
        pool_tokens as f64 - self.reserved
    }

    fn in_pages(&self, tokens: u32) -> i64 {
        i64::from(tokens.div_ceil(self.limits.page_size)) * self.page()
    }

    fn page(&self) -> i64 {
        i64::from(self.limits.page_size)
    }
}

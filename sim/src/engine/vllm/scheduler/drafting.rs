//! The scheduler's part of speculative decoding.

use crate::engine::vllm::drafting::drafts_by_batch;
use crate::engine::vllm::options::VllmOptions;

/// How many drafts a request carries, and what the drafter costs elsewhere. All numbers are 0 without a drafter.
#[derive(Clone, Debug)]
pub(super) struct Drafting {
    /// `num_speculative_tokens`.
    most: u32,
    /// Dynamic speculative decoding: drafts by the number of requests in the step, from one request on.
    by_batch: Option<Vec<u32>>,
    /// Tokens behind the scheduled ones for which a request holds blocks.
    pub(super) lookahead_tokens: u32,
    /// Inputs that the drafter adds per request of a step, in tokens.
    pub(super) slots: u32,
    /// The last block of a prefix-cache hit is computed again.
    pub(super) recomputes_last_hit: bool,
}

impl Drafting {
    pub(super) fn of(options: &VllmOptions) -> Self {
        let most = options.graphs.num_speculative_tokens;
        let drafter = options.scheduler.drafter;
        let schedule = options.graphs.dynamic_sd_schedule.as_deref();
        Self {
            most,
            by_batch: schedule.and_then(|tiers| drafts_by_batch(tiers, most, options.scheduler.max_num_seqs)),
            lookahead_tokens: drafter.lookahead_tokens(most),
            slots: drafter.input_slots(most),
            recomputes_last_hit: most > 0 && drafter.reads_hidden_states(),
        }
    }

    pub(super) fn is_on(&self) -> bool {
        self.most > 0
    }

    /// The number of drafts depends on the batch.
    pub(super) fn is_dynamic(&self) -> bool {
        self.by_batch.is_some()
    }

    /// Drafts per request where their number does not depend on the batch; `None` without drafts.
    pub(super) fn fixed(&self) -> Option<u32> {
        (self.most > 0 && self.by_batch.is_none()).then_some(self.most)
    }

    /// Drafts that each request carries after a step of `requests` requests in which it sampled.
    pub(super) fn after(&self, requests: u32) -> u32 {
        match (&self.by_batch, requests.checked_sub(1)) {
            (Some(by_batch), Some(place)) => by_batch.get(place as usize).or(by_batch.last()).copied().unwrap_or(0),
            _ => self.most,
        }
    }

    /// Tokens per request of a step that verifies all the drafts there can be.
    pub(super) fn uniform_query(&self) -> u32 {
        1 + self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::vllm::options::{
        Drafter, GraphOptions, KvOptions, Runner, SchedulerOptions, SpeculativeMethod, Version,
    };

    fn drafting(num_speculative_tokens: u32, schedule: Option<&[(u32, u32, u32)]>) -> Drafting {
        let graphs = GraphOptions {
            num_speculative_tokens,
            dynamic_sd_schedule: schedule.map(<[_]>::to_vec),
            ..GraphOptions::default()
        };
        let drafter = Drafter { method: SpeculativeMethod::Eagle, ..Drafter::default() };
        let scheduler = SchedulerOptions { max_num_seqs: 8, drafter, ..SchedulerOptions::default() };
        let (version, runner, kv) = (Version::V0_33_0, Runner::V2, KvOptions::default());
        Drafting::of(&VllmOptions { version, runner: Some(runner), scheduler, kv, graphs })
    }

    #[test]
    fn a_schedule_decides_by_the_size_of_the_batch() {
        let dynamic = drafting(4, Some(&[(1, 2, 6), (3, 5, 2), (6, 6, 0)]));
        assert_eq!([1, 2, 3, 5, 6, 8].map(|requests| dynamic.after(requests)), [4, 4, 2, 2, 0, 0]);
        assert_eq!((dynamic.fixed(), dynamic.is_dynamic(), dynamic.uniform_query()), (None, true, 5));
    }

    #[test]
    fn without_a_schedule_the_number_is_fixed() {
        let fixed = drafting(4, None);
        assert_eq!((fixed.fixed(), fixed.after(1), fixed.after(99)), (Some(4), 4, 4));
        assert!(fixed.recomputes_last_hit && fixed.lookahead_tokens == 4);
        let off = drafting(0, None);
        assert_eq!((off.fixed(), off.lookahead_tokens, off.uniform_query()), (None, 0, 1));
        assert!(!off.recomputes_last_hit && !off.is_on());
    }
}

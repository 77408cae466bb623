//! How many drafts a batch carries, by batch size (dynamic speculative decoding; specification sections 2 and 6), and
//! what a drafter asks of the scheduler (section 11).

use super::options::{Drafter, GraphOptions, SpeculativeMethod, VllmOptions};
use crate::engine::options::DecodeBatch;
use crate::time::SimDuration;

/// One number of drafts, and the widest batch that runs with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DraftTier {
    /// Drafts per request.
    pub(super) drafts: u32,
    /// The widest batch with this many drafts, in requests.
    pub(super) widest_batch: u32,
}

/// The tiers in force, one per distinct number of drafts, ascending by it.
///
/// Drafts are clamped to `num_speculative_tokens`; past the schedule's end its last tier goes on; tiers that start
/// above `max_num_seqs` never run. Without a schedule, or with one that does not start at batch 1 or has gaps, there is
/// one tier: the engine drops such a schedule silently.
pub(super) fn draft_tiers(
    schedule: Option<&[(u32, u32, u32)]>,
    num_speculative_tokens: u32,
    max_num_seqs: u32,
) -> Vec<DraftTier> {
    let Some(schedule) = schedule.filter(|schedule| is_valid(schedule)) else {
        return vec![DraftTier { drafts: num_speculative_tokens, widest_batch: max_num_seqs }];
    };
    let mut tiers: Vec<DraftTier> = Vec::new();
    for (position, &(first, last, drafts)) in schedule.iter().enumerate() {
        if first > max_num_seqs {
            break;
        }
        let last = if position + 1 == schedule.len() { max_num_seqs } else { last.min(max_num_seqs) };
        let drafts = drafts.min(num_speculative_tokens);
        match tiers.iter_mut().find(|tier| tier.drafts == drafts) {
            Some(tier) => tier.widest_batch = tier.widest_batch.max(last),
            None => tiers.push(DraftTier { drafts, widest_batch: last }),
        }
    }
    tiers.sort_unstable_by_key(|tier| tier.drafts);
    tiers
}

/// The drafts of each batch from 1 to `max_num_seqs` requests, in that order; `None` for a schedule that the engine drops.
pub(super) fn drafts_by_batch(
    schedule: &[(u32, u32, u32)],
    num_speculative_tokens: u32,
    max_num_seqs: u32,
) -> Option<Vec<u32>> {
    let of_batch = |batch| {
        let tier = schedule.iter().rev().find(|&&(first, ..)| first <= batch);
        tier.map_or(0, |&(.., drafts)| drafts.min(num_speculative_tokens))
    };
    is_valid(schedule).then(|| (1..=max_num_seqs).map(of_batch).collect())
}

impl VllmOptions {
    /// The decode batch of the most tokens: the full one, or under `dynamic_sd_schedule` the widest batch of one of its
    /// numbers of drafts.
    #[must_use]
    pub fn largest_decode_batch(&self) -> DecodeBatch {
        let schedule = self.graphs.dynamic_sd_schedule.as_deref();
        let tiers = draft_tiers(schedule, self.graphs.num_speculative_tokens, self.scheduler.max_num_seqs);
        let batch = |tier: &DraftTier| DecodeBatch { requests: tier.widest_batch, drafts: tier.drafts };
        let largest = tiers.iter().map(batch).max_by_key(|batch| (batch.tokens(), batch.requests));
        largest.unwrap_or(DecodeBatch { requests: self.scheduler.max_num_seqs, drafts: 0 })
    }

    /// Requests of the widest decode batch that has at most `tokens`; 0 if none has.
    #[must_use]
    pub fn widest_decode_batch(&self, tokens: u32) -> u32 {
        let (most, requests_max) = (self.graphs.num_speculative_tokens, self.scheduler.max_num_seqs);
        let schedule = self.graphs.dynamic_sd_schedule.as_deref();
        let Some(by_batch) = schedule.and_then(|tiers| drafts_by_batch(tiers, most, requests_max)) else {
            return tokens / most.saturating_add(1);
        };
        let fits = |(requests, drafts)| DecodeBatch { requests, drafts }.tokens() <= u64::from(tokens);
        (1..).zip(by_batch).filter(|&batch| fits(batch)).map(|(requests, _)| requests).last().unwrap_or(0)
    }

    /// Device time to make the drafts of a step, by the number of its requests from one on; the last entry goes on. Fewer
    /// drafts by `dynamic_sd_schedule` take that much less. Empty without drafts or without `drafting_time`.
    #[must_use]
    pub fn drafting_times(&self) -> Vec<SimDuration> {
        let most = self.graphs.num_speculative_tokens;
        let Some(time) = self.scheduler.drafter.drafting_time.filter(|_| most > 0) else { return Vec::new() };
        let schedule = self.graphs.dynamic_sd_schedule.as_deref();
        let by_batch = schedule.and_then(|tiers| drafts_by_batch(tiers, most, self.scheduler.max_num_seqs));
        let of_drafts = |drafts: u32| SimDuration((u128::from(time.0) * u128::from(drafts) / u128::from(most)) as u64);
        by_batch.map_or_else(|| vec![time], |drafts| drafts.into_iter().map(of_drafts).collect())
    }
}

impl GraphOptions {
    /// The engine drops `dynamic_sd_schedule`: it does not start at batch 1, has a gap or a reversed tier.
    #[must_use]
    pub fn drops_schedule(&self) -> bool {
        self.dynamic_sd_schedule.as_deref().is_some_and(|schedule| !is_valid(schedule))
    }
}

impl Drafter {
    /// Inputs that the drafter adds to each request of a step, in tokens (specification section 11; `DFlash` and `DSpark`
    /// draft in parallel and are read in vLLM's own table).
    #[must_use]
    pub fn input_slots(self, num_speculative_tokens: u32) -> u32 {
        let drafts = num_speculative_tokens;
        match self.method {
            _ if drafts == 0 => 0,
            SpeculativeMethod::DraftModel if self.parallel_drafting => drafts,
            SpeculativeMethod::DraftModel => 1,
            SpeculativeMethod::Dflash => drafts,
            SpeculativeMethod::Dspark => drafts - 1,
            SpeculativeMethod::Eagle | SpeculativeMethod::Eagle3 | SpeculativeMethod::Mtp if self.parallel_drafting => {
                drafts - 1
            }
            _ => 0,
        }
    }

    /// Tokens behind the scheduled ones for which a request holds KV blocks, because the drafter writes there: vectors pin
    /// those of n-gram and draft model, the others are read in vLLM's scheduler.
    #[must_use]
    pub fn lookahead_tokens(self, num_speculative_tokens: u32) -> u32 {
        match self.method {
            _ if num_speculative_tokens == 0 => 0,
            SpeculativeMethod::Dflash => num_speculative_tokens + 1,
            _ if self.reads_hidden_states() || self.method == SpeculativeMethod::DraftModel => num_speculative_tokens,
            _ => 0,
        }
    }

    /// The drafter starts from the model's hidden states, which the prefix cache does not hold: the last block of a hit is
    /// computed again (read in vLLM's KV cache manager; no vector pins it).
    #[must_use]
    pub fn reads_hidden_states(self) -> bool {
        matches!(
            self.method,
            SpeculativeMethod::Eagle
                | SpeculativeMethod::Eagle3
                | SpeculativeMethod::Mtp
                | SpeculativeMethod::Dflash
                | SpeculativeMethod::Dspark
        )
    }
}

/// Starts at batch 1, has no gap and no reversed tier.
fn is_valid(schedule: &[(u32, u32, u32)]) -> bool {
    let mut expected_first = Some(1);
    for &(first, last, _) in schedule {
        if Some(first) != expected_first || last < first {
            return false;
        }
        expected_first = last.checked_add(1);
    }
    !schedule.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::vllm::options::{KvOptions, SchedulerOptions, Version};

    fn tiers(schedule: &[(u32, u32, u32)], drafts: u32, seqs: u32) -> Vec<(u32, u32)> {
        draft_tiers(Some(schedule), drafts, seqs).iter().map(|tier| (tier.drafts, tier.widest_batch)).collect()
    }

    #[test]
    fn a_schedule_is_clamped_and_its_last_tier_goes_on() {
        assert_eq!(tiers(&[(1, 8, 5), (9, 64, 3), (65, 256, 1)], 5, 300), [(1, 300), (3, 64), (5, 8)]);
        assert_eq!(tiers(&[(1, 8, 5), (9, 64, 3), (65, 256, 1)], 4, 16), [(3, 16), (4, 8)]);
        assert_eq!(tiers(&[(1, 4, 9), (5, 8, 7)], 6, 100), [(6, 100)]);
    }

    #[test]
    fn a_schedule_names_the_drafts_of_every_batch() {
        let by_batch = |schedule: &[_]| drafts_by_batch(schedule, 4, 6);
        assert_eq!(by_batch(&[(1, 2, 5), (3, 4, 3), (5, 5, 0)]), Some(vec![4, 4, 3, 3, 0, 0]));
        assert_eq!(by_batch(&[(1, 64, 2), (65, 128, 1)]), Some(vec![2; 6]));
    }

    #[test]
    fn the_largest_decode_batch_has_the_drafts_of_its_own_tier() {
        let options = |schedule: Option<&[(u32, u32, u32)]>| {
            let mut options = VllmOptions {
                version: Version::V0_33_0,
                runner: None,
                scheduler: SchedulerOptions { max_num_seqs: 16, ..SchedulerOptions::default() },
                kv: KvOptions::default(),
                graphs: GraphOptions { num_speculative_tokens: 4, ..GraphOptions::default() },
            };
            options.graphs.dynamic_sd_schedule = schedule.map(<[_]>::to_vec);
            options
        };
        let tiers = &[(1, 4, 4), (5, 8, 2), (9, 16, 0)][..];
        for (schedule, requests, drafts) in [(None, 16, 4), (Some(tiers), 8, 2), (Some(&[(2, 3, 1)]), 16, 4)] {
            let largest = options(schedule).largest_decode_batch();
            assert_eq!(largest, DecodeBatch { requests, drafts }, "{schedule:?}");
            // The slow way: every batch with its own drafts.
            let by_batch = schedule.and_then(|tiers| drafts_by_batch(tiers, 4, 16)).unwrap_or(vec![4; 16]);
            let tokens = |requests: u32| u64::from(requests) * u64::from(by_batch[requests as usize - 1] + 1);
            assert_eq!((1..=16).map(tokens).max(), Some(largest.tokens()), "{schedule:?}");
        }
        assert_eq!([4, 15, 40].map(|tokens| options(Some(tiers)).widest_decode_batch(tokens)), [0, 15, 16]);
        assert_eq!([4, 15, 40].map(|tokens| options(None).widest_decode_batch(tokens)), [0, 3, 8]);
    }

    #[test]
    fn what_a_drafter_asks_of_the_scheduler() {
        use SpeculativeMethod::{Dflash, DraftModel, Dspark, Eagle, Medusa, Mtp, Ngram};
        let asks = |method, parallel_drafting| {
            let drafter = Drafter { method, parallel_drafting, drafting_time: None };
            assert_eq!((drafter.input_slots(0), drafter.lookahead_tokens(0)), (0, 0));
            (drafter.input_slots(8), drafter.lookahead_tokens(8))
        };
        assert_eq!([Ngram, Medusa, Eagle, Mtp].map(|method| asks(method, false)), [(0, 0), (0, 0), (0, 8), (0, 8)]);
        assert_eq!([false, true].map(|parallel| asks(DraftModel, parallel)), [(1, 8), (8, 8)]);
        assert_eq!([Eagle, Dflash, Dspark].map(|method| asks(method, true)), [(7, 8), (8, 9), (7, 8)]);
    }

    #[test]
    fn a_broken_schedule_is_dropped() {
        for broken in [&[(2, 8, 3)][..], &[(8, 4, 2)], &[(1, 4, 2), (6, 8, 1)], &[]] {
            assert_eq!(drafts_by_batch(broken, 3, 32), None);
            assert_eq!(tiers(broken, 3, 32), [(3, 32)]);
        }
    }
}

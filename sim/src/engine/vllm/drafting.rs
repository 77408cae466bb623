//! How many drafts a batch carries, by batch size (dynamic speculative decoding; specification sections 2 and 6).

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
    fn a_broken_schedule_is_dropped() {
        for broken in [&[(2, 8, 3)][..], &[(8, 4, 2)], &[(1, 4, 2), (6, 8, 1)], &[]] {
            assert_eq!(tiers(broken, 3, 32), [(3, 32)]);
        }
    }
}

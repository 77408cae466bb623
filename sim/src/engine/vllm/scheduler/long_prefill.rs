//! `long_prefill_token_threshold`: one long prompt may not take a whole step while others wait.

/// The cap on one request's share of a step (specification section 11).
#[derive(Clone, Debug)]
pub(super) struct LongPrefill {
    /// The cap in tokens; 0 is off, in the adaptive form too.
    pub(super) threshold: u32,
    /// Never cut below an even share of the input budget.
    pub(super) adaptive: bool,
    /// `max_num_batched_tokens`.
    pub(super) input_budget: u32,
}

impl LongPrefill {
    /// The most tokens that one request may get in a step with `requests` running and waiting ones. A lone request
    /// starves nobody and is not capped.
    pub(super) fn cap(&self, requests: usize) -> u32 {
        if self.threshold == 0 || requests <= 1 {
            return u32::MAX;
        }
        let even_share = if self.adaptive { (self.input_budget as usize / requests) as u32 } else { 0 };
        self.threshold.max(even_share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cap_holds_only_against_others() {
        let fixed = LongPrefill { threshold: 64, adaptive: false, input_budget: 256 };
        assert_eq!([0, 1, 2, 100].map(|requests| fixed.cap(requests)), [u32::MAX, u32::MAX, 64, 64]);
    }

    #[test]
    fn the_adaptive_cap_is_an_even_share_but_no_less_than_the_threshold() {
        let adaptive = LongPrefill { threshold: 64, adaptive: true, input_budget: 256 };
        assert_eq!([1, 2, 3, 4, 5].map(|requests| adaptive.cap(requests)), [u32::MAX, 128, 85, 64, 64]);
    }

    #[test]
    fn zero_is_off_even_if_adaptive() {
        let off = LongPrefill { threshold: 0, adaptive: true, input_budget: 256 };
        assert_eq!(off.cap(8), u32::MAX);
    }
}

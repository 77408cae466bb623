//! `prefill_schedule_interval`: prompts are computed in every n-th step only, while others decode.

/// When prefills were last scheduled, and whether they have to wait (specification section 11).
#[derive(Clone, Debug)]
pub(super) struct PrefillCadence {
    /// Steps from one prefill to the next; 1 is off.
    interval: u32,
    /// Steps with tokens so far.
    executed: u64,
    /// The value of `executed` after the last step that prefilled.
    last_prefill: u64,
    /// Requests that could have been admitted were left waiting: deferring would only lengthen the queue.
    capacity_bound: bool,
}

impl PrefillCadence {
    pub(super) fn new(interval: u32) -> Self {
        Self { interval, executed: 0, last_prefill: 0, capacity_bound: false }
    }

    /// Prefills may ever have to wait.
    pub(super) fn is_on(&self) -> bool {
        self.interval > 1
    }

    /// Prefills wait in the coming step, provided that somebody decodes.
    pub(super) fn defers(&self) -> bool {
        self.interval > 1 && !self.capacity_bound && self.executed + 1 - self.last_prefill < u64::from(self.interval)
    }

    /// Notes, after an admission phase that did not defer, whether requests were left waiting.
    pub(super) fn admitted(&mut self, left_waiting: bool) {
        self.capacity_bound = left_waiting;
    }

    /// Notes a scheduled step.
    pub(super) fn scheduled(&mut self, tokens: u32, prefilled: bool) {
        self.executed += u64::from(tokens > 0);
        if prefilled {
            self.last_prefill = self.executed;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefills_wait_until_the_interval_has_passed() {
        let mut cadence = PrefillCadence::new(3);
        cadence.scheduled(8, true);
        let mut deferred = Vec::new();
        for _ in 0..4 {
            deferred.push(cadence.defers());
            cadence.scheduled(1, false);
        }
        assert_eq!(deferred, [true, true, false, false]);
    }

    #[test]
    fn steps_without_tokens_do_not_count() {
        let mut cadence = PrefillCadence::new(2);
        cadence.scheduled(8, true);
        cadence.scheduled(0, false);
        assert!(cadence.defers());
    }

    #[test]
    fn nothing_is_deferred_when_off_or_bound_by_capacity() {
        let mut cadence = PrefillCadence::new(1);
        cadence.scheduled(8, true);
        assert!(!cadence.defers());
        let mut cadence = PrefillCadence::new(9);
        cadence.scheduled(8, true);
        cadence.admitted(true);
        assert!(!cadence.defers());
        cadence.admitted(false);
        assert!(cadence.defers());
    }
}

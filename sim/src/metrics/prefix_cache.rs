//! Tokens that requests found in the prefix cache when they were admitted.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::engine::request::RequestId;
use crate::engine::step::Scheduled;
use crate::observe::Event;

/// What the cache saved over some part of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefixTotals {
    /// Prompt tokens of the requests admitted, each once.
    pub prompt_tokens: u64,
    /// Those found in the cache.
    pub hit_tokens: u64,
    /// Tokens found by requests that were admitted again after a preemption.
    pub preempted_hit_tokens: u64,
}

impl PrefixTotals {
    /// Hits / prompt tokens; `None` before anybody was admitted.
    #[must_use]
    pub fn hit_rate(&self) -> Option<f64> {
        (self.prompt_tokens > 0).then(|| self.hit_tokens as f64 / self.prompt_tokens as f64)
    }
}

/// Why a live request does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outside {
    /// Not admitted yet, with a prompt of so many tokens.
    New(u32),
    Preempted,
}

/// Follows the requests that do not run, so that their admission shows.
#[derive(Clone, Debug, Default)]
pub struct PrefixCacheRecorder {
    outside: HashMap<RequestId, Outside, BuildHasherDefault<IdHasher>>,
}

/// Spreads numbers that are given out in order over all bits; no adversary chooses them.
#[derive(Clone, Copy, Debug, Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(byte.into());
        }
    }

    fn write_u32(&mut self, word: u32) {
        // The golden ratio as a fraction of 2^64.
        let spread = (self.0 ^ u64::from(word)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = spread ^ (spread >> 32);
    }
}

impl PrefixCacheRecorder {
    /// Takes note of arrivals, preemptions and admissions; those go to `totals`. A step holds the requests that it admits
    /// behind those that were running.
    pub fn record(&mut self, event: &Event<'_>, totals: &mut PrefixTotals) {
        match event {
            Event::RequestArrived { id, request, .. } => {
                self.outside.insert(*id, Outside::New(request.prompt_tokens));
            }
            Event::RequestPreempted { id, .. } => {
                self.outside.insert(*id, Outside::Preempted);
            }
            Event::StepScheduled(step) if !self.outside.is_empty() => {
                let mut last_first = step.plan.entries.iter().rev();
                while last_first.next().is_some_and(|entry| self.admitted(entry, totals)) {}
            }
            // A preempted request may finish on output that was in flight.
            Event::StepApplied { outcome, .. } if !self.outside.is_empty() => {
                for delivered in outcome.delivered.iter().filter(|delivered| delivered.finished) {
                    self.outside.remove(&delivered.id);
                }
            }
            _ => {}
        }
    }

    /// Adds an entry if it admits a request.
    fn admitted(&mut self, entry: &Scheduled, totals: &mut PrefixTotals) -> bool {
        let Some(outside) = self.outside.remove(&entry.id) else { return false };
        let hit_tokens = u64::from(entry.context_tokens);
        match outside {
            Outside::New(prompt_tokens) => {
                totals.prompt_tokens += u64::from(prompt_tokens);
                totals.hit_tokens += hit_tokens;
            }
            Outside::Preempted => totals.preempted_hit_tokens += hit_tokens,
        }
        true
    }
}

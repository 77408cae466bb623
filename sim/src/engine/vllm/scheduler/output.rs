//! Applying the output of a step.

use super::Scheduler;
use crate::engine::request::Slot;
use crate::engine::step::{Delivered, Scheduled, StepOutcome, StepPlan};

impl Scheduler {
    /// Applies the output of `plan`, the oldest step in flight: tokens are delivered, finished requests leave and
    /// their blocks and slots are free at once. `out` is cleared first.
    ///
    /// `accepted` says how many drafts of an entry the model accepts; more than the entry has count as all. It is asked
    /// once, in scheduling order, for each entry that samples and carries drafts which somebody made.
    pub fn apply(&mut self, plan: &StepPlan, accepted: &mut impl FnMut(&Scheduled) -> u32, out: &mut StepOutcome) {
        let _ = accepted;
        out.clear();
        let mut finished_running = false;
        for entry in &plan.entries {
            let request = &mut self.requests[entry.slot];
            debug_assert_eq!(request.id, entry.id, "a request of known length is never scheduled past its end");
            request.in_flight -= entry.tokens;
            let stale = request.stale > 0;
            if stale {
                request.stale -= entry.tokens;
            }
            if !entry.samples {
                continue;
            }
            // A preempted request keeps what it sampled before; its counters were reset with its blocks.
            if self.rules.asynchronous && !stale {
                request.placeholders -= 1;
            }
            let first = request.known == request.prompt;
            request.known += 1;
            let finished = request.is_finished();
            if finished {
                self.pool.release(&mut request.held);
                self.requests.vacate(entry.slot);
                self.finish_unreported = true;
                if stale {
                    self.remove_waiting(entry.slot);
                } else {
                    finished_running = true;
                }
            }
            out.delivered.push(Delivered { slot: entry.slot, id: entry.id, tokens: 1, first, finished });
        }
        if finished_running {
            self.running.retain(|&slot| !self.requests[slot].is_finished());
        }
    }

    /// Takes a preempted request that finished while it waited out of the queue; it is among the first.
    fn remove_waiting(&mut self, slot: Slot) {
        let place = self.waiting.iter().position(|&waiting| waiting == slot);
        self.waiting.remove(place.expect("a request with stale output in flight waits"));
    }
}

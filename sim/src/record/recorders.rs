//! Events become records, one a step and one a request, for whoever writes or shows them.

use std::collections::VecDeque;
use std::io;

use reports::{RequestRecord, StepRecord};

use super::step::{request, step};
use crate::engine::request::Slot;
use crate::metrics::Attainment;
use crate::metrics::latency::{FinishedRequest, RequestClock};
use crate::observe::Event;
use crate::scenario::Slo;
use crate::server::Setup;
use crate::time::SimTime;

/// Makes a record of each step when its output is applied.
pub struct StepRecorder<'a> {
    setup: &'a Setup,
    /// Steps whose output has not been applied, the oldest first.
    in_flight: VecDeque<StepRecord>,
    /// Requests preempted since the last step was scheduled.
    preempted: u32,
}

/// Makes a record of each request when it finishes or is refused.
pub struct RequestRecorder {
    candidate: String,
    seed: u64,
    slo: Slo,
    clock: RequestClock,
    /// Preemptions of the live requests, by slot.
    preemptions: Vec<u32>,
    /// Who finished with the output at hand; kept for its memory.
    finished: Vec<(Slot, FinishedRequest)>,
}

impl<'a> StepRecorder<'a> {
    /// A recorder of one candidate's steps.
    #[must_use]
    pub fn new(setup: &'a Setup) -> Self {
        Self { setup, in_flight: VecDeque::new(), preempted: 0 }
    }

    /// Takes note of an event; gives the step whose output it applies.
    pub fn observe(&mut self, event: &Event<'_>) -> Option<StepRecord> {
        match event {
            Event::RequestPreempted { .. } => self.preempted += 1,
            Event::StepScheduled(scheduled) => {
                let preempted = std::mem::take(&mut self.preempted);
                self.in_flight.push_back(StepRecord { preempted, ..step(scheduled, self.setup) });
            }
            Event::StepApplied { outcome, .. } => {
                let mut record = self.in_flight.pop_front().expect("a step is scheduled before it is applied");
                record.accepted = outcome.verified.iter().map(|verified| verified.accepted).sum();
                return Some(record);
            }
            _ => {}
        }
        None
    }
}

impl RequestRecorder {
    /// A recorder of one candidate and seed, which judges requests by `slo`.
    #[must_use]
    pub fn new(candidate: &str, seed: u64, slo: Slo) -> Self {
        Self {
            candidate: candidate.to_owned(),
            seed,
            slo,
            clock: RequestClock::default(),
            preemptions: Vec::new(),
            finished: Vec::new(),
        }
    }

    /// Takes note of an event; gives every request that it ends to `keep`.
    ///
    /// # Errors
    /// The first that `keep` returns.
    pub fn observe(
        &mut self,
        event: &Event<'_>,
        mut keep: impl FnMut(RequestRecord) -> io::Result<()>,
    ) -> io::Result<()> {
        match event {
            Event::RequestArrived { slot, request, .. } => {
                let slot = slot.0 as usize;
                self.clock.arrived(slot, request, true);
                self.preemptions.resize(self.preemptions.len().max(slot + 1), 0);
                self.preemptions[slot] = 0;
            }
            Event::RequestRefused { at, id, request, .. } => keep(RequestRecord {
                candidate: self.candidate.clone(),
                seed: self.seed,
                id: u64::from(id.0),
                arrival_s: at.since(SimTime::ZERO).as_s(),
                prompt_tokens: request.prompt_tokens,
                output_tokens: 0,
                outcome: "refused".to_owned(),
                ttft_ms: None,
                tpot_ms: None,
                e2el_ms: None,
                preemptions: 0,
                good: (self.slo != Slo::default()).then_some(false),
            })?,
            Event::RequestPreempted { slot, .. } => self.preemptions[slot.0 as usize] += 1,
            Event::DummyStepRun { .. } | Event::StepScheduled(_) => {}
            Event::StepApplied { at, rank, outcome, .. } => {
                let finished = &mut self.finished;
                finished.clear();
                self.clock.applied(*at, *rank, outcome, |delivery| {
                    finished.extend(delivery.finished.map(|request| (delivery.slot, request)));
                });
                for (slot, finished) in &self.finished {
                    let good = (self.slo != Slo::default())
                        .then(|| Attainment::default().record(&self.slo, finished.ttft, finished.tpot, finished.e2el));
                    let preemptions = self.preemptions[slot.0 as usize];
                    keep(request(&self.candidate, self.seed, finished, preemptions, good))?;
                }
            }
        }
        Ok(())
    }
}

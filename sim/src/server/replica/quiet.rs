//! Quiet stretches: decode steps in a row that differ in times, contexts and blocks only, in a loop of their own.

use super::Replica;
use crate::cost::{StepCost, StepWork};
use crate::engine::step::StepPlan;
use crate::observe::{Beat, Observer, StepScheduled, Stretch};
use crate::server::ServerError;
use crate::server::source::Source;
use crate::time::SimTime;

/// Steps that are told at once.
const BEATS_MOST: usize = 256;

impl Replica<'_> {
    /// Runs steps for as long as all of them are quiet and nobody arrives, but no more than [`BEATS_MOST`]; whether there
    /// was any. None is unless the step in flight, if the engine runs ahead, is one of the same requests.
    pub(super) fn pass_quiet_stretch(
        &mut self,
        source: &Source,
        observer: &mut impl Observer,
    ) -> Result<bool, ServerError> {
        let [rank] = self.ranks.as_mut_slice() else { return Ok(false) };
        let requests = rank.scheduler.quiet_requests();
        let in_flight = self.in_flight.len();
        if requests == 0 || in_flight + 1 != rank.scheduler.depth() as usize || rank.shared.is_some() {
            return Ok(false);
        }
        let mut oldest = None;
        if let Some(round) = self.in_flight.front() {
            let flight = &round.flights[0];
            let is_alike = flight.plan.entries.is_empty() && flight.plan.joined.is_empty();
            match flight.step {
                Some(step) if is_alike && flight.plan.lockstep == requests => oldest = Some((step, round.end)),
                _ => return Ok(false),
            }
        }
        let plan = &mut self.quiet_plan;
        plan.clear();
        plan.push_lockstep(requests, rank.scheduler.quiet_context_tokens());
        // Nobody drafts in lockstep: a uniform query is one token.
        plan.close(1);
        let work = StepWork::of(plan);
        let dispatch = self.graphs.dispatch_step(plan);
        let cost = self.cost.price(&work, &dispatch);
        let Some(mut prices) = self.cost.beats(&work, &dispatch, &cost) else { return Ok(false) };

        let next_arrival = source.next_arrival().unwrap_or(SimTime(u64::MAX));
        let mut in_flight_end = oldest.map(|(_, end)| end);
        self.beats.clear();
        while self.beats.len() < BEATS_MOST && next_arrival > self.now {
            let context_tokens = rank.scheduler.quiet_context_tokens();
            let Some(attention_ns) = prices.attention_ns(context_tokens) else { break };
            if !rank.scheduler.quiet_beat() {
                break;
            }
            let span = self.timeline.run(self.now, self.work_since, &StepCost { attention_ns, ..cost });
            // The engine's loop goes on when the host is free and the oldest output has come: of the step in flight, or,
            // without one, of this step.
            let oldest_end = in_flight_end.as_mut().map_or(span.end, |end| std::mem::replace(end, span.end));
            self.now = span.host_free.max(oldest_end);
            self.beats.push(Beat {
                decode_context_tokens: context_tokens,
                attention_ns,
                span,
                free_blocks: rank.scheduler.free_blocks(),
                applied_at: self.now,
            });
        }
        let (Some(first), Some(last)) = (self.beats.first(), self.beats.last()) else { return Ok(false) };
        observer.observe_stretch(&Stretch {
            first: StepScheduled {
                step: self.steps,
                rank: 0,
                plan: &self.quiet_plan,
                work,
                dispatch,
                cost: StepCost { attention_ns: first.attention_ns, ..cost },
                span: first.span,
                running: rank.scheduler.running(),
                waiting: rank.scheduler.waiting(),
                free_blocks: first.free_blocks,
                usable_blocks: rank.scheduler.usable_blocks(),
            },
            applied_step: oldest.map_or(self.steps, |(step, _)| step),
            beats: &self.beats,
        })?;
        self.steps += self.beats.len() as u64;
        if let Some(round) = self.in_flight.front_mut() {
            let flight = &mut round.flights[0];
            copy_sums(&self.quiet_plan, last.decode_context_tokens, &mut flight.plan);
            flight.step = Some(self.steps - 1);
            round.end = last.span.end;
        }
        Ok(true)
    }
}

/// Makes a plan that of the last step of a stretch.
fn copy_sums(quiet: &StepPlan, context_tokens: u64, plan: &mut StepPlan) {
    plan.clear();
    plan.push_lockstep(quiet.lockstep, context_tokens);
    (plan.shape, plan.decode_requests) = (quiet.shape, quiet.decode_requests);
}

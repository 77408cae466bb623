//! Quiet stretches: decode steps in a row that differ in times, contexts and blocks only, in a loop of their own.

use super::Replica;
use crate::cost::{BeatPrices, StepCost, StepTimes, StepWork};
use crate::engine::scheduler::{Quiet, QuietSteps};
use crate::engine::step::StepPlan;
use crate::observe::{Beat, Observer, StepScheduled, Stretch};
use crate::server::ServerError;
use crate::server::source::Source;
use crate::server::timeline::Timeline;
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
        let next_arrival = source.next_arrival().unwrap_or(SimTime(u64::MAX));
        let in_flight = self.in_flight.len();
        if next_arrival <= self.now || rank.shared.is_some() || in_flight + 1 != rank.scheduler.depth() as usize {
            return Ok(false);
        }
        let Some(mut quiet) = rank.scheduler.quiet() else { return Ok(false) };
        let requests = quiet.requests();
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
        plan.push_lockstep(requests, quiet.context_tokens());
        // Nobody drafts in lockstep: a uniform query is one token.
        plan.close(1);
        let work = StepWork::of(plan);
        let Some((price, _)) = self.decode_prices.of(plan, &work) else { return Ok(false) };
        let (dispatch, cost, prices) = (&price.dispatch, &price.cost, &mut price.beats);

        self.beats.clear();
        let mut run = Run {
            next_arrival,
            work_since: self.work_since,
            times: cost.times(),
            attention_ns: cost.attention_ns,
            prices,
            timeline: self.timeline.clone(),
            now: self.now,
            in_flight_end: oldest.map(|(_, end)| end),
            beats: &mut self.beats,
        };
        match &mut quiet {
            Quiet::Vllm(steps) => run.pass(steps),
            Quiet::Sglang(steps) => run.pass(steps),
        }
        (self.timeline, self.now) = (run.timeline, run.now);
        let (Some(first), Some(last)) = (self.beats.first(), self.beats.last()) else { return Ok(false) };
        observer.observe_stretch(&Stretch {
            first: StepScheduled {
                step: self.steps,
                rank: 0,
                plan: &self.quiet_plan,
                work: &work,
                dispatch,
                cost: &StepCost { attention_ns: first.attention_ns, ..*cost },
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

/// What the steps of a stretch have in common, and how far they have come.
struct Run<'a, 'c> {
    next_arrival: SimTime,
    work_since: SimTime,
    /// The times of the first step.
    times: StepTimes,
    /// Its attention.
    attention_ns: u64,
    /// The attention of the others.
    prices: &'a mut BeatPrices<'c>,
    timeline: Timeline,
    now: SimTime,
    /// The end of the step in flight, if the engine runs ahead.
    in_flight_end: Option<SimTime>,
    beats: &'a mut Vec<Beat>,
}

impl Run<'_, '_> {
    /// Takes steps for as long as they are quiet and nobody arrives.
    #[inline]
    fn pass(&mut self, quiet: &mut impl QuietSteps) {
        let (mut timeline, mut now, mut in_flight_end) = (self.timeline.clone(), self.now, self.in_flight_end);
        while self.beats.len() < BEATS_MOST && self.next_arrival > now && quiet.is_next() {
            let decode_context_tokens = quiet.context_tokens();
            let Some(attention_ns) = self.prices.attention_ns(decode_context_tokens) else { break };
            quiet.pass();
            let moved_ns = attention_ns.wrapping_sub(self.attention_ns).cast_signed();
            let span = timeline.run(now, self.work_since, &self.times.with_attention_moved(moved_ns));
            // The engine's loop goes on when the host is free and the oldest output has come: of the step in flight, or,
            // without one, of this step.
            let oldest_end = in_flight_end.as_mut().map_or(span.end, |end| std::mem::replace(end, span.end));
            now = span.host_free.max(oldest_end);
            let free_blocks = quiet.free_blocks();
            self.beats.push(Beat { decode_context_tokens, attention_ns, span, free_blocks, applied_at: now });
        }
        (self.timeline, self.now, self.in_flight_end) = (timeline, now, in_flight_end);
    }
}

/// Makes a plan that of the last step of a stretch.
fn copy_sums(quiet: &StepPlan, context_tokens: u64, plan: &mut StepPlan) {
    plan.clear();
    plan.push_lockstep(quiet.lockstep, context_tokens);
    (plan.shape, plan.decode_requests) = (quiet.shape, quiet.decode_requests);
}

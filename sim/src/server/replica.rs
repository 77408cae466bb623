//! The event loop of one replica.

mod decode_prices;
mod quiet;

use std::collections::VecDeque;

use decode_prices::DecodePrices;

use super::error::ServerError;
use super::source::Source;
use super::timeline::Timeline;
use crate::cost::{CostModel, StepCost, StepTimes, StepWork};
use crate::engine::plan::GraphPlan;
use crate::engine::request::{RequestId, Slot};
use crate::engine::scheduler::Scheduler;
use crate::engine::sglang::plan::SharedGraphs;
use crate::engine::shape::{Dispatch, RankStep};
use crate::engine::step::{Scheduled, StepOutcome, StepPlan};
use crate::observe::{Beat, Event, Observer, StepScheduled, StepSpan};
use crate::time::SimTime;
use crate::traffic::{RequestStream, SkippedRows};

/// Schedule calls in a row that may hand out nothing while nothing is in flight, before the loop calls it a bug.
const FRUITLESS_LIMIT: u32 = 1_000;

/// One server: the schedulers of its data-parallel ranks, dispatcher, cost model and clock. Most servers have one rank.
///
/// Order at equal times: a step ends, then requests arrive, then the scheduler runs. Ranks take every step together, as
/// they do where their expert layers meet in a collective: all schedule, agree on a graph, and end together; a rank
/// without work runs a dummy step, and all are as far ahead as the engine lets one be.
#[derive(Debug)]
pub struct Replica<'a> {
    ranks: Vec<Rank>,
    graphs: &'a GraphPlan,
    cost: &'a CostModel,
    timeline: Timeline,
    now: SimTime,
    work_since: SimTime,
    in_flight: VecDeque<Round>,
    spare_rounds: Vec<Round>,
    outcome: StepOutcome,
    requests_offered: u32,
    steps: u64,
    decode_prices: DecodePrices<'a>,
    /// The steps of a quiet stretch; kept for its memory.
    beats: Vec<Beat>,
    /// The plan of its steps.
    quiet_plan: StepPlan,
}

/// One data-parallel rank.
#[derive(Debug)]
struct Rank {
    scheduler: Scheduler,
    slots: Slots,
    /// Which graphs its shared executables stand for.
    shared: Option<SharedGraphs>,
}

/// How the slots of one rank are numbered among those of all ranks: so observers see them.
#[derive(Clone, Copy, Debug)]
struct Slots {
    /// Bits that the rank's number takes.
    shift: u32,
    rank: u32,
}

/// One step of every rank whose output has not been applied.
#[derive(Debug, Default)]
struct Round {
    /// By rank.
    flights: Vec<Flight>,
    end: SimTime,
}

/// One rank's step.
#[derive(Debug, Default)]
struct Flight {
    plan: StepPlan,
    /// Its number; `None` without tokens.
    step: Option<u64>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// When the last output was applied.
    pub at: SimTime,
    /// Steps with tokens.
    pub steps: u64,
    /// Requests offered, refused ones included.
    pub requests_offered: u32,
    /// Preemptions.
    pub preemptions: u64,
    /// Trace rows left out as bad.
    pub skipped_rows: SkippedRows,
}

impl<'a> Replica<'a> {
    /// A replica that is up and idle at time zero, with one scheduler for each data-parallel rank.
    #[must_use]
    pub fn new(schedulers: Vec<Scheduler>, graphs: &'a GraphPlan, cost: &'a CostModel) -> Self {
        let shift = schedulers.len().next_power_of_two().trailing_zeros();
        let rank = |(rank, scheduler)| {
            let shared = graphs.shared_graphs(cost.pieces);
            Rank { scheduler, slots: Slots { shift, rank }, shared }
        };
        Self {
            ranks: (0..).zip(schedulers).map(rank).collect(),
            graphs,
            cost,
            timeline: Timeline::new(cost.overlap),
            now: SimTime::ZERO,
            work_since: SimTime::ZERO,
            in_flight: VecDeque::new(),
            spare_rounds: Vec::new(),
            outcome: StepOutcome::default(),
            requests_offered: 0,
            steps: 0,
            decode_prices: DecodePrices::new(graphs, cost),
            beats: Vec::new(),
            quiet_plan: StepPlan::default(),
        }
    }

    /// Serves all of `traffic` and tells `observer` everything that happens.
    ///
    /// # Errors
    /// If the traffic cannot be read, the observer cannot write, or the loop finds itself making no progress.
    pub fn serve(mut self, traffic: RequestStream, observer: &mut impl Observer) -> Result<RunEnd, ServerError> {
        let mut source = Source::open(traffic)?;
        let depth = self.ranks[0].scheduler.depth() as usize;
        let mut fruitless = 0;
        loop {
            self.admit_arrivals(&mut source, observer)?;
            if self.pass_quiet_stretch(&source, observer)? {
                continue;
            }
            if self.has_work() {
                let tokens = self.schedule(observer)?;
                let may_go_on = self.in_flight.len() < depth;
                if may_go_on && (tokens > 0 || self.has_work()) {
                    continue;
                }
                fruitless = if tokens > 0 || self.tokens_in_flight() { 0 } else { fruitless + 1 };
                if fruitless > FRUITLESS_LIMIT {
                    let waiting = self.ranks.iter().map(|rank| rank.scheduler.waiting()).sum();
                    return Err(ServerError::NoProgress { at: self.now, waiting });
                }
            } else if self.in_flight.is_empty() {
                let Some(arrival) = source.next_arrival() else { break };
                self.now = self.now.max(arrival);
                self.work_since = self.now;
                continue;
            }
            self.apply_oldest(&mut source, observer)?;
        }
        Ok(RunEnd {
            at: self.now,
            steps: self.steps,
            requests_offered: self.requests_offered,
            preemptions: self.ranks.iter().map(|rank| rank.scheduler.preemptions()).sum(),
            skipped_rows: source.stream.skipped_rows(),
        })
    }

    fn has_work(&self) -> bool {
        self.ranks.iter().any(|rank| rank.scheduler.has_work())
    }

    fn admit_arrivals(&mut self, source: &mut Source, observer: &mut impl Observer) -> Result<(), ServerError> {
        while let Some(request) = source.take_due(self.now)? {
            let id = RequestId(self.requests_offered);
            self.requests_offered = id.0.checked_add(1).ok_or(ServerError::TooManyRequests)?;
            let number = request.rank.map_or_else(|| self.least_loaded(), |rank| rank as usize);
            let rank = &mut self.ranks[number];
            if let Err(refusal) = rank.scheduler.fits(request.prompt_tokens) {
                observer.observe(&Event::RequestRefused { at: request.arrival, id, request: &request, refusal })?;
                source.request_done(request.arrival)?;
                continue;
            }
            let slot = rank.scheduler.add(&request.numbered(id));
            observer.observe(&Event::RequestArrived {
                at: request.arrival,
                id,
                rank: rank.slots.rank,
                slot: rank.slots.of(slot),
                request: &request,
            })?;
        }
        Ok(())
    }

    /// The rank that a request without one of its own goes to: the engine's front end weighs a waiting request as much as
    /// four running ones and takes the first of the least loaded ranks (vLLM, `DPLBAsyncMPClient`, read). Its counts are
    /// up to 100 ms old there; here they are current.
    fn least_loaded(&self) -> usize {
        if self.ranks.len() == 1 {
            return 0;
        }
        let load = |rank: &Rank| 4 * u64::from(rank.scheduler.waiting()) + u64::from(rank.scheduler.running());
        let loads = self.ranks.iter().map(load).enumerate();
        loads.min_by_key(|&(_, load)| load).map_or(0, |(number, _)| number)
    }

    /// Schedules one step of every rank, dispatches and prices it; returns its tokens, all ranks together.
    fn schedule(&mut self, observer: &mut impl Observer) -> Result<u64, ServerError> {
        let mut round = self.spare_rounds.pop().unwrap_or_default();
        round.flights.resize_with(self.ranks.len(), Flight::default);
        let mut tokens = 0;
        for (rank, flight) in self.ranks.iter_mut().zip(&mut round.flights) {
            rank.scheduler.schedule(&mut flight.plan);
            flight.step = None;
            tokens += u64::from(flight.plan.shape.tokens);
            for preempted in &flight.plan.preempted {
                let (id, slot) = (preempted.id, rank.slots.of(preempted.slot));
                observer.observe(&Event::RequestPreempted { at: self.now, id, slot })?;
            }
        }
        round.end = self.now;
        if tokens > 0 {
            match round.flights.as_mut_slice() {
                [flight] => (round.end, self.now) = self.run_alone(flight, observer)?,
                flights => (round.end, self.now) = self.run_together(flights, observer)?,
            }
        }
        self.in_flight.push_back(round);
        Ok(tokens)
    }

    /// Runs the step of the only rank; returns when it ends, and when the host is free.
    fn run_alone(
        &mut self,
        flight: &mut Flight,
        observer: &mut impl Observer,
    ) -> Result<(SimTime, SimTime), ServerError> {
        let mut price = self.decode_prices.price(&flight.plan);
        self.ranks[0].switch(self.cost, &mut price);
        let span = self.timeline.run(self.now, self.work_since, &price.cost.times());
        self.tell(0, flight, &price, span, observer)?;
        Ok((span.end, span.host_free))
    }

    /// Runs one step of all ranks; returns when it ends, and when the last host is free.
    fn run_together(
        &mut self,
        flights: &mut [Flight],
        observer: &mut impl Observer,
    ) -> Result<(SimTime, SimTime), ServerError> {
        let steps = self.graphs.dispatch_ranks(flights.iter().map(|flight| &flight.plan));
        let mut prices: Vec<RankCost> =
            flights.iter().zip(&steps).map(|(flight, step)| self.price_rank(&flight.plan, step)).collect();
        for (rank, price) in self.ranks.iter_mut().zip(&mut prices) {
            rank.switch(self.cost, price);
        }
        let times: Vec<StepTimes> = prices.iter().map(|price| price.cost.times()).collect();
        let mut spans = Vec::with_capacity(times.len());
        self.timeline.run_together(self.now, self.work_since, &times, |_, span| spans.push(span));
        let host_free = spans.iter().map(|span| span.host_free).max().unwrap_or(self.now);
        let end = spans.first().map_or(self.now, |span| span.end);
        for (number, ((flight, price), span)) in flights.iter_mut().zip(prices).zip(spans).enumerate() {
            if steps[number].is_dummy {
                let (at, rank, rows) = (span.scheduled, number as u32, price.dispatch.descriptor.tokens);
                observer.observe(&Event::DummyStepRun { at, rank, rows })?;
            } else {
                self.tell(number, flight, &price, span, observer)?;
            }
        }
        Ok((end, host_free))
    }

    /// The price of one rank's step; a dummy step is a decode of one request that has just begun.
    fn price_rank(&self, plan: &StepPlan, step: &RankStep) -> RankCost {
        let RankStep { shape, dispatch, is_dummy, .. } = *step;
        let work = if is_dummy {
            StepWork {
                tokens: shape.tokens,
                requests: shape.requests,
                decode_requests: shape.requests,
                decode_context_tokens: shape.tokens.into(),
                ..StepWork::default()
            }
        } else {
            StepWork::of(plan)
        };
        RankCost { work, dispatch, cost: self.cost.price(&work, &dispatch) }
    }

    /// Numbers a step and tells the observer.
    fn tell(
        &mut self,
        number: usize,
        flight: &mut Flight,
        price: &RankCost,
        span: StepSpan,
        observer: &mut impl Observer,
    ) -> Result<(), ServerError> {
        let scheduler = &self.ranks[number].scheduler;
        observer.observe(&Event::StepScheduled(&StepScheduled {
            step: self.steps,
            rank: number as u32,
            plan: &flight.plan,
            work: &price.work,
            dispatch: &price.dispatch,
            cost: &price.cost,
            span,
            running: scheduler.running(),
            waiting: scheduler.waiting(),
            free_blocks: scheduler.free_blocks(),
            usable_blocks: scheduler.usable_blocks(),
        }))?;
        flight.step = Some(self.steps);
        self.steps += 1;
        Ok(())
    }

    fn apply_oldest(&mut self, source: &mut Source, observer: &mut impl Observer) -> Result<(), ServerError> {
        let round = self.in_flight.pop_front().expect("the loop applies only while a step is in flight");
        self.now = self.now.max(round.end);
        for (rank, flight) in self.ranks.iter_mut().zip(&round.flights) {
            let slots = rank.slots;
            let mut accepted = |entry: &Scheduled| source.stream.accepted(entry.id, slots.of(entry.slot), entry.drafts);
            rank.scheduler.apply(&flight.plan, &mut accepted, &mut self.outcome);
            slots.renumber(&mut self.outcome);
            if let Some(step) = flight.step {
                let rank = slots.rank;
                observer.observe(&Event::StepApplied { at: self.now, step, rank, outcome: &self.outcome })?;
            }
            if source.awaits_requests() {
                for _ in self.outcome.delivered.iter().filter(|delivered| delivered.finished) {
                    source.request_done(self.now)?;
                }
            }
        }
        self.spare_rounds.push(round);
        Ok(())
    }

    fn tokens_in_flight(&self) -> bool {
        self.in_flight.iter().any(|round| round.flights.iter().any(|flight| flight.step.is_some()))
    }
}

/// One rank's step, dispatched and priced.
#[derive(Clone, Copy, Debug)]
struct RankCost {
    work: StepWork,
    dispatch: Dispatch,
    cost: StepCost,
}

impl Rank {
    /// Points shared executables at the graph that runs, and adds the price of that.
    #[inline]
    fn switch(&mut self, model: &CostModel, price: &mut RankCost) {
        if let Some(shared) = &mut self.shared {
            model.add_updates(&mut price.cost, shared.replay(&price.dispatch.descriptor));
        }
    }
}

impl Slots {
    /// A slot of this rank's scheduler as observers see it: no two ranks share one.
    #[inline]
    fn of(self, own: Slot) -> Slot {
        Slot(own.0 << self.shift | self.rank)
    }

    /// Renumbers the slots of an output. Those of the only rank are the same.
    #[inline]
    fn renumber(self, outcome: &mut StepOutcome) {
        if self.shift > 0 {
            outcome.delivered.iter_mut().for_each(|delivered| delivered.slot = self.of(delivered.slot));
            outcome.joined.iter_mut().for_each(|joined| *joined = self.of(*joined));
        }
    }
}

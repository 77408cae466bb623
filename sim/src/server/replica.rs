//! The event loop of one replica.

use std::collections::VecDeque;

use super::error::ServerError;
use super::timeline::Timeline;
use crate::cost::{CostModel, StepWork};
use crate::engine::plan::GraphPlan;
use crate::engine::request::RequestId;
use crate::engine::scheduler::Scheduler;
use crate::engine::step::{StepOutcome, StepPlan};
use crate::observe::{Event, Observer, StepScheduled, StepSpan};
use crate::time::SimTime;
use crate::traffic::{Request, RequestStream, SkippedRows};

/// Schedule calls in a row that may hand out nothing while nothing is in flight, before the loop calls it a bug.
const FRUITLESS_LIMIT: u32 = 1_000;

/// One server process: scheduler, dispatcher, cost model and clock.
///
/// Order at equal times: a step ends, then requests arrive, then the scheduler runs.
#[derive(Debug)]
pub struct Replica<'a> {
    scheduler: Scheduler,
    graphs: &'a GraphPlan,
    cost: &'a CostModel,
    timeline: Timeline,
    now: SimTime,
    work_since: SimTime,
    in_flight: VecDeque<InFlight>,
    spare_plans: Vec<StepPlan>,
    outcome: StepOutcome,
    requests_offered: u32,
    steps: u64,
}

/// A scheduled step whose output has not been applied.
#[derive(Debug)]
struct InFlight {
    plan: StepPlan,
    end: SimTime,
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
    /// A replica that is up and idle at time zero.
    #[must_use]
    pub fn new(scheduler: Scheduler, graphs: &'a GraphPlan, cost: &'a CostModel) -> Self {
        Self {
            scheduler,
            graphs,
            cost,
            timeline: Timeline::new(cost.overlap),
            now: SimTime::ZERO,
            work_since: SimTime::ZERO,
            in_flight: VecDeque::new(),
            spare_plans: Vec::new(),
            outcome: StepOutcome::default(),
            requests_offered: 0,
            steps: 0,
        }
    }

    /// Serves all of `traffic` and tells `observer` everything that happens.
    ///
    /// # Errors
    /// If the traffic cannot be read, the observer cannot write, or the loop finds itself making no progress.
    pub fn serve(mut self, traffic: RequestStream, observer: &mut impl Observer) -> Result<RunEnd, ServerError> {
        let mut source = Source::open(traffic)?;
        let mut fruitless = 0;
        loop {
            self.admit_arrivals(&mut source, observer)?;
            if self.scheduler.has_work() {
                let tokens = self.schedule(observer)?;
                let may_go_on = self.in_flight.len() < self.scheduler.depth() as usize;
                if may_go_on && (tokens > 0 || self.scheduler.has_work()) {
                    continue;
                }
                fruitless = if tokens > 0 || self.tokens_in_flight() { 0 } else { fruitless + 1 };
                if fruitless > FRUITLESS_LIMIT {
                    return Err(ServerError::NoProgress { at: self.now, waiting: self.scheduler.waiting() });
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
            preemptions: self.scheduler.preemptions(),
            skipped_rows: source.stream.skipped_rows(),
        })
    }

    fn admit_arrivals(&mut self, source: &mut Source, observer: &mut impl Observer) -> Result<(), ServerError> {
        while let Some(request) = source.take_due(self.now)? {
            let id = RequestId(self.requests_offered);
            self.requests_offered = id.0.checked_add(1).ok_or(ServerError::TooManyRequests)?;
            if let Err(refusal) = self.scheduler.fits(request.prompt_tokens) {
                observer.observe(&Event::RequestRefused { at: request.arrival, id, request: &request, refusal })?;
                source.request_done(request.arrival)?;
                continue;
            }
            let slot = self.scheduler.add(&request.numbered(id));
            observer.observe(&Event::RequestArrived { at: request.arrival, id, slot, request: &request })?;
        }
        Ok(())
    }

    /// Schedules one step, dispatches and prices it; returns its tokens.
    fn schedule(&mut self, observer: &mut impl Observer) -> Result<u32, ServerError> {
        let mut plan = self.spare_plans.pop().unwrap_or_default();
        self.scheduler.schedule(&mut plan);
        for preempted in &plan.preempted {
            let (id, slot) = (preempted.id, preempted.slot);
            observer.observe(&Event::RequestPreempted { at: self.now, id, slot })?;
        }
        let tokens = plan.shape.tokens;
        let mut flight = InFlight { plan, end: self.now, step: None };
        if tokens > 0 {
            let span = self.run_step(&flight.plan, observer)?;
            flight.end = span.end;
            flight.step = Some(self.steps);
            self.steps += 1;
            self.now = span.host_free;
        }
        self.in_flight.push_back(flight);
        Ok(tokens)
    }

    fn run_step(&mut self, plan: &StepPlan, observer: &mut impl Observer) -> Result<StepSpan, ServerError> {
        let dispatch = self.graphs.dispatch(&plan.shape);
        let work = StepWork::of(plan);
        let cost = self.cost.price(&work, &dispatch);
        let span = self.timeline.run(self.now, self.work_since, &cost);
        observer.observe(&Event::StepScheduled(&StepScheduled {
            step: self.steps,
            plan,
            work,
            dispatch,
            cost,
            span,
            running: self.scheduler.running(),
            waiting: self.scheduler.waiting(),
            free_blocks: self.scheduler.free_blocks(),
            usable_blocks: self.scheduler.usable_blocks(),
        }))?;
        Ok(span)
    }

    fn apply_oldest(&mut self, source: &mut Source, observer: &mut impl Observer) -> Result<(), ServerError> {
        let flight = self.in_flight.pop_front().expect("the loop applies only while a step is in flight");
        self.now = self.now.max(flight.end);
        self.scheduler.apply(&flight.plan, &mut |_| 0, &mut self.outcome);
        if let Some(step) = flight.step {
            observer.observe(&Event::StepApplied { at: self.now, step, outcome: &self.outcome })?;
        }
        for delivered in &self.outcome.delivered {
            if delivered.finished {
                source.request_done(self.now)?;
            }
        }
        self.spare_plans.push(flight.plan);
        Ok(())
    }

    fn tokens_in_flight(&self) -> bool {
        self.in_flight.iter().any(|flight| flight.step.is_some())
    }
}

/// Who comes next: the next request of an open stream, or the clients of a closed loop.
struct Source {
    stream: RequestStream,
    next: Option<Request>,
    /// Closed loop: clients that will send their next request, in order of time.
    clients: Option<VecDeque<SimTime>>,
}

impl Source {
    fn open(stream: RequestStream) -> Result<Self, ServerError> {
        let clients = stream.concurrency().map(|clients| VecDeque::from(vec![SimTime::ZERO; clients as usize]));
        let mut source = Self { stream, next: None, clients };
        source.refill()?;
        Ok(source)
    }

    /// Makes sure that `next` holds the next request, if there is one.
    fn refill(&mut self) -> Result<(), ServerError> {
        if self.next.is_some() {
            return Ok(());
        }
        match &mut self.clients {
            None => self.next = self.stream.next().transpose()?,
            Some(clients) => {
                if let Some(arrival) = clients.pop_front() {
                    self.next = self.stream.next_at(arrival).transpose()?;
                }
            }
        }
        Ok(())
    }

    fn next_arrival(&self) -> Option<SimTime> {
        self.next.as_ref().map(|request| request.arrival)
    }

    fn take_due(&mut self, now: SimTime) -> Result<Option<Request>, ServerError> {
        if self.next.as_ref().is_none_or(|request| request.arrival > now) {
            return Ok(None);
        }
        let due = self.next.take();
        self.refill()?;
        Ok(due)
    }

    /// A request left the server: its closed-loop client sends the next one at once.
    fn request_done(&mut self, at: SimTime) -> Result<(), ServerError> {
        if let Some(clients) = &mut self.clients {
            clients.push_back(at);
            self.refill()?;
        }
        Ok(())
    }
}

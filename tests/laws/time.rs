//! Law 2.

use std::collections::VecDeque;

use calibrate::profile::Overlap;
use sim::cost::StepCost;
use sim::observe::{Event, StepScheduled, StepSpan};
use sim::server::Setup;

use sim::time::{SimDuration, SimTime};

use crate::house::{Law, Watched, for_all, require};
use crate::ledger::Ledger;

/// Holds every time that is told against the ones before it.
pub(crate) struct Clock {
    ledger: Ledger,
    overlap: Overlap,
    asynchronous: bool,
    arrival: SimTime,
    scheduled: SimTime,
    applied: SimTime,
    device_free: SimTime,
    /// When the host can work on the next step.
    next_work: SimTime,
    /// When the last launch was issued.
    launched: SimTime,
    in_flight: VecDeque<SimTime>,
    pub(crate) device: SimDuration,
    pub(crate) idle: SimDuration,
}

impl Clock {
    pub(crate) fn new(setup: &Setup) -> Self {
        Self {
            ledger: Ledger::new(setup),
            overlap: setup.cost.overlap,
            asynchronous: setup.options.asynchronous(),
            arrival: SimTime::ZERO,
            scheduled: SimTime::ZERO,
            applied: SimTime::ZERO,
            device_free: SimTime::ZERO,
            next_work: SimTime::ZERO,
            launched: SimTime::ZERO,
            in_flight: VecDeque::new(),
            device: SimDuration::ZERO,
            idle: SimDuration::ZERO,
        }
    }

    fn arrive(&mut self, at: SimTime) -> Result<(), String> {
        require(at >= self.arrival, || format!("an arrival at {at} after one at {}", self.arrival))?;
        self.arrival = at;
        Ok(())
    }

    fn schedule(&mut self, step: &StepScheduled<'_>) -> Result<(), String> {
        let (span, number) = (step.span, step.step);
        let newest = step.plan.entries.iter().map(|entry| self.ledger.live[&entry.id.0].arrival).max();
        require(newest.is_some_and(|arrival| arrival <= span.scheduled), || {
            format!("step {number} at {} holds a request of {newest:?}", span.scheduled)
        })?;
        require(span.scheduled >= self.scheduled.max(self.applied), || {
            format!("step {number} was scheduled at {} after {} and {}", span.scheduled, self.scheduled, self.applied)
        })?;
        require(self.asynchronous || self.in_flight.is_empty(), || format!("step {number} did not wait"))?;
        self.check_span(&span, step.cost).map_err(|fault| format!("step {number}: {fault}: {span:?}"))?;
        self.scheduled = span.scheduled;
        self.device_free = span.end;
        self.next_work = if self.overlap == Overlap::Pipelined { span.host_free } else { span.end };
        self.launched = span.host_free;
        self.device += step.cost.device();
        self.idle += span.device_idle;
        self.in_flight.push_back(span.end);
        Ok(())
    }

    /// The host prepares and launches; the device runs when the step is prepared and the step before is done.
    fn check_span(&self, span: &StepSpan, cost: &StepCost) -> Result<(), &'static str> {
        let ok = |holds: bool, fault| if holds { Ok(()) } else { Err(fault) };
        let host_start = span.scheduled.max(self.next_work);
        ok(span.host_free == host_start + cost.host(), "the host took another time")?;
        ok(span.device_start >= self.device_free, "two steps on the device at once")?;
        ok(span.end.since(span.device_start) >= cost.device(), "the device had no time for the step")?;
        ok(span.duration == span.end.since(self.device_free.max(span.scheduled)), "the duration is another")?;
        ok(span.device_idle <= span.duration, "idle for longer than the step")?;
        ok(span.duration - span.device_idle == cost.device(), "busy and idle are not the whole step")?;
        match self.overlap {
            Overlap::Pipelined => {
                ok(
                    span.device_start == self.device_free.max(host_start + cost.times().preparation),
                    "started unprepared",
                )?;
                ok(span.end == span.host_free.max(span.device_start + cost.device()), "ends at another time")
            }
            Overlap::Additive => {
                ok(span.device_start == self.device_free.max(span.host_free), "host and device overlap")?;
                ok(span.end == span.device_start + cost.device(), "ends at another time")
            }
        }
    }

    fn apply(&mut self, at: SimTime) -> Result<(), String> {
        let end = self.in_flight.pop_front().ok_or("output of no step")?;
        require(at >= end && at >= self.applied, || format!("output at {at}, step until {end}"))?;
        // An asynchronous host launches the next step first, if there is one, and is then free at once.
        let ready = if self.asynchronous { end.max(self.launched) } else { end };
        require(at <= ready, || {
            format!("output of {end} waited until {at}, launches were issued at {}", self.launched)
        })?;
        self.applied = at;
        Ok(())
    }
}

impl Law for Clock {
    fn see(&mut self, event: &Event<'_>) -> Result<(), String> {
        self.ledger.see(event)?;
        match event {
            Event::RequestArrived { at, .. } | Event::RequestRefused { at, .. } => self.arrive(*at),
            Event::RequestPreempted { at, .. } => {
                require(*at >= self.scheduled.max(self.applied), || format!("a preemption at {at}"))
            }
            Event::DummyStepRun { .. } => Ok(()),
            Event::StepScheduled(step) => self.schedule(step),
            Event::StepApplied { at, .. } => self.apply(*at),
        }
    }
}

/// Arrivals, schedules, outputs and the device's work each come in order; no request is scheduled before it was sent,
/// nothing is handed out before it was computed, and the device's time is busy, idle, or without work.
#[test]
fn law_2_time_never_falls() {
    for_all("law 2", 192, &["pipelined", "additive", "idle ms"], |case, seen| {
        let house = case.open()?;
        for candidate in 0..house.setups.len() {
            let mut clock = Watched(Clock::new(&house.setups[candidate]));
            let outcome = house.serve(candidate, &mut clock)?;
            let clock = clock.0;
            let end = outcome.end.at;
            require(end >= clock.applied && end >= clock.device_free, || format!("the run ends at {end}"))?;
            require((clock.device + clock.idle).0 <= end.0, || format!("{} of work until {end}", clock.device))?;
            seen.add_run(&outcome);
            seen.add(if house.profile.overlap == Overlap::Pipelined { "pipelined" } else { "additive" }, 1);
            seen.add("idle ms", clock.idle.as_ms() as u64);
        }
        Ok(())
    });
}

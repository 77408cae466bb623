//! Law 11.

use sim::engine::request::RequestId;
use sim::engine::step::{Delivered, Scheduled};
use sim::observe::Event;
use sim::time::SimTime;

use crate::house::{Law, Watched, for_all, require};
use crate::profiles::make_graphs_free;

/// Everything that a schedule is, in order.
#[derive(Default, PartialEq)]
struct Schedule {
    steps: Vec<(SimTime, SimTime, Vec<Scheduled>)>,
    outputs: Vec<(SimTime, Vec<Delivered>)>,
    preempted: Vec<(SimTime, RequestId)>,
    refused: u32,
}

impl Law for Schedule {
    fn see(&mut self, event: &Event<'_>) -> Result<(), String> {
        match event {
            Event::RequestArrived { .. } | Event::DummyStepRun { .. } => {}
            Event::RequestPreempted { at, id, .. } => self.preempted.push((*at, *id)),
            Event::RequestRefused { .. } => self.refused += 1,
            Event::StepScheduled(step) => {
                self.steps.push((step.span.scheduled, step.span.end, step.plan.entries.clone()));
            }
            Event::StepApplied { at, outcome, .. } => self.outputs.push((*at, outcome.delivered.clone())),
        }
        Ok(())
    }
}

/// Where graphs cost neither time nor memory, every candidate has the same schedule, to the nanosecond.
#[test]
fn law_11_free_graphs_change_nothing() {
    for_all("law 11", 128, &["pairs", "graph steps"], |case, seen| {
        let mut house = case.open()?;
        make_graphs_free(&mut house.profile);
        house.prepare_again(|_| {})?;
        let mut first: Option<Schedule> = None;
        for candidate in 0..house.setups.len() {
            let mut schedule = Watched(Schedule::default());
            let outcome = house.serve(candidate, &mut schedule)?;
            seen.add_run(&outcome);
            seen.add("graph steps", outcome.summary.rungs.total().steps);
            let Some(first) = &first else {
                first = Some(schedule.0);
                continue;
            };
            seen.add("pairs", 1);
            let differs = first.steps.iter().zip(&schedule.0.steps).position(|(one, other)| one != other);
            require(*first == schedule.0, || format!("candidate {candidate} differs from step {differs:?} on"))?;
        }
        Ok(())
    });
}

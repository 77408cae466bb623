//! A view shows the same of a run and of its log.

use std::fs::{self, File};
use std::thread;
use std::time::Duration;

use reports::{RequestLog, StepHeader, StepLog};
use sim::engine::scheduler::Stepping;
use sim::record::{self, RequestLogger, StepLogger};
use sim::watch::live::live;
use sim::watch::player::{Player, Turn};
use sim::watch::recording::{Choice, Recording};
use sim::watch::source::Source;
use sim::watch::speed::Speed;
use sim::watch::state::{Lane, Playback, State};

use crate::house::{House, for_all, require};

/// Everything that a source tells, at full speed.
fn watched<S: Source>(source: S, lane: Lane) -> Result<State, String>
where
    S::Error: std::fmt::Debug,
{
    let mut state = State { speed: Speed::FULL, ..State::new("law", vec![lane]) };
    let mut player = Player::new([source]);
    while player.turn(&mut state, Duration::ZERO, 1 << 12).map_err(|error| format!("{error:?}"))? != Turn::Still {}
    require(state.playback == Playback::Ended, || "the run has not ended".to_owned())?;
    Ok(state)
}

fn header(house: &House, candidate: usize) -> StepHeader {
    let (scenario, setup) = (&house.scenario, &house.setups[candidate]);
    let name = &scenario.candidates[candidate].name;
    record::step_header(scenario, &house.profile, "profile.toml", scenario.traffic.seed, name, setup)
}

/// What a view holds in the end is the same, whether it followed the run itself or reads its steps.jsonl and requests.csv;
/// and it counts what the report counts.
#[test]
fn a_run_and_its_log_show_the_same() {
    for_all("watch", 40, &["steps", "fallbacks", "preemptions", "finished"], |case, seen| {
        let house = case.open()?;
        for candidate in 0..house.setups.len() {
            let (scenario, setup) = (&house.scenario, &house.setups[candidate]);
            let (name, seed) = (&scenario.candidates[candidate].name, scenario.traffic.seed);
            let header = header(&house, candidate);
            let slo = record::slo(&scenario.slo);
            let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
            let file = |name: &str| File::create(folder.path().join(name)).map_err(|error| error.to_string());
            let failed = |error: std::io::Error| error.to_string();
            let rows = RequestLog::new(file("requests.csv")?).map_err(failed)?;
            let mut lines = StepLog::new(std::io::BufWriter::new(file("steps.jsonl")?));
            lines.header(&header).map_err(failed)?;
            let requests = RequestLogger::new(rows, name, seed, scenario.slo);
            let steps = StepLogger::new(lines, setup);
            let (observer, source) = live(name, seed, scenario.slo, setup);

            let (outcome, live) = thread::scope(|scope| {
                let lane = Lane::new(&header, slo, true);
                let view = scope.spawn(move || watched(source, lane));
                let mut observers = (observer, (requests, steps));
                let outcome = house.serve_stepping(candidate, Stepping::Fast, &mut observers)?;
                let (observer, (requests, steps)) = observers;
                observer.finish().map_err(failed)?;
                requests.into_log().finish().map_err(failed)?;
                steps.into_log().finish().map_err(failed)?;
                Ok::<_, String>((outcome, view.join().map_err(|_| "the view panicked".to_owned())??))
            })?;

            let recording = Recording::open(folder.path()).map_err(|error| error.to_string())?;
            let chosen = recording.choose(&Choice::default()).map_err(|error| error.to_string())?;
            let mut lane = chosen.lanes.into_iter().next().ok_or("no candidate")?;
            let source = chosen.sources.into_iter().next().ok_or("no candidate")?;
            // The objectives are in run.json, which this run does not write.
            lane.slo = slo;
            let recorded = watched(source, lane)?;
            let (one, other) = (&live.lanes[0], &recorded.lanes[0]);
            require(one == other, || format!("live:\n{one:#?}\nrecorded:\n{other:#?}"))?;
            require(live.clock_ns == recorded.clock_ns, || "the clocks differ".to_owned())?;

            let end = &outcome.end;
            require(one.tallies.steps == end.steps, || format!("{} steps of {}", one.tallies.steps, end.steps))?;
            require(one.preemptions == end.preemptions, || format!("{} preemptions", one.preemptions))?;
            let offered = u64::from(end.requests_offered);
            let service = &one.service;
            require(service.finished + service.refused == offered, || format!("{service:?} of {offered} requests"))?;
            let of_rungs: u64 = one.tallies.rungs.values().map(|rung| rung.steps).sum();
            require(of_rungs + one.tallies.fallback_steps() == end.steps, || "steps are lost".to_owned())?;
            require(one.history.total().steps == end.steps, || "steps are lost over time".to_owned())?;
            seen.add("steps", end.steps);
            seen.add("fallbacks", one.tallies.fallback_steps());
            seen.add("preemptions", one.preemptions);
            seen.add("finished", service.finished);
            drop(fs::remove_dir_all(folder.path()));
        }
        Ok(())
    });
}
